/*
 * What Bedrock is asked: exact URLs and bodies for requests in OpenAI's shape, what is refused and
 * with which words, each allocation failing in turn, and the signature.
 */
#include "fixtures/request_bed.h"
#include "llm/bedrock_private.h"
#include "llm/tool_names.h"
#include "net/aws_keys.h"
#include "net/aws_sign.h"
#include "tactus/protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define HI     "{'role':'user','content':'hi'}"
#define USER   "'messages':[" HI "]"
#define BODY   "{'messages':[{'role':'user','content':[{'text':'hi'}]}]"
#define MSG(m) "{'messages':[" m "]}"
#define TOOL   "{'type':'function','function':{'name':'f'}}"
#define TOOL_OUT                                                                                   \
    "{'toolSpec':{'name':'f','inputSchema':{'json':{'type':'object','properties':{}}}}}"
#define TOOLS    ",'tools':[" TOOL "]"
#define CONFIG   ",'toolConfig':{'tools':[" TOOL_OUT "]"
#define IMAGE(u) "{'role':'user','content':[{'type':'image_url','image_url':{'url':'" u "'}}]}"
#define CALL(id)                                                                                   \
    "{'id':'" id "','type':'function','function':{'name':'f','arguments':'{\\'a\\': 1}'}}"
#define USE(id)           "{'toolUse':{'toolUseId':'" id "','name':'f','input':{'a': 1}}}"
#define CALLED(calls)     "{'role':'assistant','tool_calls':[" calls "]}"
#define CALLED_OUT(uses)  "{'role':'assistant','content':[" uses "]}"
#define RESULT(id, text)  "{'role':'tool','tool_call_id':'" id "','content':'" text "'}"
#define RESULT_OUT(id, c) "{'toolResult':{'toolUseId':'" id "','content':[" c "]}}"
#define RESULTS_OUT(list) "{'role':'user','content':[" list "]}"
#define ID_64             "0123456789_23456789-123456789012345678901234567890123456789abcDE"
#define HASH_F0           "ebff85250728f0de6847c8bfbac700e7e6aef55171200937014dce9d20daf6f1"
#define HASH_LONG         "c9423cc4af60fa5391f29e4b877615d55ad77a6f46e7af5a9490f86454d02512"
#define LONG_ID           "call_0123456789012345678901234567890123456789012345678901234567890"

