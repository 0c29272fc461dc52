/*
 * What Anthropic is asked: exact bodies and headers for requests in OpenAI's shape, what is refused
 * and with which words, each allocation failing in turn.
 */
#include "fixtures/request_bed.h"
#include "llm/anthropic_private.h"
#include "llm/tool_names.h"
#include "tactus/protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define HI       "{'role':'user','content':'hi'}"
#define HI_OUT   "{'role':'user','content':[{'type':'text','text':'hi'}]}"
#define USER     "'messages':[" HI "]"
#define MODEL    "'model':'claude-sonnet-4-5'"
#define HEAD     "{" MODEL ",'messages':[" HI_OUT "]"
#define BODY     HEAD ",'max_tokens':4096"
#define MSG(m)   "{'messages':[" m "]}"
#define OUT(m)   "{" MODEL ",'messages':[" m "],'max_tokens':4096}"
#define TOOL     "{'type':'function','function':{'name':'f'}}"
#define TOOL_OUT "{'name':'f','input_schema':{'type':'object'}}"
#define TOOLS    ",'tools':[" TOOL "]"
#define WITH     BODY ",'tools':[" TOOL_OUT "]"
#define IMAGE(u) "{'role':'user','content':[{'type':'image_url','image_url':{'url':'" u "'}}]}"
#define DATA(t)                                                                                    \
    "{'type':'image','source':{'type':'base64','media_type':'image/" t "','data':'AAAA'}}"
#define CALL(id)                                                                                   \
    "{'id':'" id "','type':'function','function':{'name':'f','arguments':'{\\'a\\': 1}'}}"
#define USE(id)           "{'type':'tool_use','id':'" id "','name':'f','input':{'a': 1}}"
#define CALLED(calls)     "{'role':'assistant','tool_calls':[" calls "]}"
#define CALLED_OUT(uses)  "{'role':'assistant','content':[" uses "]}"
#define RESULT(id, text)  "{'role':'tool','tool_call_id':'" id "','content':'" text "'}"
#define RESULT_OUT(id, t) "{'type':'tool_result','tool_use_id':'" id "'" t "}"
#define TEXT_OUT(t)       "{'type':'text','text':'" t "'}"
#define ID_64             "0123456789_23456789-123456789012345678901234567890123456789abcDE"
#define LONG_ID           "call_0123456789012345678901234567890123456789012345678901234567890"
#define HASH_F0           "ebff85250728f0de6847c8bfbac700e7e6aef55171200937014dce9d20daf6f1"
#define HASH_LONG         "c9423cc4af60fa5391f29e4b877615d55ad77a6f46e7af5a9490f86454d02512"
#define FORMAT                                                                                     \
    "'response_format':{'type':'json_schema','json_schema':{'name':'n','schema':{'type':'object'," \
    " 'x':1.0}}}"
#define FORMAT_OUT "'format':{'type':'json_schema','schema':{'type':'object', 'x':1.0}}"
#define EFFORT(e)  "'reasoning_effort':'" e "',"
#define TOKENS(n)  HEAD ",'max_tokens':" n
#define BUDGET(n)  ",'thinking':{'type':'enabled','budget_tokens':" n "}}"
#define ADAPTIVE(e)                                                                                \
    ",'thinking':{'type':'adaptive','display':'summarized'},'output_config':{'effort':'" e "'"
#define ASKS(text, detail)                                                                         \
    "{'role':'assistant','content':'" text "','reasoning_details':[" detail "]}"

