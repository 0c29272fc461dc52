/*
 * The Gemini reader on transcripts made after the API's reference: the same events whatever the
 * cuts, each allocation failing in turn, the sink stopping at each event (fixtures/answer_bed.h).
 * The expected events are in the notation of fixtures/chat_record.h.
 */
#include "base/redact.h"
#include "fixtures/answer_bed.h"
#include "fixtures/request_bed.h"

#include <cmocka.h>

#define M         "M:gemini-2.5-flash-001\n"
#define HELLO     "T:Hello,\nT: w\u00f6rld\nT: \u65e5\u672c\u8a9e \U0001F389!\n"
#define INVALID   "FAILED APIResponseValidationError 0 no "
#define CUT       INVALID "The provider's stream ended before its end marker"
#define NO_ANSWER INVALID "The provider's reply has no message in it"
#define NOT_JSON  INVALID "The provider's reply is not valid JSON"
#define BAD_CHUNK INVALID "A chunk of the provider's stream is not valid JSON"
#define HTML      INVALID "The provider answered with a web page (HTML)"
#define FFFD      "\xEF\xBF\xBD"

static const struct transcript transcripts[] = {
    {"gemini_text.sse",
     M "T:Hello,\nU:11,1,12,-,-\nT: w\u00f6rld\nT: \u65e5\u672c\u8a9e "
       "\U0001F389!\nF:stop\nU:11,4,15,-,-\nCOMPLETE",
     NULL, 0, true, NULL},
    {"gemini_text.sse",
     M "T:Hello,\nU:11,1,12,-,-\nT: w\u00f6rld\nT: \u65e5\u672c\u8a9e "
       "\U0001F389!\nF:stop\nU:11,4,15,-,-\nCOMPLETE",
     "", 0, true, "identity"},
    {"gemini_text_escapes.sse",
     M "T:\u65e5\n\"\\ \U0001F389\nT:a\nT:\U0001F389b\nT:" FFFD "\nF:stop\nCOMPLETE", NULL, 0, true,
     NULL},
    {"gemini_unknown.sse", M "T:yes\nT:.\nF:stop\nCOMPLETE", NULL, 0, true, NULL},

    {"gemini_tools.sse",
     M "C:0 fc_1|weather|{\"city\": \"\u6771\u4eac\", \"n\": 1.0}\nF:tool_calls\nU:20,9,29,-,-\n"
       "COMPLETE",
     NULL, 0, true, NULL},
    {"gemini_tools_parallel.sse",
     M "T:Looking.\nC:0 |weather|{\"city\": \"A\"}\nS:gemini call 0 c2ln+/==\n"
       "C:1 |weather|{\"city\": \"B\"}\nC:2 |time|{}\nF:tool_calls\nCOMPLETE",
     NULL, 0, true, NULL},
    {"gemini_tools_after_finish.sse",
     M "C:0 |f|{}\nF:tool_calls\nF:tool_calls\nU:1,2,3,-,-\nCOMPLETE", NULL, 0, true, NULL},
    {"gemini_tools_bytes.sse",
     "C:0 ab|fo|{ \"x\" : 1.0, \"y\":\"\\u00e9\\ud83c\",\"z\":12345678901234567890}\n"
     "F:tool_calls\nCOMPLETE",
     NULL, 0, true, NULL},
    {"gemini_tools_no_name.sse", M "C:0 |g|{}\nF:tool_calls\nCOMPLETE", NULL, 0, true, NULL},
    {"gemini_tools_length.sse", M "C:0 |g|{\"a\": 1}\nF:length\nCOMPLETE", NULL, 0, true, NULL},

    {"gemini_reasoning.sse",
     M "R:Let me \u60f3\nU:8,2,10,-,2\nR: think.\nT:42\nU:8,12,20,-,11\nS:gemini encrypted QUJD\n"
       "F:stop\nU:8,14,22,-,12\nCOMPLETE",
     NULL, 0, true, NULL},
    {"gemini_reasoning_signed.sse",
     M "R:Hm\nS:gemini UjE=\nS:gemini encrypted UjI=\nT:a\nS:gemini encrypted VDE=\nC:0 id1|f|{}\n"
       "S:gemini call 0 QzE=\nF:tool_calls\nCOMPLETE",
     NULL, 0, true, NULL},
    {"gemini_signature_odd.sse",
     "T:a\nS:gemini encrypted x=/\nT:b\nT:c\nT:d\nS:gemini encrypted only\nF:stop\nCOMPLETE", NULL,
     0, true, NULL},

    {"gemini_usage.sse",
     M "T:x\nU:107,1,101,64,-\nT:y\nF:stop\nU:107,23,130,64,18\nU:107,24,131,64,18\nCOMPLETE", NULL,
     0, true, NULL},
    {"gemini_usage_odd.sse", M "T:x\nF:stop\nCOMPLETE", NULL, 0, true, NULL},

    {"gemini_finish_max_tokens.sse", M "T:a\nF:length\nCOMPLETE", NULL, 0, true, NULL},
    {"gemini_finish_safety.sse", M "T:a\nF:content_filter\nCOMPLETE", NULL, 0, true, NULL},
    {"gemini_finish_spii.sse", M "T:a\nF:content_filter\nCOMPLETE", NULL, 0, true, NULL},
    {"gemini_finish_other.sse", M "T:a\nF:content_filter\nCOMPLETE", NULL, 0, true, NULL},
    {"gemini_finish_unknown.sse", M "T:a\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"gemini_finish_unspecified.sse", M "T:a\n" CUT, NULL, 0, true, NULL},
    {"gemini_finish_each_chunk.sse", M "T:a\nF:stop\nT:b\nF:stop\nT:c\nF:stop\nCOMPLETE", NULL, 0,
     true, NULL},
    {"gemini_finish_malformed.sse",
     M "T:a\nFAILED InternalServerError 0 yes Malformed function call: print(default_api.f(", NULL,
     0, true, NULL},
    {"gemini_finish_unexpected.sse",
     "FAILED InternalServerError 0 yes The provider ended its reply with UNEXPECTED_TOOL_CALL",
     NULL, 0, true, NULL},
    {"gemini_finish_signature.sse",
     "FAILED InternalServerError 0 no The provider ended its reply with MISSING_THOUGHT_SIGNATURE",
     NULL, 0, true, NULL},
    {"gemini_blocked.sse", M "F:content_filter\nU:9,-,9,-,-\nCOMPLETE", NULL, 0, true, NULL},

    {"gemini_cut.sse", M "T:Hello,\nT: world\n" CUT, NULL, 0, true, NULL},
    {"gemini_cut_in_chunk.sse", M "T:Hello,\n" CUT, NULL, 0, true, NULL},
    {"gemini_cut_after_finish.sse", M "T:yes\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"gemini_unterminated.sse", M "T:yes\nF:stop\nCOMPLETE", NULL, 0, true, NULL},
    {"gemini_only_usage.sse", "U:1,1,2,-,-\n" CUT, NULL, 0, true, NULL},
    {"comments_only.sse", CUT, NULL, 0, true, NULL},

    {"gemini_error.sse",
     M "T:par\nFAILED RateLimitError 429 yes Resource has been exhausted (e.g. check quota).", NULL,
     0, true, NULL},
    {"gemini_error_list.sse", M "T:a\nFAILED InternalServerError 503 yes The model is overloaded.",
     NULL, 0, true, NULL},
    {"gemini_error_word.sse", "FAILED RateLimitError 429 yes slow down", NULL, 0, true, NULL},
    {"error_event.sse", "FAILED InternalServerError 529 yes overloaded", NULL, 0, true, NULL},
    {"gemini_invalid_json.sse", M "T:a\n" BAD_CHUNK, NULL, 0, true, NULL},
    {"gemini_not_an_object.sse", INVALID "The provider's reply is not a JSON object", NULL, 0, true,
     NULL},
    {"invalid_utf8.sse", BAD_CHUNK, NULL, 0, true, NULL},

    /* Without alt=sse a stream is one JSON array. Portkey-AI/gateway#1710 */
    {"gemini_array_stream.json", M "T:Hello\nT: world\nF:stop\nU:1,2,3,-,-\nCOMPLETE", NULL, 0,
     true, NULL},
    {"gemini_array_error.json",
     M "T:a\nFAILED InternalServerError 500 yes An internal error has occurred.", NULL, 0, true,
     NULL},
    {"gemini_array_cut.json", M "T:a\n" CUT, NULL, 0, true, NULL},
    {"gemini_array_odd.json", INVALID "The provider's reply is not a JSON object", NULL, 0, true,
     NULL},

    {"gemini_plain.json",
     M "R:Think\nT:Hello, w\u00f6rld \u65e5\u672c\u8a9e \U0001F389!\nS:gemini encrypted QUJD\n"
       "F:stop\nU:11,9,20,-,5\nCOMPLETE",
     NULL, 0, false, NULL},
    {"gemini_plain.json",
     M "R:Think\nT:Hello, w\u00f6rld \u65e5\u672c\u8a9e \U0001F389!\nS:gemini encrypted QUJD\n"
       "F:stop\nU:11,9,20,-,5\nCOMPLETE",
     NULL, 0, true, NULL},
    {"gemini_plain_tools.json",
     "M:m\nC:0 |f|{\n                \"a\": 1\n              }\nS:gemini call 0 c2ln\n"
     "F:tool_calls\nCOMPLETE",
     NULL, 0, false, NULL},
    {"gemini_plain_blocked.json", M "F:content_filter\nCOMPLETE", NULL, 0, false, NULL},
    {"gemini_plain_empty.json", M "F:content_filter\nU:3,-,3,-,-\nCOMPLETE", NULL, 0, false, NULL},
    {"gemini_plain_no_finish.json", M "T:x\nCOMPLETE", NULL, 0, false, NULL},
    {"gemini_plain_no_candidates.json", M "U:1,-,1,-,-\n" NO_ANSWER, NULL, 0, false, NULL},
    {"gemini_plain_truncated.json", NOT_JSON, NULL, 0, false, NULL},
    {"gemini_plain_error.json",
     "FAILED InternalServerError 503 yes The model is overloaded. Please try again later.", NULL, 0,
     false, NULL},
    {"page.html", HTML, "text/html; charset=utf-8", 0, true, NULL},
    {"page.html", HTML, "", 0, false, NULL},
    {"gemini_text.sse", INVALID "The provider's reply is compressed, which was not asked for", NULL,
     0, true, "gzip"},
    {"empty.txt", INVALID "The provider's reply is empty", "text/event-stream", 0, true, NULL},

    {"gemini_status_400.json",
     "FAILED BadRequestError 400 no API key not valid. Please pass a valid API key.", NULL, 400,
     true, NULL},
    {"gemini_status_403.json",
     "FAILED PermissionDeniedError 403 no Your API key was reported as leaked: [redacted]", NULL,
     403, false, NULL},
    {"gemini_status_404.json",
     "FAILED NotFoundError 404 no models/gemini-0 is not found for API version v1beta", NULL, 404,
     true, NULL},
    {"gemini_status_429.json", "FAILED RateLimitError 429 yes You exceeded your current quota",
     NULL, 429, true, NULL},
    {"page.html", "FAILED InternalServerError 502 yes HTTP 502 from the provider", "text/html", 502,
     true, NULL},
};

#define NTRANSCRIPTS (sizeof transcripts / sizeof transcripts[0])

static const struct provider provider = {.name = "p",
                                         .ops = &provider_gemini,
                                         .base_url = "https://api.example/v1beta",
                                         .max_reply_bytes = ANSWER_BED_MAX};

static struct answer_bed bed = {
    .provider = &provider, .transcripts = transcripts, .n = NTRANSCRIPTS};

/* What the provider says of its failure may hold what it was given. */
static void test_failure_is_redacted(void **state)
{
    static const char body[] = "{\"candidates\":[{\"finishReason\":\"MALFORMED_FUNCTION_CALL\","
                               "\"finishMessage\":\"f(hunter2-\\u0068unter2)\"}]}";
    struct provider known = provider;
    struct redact *redact = redact_new();
    struct answer_head head = {.status = 200, .content_type = "", .content_encoding = ""};
    struct chat_sink sink = {.emit = record_emit, .ctx = &bed.cut};
    struct failure failure = {.type = "none"};

    (void)state;
    assert_non_null(redact);
    assert_int_equal(redact_add(redact, SPAN("hunter2-hunter2")), ERR_OK);
    known.redact = redact;
    struct answer *r = provider_gemini.answer_new(&known, &head);
    assert_non_null(r);
    assert_int_equal(answer_feed(r, body, sizeof body - 1, &sink, &failure), ANSWER_MORE);
    assert_int_equal(answer_end(r, &sink, &failure), ANSWER_FAILED);
    assert_string_equal(failure.message, "f([redacted])");
    answer_free(r);
    redact_free(redact);
}

/* ---- requests ---- */

#define USER           "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define CONTENTS       "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"hi\"}]}]"
#define MODEL          "\"model\":\"gemini-2.5-flash\","
#define MODEL_3        "\"model\":\"gemini-3.1-pro-preview\","
#define MESSAGES(list) "{" MODEL "\"messages\":[" list "]}"
#define TOOL_F                                                                                     \
    "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"does \\u00e9\","        \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}}}"