static const struct request_row requests[] = {
    {"{" USER "}", BODY "}", NULL},
    {"{'temperature':null,'metadata':{'a':'b'},'user':'u','presence_penalty':0,"
     "'frequency_penalty':0.0," USER "}",
     BODY "}", NULL},
    {"{'temperature':0.50,'top_p':1e-1,'max_tokens':100,'stop':'\\n'," USER "}",
     BODY ",'inferenceConfig':{'maxTokens':100,'temperature':0.50,'topP':1e-1,"
          "'stopSequences':['\\n']}}",
     NULL},
    {"{'max_tokens':5,'max_completion_tokens':7," USER "}",
     BODY ",'inferenceConfig':{'maxTokens':7}}", NULL},
    {"{'top_p':1,'stop':['a','\\u00e9']," USER "}",
     BODY ",'inferenceConfig':{'topP':1,'stopSequences':['a','\\u00e9']}}", NULL},
    {"{'stop':['a','b']," USER "}", BODY ",'inferenceConfig':{'stopSequences':['a','b']}}", NULL},
    {"{'response_format':{'type':'text'}," USER "}", BODY "}", NULL},
    {"{'response_format':{'type':'json_schema','json_schema':{'name':'n','schema':"
     "{'type':'object', 'x':'\\u00e9'}}}," USER "}",
     BODY ",'outputConfig':{'textFormat':{'type':'json_schema','structure':{'jsonSchema':"
          "{'name':'n','schema':'{\\'type\\':\\'object\\', \\'x\\':\\'\\\\u00e9\\'}'}}}}}",
     NULL},

    /* who says what */
    {MSG("{'role':'system','content':'be \\u00fc'}," HI ",{'role':'developer','content':'short'}"),
     BODY ",'system':[{'text':'be \\u00fc'},{'text':'short'}]}", NULL},
    {MSG("{'role':'user','content':'a'},{'role':'user','content':'b'},"
         "{'role':'assistant','content':'c'}," HI),
     "{'messages':[{'role':'user','content':[{'text':'a'},{'text':'b'}]},{'role':'assistant',"
     "'content':[{'text':'c'}]},{'role':'user','content':[{'text':'hi'}]}]}",
     NULL},
    {MSG(IMAGE("data:image/png;base64,iVBORw0KGgo=") "," IMAGE("data:image/jpeg;base64,AAAA") "," IMAGE(
         "data:image/jpg;base64,AAAA") "," IMAGE("data:image/gif;base64,AAAA") "," IMAGE("data:"
                                                                                         "image/"
                                                                                         "webp;"
                                                                                         "base64,"
                                                                                         "AAAA")),
     "{'messages':[{'role':'user','content':[{'image':{'format':'png','source':{'bytes':"
     "'iVBORw0KGgo='}}},{'image':{'format':'jpeg','source':{'bytes':'AAAA'}}},{'image':{'format':"
     "'jpeg','source':{'bytes':'AAAA'}}},{'image':{'format':'gif','source':{'bytes':'AAAA'}}},"
     "{'image':{'format':'webp','source':{'bytes':'AAAA'}}}]}]}",
     NULL},

    /* tools */
    {"{" USER TOOLS "}", BODY CONFIG "}}", NULL},
    {"{" USER ",'parallel_tool_calls':true,'tools':[{'type':'function','function':{'name':'g',"
     "'description':'does \\u00e9','strict':true,'parameters':{'type':'object', 'n':1.0}}},"
     "{'type':'function','function':{'name':'h','description':'','parameters':{}}}]}",
     BODY ",'toolConfig':{'tools':[{'toolSpec':{'name':'g','description':'does \\u00e9',"
          "'inputSchema':{'json':{'type':'object', 'n':1.0}},'strict':true}},{'toolSpec':{'name':"
          "'h','inputSchema':{'json':{'type':'object','properties':{}}}}}]}}",
     NULL},
    {"{" USER TOOLS ",'tool_choice':'auto'}", BODY CONFIG ",'toolChoice':{'auto':{}}}}", NULL},
    {"{" USER TOOLS ",'tool_choice':'required'}", BODY CONFIG ",'toolChoice':{'any':{}}}}", NULL},
    {"{" USER TOOLS ",'tool_choice':{'type':'function','function':{'name':'f'}}}",
     BODY CONFIG ",'toolChoice':{'tool':{'name':'f'}}}}", NULL},
    {"{" USER TOOLS ",'tool_choice':'none'}", BODY "}", NULL},
    {"{'messages':[" HI "," CALLED(CALL("a-1") "," CALL("b")) "," RESULT(
         "a-1", "{\\'t\\':3}") ",{'role':'tool','tool_call_id':'b','content':[{'type':'text','text'"
                               ":'w'},{'type':'image_url',"
                               "'image_url':{'url':'data:image/png;base64,AAAA'}}]}," HI "]" TOOLS
                               "}",
     "{'messages':[{'role':'user','content':[{'text':'hi'}]}," CALLED_OUT(USE("a-1") "," USE(
         "b")) "," RESULTS_OUT(RESULT_OUT("a-1",
                                          "{'text':'{\\'t\\':3}'}") "," RESULT_OUT("b",
                                                                                   "{'text':'w'},"
                                                                                   "{'image':{'"
                                                                                   "format':'png','"
                                                                                   "source':{'"
                                                                                   "bytes':'AAAA'}}"
                                                                                   "}") ",{'text':'"
                                                                                        "hi'}") "]" CONFIG
                                                                                                "}"
                                                                                                "}",
     NULL},
    /* ids of other providers: with other characters, too long, as long as can be */
    {"{'messages':[" CALLED(CALL("f:0") "," CALL(LONG_ID) "," CALL(ID_64)) "," RESULT(
         "f:0", "") "," RESULT(LONG_ID, "x") "]" TOOLS "}",
     "{'messages':[" CALLED_OUT(USE(HASH_F0) "," USE(HASH_LONG) "," USE(ID_64)) "," RESULTS_OUT(
         RESULT_OUT(HASH_F0, "") "," RESULT_OUT(HASH_LONG, "{'text':'x'}")) "]" CONFIG "}}",
     NULL},

    /* reasoning: as it was signed; what Bedrock did not sign is left out, and with it, when nothing
     * else is in it, the turn */
    {MSG(HI ",{'role':'assistant','content':'a','reasoning_details':[{'type':'reasoning.text',"
            "'text':'Hm \\u00e9','signature':'U2ln','format':'bedrock'},{'type':"
            "'reasoning.encrypted','data':'UkVE','format':'bedrock'},{'type':'reasoning.text',"
            "'text':'no','signature':'x','format':'anthropic'},{'type':'reasoning.encrypted',"
            "'data':'y','format':'gemini'},{'type':'reasoning.text','text':'unsigned','format':"
            "'bedrock'}]}," HI),
     "{'messages':[{'role':'user','content':[{'text':'hi'}]},{'role':'assistant','content':["
     "{'reasoningContent':{'reasoningText':{'text':'Hm \\u00e9','signature':'U2ln'}}},"
     "{'reasoningContent':{'redactedContent':'UkVE'}},{'text':'a'}]},{'role':'user','content':["
     "{'text':'hi'}]}]}",
     NULL},
    {MSG(HI ",{'role':'assistant','content':'a','reasoning_details':[{'type':'reasoning.text',"
            "'text':'','signature':'U2ln','format':'bedrock'}]}"),
     "{'messages':[{'role':'user','content':[{'text':'hi'}]},{'role':'assistant','content':["
     "{'reasoningContent':{'reasoningText':{'text':'','signature':'U2ln'}}},{'text':'a'}]}]}",
     NULL},
    {MSG(HI ",{'role':'assistant','content':'','reasoning_details':[{'type':'reasoning.text',"
            "'text':'no','signature':'x','format':'anthropic'}]}," HI),
     "{'messages':[{'role':'user','content':[{'text':'hi'},{'text':'hi'}]}]}", NULL},

    /* what Converse cannot express */
    {"{'seed':1," USER "}", NULL, "seed: bedrock has no such parameter"},
    {"{'logit_bias':{}," USER "}", NULL, "logit_bias: bedrock has no such parameter"},
    {"{'frequency_penalty':0.1," USER "}", NULL,
     "frequency_penalty: bedrock has no such parameter"},
    {"{'presence_penalty':-1," USER "}", NULL, "presence_penalty: bedrock has no such parameter"},
    {"{'parallel_tool_calls':false," USER "}", NULL,
     "parallel_tool_calls: bedrock cannot be kept to one call at a time"},
    {"{'reasoning_effort':'low'," USER "}", NULL,
     "reasoning_effort: bedrock has no such parameter for all of its models"},
    {"{'response_format':{'type':'json_object'}," USER "}", NULL,
     "response_format: bedrock takes json_schema, not json_object"},
    {MSG("{'role':'system','content':'x'}"), NULL,
     "messages: bedrock needs one that is not of the system"},
    {MSG(HI "," IMAGE("https://a.example/x.png")), NULL,
     "messages[1]: bedrock takes images as base64 data URLs only"},
    {MSG(IMAGE("data:image/bmp;base64,AAAA")), NULL,
     "messages[0]: bedrock takes images of the types image/png, image/jpeg, image/gif and "
     "image/webp"},
    {MSG(CALLED(CALL("a")) "," RESULT("a", "x")), NULL,
     "tools: bedrock needs them when there are tool calls or results in the messages"},
    {"{'messages':[" CALLED(CALL("a")) "," RESULT("a", "x") "],'tool_choice':'none'" TOOLS "}",
     NULL,
     "tool_choice: bedrock cannot be kept from calling tools when there are tool calls or results "
     "in the messages"},
    {"{'messages':[{'role':'assistant','function_call':{'name':'f','arguments':'{}'}}]" TOOLS "}",
     NULL, "messages[0]: bedrock needs the id of each tool call"},
};