static const struct request_row requests[] = {
    {"{" USER "}", BODY "}", NULL},
    {"{'temperature':null,'metadata':{'a':'b'},'presence_penalty':0,'frequency_penalty':0.0," USER
     "}",
     BODY "}", NULL},
    {"{'user':'u-\\u00e9'," USER "}", BODY ",'metadata':{'user_id':'u-\\u00e9'}}", NULL},
    {"{'temperature':0.50,'top_p':1e-1,'max_tokens':100,'stop':'\\nx'," USER "}",
     TOKENS("100") ",'temperature':0.50,'top_p':1e-1,'stop_sequences':['\\nx']}", NULL},
    {"{'temperature':1.0,'max_tokens':5,'max_completion_tokens':7,'stop':['a','\\u00e9']," USER "}",
     TOKENS("7") ",'temperature':1.0,'stop_sequences':['a','\\u00e9']}", NULL},
    {"{'response_format':{'type':'text'}," USER "}", BODY "}", NULL},
    {"{" FORMAT "," USER "}", BODY ",'output_config':{" FORMAT_OUT "}}", NULL},

    /* who says what */
    {MSG("{'role':'system','content':'be \\u00fc'}," HI ",{'role':'developer','content':'short'}"),
     "{" MODEL ",'messages':[" HI_OUT
     "],'system':[" TEXT_OUT("be \\u00fc") "," TEXT_OUT("short") "],'max_tokens':4096}",
     NULL},
    {MSG("{'role':'user','content':'a'},{'role':'user','content':'b'},"
         "{'role':'assistant','content':'c'}," HI),
     OUT("{'role':'user','content':[" TEXT_OUT("a") "," TEXT_OUT(
         "b") "]},{'role':'assistant','content':[" TEXT_OUT("c") "]}," HI_OUT),
     NULL},
    {MSG(IMAGE("data:image/png;base64,AAAA") "," IMAGE("data:image/jpeg;base64,AAAA")),
     OUT("{'role':'user','content':[" DATA("png") "," DATA("jpeg") "]}"), NULL},
    {MSG(IMAGE("data:image/jpg;base64,AAAA") "," IMAGE("data:image/gif;base64,AAAA")),
     OUT("{'role':'user','content':[" DATA("jpeg") "," DATA("gif") "]}"), NULL},
    {MSG(IMAGE("data:image/webp;base64,AAAA") "," IMAGE("https:\\/\\/a.example/x.png")),
     OUT("{'role':'user','content':[" DATA("webp") ",{'type':'image','source':{'type':'url','url':"
                                                   "'https:\\/\\/a.example/x.png'}}]}"),
     NULL},

    /* tools */
    {"{" USER TOOLS "}", WITH "}", NULL},
    {"{" USER ",'parallel_tool_calls':true,'tools':[{'type':'function','function':{'name':'g',"
     "'description':'does \\u00e9','strict':true,'parameters':{'type':'object', 'n':1.0}}},"
     "{'type':'function','function':{'name':'h','description':'','parameters':{}}},"
     "{'type':'function','function':{'name':'i','parameters':{ 'properties':{'type':{}}}}}]}",
     BODY ",'tools':[{'name':'g','description':'does \\u00e9','input_schema':{'type':'object', "
          "'n':1.0},'strict':true},{'name':'h','description':'','input_schema':{'type':'object'}},"
          "{'name':'i','input_schema':{'type':'object', 'properties':{'type':{}}}}]}",
     NULL},
    {"{" USER TOOLS ",'tool_choice':'auto'}", WITH ",'tool_choice':{'type':'auto'}}", NULL},
    {"{" USER TOOLS ",'tool_choice':'required'}", WITH ",'tool_choice':{'type':'any'}}", NULL},
    {"{" USER TOOLS ",'tool_choice':'none','parallel_tool_calls':false}",
     WITH ",'tool_choice':{'type':'none'}}", NULL},
    {"{" USER TOOLS ",'tool_choice':{'type':'function','function':{'name':'f'}}}",
     WITH ",'tool_choice':{'type':'tool','name':'f'}}", NULL},
    {"{" USER TOOLS ",'parallel_tool_calls':false}",
     WITH ",'tool_choice':{'type':'auto','disable_parallel_tool_use':true}}", NULL},
    {"{" USER TOOLS ",'parallel_tool_calls':false,'tool_choice':{'type':'function','function':"
     "{'name':'f'}}}",
     WITH ",'tool_choice':{'type':'tool','name':'f','disable_parallel_tool_use':true}}", NULL},
    {"{'parallel_tool_calls':false," USER "}", BODY "}", NULL},
    {MSG(HI "," CALLED(CALL("a-1") "," CALL("b")) "," RESULT(
         "a-1", "{\\'t\\':3}") ",{'role':"
                               "'tool','tool_call_id':'b','content':[{'type':'text','text':'w'},{'"
                               "type':'image_url',"
                               "'image_url':{'url':'data:image/png;base64,AAAA'}}]}," HI),
     OUT(HI_OUT "," CALLED_OUT(USE("a-1") "," USE("b")) ",{'role':'user','content':[" RESULT_OUT(
         "a-1", ",'content':[" TEXT_OUT(
                    "{\\'t\\':3}") "]") "," RESULT_OUT("b",
                                                       ",'content':[" TEXT_OUT("w") "," DATA(
                                                           "png") "]") "," TEXT_OUT("hi") "]}"),
     NULL},
    /* results are first in their message */
    {MSG(CALLED(CALL("a")) ",{'role':'user','content':'so'}," RESULT("a", "x")),
     OUT(CALLED_OUT(USE("a")) ",{'role':'user','content':[" RESULT_OUT(
         "a", ",'content':[" TEXT_OUT("x") "]") "," TEXT_OUT("so") "]}"),
     NULL},
    /* ids of other providers: with other characters, too long, as long as can be */
    {MSG(CALLED(CALL("f:0") "," CALL(LONG_ID) "," CALL(ID_64)) "," RESULT("f:0", "") "," RESULT(
         LONG_ID, "x")),
     OUT(CALLED_OUT(USE(HASH_F0) "," USE(HASH_LONG) "," USE(
         ID_64)) ",{'role':'user','content':[" RESULT_OUT(HASH_F0,
                                                          "") "," RESULT_OUT(HASH_LONG,
                                                                             ",'content':"
                                                                             "[" TEXT_OUT(
                                                                                 "x") "]") "]}"),
     NULL},

    /* reasoning: as it was signed; what Anthropic did not sign is left out, and with it, when
     * nothing else is in it, the turn */
    {MSG(HI "," ASKS("a", "{'type':'reasoning.text','text':'Hm \\u00e9','signature':'U2ln','format'"
                          ":'anthropic'},{'type':'reasoning.encrypted','data':'UkVE','format':"
                          "'anthropic'},{'type':'reasoning.text','text':'no','signature':'x',"
                          "'format':'bedrock'},{'type':'reasoning.encrypted','data':'y','format':"
                          "'gemini'},{'type':'reasoning.text','text':'unsigned','format':"
                          "'anthropic'}") "," HI),
     OUT(HI_OUT ",{'role':'assistant','content':[{'type':'thinking','thinking':'Hm \\u00e9',"
                "'signature':'U2ln'},{'type':'redacted_thinking','data':'UkVE'}," TEXT_OUT(
                    "a") "]}," HI_OUT),
     NULL},
    {MSG(HI "," ASKS("a", "{'type':'reasoning.text','text':'','signature':'U2ln','format':"
                          "'anthropic'}")),
     OUT(HI_OUT ",{'role':'assistant','content':[{'type':'thinking','thinking':'','signature':"
                "'U2ln'}," TEXT_OUT("a") "]}"),
     NULL},
    {MSG(HI "," ASKS(
         "", "{'type':'reasoning.text','text':'no','signature':'x','format':'gemini'}") "," HI),
     OUT("{'role':'user','content':[" TEXT_OUT("hi") "," TEXT_OUT("hi") "]}"), NULL},

    /* thinking: a number of tokens for older models, an effort for newer ones */
    {"{" EFFORT("none") USER "}", BODY ",'thinking':{'type':'disabled'}}", NULL},
    {"{" EFFORT("none") "'temperature':0.5," USER "}",
     BODY ",'temperature':0.5,'thinking':{'type':'disabled'}}", NULL},
    {"{" EFFORT("minimal") USER "}", TOKENS("5120") BUDGET("1024"), NULL},
    {"{" EFFORT("low") USER "}", TOKENS("5120") BUDGET("1024"), NULL},
    {"{" EFFORT("medium") "'temperature':1,'top_p':0.95," USER "}",
     TOKENS("8192") ",'temperature':1,'top_p':0.95" BUDGET("4096"), NULL},
    {"{" EFFORT("high") USER "}", TOKENS("20480") BUDGET("16384"), NULL},
    {"{" EFFORT("high") "'max_tokens':16385," USER "}", TOKENS("16385") BUDGET("16384"), NULL},
    {"{" EFFORT("high") "'max_tokens':16384," USER "}", TOKENS("16384") BUDGET("8192"), NULL},
    {"{" EFFORT("high") "'max_tokens':1500," USER "}", TOKENS("1500") BUDGET("1024"), NULL},
    {"{" EFFORT("low") "'max_tokens':1025," USER "}", TOKENS("1025") BUDGET("1024"), NULL},
    {"{" EFFORT("low") FORMAT "," USER "}",
     TOKENS(
         "5120") ",'thinking':{'type':'enabled','budget_tokens':1024},'output_config':{" FORMAT_OUT
                 "}}",
     NULL},
    {"{" EFFORT("low") USER TOOLS ",'tool_choice':'auto'}",
     TOKENS("5120") ",'tools':[" TOOL_OUT "],'tool_choice':{'type':'auto'}" BUDGET("1024"), NULL},

    /* what Anthropic cannot be asked */
    {"{'seed':1," USER "}", NULL, "seed: anthropic has no such parameter"},
    {"{'logit_bias':{}," USER "}", NULL, "logit_bias: anthropic has no such parameter"},
    {"{'frequency_penalty':0.1," USER "}", NULL,
     "frequency_penalty: anthropic has no such parameter"},
    {"{'presence_penalty':-1," USER "}", NULL, "presence_penalty: anthropic has no such parameter"},
    {"{'temperature':1.01," USER "}", NULL, "temperature: anthropic takes 0 to 1"},
    {"{'response_format':{'type':'json_object'}," USER "}", NULL,
     "response_format: anthropic takes json_schema, not json_object"},
    {"{'stop':['a',' \\n\\u0009']," USER "}", NULL,
     "stop: anthropic takes no sequence of white space only"},
    {"{" EFFORT("low") "'temperature':0.9," USER "}", NULL,
     "temperature: anthropic takes none with reasoning_effort"},
    {"{" EFFORT("low") "'top_p':0.9," USER "}", NULL,
     "top_p: anthropic takes 0.95 to 1 with reasoning_effort"},
    {"{" EFFORT("low") "'tool_choice':'required'," USER TOOLS "}", NULL,
     "tool_choice: anthropic cannot be made to call a tool with reasoning_effort"},
    {"{" EFFORT("low") "'tool_choice':{'type':'function','function':{'name':'f'}}," USER TOOLS "}",
     NULL, "tool_choice: anthropic cannot be made to call a tool with reasoning_effort"},
    {"{" EFFORT("low") "'max_tokens':1024," USER "}", NULL,
     "max_tokens: anthropic needs more than 1024 of them with reasoning_effort"},
    {MSG("{'role':'system','content':'x'}"), NULL,
     "messages: anthropic needs one that is not of the system"},
    {MSG(HI "," IMAGE("data:image/bmp;base64,AAAA")), NULL,
     "messages[1]: anthropic takes images of the types image/jpeg, image/png, image/gif and "
     "image/webp"},
    {MSG("{'role':'assistant','function_call':{'name':'f','arguments':'{}'}}"), NULL,
     "messages[0]: anthropic needs the id of each tool call"},
};

