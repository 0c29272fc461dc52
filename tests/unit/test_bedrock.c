/*
 * The Bedrock reader on transcripts made after the API's reference (fixtures/make_eventstream.py
 * makes the binary ones from the text beside each): the same events whatever the cuts, each
 * allocation failing in turn, the sink stopping at each event (fixtures/answer_bed.h). The expected
 * events are in the notation of fixtures/chat_record.h.
 */
#include "base/redact.h"
#include "fixtures/answer_bed.h"

#include <cmocka.h>

#define STREAM   "application/vnd.amazon.eventstream"
#define END      "F:stop\nU:11,4,15,-,-\nCOMPLETE"
#define CALLS    "F:tool_calls\nU:11,4,15,-,-\nCOMPLETE"
#define INVALID  "FAILED APIResponseValidationError 0 no "
#define DAMAGED  INVALID "The provider's stream is damaged: "
#define CUT      INVALID "The provider's stream ended before its end marker"
#define NOT_JSON INVALID "An event of the provider's stream is not valid JSON"
#define FFFD     "\xEF\xBF\xBD"
#define HTML     INVALID "The provider answered with a web page (HTML)"
#define PLAIN                                                                                      \
    "R:Hm\nS:bedrock U2ln\nS:bedrock encrypted UkVE\nT:Hello, w\u00f6rld \U0001F389\nT:!\n"        \
    "F:stop\nU:11,9,20,0,-\nCOMPLETE"

/* A stream was asked for and came; a stream was asked for and JSON came; none was asked for. */
#define BIN(name, expected)                                                                        \
    {                                                                                              \
        "bedrock_" name ".bin", expected, STREAM, 0, true, NULL                                    \
    }
#define JSON(name, expected)                                                                       \
    {                                                                                              \
        "bedrock_" name ".json", expected, NULL, 0, false, NULL                                    \
    }
#define STATUS(n, name, expected)                                                                  \
    {                                                                                              \
        "bedrock_" name ".json", expected, NULL, n, true, NULL                                     \
    }