static const struct provider provider = {
    .name = "p", .ops = &provider_bedrock, .region = "eu-west-1", .max_reply_bytes = 1024};

static struct request_bed bed = {.provider = &provider,
                                 .model = "m",
                                 .rows = requests,
                                 .n = sizeof requests / sizeof requests[0]};

static void test_body_limit(void **state)
{
    static const char before[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"";
    char in[8192];
    struct provider_http http;
    struct failure failure = {.type = "none"};
    size_t n = strlen(BODY "}") - 2 + 8000; /* "hi" is what BODY has in place of the text */

    (void)state;
    memset(in, 'x', sizeof in);
    memcpy(in, before, sizeof before - 1);
    snprintf(in + sizeof before - 1 + 8000, sizeof in - (sizeof before - 1) - 8000, "\"}]}");
    struct chat_request r = request_of(&bed, in);
    provider_http_init(&http, n);
    assert_int_equal(provider_bedrock.build(&provider, &r, &http, &failure), ERR_OK);
    assert_int_equal(http.body.len, n);
    provider_http_fini(&http);
    provider_http_init(&http, n - 1);
    assert_int_equal(provider_bedrock.build(&provider, &r, &http, &failure), ERR_LIMIT);
    provider_http_fini(&http);
}

static void test_urls(void **state)
{
    static const char home[] = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/";
    static const struct {
        const char *base;
        const char *model;
        bool stream;
        const char *rest; /* of the URL; NULL: refused */
    } urls[] = {
        {NULL, "anthropic.claude-3-haiku-20240307-v1:0", false,
         "anthropic.claude-3-haiku-20240307-v1%3A0/converse"},
        {NULL, "eu.amazon.nova-pro-v1:0", true, "eu.amazon.nova-pro-v1%3A0/converse-stream"},
        {NULL, "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.x-v1:0", false,
         "arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Ainference-profile%2Feu.x-v1%3A0"
         "/converse"},
        {NULL, "a b%2F?\u00e9/../..", false, "a%20b%252F%3F%C3%A9%2F..%2F../converse"},
        {NULL, ".", false, NULL},
        {NULL, "..", true, NULL},
        {"https://vpce-1.example:8443/x", "m", false, "m/converse"},
    };
    char *in = quoted("{" USER "}");
    struct chat_request r = request_of(&bed, in);

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct provider elsewhere = provider;
        struct provider_http http;
        struct failure failure = {.type = "none"};
        char want[256];

        elsewhere.base_url = urls[i].base;
        r.model = span_str(urls[i].model);
        r.stream = urls[i].stream;
        provider_http_init(&http, 64 * 1024);
        enum err err = provider_bedrock.build(&elsewhere, &r, &http, &failure);
        assert_int_equal(err, urls[i].rest == NULL ? ERR_PROTO : ERR_OK);
        if (urls[i].rest != NULL) {
            snprintf(want, sizeof want, "%s%s",
                     urls[i].base == NULL ? home : "https://vpce-1.example:8443/x/model/",
                     urls[i].rest);
            assert_string_equal(buf_cstr(&http.url), want);
            assert_int_equal(http.nheaders, 2);
            assert_string_equal(http.header_name[0], "Content-Type");
            assert_string_equal(buf_cstr(&http.header_text[0]), "application/json");
            assert_string_equal(http.header_name[1], "Accept");
            assert_string_equal(buf_cstr(&http.header_text[1]),
                                r.stream ? "application/vnd.amazon.eventstream"
                                         : "application/json");
        }
        provider_http_fini(&http);
    }
    free(in);
}