static const struct provider provider = {.name = "p",
                                         .ops = &provider_anthropic,
                                         .base_url = "https://api.example/a",
                                         .max_reply_bytes = 1024};

static struct request_bed bed = {.provider = &provider,
                                 .model = "claude-sonnet-4-5",
                                 .rows = requests,
                                 .n = sizeof requests / sizeof requests[0]};

static void test_body_limit(void **state)
{
    char *in = quoted("{" USER "}");
    struct chat_request r = request_of(&bed, in);
    struct provider_http http;
    struct failure failure = {.type = "none"};
    size_t n = strlen(BODY "}");

    (void)state;
    provider_http_init(&http, n - 1);
    assert_int_equal(provider_anthropic.build(&provider, &r, &http, &failure), ERR_LIMIT);
    provider_http_fini(&http);
    free(in);
}

/* Which models think by effort. */
static void test_models(void **state)
{
    static const struct {
        const char *model;
        bool adaptive;
    } models[] = {
        {"claude-opus-4-6", true},
        {"claude-sonnet-4-6-20260101", true},
        {"claude-opus-4.7", true},
        {"claude-opus-4-10", true},
        {"claude-sonnet-5", true},
        {"claude-opus-5-20260801", true},
        {"claude-haiku-12-1", true},
        {"claude-mythos-preview", true},
        {"claude-opus-4-5", false},
        {"claude-sonnet-4-5-20250929", false},
        {"claude-haiku-4-5", false},
        {"claude-opus-4-1-20250805", false},
        {"claude-opus-4-20250514", false},
        {"claude-sonnet-4-0", false},
        {"claude-3-7-sonnet-20250219", false},
        {"claude-3-7-sonnet-latest", false},
        {"claude-", true},
        {"kimi-k3-thinking", false},
        {"opus-5", false},
    };
    char *in = quoted("{" EFFORT("medium") FORMAT "," USER "}");
    char *adaptive = quoted(",'max_tokens':8192" ADAPTIVE("medium") "," FORMAT_OUT "}}");
    char *budget = quoted("'budget_tokens':4096");
    struct chat_request r = request_of(&bed, in);

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct provider_http http;
        struct failure failure = {.type = "none"};

        r.model = span_str(models[i].model);
        provider_http_init(&http, 64 * 1024);
        assert_int_equal(provider_anthropic.build(&provider, &r, &http, &failure), ERR_OK);
        const char *body = buf_cstr(&http.body);
        if ((strstr(body, adaptive) != NULL) != models[i].adaptive ||
            (strstr(body, budget) != NULL) == models[i].adaptive) {
            fail_msg("%s: %s", models[i].model, body);
        }
        provider_http_fini(&http);
    }
    free(in);
    free(adaptive);
    free(budget);
}

