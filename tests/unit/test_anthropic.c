/*
 * The Anthropic reader on transcripts made after the API's reference: the same events whatever the
 * cuts, each allocation failing in turn, the sink stopping at each event (fixtures/answer_bed.h).
 * The expected events are in the notation of fixtures/chat_record.h. (repo#number names the
 * reported bug whose kind a transcript covers.)
 */
#include "fixtures/answer_bed.h"

#include <cmocka.h>

#define M         "M:claude-sonnet-4-5-20250929\n"
#define START     M "U:11,1,12,-,-\n"
#define HELLO     "T:Hello,\nT: w\u00f6rld\nT: \u65e5\u672c\u8a9e \U0001F389!\n"
#define STOP      "F:stop\nU:11,4,15,-,-\nCOMPLETE"
#define TOOL_STOP "F:tool_calls\nU:11,4,15,-,-\nCOMPLETE"
#define INVALID   "FAILED APIResponseValidationError 0 no "
#define CUT       INVALID "The provider's stream ended before its end marker"
#define NO_ANSWER INVALID "The provider's reply ended without an answer in it"
#define NOT_JSON  INVALID "The provider's reply is not valid JSON"
#define BAD_CHUNK INVALID "A chunk of the provider's stream is not valid JSON"
#define HTML      INVALID "The provider answered with a web page (HTML)"
#define FFFD      "\xEF\xBF\xBD"