/* Names that Bedrock does not take go out changed, the same everywhere. */
static void test_tool_names(void **state)
{
    static const char before[] =
        MSG("{'role':'assistant','tool_calls':[{'id':'a','type':'function','function':{'name':"
            "'git.find','arguments':'{}'}}]},{'role':'tool','tool_call_id':'a','content':'x'}"
            "],'tools':[{'type':'function','function':{'name':'git.find'}}");
    char *in = quoted(before);
    struct chat_request r = request_of(&bed, in);
    struct tool_names names;
    struct arena arena;
    struct provider_http http;
    struct failure failure = {.type = "none"};
    char want[128];

    (void)state;
    arena_init(&arena, 1024 * 1024);
    assert_int_equal(tool_names_read(&r, &arena, &names), ERR_OK);
    r.names = &names;
    provider_http_init(&http, 64 * 1024);
    assert_int_equal(provider_bedrock.build(&provider, &r, &http, &failure), ERR_OK);
    struct span changed = tool_names_changed(&names, SPAN("git.find"));
    const char *body = buf_cstr(&http.body);
    snprintf(want, sizeof want, "{\"toolUse\":{\"toolUseId\":\"a\",\"name\":\"%.*s\"",
             (int)changed.n, changed.p);
    assert_non_null(strstr(body, want));
    snprintf(want, sizeof want, "{\"toolSpec\":{\"name\":\"%.*s\"", (int)changed.n, changed.p);
    assert_non_null(strstr(body, want));
    assert_null(strstr(body, "git.find"));
    provider_http_fini(&http);
    arena_fini(&arena);
    free(in);
}

/* ---- the signature ---- */

static const struct aws_keys user = {.access_key_id = {"AKIDEXAMPLE", 11},
                                     .secret = {"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", 40}};
static const int64_t some_time = INT64_C(1440938160999); /* 2015-08-30T12:36:00.999Z */

static void build(struct provider_http *http)
{
    char *in = quoted("{" USER "}");
    struct chat_request r = request_of(&bed, in);
    struct failure failure = {.type = "none"};

    r.model = SPAN("a.b-v1:0");
    provider_http_init(http, 64 * 1024);
    assert_int_equal(provider_bedrock.build(&provider, &r, http, &failure), ERR_OK);
    http->plain_headers = http->nheaders;
    free(in);
}