#define TOOL_F_OUT                                                                                 \
    "{\"name\":\"f\",\"description\":\"does \\u00e9\",\"parametersJsonSchema\":{\"type\":"         \
    "\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}}"
#define TOOLS_OUT  ",\"tools\":[{\"functionDeclarations\":[" TOOL_F_OUT "]}]"
#define MODE(mode) ",\"toolConfig\":{\"functionCallingConfig\":{\"mode\":\"" mode "\"}}}"
#define CONFIG(c)  CONTENTS ",\"generationConfig\":{" c "}}"
#define CALL(id, name, args)                                                                       \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name                      \
    "\",\"arguments\":\"" args "\"}}"

/* What a caller asks, in OpenAI's shape, and the body that Gemini gets, or the BadRequest. */
static const struct request_row requests[] = {
    {"{" MODEL USER "}", CONTENTS "}", NULL},
    {"{" MODEL "\"temperature\":null,\"metadata\":{\"a\":\"b\"},\"user\":\"u\"," USER "}",
     CONTENTS "}", NULL},
    {"{" MODEL "\"temperature\":0.50,\"top_p\":1e-1,\"seed\":12345678901234567890,"
     "\"frequency_penalty\":-1,\"presence_penalty\":2.0,\"max_tokens\":100,\"stop\":\"\\n\"," USER
     "}",
     CONFIG("\"temperature\":0.50,\"topP\":1e-1,\"seed\":12345678901234567890,"
            "\"frequencyPenalty\":-1,\"presencePenalty\":2.0,\"maxOutputTokens\":100,"
            "\"stopSequences\":[\"\\n\"]"),
     NULL},
    {"{" MODEL
     "\"max_tokens\":5,\"max_completion_tokens\":7,\"stop\":[\"a\",\"b\",\"c\",\"d\"]," USER "}",
     CONFIG("\"maxOutputTokens\":7,\"stopSequences\":[\"a\",\"b\",\"c\",\"d\"]"), NULL},
    {"{" MODEL "\"response_format\":{\"type\":\"text\"}," USER "}", CONTENTS "}", NULL},
    {"{" MODEL "\"response_format\":{\"type\":\"json_object\"}," USER "}",
     CONFIG("\"responseMimeType\":\"application/json\""), NULL},
    {"{" MODEL "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\","
     "\"schema\":{\"type\":\"object\", \"properties\":{}}}}," USER "}",
     CONFIG(
         "\"responseMimeType\":\"application/json\",\"responseJsonSchema\":{\"type\":\"object\", "
         "\"properties\":{}}"),
     NULL},

    /* thinking: a budget for older models, a level for newer ones */
    {"{" MODEL "\"reasoning_effort\":\"none\"," USER "}",
     CONFIG("\"thinkingConfig\":{\"thinkingBudget\":0}"), NULL},
    {"{" MODEL "\"reasoning_effort\":\"minimal\"," USER "}",
     CONFIG("\"thinkingConfig\":{\"includeThoughts\":true,\"thinkingBudget\":512}"), NULL},
    {"{" MODEL "\"reasoning_effort\":\"low\"," USER "}",
     CONFIG("\"thinkingConfig\":{\"includeThoughts\":true,\"thinkingBudget\":1024}"), NULL},
    {"{" MODEL "\"reasoning_effort\":\"medium\"," USER "}",
     CONFIG("\"thinkingConfig\":{\"includeThoughts\":true,\"thinkingBudget\":8192}"), NULL},
    {"{" MODEL "\"reasoning_effort\":\"high\"," USER "}",
     CONFIG("\"thinkingConfig\":{\"includeThoughts\":true,\"thinkingBudget\":24576}"), NULL},
    {"{\"model\":\"gemini-flash-latest\",\"reasoning_effort\":\"low\"," USER "}",
     CONFIG("\"thinkingConfig\":{\"includeThoughts\":true,\"thinkingBudget\":1024}"), NULL},
    {"{" MODEL_3 "\"reasoning_effort\":\"medium\"," USER "}",
     CONFIG("\"thinkingConfig\":{\"includeThoughts\":true,\"thinkingLevel\":\"MEDIUM\"}"), NULL},
    {"{\"model\":\"models/gemini-10-pro\",\"reasoning_effort\":\"high\"," USER "}",
     CONFIG("\"thinkingConfig\":{\"includeThoughts\":true,\"thinkingLevel\":\"HIGH\"}"), NULL},
    {"{" MODEL_3 "\"reasoning_effort\":\"none\"," USER "}", NULL,
     "reasoning_effort: none: gemini models from 3 on cannot be kept from thinking"},

    /* messages */
    {MESSAGES("{\"role\":\"system\",\"content\":\"be \\u00fc\"},{\"role\":\"user\",\"content\":"
              "\"hi\"},{\"role\":\"developer\",\"content\":\"short\"}"),
     CONTENTS
     ",\"systemInstruction\":{\"parts\":[{\"text\":\"be \\u00fc\"},{\"text\":\"short\"}]}}",
     NULL},
    {MESSAGES("{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"},"
              "{\"role\":\"assistant\",\"content\":\"c\"},{\"role\":\"user\",\"content\":\"d\"}"),
     "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"a\"},{\"text\":\"b\"}]},"
     "{\"role\":\"model\",\"parts\":[{\"text\":\"c\"}]},"
     "{\"role\":\"user\",\"parts\":[{\"text\":\"d\"}]}]}",
     NULL},
    {MESSAGES("{\"role\":\"system\",\"content\":\"x\"}"), NULL,
     "messages: gemini needs one that is not of the system"},
    {MESSAGES("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"see\"},{\"type\":"
              "\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,iVBORw0KGgo=\"}}]}"),
     "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"see\"},{\"inlineData\":"
     "{\"mimeType\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}}]}]}",
     NULL},
    {MESSAGES("{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":"
              "\"https://a.example/x.JPG?y=1.png\"}},{\"type\":\"image_url\",\"image_url\":"
              "{\"url\":\"https:\\/\\/a.example/x\"}}]}"),
     "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"fileData\":{\"mimeType\":\"image/jpeg\","
     "\"fileUri\":\"https://a.example/x.JPG?y=1.png\"}},{\"fileData\":{\"fileUri\":"
     "\"https:\\/\\/a.example/x\"}}]}]}",
     NULL},
    {MESSAGES("{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":[{\"type\":"
              "\"image_url\",\"image_url\":{\"url\":\"http://a.example/x.png\"}}]}"),
     NULL, "messages[1]: gemini takes images as base64 data URLs or from https URLs"},

    /* tools */
    {"{" MODEL "\"tools\":[" TOOL_F "]," USER "}", CONTENTS TOOLS_OUT "}", NULL},
    {"{" MODEL "\"tools\":[" TOOL_F ",{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],"
     "\"parallel_tool_calls\":true," USER "}",
     CONTENTS ",\"tools\":[{\"functionDeclarations\":[" TOOL_F_OUT ",{\"name\":\"g\"}]}]}", NULL},
    {"{" MODEL
     "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"g\",\"strict\":true}}]," USER "}",
     CONTENTS ",\"tools\":[{\"functionDeclarations\":[{\"name\":\"g\"}]}]" MODE("VALIDATED"), NULL},
    {"{" MODEL "\"tools\":[" TOOL_F "],\"tool_choice\":\"auto\"," USER "}",
     CONTENTS TOOLS_OUT MODE("AUTO"), NULL},
    {"{" MODEL "\"tools\":[" TOOL_F "],\"tool_choice\":\"none\"," USER "}",
     CONTENTS TOOLS_OUT MODE("NONE"), NULL},
    {"{" MODEL "\"tools\":[" TOOL_F "],\"tool_choice\":\"required\"," USER "}",
     CONTENTS TOOLS_OUT MODE("ANY"), NULL},
    {"{" MODEL "\"tools\":[" TOOL_F "],\"tool_choice\":{\"type\":\"function\",\"function\":{"
     "\"name\":\"f\"}}," USER "}",
     CONTENTS TOOLS_OUT ",\"toolConfig\":{\"functionCallingConfig\":{\"mode\":\"ANY\","
                        "\"allowedFunctionNames\":[\"f\"]}}}",
     NULL},
    {MESSAGES(
         "{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":null,"
         "\"tool_calls\":[" CALL("fc_1", "f", "{\\\"a\\\": 1}") "," CALL(
             "call_1", "f",
             "") "]},{\"role\":\"tool\",\"tool_call_id\":\"fc_1\",\"content\":\"{\\\"t\\\": 3}\"},"
                 "{\"role\":\"tool\",\"tool_call_id\":\"call_1\",\"content\":[{\"type\":\"text\","
                 "\"text\":\"warm\"},{\"type\":\"text\",\"text\":\" \\u00e9\"}]},"
                 "{\"role\":\"user\",\"content\":\"so?\"}"),
     "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"q\"}]},{\"role\":\"model\","
     "\"parts\":[{\"functionCall\":{\"id\":\"fc_1\",\"name\":\"f\",\"args\":{\"a\": 1}}},"
     "{\"functionCall\":{\"name\":\"f\",\"args\":{}}}]},{\"role\":\"user\",\"parts\":["
     "{\"functionResponse\":{\"id\":\"fc_1\",\"name\":\"f\",\"response\":{\"t\": 3}}},"
     "{\"functionResponse\":{\"name\":\"f\",\"response\":{\"result\":\"warm \u00e9\"}}},"
     "{\"text\":\"so?\"}]}]}",
     NULL},
    /* only an object is a response by itself */
    {MESSAGES("{\"role\":\"assistant\",\"tool_calls\":[" CALL("a", "f", "{}") "," CALL(
         "b", "g", "{}") "]},{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":"
                         "\"[1]\"},{\"role\":\"tool\",\"tool_call_id\":\"a\","
                         "\"content\":\"\"}"),
     "{\"contents\":[{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"id\":\"a\",\"name\":\"f\","
     "\"args\":{}}},{\"functionCall\":{\"id\":\"b\",\"name\":\"g\",\"args\":{}}}]},{\"role\":"
     "\"user\",\"parts\":[{\"functionResponse\":{\"id\":\"b\",\"name\":\"g\",\"response\":"
     "{\"result\":\"[1]\"}}},{\"functionResponse\":{\"id\":\"a\",\"name\":\"f\",\"response\":"
     "{\"result\":\"\"}}}]}]}",
     NULL},
    {MESSAGES("{\"role\":\"assistant\",\"tool_calls\":[" CALL(
         "a", "f", "{}") "]},{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":[{\"type\":"
                         "\"text\",\"text\":\"seen\"},{\"type\":\"image_url\",\"image_url\":"
                         "{\"url\":\"data:image/webp;base64,AAAA\"}}]}"),
     "{\"contents\":[{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"id\":\"a\",\"name\":\"f\","
     "\"args\":{}}}]},{\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"id\":\"a\","
     "\"name\":\"f\",\"response\":{\"result\":\"seen\"},\"parts\":[{\"inlineData\":{\"mimeType\":"
     "\"image/webp\",\"data\":\"AAAA\"}}]}}]}]}",
     NULL},
    {MESSAGES("{\"role\":\"assistant\",\"tool_calls\":[" CALL(
         "a", "f", "{}") "]},{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":[{\"type\":"
                         "\"image_url\",\"image_url\":{\"url\":\"https://a.example/x.png\"}}]}"),
     NULL, "messages[1]: gemini takes images of a tool's result as base64 data URLs only"},
    {MESSAGES("{\"role\":\"function\",\"name\":\"f\",\"content\":\"x\"}"),
     "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"name\":\"f\","
     "\"response\":{\"result\":\"x\"}}}]}]}",
     NULL},
    {MESSAGES("{\"role\":\"function\",\"name\":\"\",\"content\":\"x\"}"), NULL,
     "messages[0].name: gemini needs the name of the tool"},

    /* what comes back signed, by whom, and to which part it goes */
    {MESSAGES("{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[" CALL(
         "id1", "f", "{}") "],\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"Hm\","
                           "\"signature\":\"UjE=\",\"format\":\"gemini\"},{\"type\":"
                           "\"reasoning.encrypted\",\"data\":\"VDE=\",\"format\":\"gemini\"},"
                           "{\"type\":\"reasoning.encrypted\",\"data\":\"QzE=\",\"id\":\"id1\","
                           "\"format\":\"gemini\"},{\"type\":\"reasoning.text\",\"text\":"
                           "\"unsigned\"}]},{\"role\":\"user\",\"content\":\"b\"}"),
     "{\"contents\":[{\"role\":\"model\",\"parts\":[{\"text\":\"Hm\",\"thought\":true,"
     "\"thoughtSignature\":\"UjE=\"},{\"text\":\"a\",\"thoughtSignature\":\"VDE=\"},"
     "{\"functionCall\":{\"id\":\"id1\",\"name\":\"f\",\"args\":{}},\"thoughtSignature\":"
     "\"QzE=\"}]},{\"role\":\"user\",\"parts\":[{\"text\":\"b\"}]}]}",
     NULL},
    {MESSAGES("{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\","
              "\"reasoning_details\":[{\"type\":\"reasoning.encrypted\",\"data\":\"MQ==\","
              "\"format\":\"gemini\"},{\"type\":\"reasoning.encrypted\",\"data\":\"Mg==\","
              "\"format\":\"gemini\"}]}"),
     "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"q\"}]},{\"role\":\"model\","
     "\"parts\":[{\"text\":\"\",\"thoughtSignature\":\"MQ==\"},{\"text\":\"a\","
     "\"thoughtSignature\":\"Mg==\"}]}]}",
     NULL},
    {MESSAGES("{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\","
              "\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"t\",\"signature\":"
              "\"x\",\"format\":\"anthropic\"},{\"type\":\"reasoning.encrypted\",\"data\":\"y\","
              "\"format\":\"anthropic\"}]}"),
     "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"q\"}]},{\"role\":\"model\","
     "\"parts\":[{\"text\":\"a\"}]}]}",
     NULL},
    {MESSAGES("{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":null,"
              "\"reasoning_details\":[{\"type\":\"reasoning.encrypted\",\"data\":\"y\",\"format\":"
              "\"anthropic\"}]},{\"role\":\"user\",\"content\":\"b\"}"),
     "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"q\"}]},{\"role\":\"user\","
     "\"parts\":[{\"text\":\"b\"}]}]}",
     NULL},

    /* what Gemini has not */
    {"{" MODEL "\"logit_bias\":{\"1\":2}," USER "}", NULL,
     "logit_bias: gemini has no such parameter"},
    {"{" MODEL "\"tools\":[" TOOL_F "],\"parallel_tool_calls\":false," USER "}", NULL,
     "parallel_tool_calls: gemini cannot be kept to one call at a time"},
    {"{" MODEL "\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\"]," USER "}", NULL,
     "stop: gemini takes at most 5 sequences"},
};

static struct request_bed asked = {
    .provider = &provider, .rows = requests, .n = sizeof requests / sizeof requests[0]};

static void test_body_limit(void **state)
{
    struct provider_http http;
    struct failure failure = {.type = "none"};

    (void)state;
    struct chat_request r = request_of(&asked, "{" MODEL USER "}");
    provider_http_init(&http, strlen(CONTENTS));
    assert_int_equal(provider_gemini.build(&provider, &r, &http, &failure), ERR_LIMIT);
    provider_http_fini(&http);
}

static void test_urls(void **state)
{
    static const char refused[] =
        "model: not a name that gemini can have: a path's segment with letters, digits, '-', '.', "
        "'_'";
    static const struct {
        const char *model;
        bool stream;
        const char *url; /* after the base; NULL: refused */
    } urls[] = {
        {"gemini-2.5-flash", false, "/models/gemini-2.5-flash:generateContent"},
        {"gemini-2.5-flash", true, "/models/gemini-2.5-flash:streamGenerateContent?alt=sse"},
        {"models/gemini-2.5-flash", false, "/models/gemini-2.5-flash:generateContent"},
        {"a b?c#d%2F:e\u00e9", false, "/models/a%20b%3Fc%23d%252F%3Ae%C3%A9:generateContent"},
        {"...", false, "/models/...:generateContent"},
        {".", false, NULL},
        {"..", false, NULL},
        {"models/", false, NULL},
        {"models/..", false, NULL},
        {"../files", false, NULL},
        {"models/models/x", false, NULL},
        {"tunedModels/x", false, NULL},
        {"a\\b", false, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct provider_http http;
        struct failure failure = {.type = "none"};
        char want[256];

        provider_http_init(&http, 64 * 1024);
        struct chat_request r = request_of(&asked, "{" MODEL USER "}");
        r.model = span_str(urls[i].model);
        r.stream = urls[i].stream;
        enum err err = provider_gemini.build(&provider, &r, &http, &failure);
        assert_int_equal(err, urls[i].url == NULL ? ERR_PROTO : ERR_OK);
        if (urls[i].url == NULL) {
            assert_string_equal(failure.message, refused);
        } else {
            snprintf(want, sizeof want, "https://api.example/v1beta%s", urls[i].url);
            assert_string_equal(buf_cstr(&http.url), want);
            assert_int_equal(http.nheaders, 2);
            assert_string_equal(http.header_name[0], "Content-Type");
            assert_string_equal(buf_cstr(&http.header_text[0]), "application/json");
            assert_string_equal(http.header_name[1], "Accept");
            assert_string_equal(buf_cstr(&http.header_text[1]),
                                r.stream ? "text/event-stream" : "application/json");
        }
        provider_http_fini(&http);
    }
}

static void test_key(void **state)
{
    struct provider_http http;
    struct failure failure = {.type = "none"};
    struct provider_auth auth = {.key = {NULL, 0}};

    (void)state;
    provider_http_init(&http, 1024);
    assert_int_equal(provider_gemini.authorize(&provider, &auth, &http, &failure), ERR_OK);
    assert_int_equal(http.nheaders, 0);
    http.plain_headers = http.nheaders;
    auth.key = SPAN("AIza-key");
    assert_int_equal(provider_gemini.authorize(&provider, &auth, &http, &failure), ERR_OK);
    assert_int_equal(http.nheaders, 1);
    assert_string_equal(http.header_name[0], "x-goog-api-key");
    assert_string_equal(buf_cstr(&http.header_text[0]), "AIza-key");
    provider_http_strip(&http);
    auth.key = SPAN("a\r\nb: c");
    assert_int_equal(provider_gemini.authorize(&provider, &auth, &http, &failure), ERR_PROTO);
    assert_string_equal(failure.type, TACTUS_E_API_AUTHENTICATION);
    assert_int_equal(http.nheaders, 0);
    provider_http_fini(&http);
}

static void test_is_known(void **state)
{
    (void)state;
    assert_ptr_equal(provider_ops_find("gemini"), &provider_gemini);
    assert_string_equal(provider_gemini.base_url,
                        "https://generativelanguage.googleapis.com/v1beta");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_transcripts, &bed),
        cmocka_unit_test_prestate(test_cut_at_every_byte, &bed),
        cmocka_unit_test_prestate(test_allocation_failures, &bed),
        cmocka_unit_test_prestate(test_sink_stops, &bed),
        cmocka_unit_test(test_failure_is_redacted),
        cmocka_unit_test_prestate(test_requests, &asked),
        cmocka_unit_test_prestate(test_request_allocations, &asked),
        cmocka_unit_test(test_body_limit),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