static const struct transcript transcripts[] = {
    {"anthropic_text.sse", START HELLO STOP, NULL, 0, true, NULL},
    {"anthropic_text.sse", START HELLO STOP, "", 0, true, "identity"},
    {"anthropic_text_escapes.sse",
     "M:m\nT:\u65e5\n\"\\ \nT:\U0001F389b\nT:" FFFD "\nT:" FFFD "x\nF:stop\nCOMPLETE", NULL, 0,
     true, NULL},
    {"anthropic_no_names.sse", START "T:yes\n" STOP, NULL, 0, true, NULL},
    {"anthropic_unknown.sse", START "T:yes\n" STOP, NULL, 0, true, NULL},
    {"anthropic_deltas_empty.sse", START "T:x\n" STOP, NULL, 0, true, NULL},
    {"anthropic_after_stop.sse", START "T:yes\n" STOP, NULL, 0, true, NULL},

    {"anthropic_tools.sse",
     START "T:Looking.\nC:0 toolu_01|weather|\nC:0 ||{\"city\": \"\u6771\nC:0 ||\u4eac "
           "\U0001F389\"\nC:0 ||}\nF:tool_calls\nU:11,40,51,-,-\nCOMPLETE",
     NULL, 0, true, NULL},
    {"anthropic_tools_parallel.sse",
     START "C:0 toolu_01|weather|\nC:0 ||{\"city\":\nC:0 ||\"A\"}\nC:1 toolu_02|weather|\n"
           "C:1 ||{\"city\":\"B\"}\nC:2 toolu_03|time|\nC:2 ||{}\n" TOOL_STOP,
     NULL, 0, true, NULL},
    {"anthropic_tools_interleaved.sse",
     START "C:0 a|f|\nC:1 b|g|\nC:1 ||{\nC:0 ||{\"x\":\nC:1 ||}\nC:0 ||1}\n" TOOL_STOP, NULL, 0,
     true, NULL},
    {"anthropic_tools_whole.sse", START "C:0 a|f|{\"x\": 1.0}\n" TOOL_STOP, NULL, 0, true, NULL},
    {"anthropic_tools_no_name.sse", START "C:0 c|g|\nC:0 ||{}\n" TOOL_STOP, NULL, 0, true, NULL},
    /* A call that was cut is not one without arguments. */
    {"anthropic_tools_length.sse",
     START "C:0 a|f|\nC:1 b|g|\nC:0 ||{}\nF:length\nU:11,4,15,-,-\nCOMPLETE", NULL, 0, true, NULL},
    {"anthropic_tools_length_cut.sse",
     START "C:0 a|f|\nC:0 ||{\"x\":\nF:length\nU:11,4,15,-,-\nCOMPLETE", NULL, 0, true, NULL},
    {"anthropic_tools_surrogates.sse",
     "M:m\nC:0 a|f|\nC:0 ||\"\nC:0 ||\U0001F389\nC:0 ||" FFFD "\nC:1 b|g|\nC:1 ||" FFFD
     "\nF:tool_calls\nCOMPLETE",
     NULL, 0, true, NULL},
    {"anthropic_tools_no_stop.sse", START "C:0 a|f|\nC:0 ||{}\n" TOOL_STOP, NULL, 0, true, NULL},
    {"anthropic_tools_no_reason.sse", START "C:0 a|f|\nC:0 ||{}\nCOMPLETE", NULL, 0, true, NULL},
    {"anthropic_tools_server.sse", START "T:Found.\nF:stop\nU:11,9,20,-,-\nCOMPLETE", NULL, 0, true,
     NULL},

    {"anthropic_reasoning.sse",
     START "R:Let me \u60f3\nR: it.\nS:anthropic EqQBCgIYAhIM+/=\nT:42\nF:stop\nU:11,30,41,-,22\n"
           "COMPLETE",
     NULL, 0, true, NULL},
    {"anthropic_reasoning_tools.sse",
     START "R:A\nS:anthropic c2lnQQ==\nS:anthropic encrypted UkVE+/=\nS:anthropic c2lnQg==\n"
           "C:0 toolu_1|f|\nC:0 ||{}\nR:B\nS:anthropic c2lnQw==\n" TOOL_STOP,
     NULL, 0, true, NULL},
    {"anthropic_reasoning_odd.sse",
     START "R:whole\nS:anthropic c2ln\nR:unsigned\nR:x\nS:anthropic bGFzdA==\n" STOP, NULL, 0, true,
     NULL},

    /* Counts are of the whole message: envoyproxy/ai-gateway#2279, modelbus/one-api-pro#13,
     * microsoft/agent-framework#7143; those of the cache count: future-agi/future-agi#1122 */
    {"anthropic_usage_cached.sse",
     M "U:2103,1,2104,2000,-\nT:x\nF:stop\nU:2103,2,2105,2000,-\nU:2103,3,2106,2000,-\nCOMPLETE",
     NULL, 0, true, NULL},
    {"anthropic_usage_late.sse", M "U:-,0,-,-,-\nT:x\nF:stop\nU:7,2,9,-,-\nCOMPLETE", NULL, 0, true,
     NULL},
    {"anthropic_usage_odd.sse",
     M "U:18446744073709551614,-,-,18446744073709551614,-\nT:x\nF:stop\n"
       "U:-,-,-,18446744073709551614,-\nCOMPLETE",
     NULL, 0, true, NULL},

    {"anthropic_stop_stop_sequence.sse", M "T:a\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"anthropic_stop_pause_turn.sse", M "T:a\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"anthropic_stop_max_tokens.sse", M "T:a\nF:length\nCOMPLETE", NULL, 0, true, NULL},
    {"anthropic_stop_model_context_window_exceeded.sse", M "T:a\nF:length\nCOMPLETE", NULL, 0, true,
     NULL},
    {"anthropic_stop_tool_use.sse", M "T:a\nF:tool_calls\nCOMPLETE", NULL, 0, true, NULL},
    {"anthropic_stop_refusal.sse", M "T:a\nF:content_filter\nCOMPLETE", NULL, 0, true, NULL},
    {"anthropic_stop_compaction.sse", M "T:a\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"anthropic_stop_none.sse", M "T:a\nCOMPLETE", NULL, 0, true, NULL},

    {"anthropic_cut.sse", START "T:Hello,\nT: world\n" CUT, NULL, 0, true, NULL},
    {"anthropic_cut_in_event.sse", START "T:Hello,\n" CUT, NULL, 0, true, NULL},
    {"anthropic_cut_after_reason.sse", START "T:yes\n" STOP, NULL, 0, true, NULL},
    {"anthropic_cut_in_stop.sse", START "T:yes\n" STOP, NULL, 0, true, NULL},
    {"anthropic_unterminated.sse", START "T:yes\n" STOP, NULL, 0, true, NULL},
    {"anthropic_only_stop.sse", NO_ANSWER, NULL, 0, true, NULL},
    {"anthropic_only_ping.sse", CUT, NULL, 0, true, NULL},
    {"comments_only.sse", CUT, NULL, 0, true, NULL},

    {"anthropic_error_overloaded.sse", M "T:par\nFAILED InternalServerError 529 yes Overloaded",
     NULL, 0, true, NULL},
    {"anthropic_error_unnamed.sse", "FAILED InternalServerError 529 yes Overloaded", NULL, 0, true,
     NULL},
    {"anthropic_error_rate_limit.sse",
     M "T:par\nFAILED RateLimitError 429 yes Number of request tokens has exceeded your per-minute "
       "rate limit, [redacted]",
     NULL, 0, true, NULL},
    {"anthropic_error_api.sse", M "T:par\nFAILED InternalServerError 500 yes Internal server error",
     NULL, 0, true, NULL},
    {"anthropic_error_timeout.sse", M "T:par\nFAILED InternalServerError 504 yes Request timed out",
     NULL, 0, true, NULL},
    {"anthropic_error_invalid_request.sse",
     M "T:par\nFAILED BadRequestError 400 no prompt is too long: 210000 tokens > 200000 maximum",
     NULL, 0, true, NULL},
    {"anthropic_error_authentication.sse",
     M "T:par\nFAILED AuthenticationError 401 no invalid x-api-key", NULL, 0, true, NULL},
    {"anthropic_error_billing.sse",
     M "T:par\nFAILED APIStatusError 402 no Your credit balance is too low", NULL, 0, true, NULL},
    {"anthropic_error_permission.sse", M "T:par\nFAILED PermissionDeniedError 403 no not for you",
     NULL, 0, true, NULL},
    {"anthropic_error_not_found.sse", M "T:par\nFAILED NotFoundError 404 no model: claude-0", NULL,
     0, true, NULL},
    {"anthropic_error_request_too_large.sse",
     M "T:par\nFAILED BadRequestError 413 no Request exceeds the maximum size", NULL, 0, true,
     NULL},
    {"anthropic_error_new.sse", M "T:par\nFAILED InternalServerError 0 yes what", NULL, 0, true,
     NULL},
    {"anthropic_invalid_json.sse", M "T:a\n" BAD_CHUNK, NULL, 0, true, NULL},
    {"anthropic_not_an_object.sse", BAD_CHUNK, NULL, 0, true, NULL},
    {"invalid_utf8.sse", BAD_CHUNK, NULL, 0, true, NULL},

    {"anthropic_plain.json", M "T:Hello, w\u00f6rld \u65e5\u672c\u8a9e \U0001F389!\n" STOP, NULL, 0,
     false, NULL},
    {"anthropic_plain.json", M "T:Hello, w\u00f6rld \u65e5\u672c\u8a9e \U0001F389!\n" STOP, NULL, 0,
     true, NULL},
    {"anthropic_plain_tools.json",
     "M:m\nR:Hm\nS:anthropic c2ln\nS:anthropic encrypted UkVE\nT:Looking.\n"
     "C:0 toolu_1|f|{\"a\": 1.0, \"b\":\"\\u00e9\"}\nC:1 toolu_2|g|\nC:2 toolu_3|h|\nC:1 ||{}\n"
     "C:2 ||{}\nF:tool_calls\nU:18,8,26,6,-\nCOMPLETE",
     NULL, 0, false, NULL},
    {"anthropic_plain_server_tools.json", M "T:Found\nT:.\n" STOP, NULL, 0, false, NULL},
    {"anthropic_plain_refusal.json", M "F:content_filter\nU:11,4,15,-,-\nCOMPLETE", NULL, 0, false,
     NULL},
    {"anthropic_plain_no_stop.json", M "T:x\n\nCOMPLETE", NULL, 0, false, NULL},
    {"anthropic_plain_no_content.json", INVALID "The provider's reply has no message in it", NULL,
     0, false, NULL},
    {"anthropic_plain_truncated.json", NOT_JSON, NULL, 0, false, NULL},
    {"anthropic_plain_error.json", "FAILED InternalServerError 529 yes Overloaded", NULL, 0, false,
     NULL},
    {"page.html", HTML, "text/html; charset=utf-8", 0, true, NULL},
    {"page.html", HTML, "", 0, false, NULL},
    {"anthropic_text.sse", INVALID "The provider's reply is compressed, which was not asked for",
     NULL, 0, true, "gzip"},
    {"empty.txt", INVALID "The provider's reply is empty", "text/event-stream", 0, true, NULL},

    {"anthropic_status_400.json", "FAILED BadRequestError 400 no max_tokens: Field required", NULL,
     400, true, NULL},
    {"anthropic_status_401.json", "FAILED AuthenticationError 401 no invalid x-api-key [redacted]",
     NULL, 401, true, NULL},
    {"anthropic_status_413.json",
     "FAILED BadRequestError 413 no Request exceeds the maximum allowed number of bytes.", NULL,
     413, false, NULL},
    {"anthropic_status_429.json",
     "FAILED RateLimitError 429 yes This request would exceed the rate limit", NULL, 429, true,
     NULL},
    {"anthropic_status_529.json", "FAILED InternalServerError 529 yes Overloaded", NULL, 529, true,
     NULL},
    {"page.html", "FAILED InternalServerError 502 yes HTTP 502 from the provider", "text/html", 502,
     true, NULL},
};

#define NTRANSCRIPTS (sizeof transcripts / sizeof transcripts[0])

static const struct provider provider = {.name = "p",
                                         .ops = &provider_anthropic,
                                         .base_url = "https://api.example",
                                         .max_reply_bytes = ANSWER_BED_MAX};

static struct answer_bed bed = {
    .provider = &provider, .transcripts = transcripts, .n = NTRANSCRIPTS};

/* 256 calls, not one more. */
static void test_many_calls(void **state)
{
    struct answer_head head = {.status = 200,
                               .content_type = ANSWER_BED_SSE,
                               .content_encoding = "",
                               .stream_asked = true};
    struct chat_sink sink = {.emit = record_emit, .ctx = &bed.cut};
    struct failure failure = {.type = "none"};
    enum answer_status status = ANSWER_MORE;
    char line[256];

    (void)state;
    struct answer *r = provider_anthropic.answer_new(&provider, &head);
    assert_non_null(r);
    for (int i = 0; i < 257; i++) {
        answer_bed_reset(&bed.cut);
        int n = snprintf(line, sizeof line,
                         "data: {\"type\":\"content_block_start\",\"index\":%d,\"content_block\":"
                         "{\"type\":\"tool_use\",\"id\":\"c%d\",\"name\":\"f\",\"input\":{}}}\n\n",
                         i, i);
        assert_int_equal(status, ANSWER_MORE);
        status = answer_feed(r, line, (size_t)n, &sink, &failure);
    }
    assert_int_equal(status, ANSWER_FAILED);
    assert_string_equal(failure.type, TACTUS_E_API_RESPONSE);
    answer_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_transcripts, &bed),
        cmocka_unit_test_prestate(test_cut_at_every_byte, &bed),
        cmocka_unit_test_prestate(test_allocation_failures, &bed),
        cmocka_unit_test_prestate(test_sink_stops, &bed),
        cmocka_unit_test(test_many_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