static const char *header(struct provider_http *h, const char *name)
{
    for (size_t i = 0; i < h->nheaders; i++) {
        if (strcmp(h->header_name[i], name) == 0) {
            return buf_cstr(&h->header_text[i]);
        }
    }
    return NULL;
}

/* As aws_sign makes it for what goes out; its own tests say that this is right. */
static void assert_signed(struct provider_http *http, struct span token)
{
    const struct http_header headers[] = {{SPAN("Accept"), SPAN("application/json")},
                                          {SPAN("Content-Type"), SPAN("application/json")}};
    const struct aws_sign_input in = {
        .access_key_id = user.access_key_id,
        .secret = user.secret,
        .session_token = token,
        .region = "eu-west-1",
        .service = "bedrock",
        .time = 1440938160,
        .method = "POST",
        .url = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/a.b-v1%3A0/converse",
        .headers = headers,
        .nheaders = 2,
        .body = buf_span(&http->body)};
    struct aws_signature expected;

    assert_int_equal(aws_sign(&in, &expected, NULL), ERR_OK);
    assert_string_equal(header(http, "Authorization"), expected.authorization);
    assert_string_equal(header(http, "X-Amz-Date"), "20150830T123600Z");
}

static void test_signature(void **state)
{
    struct provider_http http;
    struct failure failure = {.type = "none"};
    struct provider_auth auth = {.aws = &user, .now_ms = some_time};

    (void)state;
    build(&http);
    assert_int_equal(provider_bedrock.authorize(&provider, &auth, &http, &failure), ERR_OK);
    assert_int_equal(http.nheaders, 4);
    assert_signed(&http, (struct span){NULL, 0});
    provider_http_strip(&http);
    assert_int_equal(http.nheaders, 2);

    /* once more, with keys that were lent */
    struct aws_keys lent = user;
    lent.session_token = SPAN("AQoDYXdzEPT//////////wEXAMPLE=");
    auth.aws = &lent;
    assert_int_equal(provider_bedrock.authorize(&provider, &auth, &http, &failure), ERR_OK);
    assert_int_equal(http.nheaders, 5);
    assert_signed(&http, lent.session_token);
    assert_string_equal(header(&http, "X-Amz-Security-Token"), "AQoDYXdzEPT//////////wEXAMPLE=");
    provider_http_fini(&http);
}

static void test_cannot_sign(void **state)
{
    struct provider_http http;
    struct failure failure = {.type = "none"};
    struct aws_keys bad = user;
    struct provider_auth auth = {.aws = NULL, .now_ms = some_time};

    (void)state;
    build(&http);
    assert_int_equal(provider_bedrock.authorize(&provider, &auth, &http, &failure), ERR_PROTO);
    assert_string_equal(failure.message,
                        "The request cannot be signed: there are no AWS credentials");
    bad.access_key_id = (struct span){NULL, 0};
    auth.aws = &bad;
    assert_int_equal(provider_bedrock.authorize(&provider, &auth, &http, &failure), ERR_PROTO);
    assert_string_equal(failure.type, TACTUS_E_API_AUTHENTICATION);
    assert_int_equal(failure.retryable, FAILURE_NO);
    assert_int_equal(strncmp(failure.message, "The request cannot be signed: ", 30), 0);
    assert_int_equal(http.nheaders, 2);
    provider_http_fini(&http);
}

static void test_signature_allocations(void **state)
{
    enum err err = ERR_NOMEM;
    struct aws_keys lent = user;
    struct provider_auth auth = {.aws = &lent, .now_ms = some_time};

    (void)state;
    lent.session_token = SPAN("token");
    for (size_t n = 0; err == ERR_NOMEM; n++) {
        struct provider_http http;
        struct failure failure = {.type = "none"};

        build(&http);
        torture_fail_after(n);
        err = provider_bedrock.authorize(&provider, &auth, &http, &failure);
        torture_off();
        assert_string_equal(failure.type, "none");
        provider_http_fini(&http);
    }
    assert_int_equal(err, ERR_OK);
}

static void test_is_known(void **state)
{
    (void)state;
    assert_ptr_equal(provider_ops_find("bedrock"), &provider_bedrock);
    assert_true(provider_bedrock.signs);
    assert_null(provider_bedrock.base_url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_requests, &bed),
        cmocka_unit_test_prestate(test_request_allocations, &bed),
        cmocka_unit_test(test_body_limit),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_tool_names),
        cmocka_unit_test(test_signature),
        cmocka_unit_test(test_cannot_sign),
        cmocka_unit_test(test_signature_allocations),
        cmocka_unit_test(test_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