static const struct transcript transcripts[] = {
    BIN("text", "T:Hello,\nT: w\u00f6rld\nT: \u65e5\u672c\u8a9e \U0001F389!\n" END),
    BIN("text_escapes", "T:\u65e5\n\"\\ \nT:\U0001F389\nT:a\nT:" FFFD "\n" END),
    BIN("deltas_empty", "T:x\n" END),
    BIN("unknown", "T:yes\nT:.\n" END),

    BIN("tools",
        "C:0 tooluse_a1|weather|\nC:0 ||{\"city\": \"\u6771\nC:0 ||\u4eac\", \"n\": 1.0}\n" CALLS),
    BIN("tools_parallel",
        "T:Looking.\nC:0 t1|weather|\nC:0 ||{\"a\":1}\nC:1 t2|now|\nC:2 t3|weather|\n"
        "C:2 ||{\"a\":\nC:2 ||2}\nC:1 ||{}\n" CALLS),
    BIN("tools_interleaved",
        "C:0 a|f|\nC:1 b|g|\nC:0 ||\"\nC:0 ||" FFFD "\nC:1 ||\"\nC:1 ||\U0001F389\"\nC:0 ||\"\n"
        "C:1 ||" FFFD "\n" CALLS),
    BIN("tools_length", "C:0 a|f|\nF:length\nU:11,4,15,-,-\nCOMPLETE"),
    BIN("tools_no_start",
        "C:0 a|f|\n" INVALID "The provider's stream has a piece of a tool call that did not begin"),
    BIN("tools_no_id", "C:0 ||\nC:0 ||{}\n" CALLS),

    BIN("reasoning", "R:Let me \u60f3\nR: think.\nS:bedrock U2ln+/==\n"
                     "S:bedrock encrypted UkVEQUNURUQ=\nR:Hm\nR:" FFFD "\nS:bedrock QUJDREVG\n"
                     "T:42\n" END),
    BIN("reasoning_odd", "R:a\nT:c\nS:bedrock b\n" END),

    BIN("usage_cached", "T:x\nF:stop\nU:1004,9,1013,700,-\nCOMPLETE"),
    BIN("usage_total", "T:x\nF:stop\nU:704,9,713,700,-\nCOMPLETE"),
    BIN("usage_odd", "U:1,2,3,-,-\nT:x\nF:stop\nCOMPLETE"),
    BIN("no_metadata", "T:x\nF:stop\nCOMPLETE"),
    BIN("after_end", "T:a\n" END),

    BIN("stop_stop_sequence", "T:a\n" END),
    BIN("stop_max_tokens", "T:a\nF:length\nU:11,4,15,-,-\nCOMPLETE"),
    BIN("stop_window", "T:a\nF:length\nU:11,4,15,-,-\nCOMPLETE"),
    BIN("stop_guardrail", "T:a\nF:content_filter\nU:11,4,15,-,-\nCOMPLETE"),
    BIN("stop_filtered", "T:a\nF:content_filter\nU:11,4,15,-,-\nCOMPLETE"),
    BIN("stop_new", "T:a\n" END),
    BIN("stop_malformed", "T:a\nFAILED InternalServerError 0 yes The provider ended its reply with "
                          "malformed_tool_use"),
    BIN("stop_malformed_output", "T:a\nFAILED InternalServerError 0 yes The provider ended its "
                                 "reply with malformed_model_output"),

    /* aaif-goose/goose#9579 */
    BIN("exception_throttling", "T:par\nFAILED RateLimitError 429 yes Too many tokens, [redacted]"),
    BIN("exception_model", "T:par\nFAILED APIStatusError 424 yes model broke"),
    BIN("exception_internal", "FAILED InternalServerError 500 yes oops"),
    BIN("exception_unavailable", "FAILED InternalServerError 503 yes later"),
    BIN("exception_validation", "FAILED BadRequestError 400 no bad input"),
    BIN("exception_timeout", "FAILED APITimeoutError 408 yes The provider reported an error"),
    BIN("exception_unknown", "FAILED InternalServerError 0 yes The provider reported an error"),
    BIN("exception_late", "T:a\nF:stop\nFAILED InternalServerError 500 yes late"),
    BIN("error", "T:a\nFAILED InternalServerError 0 yes An internal server error occurred"),
    BIN("error_code", "FAILED RateLimitError 429 yes The provider reported an error"),

    BIN("cut", "T:Hello\n" CUT),
    BIN("cut_in_frame", "T:Hello\n" CUT),
    BIN("cut_in_prelude", CUT),
    BIN("cut_in_metadata", "T:a\nF:stop\n" DAMAGED "it ended in the middle of a frame"),
    BIN("crc_prelude", "T:a\n" DAMAGED "the checksum of a frame's beginning is wrong"),
    BIN("crc_payload", "T:a\n" DAMAGED "a frame's checksum is wrong"),
    BIN("crc_frame", "T:a\n" DAMAGED "a frame's checksum is wrong"),
    BIN("too_large", "T:a\n" INVALID "The provider's reply is larger than the configured maximum"),
    BIN("lengths", "T:a\n" DAMAGED "a frame's lengths do not fit"),
    BIN("lengths_small", DAMAGED "a frame's lengths do not fit"),
    BIN("header_name", "T:a\n" DAMAGED "a frame's header is broken"),
    BIN("header_unnamed", "T:a\n" DAMAGED "a frame's header is broken"),
    BIN("header_value", "T:a\n" DAMAGED "a frame's header is broken"),
    BIN("header_length", "T:a\n" DAMAGED "a frame's header is broken"),
    BIN("header_type", "T:a\n" DAMAGED "a frame's header is of an unknown type"),
    BIN("not_json", "T:a\n" NOT_JSON),
    BIN("no_payload", "T:a\n" NOT_JSON),
    BIN("not_an_object", "T:a\n" INVALID "An event of the provider's stream is not a JSON object"),

    JSON("plain", PLAIN),
    {"bedrock_plain.json", PLAIN, NULL, 0, true, NULL},
    JSON("plain_tools",
         "T:Let me see.\nC:0 tooluse_1|f|{\"a\": 1.0,\"b\":\"\\u00e9\"}\nC:1 tooluse_2|g|{}\n"
         "C:2 tooluse_3|h|\nC:2 ||{}\nF:tool_calls\nU:5,6,11,-,-\nCOMPLETE"),
    JSON("plain_filtered", "F:content_filter\nU:3,0,3,-,-\nCOMPLETE"),
    JSON("plain_malformed", "FAILED InternalServerError 0 yes The provider ended its reply with "
                            "malformed_tool_use"),
    /* envoyproxy/ai-gateway#2177 */
    JSON("plain_no_output", INVALID "The provider's reply has no message in it"),
    JSON("plain_truncated", INVALID "The provider's reply is not valid JSON"),
    {"plain_error.json", "FAILED InternalServerError 503 yes model is loading", NULL, 0, false,
     NULL},

    STATUS(400, "status_400",
           "FAILED BadRequestError 400 no The provided model identifier is invalid."),
    STATUS(403, "status_403",
           "FAILED PermissionDeniedError 403 no User: arn:aws:iam::1:user/a is not authorized to "
           "perform: bedrock:InvokeModel"),
    STATUS(429, "status_429",
           "FAILED RateLimitError 429 yes Too many requests, please wait before trying again."),
    STATUS(500, "status_500",
           "FAILED InternalServerError 500 yes The request processing has failed because of an "
           "unknown error, [redacted]"),
    {"page.html", "FAILED InternalServerError 502 yes HTTP 502 from the provider", "text/html", 502,
     true, NULL},
    {"page.html", HTML, "text/html; charset=utf-8", 0, true, NULL},
    {"page.html", HTML, "", 0, true, NULL},
    {"page.html", HTML, "", 0, false, NULL},
    {"bedrock_text.bin", INVALID "The provider's reply is compressed, which was not asked for",
     STREAM, 0, true, "gzip"},
    {"bedrock_text.bin", INVALID "The provider's reply is not valid JSON", STREAM, 0, false, NULL},
    {"text.sse", DAMAGED "the checksum of a frame's beginning is wrong", NULL, 0, true, NULL},
    {"empty.txt", INVALID "The provider's reply is empty", STREAM, 0, true, NULL},
};

