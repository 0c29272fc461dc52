/*
 * The OpenAI reader on recorded transcripts: the same events whatever the cuts, at each byte and
 * byte by byte; each allocation failing in turn; the sink stopping at each event. The expected
 * events are in the notation of fixtures/chat_record.h. (repo#number names the reported bug whose
 * kind a transcript covers.)
 */
#include "base/redact.h"
#include "fixtures/answer_bed.h"

#include <cmocka.h>

#define SSE        ANSWER_BED_SSE
#define JSON       ANSWER_BED_JSON
#define M          "M:gpt-4o-2024-08-06\n"
#define HELLO      "T:Hello,\nT: w\u00f6rld\nT: \u65e5\u672c\u8a9e\nT: \U0001F389!\n"
#define INVALID    "FAILED APIResponseValidationError 0 no "
#define CUT        INVALID "The provider's stream ended before its end marker"
#define NO_ANSWER  INVALID "The provider's reply ended without an answer in it"
#define HTML       INVALID "The provider answered with a web page (HTML)"
#define FFFD       "\xEF\xBF\xBD"
#define TOOLS_DONE "F:tool_calls\nCOMPLETE"

static const struct transcript transcripts[] = {
    /* api7/aisix#111, katanemo/plano#980, xberg-io/liter-llm#152, envoyproxy/ai-gateway#2162,
     * Portkey-AI/gateway#1710, #1072 */
    {"text.sse", M HELLO "F:stop\nU:11,4,15,3,2\nCOMPLETE", NULL, 0, true, NULL},
    {"text_crlf.sse", M HELLO "F:stop\nU:11,4,15,3,2\nCOMPLETE", NULL, 0, true, NULL},
    {"text_cr.sse", M HELLO "F:stop\nU:11,4,15,3,2\nCOMPLETE", NULL, 0, true, NULL},
    {"text.sse", M HELLO "F:stop\nU:11,4,15,3,2\nCOMPLETE", "text/plain", 0, true, NULL},
    {"text.sse", M HELLO "F:stop\nU:11,4,15,3,2\nCOMPLETE", "", 0, true, "identity"},
    {"text.sse", M HELLO "F:stop\nU:11,4,15,3,2\nCOMPLETE", SSE, 201, false, NULL},
    {"text_escapes.sse",
     "M:m\nT:\u65e5\n\"\\ \U0001F389\nT:a\nT:\U0001F389b\nT:" FFFD "x\nT:end\nT:" FFFD
     "\nF:stop\nCOMPLETE",
     NULL, 0, true, NULL},
    /* Portkey-AI/gateway#1035 */
    {"comments.sse", "M:m\nT:one\nT: two\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    /* seratch/ChatGPT-in-Slack#49, pydantic/pydantic-ai#164, langfuse/langfuse#2833,
     * AbanteAI/archive-old-cli-mentat#429 */
    {"azure.sse", M "T:Hi\nF:content_filter\nCOMPLETE", NULL, 0, true, NULL},
    /* BerriAI/litellm#17136 */
    {"usage_second_last.sse", M "T:yes\nF:stop\nU:7,1,8,-,-\nCOMPLETE", NULL, 0, true, NULL},
    {"usage_twice.sse", M "T:yes\nU:7,1,8,-,-\nF:stop\nU:7,2,9,-,-\nCOMPLETE", NULL, 0, true, NULL},
    /* Portkey-AI/gateway#1627 */
    {"usage_no_choices.sse", M "T:yes\nF:stop\nU:9,3,12,-,-\nCOMPLETE", NULL, 0, true, NULL},
    {"usage_in_choice.sse", M "T:yes\nF:stop\nU:5,6,11,-,-\nCOMPLETE", NULL, 0, true, NULL},
    {"usage_odd.sse", M "T:yes\nF:stop\nU:-,18446744073709551614,-,-,-\nCOMPLETE", NULL, 0, true,
     NULL},
    {"usage_none.sse", M "T:yes\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    /* maximhq/bifrost#2910; higress-group/higress#4146, #4248, PR #4620 */
    {"no_done.sse", M "T:yes\nF:stop\nU:3,1,4,-,-\nCOMPLETE", NULL, 0, true, NULL},
    {"no_done_unterminated.sse", M "T:yes\nF:stop\nU:3,1,4,-,-\nCOMPLETE", NULL, 0, true, NULL},
    {"no_done_cut_usage.sse", M "T:yes\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"done_unterminated.sse", M "T:yes\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"after_done.sse", M "T:yes\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"no_finish_done.sse", M "T:yes\nCOMPLETE", NULL, 0, true, NULL},
    /* Portkey-AI/gateway#1797, mozilla-ai/any-llm#847, preloop/preloop#121 */
    {"cut.sse", M HELLO CUT, NULL, 0, true, NULL},
    {"cut_in_chunk.sse", M "T:Hello,\nT: w\u00f6rld\nT: \u65e5\u672c\u8a9e\n" CUT, NULL, 0, true,
     NULL},
    {"cut_in_character.sse", M "T:Hello,\nT: w\u00f6rld\n" CUT, NULL, 0, true, NULL},
    /* maximhq/bifrost#5546 */
    {"only_done.sse", NO_ANSWER, NULL, 0, true, NULL},
    {"empty_chunk_done.sse", NO_ANSWER, NULL, 0, true, NULL},
    {"comments_only.sse", CUT, NULL, 0, true, NULL},
    {"finish_names.sse", M "T:a\nF:length\nCOMPLETE", NULL, 0, true, NULL},
    {"finish_unknown.sse", M "T:a\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"finish_error.sse",
     M "T:a\nFAILED InternalServerError 0 yes The provider ended its reply with an error", NULL, 0,
     true, NULL},
    {"other_choices.sse", M "T:yes\nT: and\nT: more\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"deltas_empty.sse", M "T:x\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"message_chunk.sse", "M:m\nT:whole\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"message_after_deltas.sse", M "T:yes\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"refusal.sse", M "T:I cannot\nT: help.\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"reasoning_content.sse", M "R:Let me \u60f3\nR:.\nT:42\nF:stop\nCOMPLETE", NULL, 0, true,
     NULL},
    {"reasoning.sse", M "R:Hm\nR:\u2026\nR:same\nT:42\nF:stop\nCOMPLETE", NULL, 0, true, NULL},

    {"tools_parallel.sse",
     M "C:0 call_a|weather|\nC:0 ||{\"city\":\nC:1 call_b|time|\nC:1 ||{\"zone\":\"\n"
       "C:0 ||\"\u6771\u4eac \U0001F389\"}\nC:1 ||JST\"}\n" TOOLS_DONE,
     NULL, 0, true, NULL},
    {"tools_two_in_delta.sse",
     M "C:0 call_a|weather|{\"c\nC:1 call_b|weather|{\"d\nC:0 ||\":1}\nC:1 ||\":2}\n" TOOLS_DONE,
     NULL, 0, true, NULL},
    /* BerriAI/litellm#20711 */
    {"tools_id_null.sse", M "C:0 call_a|f|\nC:0 ||{\"a\"\nC:0 ||:1}\n" TOOLS_DONE, NULL, 0, true,
     NULL},
    /* BerriAI/litellm#39288 */
    {"tools_empty_delta.sse", M "C:0 call_a|f|\nC:0 ||{}\n" TOOLS_DONE, NULL, 0, true, NULL},
    /* AstrBotDevs/AstrBot#6692, openai/openai-python#3246, chenyme/grok2api#239 */
    {"tools_no_index.sse",
     M "C:0 call_a|f|{\"a\":\nC:0 ||1}\nC:1 call_b|f|{\"b\"\nC:1 ||:2}\n" TOOLS_DONE, NULL, 0, true,
     NULL},
    {"tools_no_index_by_id.sse",
     M "C:0 call_a|f|{\"a\":\nC:1 call_b|g|{\"b\":\nC:1 ||2}\nC:0 ||1}\n" TOOLS_DONE, NULL, 0, true,
     NULL},
    {"tools_no_index_no_id.sse",
     M
     "C:0 |f|{\"a\":\nC:1 |f|{\"b\":\nC:0 ||1}\nC:1 ||2}\nC:2 |g|{}\nC:3 |g|{\"x\":1}\n" TOOLS_DONE,
     NULL, 0, true, NULL},
    /* SamSaffron/term-llm#314, BerriAI/litellm#14587 */
    {"tools_index_zero.sse",
     M
     "C:0 call_a|f|{\"a\":1}\nC:1 call_b|f|{\"b\":2}\nC:2 call_c|g|{\"c\"\nC:2 ||:3}\n" TOOLS_DONE,
     NULL, 0, true, NULL},
    {"tools_index_zero_one_delta.sse",
     M "C:0 call_a|f|{\"a\":1}\nC:1 call_b|f|{\"b\":2}\n" TOOLS_DONE, NULL, 0, true, NULL},
    /* pipecat-ai/pipecat#4987 */
    {"tools_first_index_one.sse",
     M "T:Looking.\nC:0 call_a|f|\nC:0 ||{\"a\":1}\nC:1 call_b|g|{}\n" TOOLS_DONE, NULL, 0, true,
     NULL},
    /* vllm-project/vllm#47907 */
    {"tools_whole.sse", M "C:0 call_a|f|{\"a\":{\"b\":\"}{\"}}\n" TOOLS_DONE, NULL, 0, true, NULL},
    {"tools_no_id.sse", M "C:0 |f|{\"a\"\nC:0 ||:1}\nC:1 |g|{}\n" TOOLS_DONE, NULL, 0, true, NULL},
    {"tools_no_id_same_index.sse", M "C:0 |f|{\"a\":1}\nC:1 |f|{\"a\":2}\nC:2 |g|{}\n" TOOLS_DONE,
     NULL, 0, true, NULL},
    {"tools_no_id_open.sse", M "C:0 |f|\nC:1 |f|\nC:2 |g|\nC:2 ||{\"x\":1}\n" TOOLS_DONE, NULL, 0,
     true, NULL},
    {"tools_index_late.sse", M "C:0 call_a|f|\nC:0 ||{\"a\"\nC:0 ||:1}\n" TOOLS_DONE, NULL, 0, true,
     NULL},
    {"tools_name_repeated.sse", M "C:0 call_a|f|\nC:0 ||{\"a\"\nC:0 ||:1}\n" TOOLS_DONE, NULL, 0,
     true, NULL},
    {"tools_new_id_each_delta.sse",
     M "C:0 call_1|f|\nC:0 ||{\"a\"\nC:0 ||:1}\nC:1 call_4|g|\nC:1 ||{}\n" TOOLS_DONE, NULL, 0,
     true, NULL},
    {"tools_same_id.sse", M "C:0 call|f|\nC:1 call|g|\nC:0 ||{\"a\":1}\nC:1 ||{}\n" TOOLS_DONE,
     NULL, 0, true, NULL},
    {"tools_name_late.sse", M "C:0 call_a|f|{\"a\":\nC:0 ||1}\n" TOOLS_DONE, NULL, 0, true, NULL},
    {"tools_id_late.sse", M "C:0 |f|{\"a\"\nC:0 call_a||:1}\n" TOOLS_DONE, NULL, 0, true, NULL},
    {"tools_never_named.sse", M "C:0 call_b|g|{}\n" TOOLS_DONE, NULL, 0, true, NULL},
    {"tools_object_arguments.sse", M "C:0 call_a|f|{\"a\":1,\"b\":\"\u00e9\"}\n" TOOLS_DONE, NULL,
     0, true, NULL},
    {"tools_surrogates.sse", "M:m\nC:0 a|f|\"\nT:x\nC:0 ||\U0001F389\nC:0 ||" FFFD "\n" TOOLS_DONE,
     NULL, 0, true, NULL},
    {"tools_finish_stop.sse", M "C:0 call_a|f|{}\nF:stop\nCOMPLETE", NULL, 0, true, NULL},

    /* BerriAI/litellm#32086 */
    {"error_code.sse", M "T:par\nFAILED RateLimitError 429 yes Slow down, [redacted]", NULL, 0,
     true, NULL},
    {"error_code_string.sse", "FAILED InternalServerError 503 yes busy", NULL, 0, true, NULL},
    {"error_type.sse", "FAILED InternalServerError 500 yes The server had an error", NULL, 0, true,
     NULL},
    {"error_closer_code.sse", "FAILED AuthenticationError 401 no Incorrect API key provided", NULL,
     0, true, NULL},
    {"error_quota.sse", "FAILED RateLimitError 429 yes You exceeded your current quota", NULL, 0,
     true, NULL},
    {"error_text.sse", M "T:a\nFAILED InternalServerError 0 yes upstream went away", NULL, 0, true,
     NULL},
    {"error_vllm.sse", "FAILED BadRequestError 400 no context too long", NULL, 0, true, NULL},
    {"error_openrouter.sse", M "T:a\nFAILED InternalServerError 500 yes Provider disconnected",
     NULL, 0, true, NULL},
    {"error_event.sse", "FAILED InternalServerError 529 yes overloaded", NULL, 0, true, NULL},
    {"error_event_text.sse", M "T:a\nFAILED InternalServerError 0 yes it broke twice", NULL, 0,
     true, NULL},
    {"error_null.sse", M "T:a\nT:b\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"invalid_json.sse", M "T:a\n" INVALID "A chunk of the provider's stream is not valid JSON",
     NULL, 0, true, NULL},
    {"invalid_utf8.sse", M "T:a\n" INVALID "A chunk of the provider's stream is not valid JSON",
     NULL, 0, true, NULL},
    {"not_an_object.sse", INVALID "A chunk of the provider's stream is not valid JSON", NULL, 0,
     true, NULL},
    /* Portkey-AI/gateway#267 */
    {"text_body.sse", CUT, "text/plain", 0, true, NULL},
    {"plain_error_text.json", "FAILED InternalServerError 0 yes Network connection lost.", SSE, 0,
     true, NULL},
    {"page.html", HTML, "text/html; charset=utf-8", 0, true, NULL},
    {"page.html", HTML, "Text/HTML", 0, false, NULL},
    {"page.html", HTML, SSE, 0, true, NULL},
    {"page.html", HTML, "", 0, false, NULL},
    {"text.sse", INVALID "The provider's reply is compressed, which was not asked for", SSE, 0,
     true, "gzip"},
    {"empty.txt", INVALID "The provider's reply is empty", SSE, 0, true, NULL},
    {"empty.txt", INVALID "The provider's reply is empty", JSON, 204, false, NULL},
    {"spaces.txt", INVALID "The provider's reply is empty", JSON, 0, false, NULL},

    {"plain.json",
     M "T:Hello, w\u00f6rld \u65e5\u672c\u8a9e \U0001F389!\nF:stop\nU:11,4,15,-,-\nCOMPLETE", NULL,
     0, false, NULL},
    {"plain.json",
     M "T:Hello, w\u00f6rld \u65e5\u672c\u8a9e \U0001F389!\nF:stop\nU:11,4,15,-,-\nCOMPLETE", JSON,
     0, true, NULL},
    {"plain_tools.json",
     M "C:0 call_a|f|{\"a\":1}\nC:1 call_b|f|{}\nF:tool_calls\nU:11,4,15,-,-\nCOMPLETE", NULL, 0,
     false, NULL},
    {"plain_tools_no_id.json",
     M "C:0 |f|{\"a\":1}\nC:1 |f|{\"a\":2}\nF:tool_calls\nU:11,4,15,-,-\nCOMPLETE", NULL, 0, false,
     NULL},
    {"plain_reasoning.json", M "R:Hm\nT:42\nF:stop\nU:11,4,15,-,-\nCOMPLETE", NULL, 0, false, NULL},
    {"plain_refusal.json", M "T:No.\nF:stop\nU:11,4,15,-,-\nCOMPLETE", NULL, 0, false, NULL},
    {"plain_parts.json", M "T:one \nT:two\nF:stop\nU:11,4,15,-,-\nCOMPLETE", NULL, 0, false, NULL},
    {"plain_no_finish.json", M "T:x\nU:11,4,15,-,-\nCOMPLETE", NULL, 0, false, NULL},
    /* envoyproxy/ai-gateway#2177 */
    {"plain_no_choices.json", INVALID "The provider's reply has no message in it", NULL, 0, false,
     NULL},
    {"plain_no_message.json", INVALID "The provider's reply has no message in it", NULL, 0, false,
     NULL},
    {"plain_other.json", INVALID "The provider's reply has no message in it", NULL, 0, false, NULL},
    {"plain_error.json", "FAILED InternalServerError 503 yes model is loading", NULL, 0, false,
     NULL},
    {"plain_error.json", "FAILED InternalServerError 503 yes model is loading", NULL, 0, true,
     NULL},
    {"plain_truncated.json", INVALID "The provider's reply is not valid JSON", NULL, 0, false,
     NULL},
    {"plain_trailing.json", INVALID "The provider's reply is not valid JSON", NULL, 0, false, NULL},
    {"text_body.sse", INVALID "The provider's reply is not valid JSON", "text/plain", 0, false,
     NULL},
    {"plain_bom.json", M "T:Hello\nF:stop\nU:11,4,15,-,-\nCOMPLETE", NULL, 0, false, NULL},

    /* secretgate/secretgate#23, agentgateway/agentgateway#1348, easychen/openai-api-proxy#33 */
    {"status_401.json", "FAILED AuthenticationError 401 no Incorrect API key provided: [redacted].",
     NULL, 401, true, NULL},
    {"status_401.json", "FAILED AuthenticationError 401 no Incorrect API key provided: [redacted].",
     SSE, 401, true, NULL},
    {"status_400_detail.json", "FAILED BadRequestError 400 no messages: field required", NULL, 400,
     false, NULL},
    {"status_400_list.json", "FAILED UnprocessableEntityError 422 no HTTP 422 from the provider",
     NULL, 422, false, NULL},
    {"status_429_list.json", "FAILED RateLimitError 429 yes Resource has been exhausted", NULL, 429,
     true, NULL},
    {"status_string.json", "FAILED InternalServerError 529 yes model overloaded", NULL, 529, true,
     NULL},
    {"status_503.txt", "FAILED InternalServerError 503 yes upstream connect error  or disconnect",
     "text/plain", 503, true, NULL},
    {"status_503.txt", "FAILED InternalServerError 503 yes HTTP 503 from the provider",
     "text/x-plain", 503, true, NULL},
    {"page.html", "FAILED InternalServerError 502 yes HTTP 502 from the provider", "text/html", 502,
     true, NULL},
    {"text.sse", "FAILED RateLimitError 429 yes HTTP 429 from the provider", SSE, 429, true, NULL},
    {"empty.txt", "FAILED PermissionDeniedError 403 no HTTP 403 from the provider", "", 403, false,
     NULL},
    {"empty.txt", "FAILED APIResponseValidationError 302 no HTTP 302 from the provider", "", 302,
     false, NULL},
    {"plain.json", "FAILED APIStatusError 418 no HTTP 418 from the provider", JSON, 418, false,
     "gzip"},
};

#define NTRANSCRIPTS (sizeof transcripts / sizeof transcripts[0])

static const struct provider provider = {.name = "p",
                                         .ops = &provider_openai,
                                         .base_url = "https://api.example",
                                         .max_reply_bytes = ANSWER_BED_MAX};

static struct answer_bed bed = {
    .provider = &provider, .transcripts = transcripts, .n = NTRANSCRIPTS};

/* maximhq/bifrost#7115: the reader says that it could be settled, before the end comes. */
static void test_finished_before_the_end(void **state)
{
    struct answer_head head = {
        .status = 200, .content_type = SSE, .content_encoding = "", .stream_asked = true};
    struct chat_sink sink = {.emit = record_emit, .ctx = &bed.cut};
    struct failure failure;
    static const char text[] = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    static const char finish[] = "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n";

    (void)state;
    answer_bed_reset(&bed.cut);
    struct answer *r = provider_openai.answer_new(&provider, &head);
    assert_non_null(r);
    assert_int_equal(answer_feed(r, text, sizeof text - 1, &sink, &failure), ANSWER_MORE);
    assert_false(answer_finished(r));
    assert_int_equal(answer_feed(r, finish, sizeof finish - 1, &sink, &failure), ANSWER_MORE);
    assert_true(answer_finished(r));
    answer_free(r);
    answer_free(NULL);
}

/* Fills bed.bytes with `before`, `n` times `fill`, `after`. */
static void make(const char *before, char fill, size_t n, const char *after)
{
    size_t b = strlen(before);

    assert_true(b + n + strlen(after) <= sizeof bed.bytes);
    memcpy(bed.bytes, before, b);
    memset(bed.bytes + b, fill, n);
    memcpy(bed.bytes + b + n, after, strlen(after));
    bed.nbytes = b + n + strlen(after);
}

static void run_small(size_t max, const struct transcript *t, size_t step, struct chat_record *out)
{
    struct provider small = provider;
    struct answer_head head = answer_bed_head(t);
    struct chat_sink sink = {.emit = record_emit, .ctx = out};
    struct failure failure = {.type = "none"};
    enum answer_status status = ANSWER_MORE;

    small.max_reply_bytes = max;
    struct answer *r = provider_openai.answer_new(&small, &head);
    assert_non_null(r);
    for (size_t at = 0; at < bed.nbytes && status == ANSWER_MORE; at += step) {
        size_t n = step < bed.nbytes - at ? step : bed.nbytes - at;
        status = answer_feed(r, bed.bytes + at, n, &sink, &failure);
    }
    if (status == ANSWER_MORE) {
        status = answer_end(r, &sink, &failure);
    }
    record_end(out, status, &failure);
    answer_free(r);
}

static void test_limits(void **state)
{
    static const struct transcript stream = {"x.sse", "", NULL, 0, true, NULL};
    static const struct transcript plain = {"x.json", "", NULL, 0, false, NULL};
    static const char large[] =
        INVALID "The provider's reply is larger than the configured maximum";
    static const char head[] = "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"";
    static const char tail[] = "\"},\"finish_reason\":\"stop\"}]}";
    char before[128];
    size_t fixed = strlen(head) + strlen(tail);

    (void)state;
    for (size_t step = 1; step < 400; step = step * 5 + 2) {
        for (size_t over = 0; over <= 1; over++) {
            answer_bed_reset(&bed.cut);
            make(head, 'a', 300 - fixed + over, tail);
            run_small(300, &plain, step, &bed.cut);
            assert_true(over == 0 ? answer_bed_ends(bed.cut.text, "COMPLETE")
                                  : strcmp(bed.cut.text, large) == 0);
            answer_bed_reset(&bed.cut);
            snprintf(before, sizeof before, "data: %s", head);
            make(before, 'a', 300 - fixed + over,
                 "\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
            run_small(300, &stream, step, &bed.cut);
            assert_true(over == 0 ? answer_bed_ends(bed.cut.text, "COMPLETE")
                                  : strcmp(bed.cut.text, large) == 0);
        }
    }
}

/* An error body is collected up to 64 KiB, then it is told without waiting for the rest. */
static void test_error_body_without_end(void **state)
{
    static const struct transcript t = {"x.txt", "", "text/plain", 500, false, NULL};
    static const size_t chunks[] = {4096, 5000, 64 * 1024 - 1, 64 * 1024, 100 * 1024};
    static char chunk[100 * 1024];
    struct answer_head head = answer_bed_head(&t);
    struct chat_sink sink = {.emit = record_emit, .ctx = &bed.cut};

    (void)state;
    memset(chunk, 'e', sizeof chunk);
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        struct answer *r = provider_openai.answer_new(&provider, &head);
        struct failure failure = {.type = "none"};
        enum answer_status status = ANSWER_MORE;
        size_t fed = 0;

        assert_non_null(r);
        while (status == ANSWER_MORE) {
            status = answer_feed(r, chunk, chunks[i], &sink, &failure);
            fed += chunks[i];
        }
        assert_int_equal(status, ANSWER_FAILED);
        assert_true(fed >= 64 * 1024 && fed < 64 * 1024 + chunks[i]);
        assert_int_equal(strlen(failure.message), FAILURE_MESSAGE_MAX);
        assert_string_equal(failure.type, TACTUS_E_API_SERVER);
        answer_free(r);
    }
}

/* A reply can have 256 calls, not one more; a delta costs no allocation once buffers have grown. */
static void test_many_calls(void **state)
{
    struct answer_head head = {
        .status = 200, .content_type = SSE, .content_encoding = "", .stream_asked = true};
    struct chat_sink sink = {.emit = record_emit, .ctx = &bed.cut};
    struct failure failure = {.type = "none"};
    enum answer_status status = ANSWER_MORE;
    char line[256];

    (void)state;
    struct answer *r = provider_openai.answer_new(&provider, &head);
    assert_non_null(r);
    for (int i = 0; i < 257; i++) {
        answer_bed_reset(&bed.cut);
        int n = snprintf(line, sizeof line,
                         "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":%d,\"id\":"
                         "\"c%d\",\"function\":{\"name\":\"f\"}}]}}]}\n\n",
                         i, i);
        assert_int_equal(status, ANSWER_MORE);
        status = answer_feed(r, line, (size_t)n, &sink, &failure);
    }
    assert_int_equal(status, ANSWER_FAILED);
    assert_string_equal(failure.type, TACTUS_E_API_RESPONSE);
    answer_free(r);
}

static void test_no_allocation_per_delta(void **state)
{
    struct answer_head head = {
        .status = 200, .content_type = SSE, .content_encoding = "", .stream_asked = true};
    struct chat_sink sink = {.emit = record_emit, .ctx = &bed.cut};
    struct failure failure = {.type = "none"};
    static const char delta[] =
        "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"\\u00e9 "
        "word\",\"reasoning\":"
        "\"r\",\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\","
        "\"arguments\":"
        "\"[1,\"}}]}}]}\n\n";
    size_t n = sizeof delta - 1;

    (void)state;
    struct answer *r = provider_openai.answer_new(&provider, &head);
    assert_non_null(r);
    for (size_t i = 0; i < 2 * n; i++) {
        size_t half = i % n;
        answer_bed_reset(&bed.cut);
        if (i == n) {
            torture_off(); /* counts from here: by now each buffer has its size */
        }
        assert_int_equal(answer_feed(r, delta, half, &sink, &failure), ANSWER_MORE);
        assert_int_equal(answer_feed(r, delta + half, n - half, &sink, &failure), ANSWER_MORE);
    }
    assert_int_equal(torture_count(), 0);
    answer_free(r);
}

/* A configured secret in a provider's error does not get out, not even through an escape. */
static void test_error_is_redacted(void **state)
{
    static const char body[] = "{\"error\":{\"message\":\"bad key hunter2-\\u0068unter2\"}}";
    struct provider known = provider;
    struct redact *redact = redact_new();
    struct answer_head head = {.status = 401, .content_type = JSON, .content_encoding = ""};
    struct chat_sink sink = {.emit = record_emit, .ctx = &bed.cut};
    struct failure failure = {.type = "none"};

    (void)state;
    assert_non_null(redact);
    assert_int_equal(redact_add(redact, SPAN("hunter2-hunter2")), ERR_OK);
    known.redact = redact;
    struct answer *r = provider_openai.answer_new(&known, &head);
    assert_non_null(r);
    assert_int_equal(answer_feed(r, body, sizeof body - 1, &sink, &failure), ANSWER_MORE);
    assert_int_equal(answer_end(r, &sink, &failure), ANSWER_FAILED);
    assert_string_equal(failure.message, "bad key [redacted]");
    answer_free(r);
    redact_free(redact);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_transcripts, &bed),
        cmocka_unit_test_prestate(test_cut_at_every_byte, &bed),
        cmocka_unit_test_prestate(test_allocation_failures, &bed),
        cmocka_unit_test_prestate(test_sink_stops, &bed),
        cmocka_unit_test(test_finished_before_the_end),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_error_body_without_end),
        cmocka_unit_test(test_many_calls),
        cmocka_unit_test(test_no_allocation_per_delta),
        cmocka_unit_test(test_error_is_redacted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