/* Newer models too: levels, the caller's bound, what thinking forbids, and none. */
static void test_adaptive(void **state)
{
    static const struct {
        const char *in;
        const char *end; /* of the body; NULL: refused */
    } rows[] = {
        {"{" EFFORT("minimal") USER "}", ",'max_tokens':5120" ADAPTIVE("low") "}}"},
        {"{" EFFORT("low") USER "}", ",'max_tokens':5120" ADAPTIVE("low") "}}"},
        {"{" EFFORT("high") USER "}", ",'max_tokens':20480" ADAPTIVE("high") "}}"},
        {"{" EFFORT("high") "'max_tokens':10," USER "}", ",'max_tokens':10" ADAPTIVE("high") "}}"},
        {"{" EFFORT("none") USER "}", ",'max_tokens':4096,'thinking':{'type':'disabled'}}"},
        {"{" USER "}", ",'max_tokens':4096}"},
        {"{" EFFORT("high") "'temperature':0," USER "}", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *in = quoted(rows[i].in);
        struct chat_request r = request_of(&bed, in);
        struct provider_http http;
        struct failure failure = {.type = "none"};

        r.model = SPAN("claude-opus-4-7");
        provider_http_init(&http, 64 * 1024);
        enum err err = provider_anthropic.build(&provider, &r, &http, &failure);
        assert_int_equal(err, rows[i].end == NULL ? ERR_PROTO : ERR_OK);
        if (rows[i].end != NULL) {
            char *end = quoted(rows[i].end);
            const char *body = buf_cstr(&http.body);
            assert_true(strlen(body) > strlen(end));
            assert_string_equal(body + strlen(body) - strlen(end), end);
            free(end);
        }
        provider_http_fini(&http);
        free(in);
    }
}

/* Names that Anthropic does not take go out changed, the same everywhere. */
static void test_tool_names(void **state)
{
    char *in = quoted(
        "{'messages':[{'role':'assistant','tool_calls':[{'id':'a','type':'function','function':"
        "{'name':'git.find','arguments':'{}'}}]},{'role':'tool','tool_call_id':'a','content':'x'}],"
        "'tools':[{'type':'function','function':{'name':'git.find'}}],"
        "'tool_choice':{'type':'function','function':{'name':'git.find'}}}");
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
    assert_int_equal(provider_anthropic.build(&provider, &r, &http, &failure), ERR_OK);
    struct span changed = tool_names_changed(&names, SPAN("git.find"));
    const char *body = buf_cstr(&http.body);
    snprintf(want, sizeof want, "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"%.*s\"",
             (int)changed.n, changed.p);
    assert_non_null(strstr(body, want));
    snprintf(want, sizeof want, "[{\"name\":\"%.*s\"", (int)changed.n, changed.p);
    assert_non_null(strstr(body, want));
    snprintf(want, sizeof want, "{\"type\":\"tool\",\"name\":\"%.*s\"", (int)changed.n, changed.p);
    assert_non_null(strstr(body, want));
    assert_null(strstr(body, "git.find"));
    provider_http_fini(&http);
    arena_fini(&arena);
    free(in);
}

static void assert_header(struct provider_http *http, size_t i, const char *name, const char *value)
{
    assert_true(i < http->nheaders);
    assert_string_equal(http->header_name[i], name);
    assert_string_equal(buf_cstr(&http->header_text[i]), value);
}

static void test_url_and_headers(void **state)
{
    char *in = quoted("{" USER "}");
    char *out = quoted(BODY ",'stream':true}");
    struct chat_request r = request_of(&bed, in);

    (void)state;
    for (int stream = 0; stream <= 1; stream++) {
        struct provider_auth auth = {.key = {NULL, 0}};
        struct provider_http http;
        struct failure failure = {.type = "none"};

        r.stream = stream == 1;
        provider_http_init(&http, 64 * 1024);
        assert_int_equal(provider_anthropic.build(&provider, &r, &http, &failure), ERR_OK);
        http.plain_headers = http.nheaders;
        assert_string_equal(buf_cstr(&http.url), "https://api.example/a/v1/messages");
        assert_int_equal(http.nheaders, 3);
        assert_header(&http, 0, "Content-Type", "application/json");
        assert_header(&http, 1, "Accept", r.stream ? "text/event-stream" : "application/json");
        assert_header(&http, 2, "anthropic-version", "2023-06-01");
        if (r.stream) {
            assert_string_equal(buf_cstr(&http.body), out);
        }

        assert_int_equal(provider_anthropic.authorize(&provider, &auth, &http, &failure), ERR_OK);
        assert_int_equal(http.nheaders, 3); /* no key, no header */
        auth.key = SPAN("sk-1");
        assert_int_equal(provider_anthropic.authorize(&provider, &auth, &http, &failure), ERR_OK);
        assert_int_equal(http.nheaders, 4);
        assert_header(&http, 3, "x-api-key", "sk-1");
        provider_http_strip(&http);
        auth.key = SPAN("sk\r\nx: y");
        assert_int_equal(provider_anthropic.authorize(&provider, &auth, &http, &failure),
                         ERR_PROTO);
        assert_string_equal(failure.type, TACTUS_E_API_AUTHENTICATION);
        assert_int_equal(http.nheaders, 3);
        provider_http_fini(&http);
    }
    assert_string_equal(provider_anthropic.base_url, "https://api.anthropic.com");
    assert_ptr_equal(provider_ops_find("anthropic"), &provider_anthropic);
    free(in);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_requests, &bed),
        cmocka_unit_test_prestate(test_request_allocations, &bed),
        cmocka_unit_test(test_body_limit),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_adaptive),
        cmocka_unit_test(test_tool_names),
        cmocka_unit_test(test_url_and_headers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