static struct provider provider = {.name = "p",
                                   .ops = &provider_bedrock,
                                   .region = "eu-west-1",
                                   .max_reply_bytes = ANSWER_BED_MAX};

static struct answer_bed bed = {.provider = &provider,
                                .transcripts = transcripts,
                                .n = sizeof transcripts / sizeof transcripts[0]};

/* A frame of exactly the maximum is read, one byte more is not. */
static void test_frame_limit(void **state)
{
    static const struct transcript text = {"bedrock_text.bin", "", STREAM, 0, true, NULL};
    struct provider small = provider;

    (void)state;
    answer_bed_load(&bed, text.file);
    small.max_reply_bytes = 0;
    for (size_t at = 0; at < bed.nbytes;) {
        const unsigned char *p = (const unsigned char *)bed.bytes + at;
        size_t total = (size_t)p[2] << 8 | p[3];

        small.max_reply_bytes = total > small.max_reply_bytes ? total : small.max_reply_bytes;
        at += total;
    }
    bed.provider = &small;
    answer_bed_reset(&bed.whole);
    answer_bed_run(&bed, &text, 0, 1, true, &bed.whole);
    assert_true(answer_bed_ends(bed.whole.text, "COMPLETE"));
    small.max_reply_bytes--;
    answer_bed_reset(&bed.whole);
    answer_bed_run(&bed, &text, 0, 1, true, &bed.whole);
    assert_true(answer_bed_ends(bed.whole.text, "larger than the configured maximum"));
    bed.provider = &provider;
}

static int set_up(void **state)
{
    struct redact *redact = redact_new();

    (void)state;
    provider.redact = redact;
    return redact == NULL || redact_add(redact, SPAN("hunter2-secret")) != ERR_OK;
}

static int tear_down(void **state)
{
    (void)state;
    redact_free((struct redact *)(uintptr_t)provider.redact);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_transcripts, &bed),
        cmocka_unit_test_prestate(test_cut_at_every_byte, &bed),
        cmocka_unit_test_prestate(test_allocation_failures, &bed),
        cmocka_unit_test_prestate(test_sink_stops, &bed),
        cmocka_unit_test(test_frame_limit),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
