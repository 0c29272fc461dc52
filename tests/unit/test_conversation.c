/*
 * A chat request read for providers that do not speak OpenAI's JSON: what comes of each shape, and
 * what holds under trouble. Refusals are in test_conversation_refused.c.
 */
#include "fixtures/conversation_bed.h"
#include "fixtures/torture.h"

/* ---- who says what ---- */

static const struct row turns_rows[] = {
    {M(USER), "user\n  text@0 'hi'\n"},
    {M("{'role':'system','content':'a'},{'role':'developer','content':[{'type':'text','text':'b'}]}"
       "," USER ",{'role':'system','content':'c'}"),
     "system\n  text@0 'a'\n  text@1 'b'\n  text@3 'c'\nuser\n  text@2 'hi'\n"},
    {M("{'role':'user','content':'a'},{'role':'user','content':'b'},{'role':'assistant','content':'"
       "c'},{'role':'assistant','content':'d'},{'role':'user','content':'e'}"),
     "user\n  text@0 'a'\n  text@1 'b'\nassistant\n  text@2 'c'\n  text@3 'd'\n"
     "user\n  text@4 'e'\n"},
    /* nothing said is no turn, and does not part those around it */
    {M("{'role':'user','content':'a'},{'role':'assistant','content':''},{'role':'user','content':'"
       "b'}"),
     "user\n  text@0 'a'\n  text@2 'b'\n"},
    {M("{'role':'user','content':[]},{'role':'assistant','content':null},{'role':'assistant'},{'"
       "role':'system','content':''}"),
     ""},
    {M("{'role':'user','content':[{'type':'text','text':''},{'type':'text','text':'x'}]}"),
     "user\n  text@0 'x'\n"},
    /* as it came */
    {M("{'role':'user','content':'\\u0041\\n'}"), "user\n  text@0 '\\u0041\\n'\n"},
    {M("{'content':'x','name':'Ann','role':'\\u0075ser','other':{'role':'tool'}}"),
     "user\n  text@0 'x'\n"},
    {M("{'role':'assistant','content':[{'type':'text','text':'a'},{'type':'refusal','refusal':'no'}"
       "]},{'role':'assistant','content':null,'refusal':'never'},{'role':'assistant','content':'y',"
       "'refusal':null,'audio':null}"),
     "assistant\n  text@0 'a'\n  text@0 'no'\n  text@1 'never'\n  text@2 'y'\n"},
};

static void test_turns(void **state)
{
    (void)state;
    EACH(turns_rows, assert_reads)
}

static const struct row images_rows[] = {
    {M("{'role':'user','content':[{'type':'text','text':'see'},{'type':'image_url','image_url':{'"
       "url':'data:image/png;base64,QUJD','detail':'low'}},{'type':'text','text':'?'}]}"),
     "user\n  text@0 'see'\n  image@0 media=image/png data=QUJD\n  text@0 '?'\n"},
    {M(IMAGE("'https://a.example/b.png'")), "user\n  image@0 url='https://a.example/b.png'\n"},
    {M(IMAGE("'HTTP:\\/\\/a'")), "user\n  image@0 url='HTTP:\\/\\/a'\n"},
    /* escapes in base64, what many call JPEG, capitals */
    {M(IMAGE("'data:image\\/jpg;base64,\\/9j+\\u0041A=='")),
     "user\n  image@0 media=image/jpeg data=/9j+AA==\n"},
    {M(IMAGE("{'url':'DATA:Image/PNG;BASE64,QUI='}")),
     "user\n  image@0 media=image/png data=QUI=\n"},
};

static void test_images(void **state)
{
    (void)state;
    EACH(images_rows, assert_reads)
}

static const struct row calls_rows[] = {
    /* results and what the user says next are one turn */
    {M(USER ",{'role':'assistant','content':'so','tool_calls':[{'id':'c1','type':'function','"
            "function':{'name':'f','arguments':'{\\u0022a\\u0022: "
            "1}'}},{'id':'c2','type':'function','function':{'name':'g','arguments':''}}]},{'role':'"
            "tool','tool_call_id':'c2','content':'two'},{'role':'tool','tool_call_id':'c1','"
            "content':'one'},{'role':'user','content':'and'}"),
     "user\n  text@0 'hi'\nassistant\n  text@1 'so'\n"
     "  call@1 id='c1' name=f arguments={'a': 1}\n  call@1 id='c2' name=g arguments={}\n"
     "user\n  result@2 id='c2' name=g\n    text@2 'two'\n"
     "  result@3 id='c1' name=f\n    text@3 'one'\n  text@4 'and'\n"},
    /* the same id again: the last before counts */
    {M("{'role':'assistant','tool_calls':[{'id':'c','type':'function','function':{'name':'f','"
       "arguments':'{}'}}]},{'role':'tool','tool_call_id':'c','content':'1'},{'role':'assistant','"
       "content':null,'tool_calls':[{'id':'c','type':'function','function':{'name':'g','arguments':"
       "' {} '}}]},{'role':'tool','tool_call_id':'\\u0063','content':'2'}"),
     "assistant\n  call@0 id='c' name=f arguments={}\n"
     "user\n  result@1 id='c' name=f\n    text@1 '1'\n"
     "assistant\n  call@2 id='c' name=g arguments={}\n"
     "user\n  result@3 id='\\u0063' name=g\n    text@3 '2'\n"},
    /* ids in no order */
    {M("{'role':'assistant','tool_calls':[{'id':'d','function':{'name':'f','arguments':''}}]},"
       "{'role':'assistant','tool_calls':[{'id':'a','function':{'name':'g','arguments':''}}]},"
       "{'role':'assistant','tool_calls':[{'id':'b','function':{'name':'h','arguments':''}}]},"
       "{'role':'tool','tool_call_id':'d'},{'role':'tool','tool_call_id':'b'}"),
     "assistant\n  call@0 id='d' name=f arguments={}\n  call@1 id='a' name=g arguments={}\n"
     "  call@2 id='b' name=h arguments={}\n"
     "user\n  result@3 id='d' name=f\n  result@4 id='b' name=h\n"},
    /* empty results; texts and images in one */
    {M("{'role':'assistant','tool_calls':[{'id':'c','type':'function','function':{'name':'f','"
       "arguments':'{}'}}]},{'role':'tool','tool_call_id':'c','content':''},{'role':'tool','tool_"
       "call_id':'c','content':null},{'role':'tool','tool_call_id':'c'},{'role':'tool','tool_call_"
       "id':'c','content':[{'type':'text','text':'x'},{'type':'image_url','image_url':{'url':'http:"
       "//a'}}]}"),
     "assistant\n  call@0 id='c' name=f arguments={}\n"
     "user\n  result@1 id='c' name=f\n  result@2 id='c' name=f\n  result@3 id='c' name=f\n"
     "  result@4 id='c' name=f\n    text@4 'x'\n    image@4 url='http://a'\n"},
    /* calls without id or type; null lists */
    {M("{'role':'assistant','tool_calls':[{'function':{'name':'f','arguments':'{}'}}]},{'role':'"
       "assistant','content':'x','tool_calls':null,'function_call':null},{'role':'assistant','tool_"
       "calls':[]}"),
     "assistant\n  call@0 name=f arguments={}\n  text@1 'x'\n"},
    /* the older form */
    {M("{'role':'assistant','content':null,'function_call':{'name':'f','arguments':''}},{'role':'"
       "function','name':'f','content':'r'}"),
     "assistant\n  call@0 name=f arguments={}\nuser\n  result@1 name=f\n    text@1 'r'\n"},
    /* what the model wrote, with half a surrogate pair */
    {M("{'role':'assistant','tool_calls':[{'id':'c','type':'function','function':{'name':'f','"
       "arguments':'{\\u0022a\\u0022:\\u0022\\\\ud83c\\u0022}'}}]}"),
     "assistant\n  call@0 id='c' name=f arguments={'a':'\\ud83c'}\n"},
    /* names that are changed */
    {"{'messages':[{'role':'assistant','tool_calls':[{'id':'c','type':'function','function':{'name'"
     ":'a.b','arguments':''}}]},{'role':'tool','tool_call_id':'c','content':'r'},{'role':'function'"
     ",'name':'a\\u002eb','content':''}],'tools':[{'type':'function','function':{'name':'a.b'}}],'"
     "tool_choice':{'type':'function','function':{'name':'a.b'}}}",
     "assistant\n  call@0 id='c' name=a_b_e27bcb35 arguments={}\n"
     "user\n  result@1 id='c' name=a_b_e27bcb35\n    text@1 'r'\n"
     "  result@2 name=a_b_e27bcb35\ntool a_b_e27bcb35\nchoice one a_b_e27bcb35\n"},
};

static void test_calls(void **state)
{
    (void)state;
    EACH(calls_rows, assert_reads)
}

static const struct row reasoning_rows[] = {
    {M("{'role':'assistant','content':'x','tool_calls':[{'id':'c','type':'function','function':{'"
       "name':'f','arguments':''}}],'reasoning':'plain','reasoning_content':'plain','reasoning_"
       "details':[{'type':'reasoning.text','text':'t1','signature':'s1','format':'anthropic'},{'"
       "type':'reasoning.encrypted','data':'e','format':'anthropic'},{'type':'reasoning.text','"
       "text':'t2','signature':'s2','format':'anthropic'}]}"),
     "assistant\n  reasoning@0 't1' signature='s1' format='anthropic'\n"
     "  reasoning@0 encrypted='e' format='anthropic'\n"
     "  reasoning@0 't2' signature='s2' format='anthropic'\n"
     "  text@0 'x'\n  call@0 id='c' name=f arguments={}\n"},
    /* of a call of this message; of none */
    {M("{'role':'assistant','tool_calls':[{'id':'c0','type':'function','function':{'name':'f','"
       "arguments':''}},{'id':'b1','type':'function','function':{'name':'g','arguments':''}}],'"
       "reasoning_details':[{'type':'reasoning.encrypted','data':'b','id':'b1','format':'gemini'},{"
       "'type':'reasoning.encrypted','data':'a','id':'c\\u0030'},{'type':'reasoning.encrypted','"
       "data':'r','id':'rs_1'},{'type':'reasoning.encrypted','data':'n','id':null}]}"),
     "assistant\n  reasoning@0 encrypted='r'\n  reasoning@0 encrypted='n'\n"
     "  call@0 signature='a' id='c0' name=f arguments={}\n"
     "  call@0 signature='b' format='gemini' id='b1' name=g arguments={}\n"},
    /* ids come again: a detail is of its own message's call */
    {M("{'role':'assistant','tool_calls':[{'id':'c','type':'function','function':{'name':'f','"
       "arguments':''}}]},{'role':'tool','tool_call_id':'c','content':''},{'role':'assistant','"
       "tool_calls':[{'id':'c','type':'function','function':{'name':'f','arguments':''}}],'"
       "reasoning_details':[{'type':'reasoning.encrypted','data':'s','id':'c'}]},{'role':'"
       "assistant','content':'x','reasoning_details':[{'type':'reasoning.encrypted','data':'z','id'"
       ":'c'}]}"),
     "assistant\n  call@0 id='c' name=f arguments={}\n"
     "user\n  result@1 id='c' name=f\n"
     "assistant\n  call@2 signature='s' id='c' name=f arguments={}\n"
     "  reasoning@3 encrypted='z'\n  text@3 'x'\n"},
    /* nothing but a signature; nothing but text; nothing */
    {M("{'role':'assistant','content':null,'reasoning_details':[{'type':'reasoning.text','text':'',"
       "'signature':'s','format':'anthropic'},{'type':'reasoning.text','text':null,'signature':'s',"
       "'format':'anthropic'},{'type':'reasoning.text','text':'t','signature':null,'format':'"
       "anthropic'},{'type':'reasoning.text','text':'','signature':'','format':'anthropic'},{'type'"
       ":'reasoning.encrypted','data':''},{'type':'reasoning.summary','summary':'x'}]}"),
     "assistant\n  reasoning@0 signature='s' format='anthropic'\n"
     "  reasoning@0 signature='s' format='anthropic'\n  reasoning@0 't' format='anthropic'\n"},
    /* only an assistant's */
    {M("{'role':'user','content':'x','reasoning_details':7},{'role':'assistant','content':'x','"
       "reasoning_details':null}"),
     "user\n  text@0 'x'\nassistant\n  text@1 'x'\n"},
};

static void test_reasoning(void **state)
{
    (void)state;
    EACH(reasoning_rows, assert_reads)
}

/* ---- parameters ---- */

static const struct row params_rows[] = {
    {P("'tools':[{'type':'function','function':{'name':'f','description':'d','parameters':{'type':'"
       "object'},'strict':true}},{'type':'function','function':{'name':'\\u0067','description':"
       "null,'parameters':null,'strict':null}}]"),
     "tool f description='d' parameters={'type':'object'} strict\ntool g\n"},
    {P("'tools':[],'tool_choice':null,'stop':null,'response_format':null,'max_tokens':null,'"
       "reasoning_effort':null,'parallel_tool_calls':null"),
     ""},
    {P("'tool_choice':'auto'"), "choice auto\n"},
    {P("'tool_choice':'none'"), "choice none\n"},
    {P("'tool_choice':'required'"), "choice any\n"},
    {P("'tools':[{'type':'function','function':{'name':'f'}},{'type':'function','function':{'name':"
       "'g'}}],'tool_choice':{'type':'function','function':{'name':'g'}}"),
     "tool f\ntool g\nchoice one g\n"},
    {P("'stop':'x'"), "stop 'x'\n"},
    {P("'stop':['\\n','b']"), "stop '\\n','b'\n"},
    {P("'stop':[]"), ""},
    {P("'response_format':{'type':'text'}"), ""},
    {P("'response_format':{'type':'json_object'}"), "json\n"},
    {P("'response_format':{'type':'json_schema','json_schema':{'name':'n','strict':true,'schema':{'"
       "a':1}}}"),
     "schema 'n' {'a':1}\n"},
    {P("'response_format':{'type':'json_schema','json_schema':{'schema':{}}}"), "schema {}\n"},
    {P("'max_tokens':5"), "max 5\n"},
    {P("'max_tokens':5,'max_completion_tokens':18446744073709551615"),
     "max 18446744073709551615\n"},
    {P("'reasoning_effort':'none'"), "effort none\n"},
    {P("'reasoning_effort':'minimal'"), "effort minimal\n"},
    {P("'reasoning_effort':'low'"), "effort low\n"},
    {P("'reasoning_effort':'medium'"), "effort medium\n"},
    {P("'reasoning_effort':'high'"), "effort high\n"},
    {P("'reasoning_effort':'xhigh'"), "effort high\n"},
    {P("'parallel_tool_calls':false"), "no parallel calls\n"},
    {P("'parallel_tool_calls':true"), ""},
    {P("'temperature':'whatever','logit_bias':7"), ""}, /* the types' own */
};

static void test_params(void **state)
{
    (void)state;
    EACH(params_rows, assert_reads)
}

/* ---- what is left to the types ---- */

static void test_unknown(void **state)
{
    static const enum chat_param known[] = {CHAT_TEMPERATURE, CHAT_SEED};
    struct chat_request r = {.model = SPAN("m")};
    struct json_value set = {.text = SPAN("7"), .type = JSON_NUMBER};

    (void)state;
    assert_int_equal(conversation_unknown(&r, NULL, 0), CHAT_PARAM_COUNT);
    for (size_t i = 0; i < CHAT_PARAM_COUNT; i++) {
        r.params[i] = set;
    }
    assert_int_equal(conversation_unknown(&r, NULL, 0), CHAT_TEMPERATURE);
    assert_int_equal(conversation_unknown(&r, known, 2), CHAT_TOP_P);
    r.params[CHAT_TOP_P].type = JSON_NULL;
    assert_int_equal(conversation_unknown(&r, known, 2), CHAT_FREQUENCY_PENALTY);
    r.params[CHAT_FREQUENCY_PENALTY].type = JSON_ABSENT;
    assert_int_equal(conversation_unknown(&r, known, 2), CHAT_PRESENCE_PENALTY);
    r.params[CHAT_PRESENCE_PENALTY].type = JSON_ABSENT;
    assert_int_equal(conversation_unknown(&r, known, 2), CHAT_LOGIT_BIAS);
    r.params[CHAT_LOGIT_BIAS].type = JSON_ABSENT;
    assert_int_equal(conversation_unknown(&r, known, 2), CHAT_PARAM_COUNT);
}

/* ---- trouble ---- */

static const char everything[] =
    "{'messages':[{'role':'system','content':'s'},{'role':'user','content':[{'type':'text','text':'"
    "t'},{'type':'image_url','image_url':'data:image\\/"
    "PNG;base64,QQ=='}]},{'role':'assistant','tool_calls':[{'id':'\\u0063','type':'function','"
    "function':{'name':'a.b','arguments':'{\\u0022x\\u0022:1}'}}],'reasoning_details':[{'type':'"
    "reasoning.text','text':'t','signature':'s','format':'anthropic'},{'type':'reasoning.encrypted'"
    ",'data':'e','id':'\\u0063'}]},{'role':'tool','tool_call_id':'\\u0063','content':'r'}],'tools':"
    "[{'type':'function','function':{'name':'a\\u002eb'}}],'stop':['x'],'tool_choice':{'type':'"
    "function','function':{'name':'a\\u002eb'}}}";

static void test_allocation_failures(void **state)
{
    char *text = json(everything);
    size_t n = 0;

    (void)state;
    for (;; n++) {
        struct tool_names names;
        struct conversation c = {.nturns = 77};
        struct failure f;
        struct arena a;

        arena_init(&a, ARENA_MAX);
        torture_fail_after(n);
        enum err err = read_text(span_str(text), &a, &names, &c, &f);
        size_t used = torture_count();
        torture_off();
        if (used <= n) {
            assert_int_equal(err, ERR_OK);
            assert_int_equal(c.nturns, 3);
            arena_fini(&a);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
        assert_int_equal(c.nturns, 77);
        arena_fini(&a);
    }
    assert_true(n > 10);
    free(text);
}

/* However small the arena is, what does not fit is ERR_LIMIT. */
static void test_arena_limit(void **state)
{
    char *text = json(everything);
    struct chat_request r;
    enum err err = ERR_LIMIT;
    size_t max = 1;

    (void)state;
    assert_true(dump_request(span_str(text), &r));
    for (; err != ERR_OK; max++) {
        struct conversation c = {.nturns = 77};
        struct failure f;
        struct arena a;

        arena_init(&a, max);
        err = conversation_read(&r, &a, &c, &f);
        assert_true(err == ERR_OK || err == ERR_LIMIT);
        assert_int_equal(c.nturns, err == ERR_OK ? 3 : 77);
        arena_fini(&a);
    }
    assert_true(max > 1000);
    free(text);
}

static void put_times(struct buf *b, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_put_str(b, text);
    }
}

/* As deep as JSON may be, everywhere where it does not matter, and where it does. */
static void test_deep(void **state)
{
    struct tool_names names;
    struct conversation c;
    struct failure f;
    struct arena a;
    struct buf b;

    (void)state;
    for (int where = 0; where < 2; where++) {
        arena_init(&a, ARENA_MAX);
        buf_init(&b, ARENA_MAX);
        buf_put_str(&b, "{\"messages\":[{\"role\":\"user\",\"content\":");
        buf_put_str(&b, where == 0 ? "\"x\",\"y\":" : "");
        put_times(&b, "[", 1000);
        put_times(&b, "]", 1000);
        buf_put_str(&b, "}]}");
        enum err err = read_text(buf_span(&b), &a, &names, &c, &f);
        if (where == 0) {
            assert_int_equal(err, ERR_OK);
            assert_int_equal(c.nturns, 1);
        } else {
            assert_int_equal(err, ERR_PROTO);
            assert_string_equal(f.message, "messages[0].content[0]: expected an object");
        }
        buf_fini(&b);
        arena_fini(&a);
    }
}

/* 10 000 calls with results whose ids all begin alike, and 10 000 messages of one side. */
static void test_many(void **state)
{
    enum { N = 10000 };
    struct tool_names names;
    struct conversation c;
    struct failure f;
    struct arena a;
    struct buf b;

    (void)state;
    arena_init(&a, ARENA_MAX);
    buf_init(&b, ARENA_MAX);
    buf_put_str(&b, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[");
    for (int i = 0; i < N; i++) {
        buf_printf(&b, "%s{\"id\":\"call_%d\",\"function\":{\"name\":\"f%d\",\"arguments\":\"\"}}",
                   i == 0 ? "" : ",", i, i % 100);
    }
    buf_put_str(&b, "]}");
    for (int i = N; i-- > 0;) {
        buf_printf(&b, ",{\"role\":\"tool\",\"tool_call_id\":\"call_%d\",\"content\":\"%d\"}", i,
                   i);
    }
    put_times(&b, ",{\"role\":\"user\",\"content\":\"x\"}", N);
    buf_put_str(&b, "]}");
    assert_int_equal(read_text(buf_span(&b), &a, &names, &c, &f), ERR_OK);
    assert_int_equal(names.n, 0);
    assert_int_equal(c.nturns, 2);
    assert_int_equal(c.turns[0].n, N);
    assert_int_equal(c.turns[1].n, 2 * N);
    for (size_t i = 0; i < N; i++) {
        const struct part *call = &c.turns[0].parts[i];
        const struct part *result = &c.turns[1].parts[N - 1 - i];
        assert_int_equal(call->kind, PART_CALL);
        assert_int_equal(result->kind, PART_RESULT);
        assert_true(span_eq(call->id.text, result->id.text));
        assert_true(span_eq(call->name, result->name));
        assert_int_equal(result->nparts, 1);
        assert_int_equal(result->message, N - i);
        assert_int_equal(strtoull(result->parts[0].text.text.p + 1, NULL, 10), i);
    }
    buf_fini(&b);
    arena_fini(&a);
}

/* More members than we read. */
static void test_too_many_members(void **state)
{
    struct tool_names names;
    struct conversation c;
    struct failure f;
    struct arena a;
    struct buf b;

    (void)state;
    arena_init(&a, ARENA_MAX);
    buf_init(&b, ARENA_MAX);
    buf_put_str(&b, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"");
    for (int i = 0; i < JSON_MEMBERS_MAX - 1; i++) {
        buf_printf(&b, ",\"k%d\":0", i);
    }
    buf_put_str(&b, "}]}");
    assert_int_equal(read_text(buf_span(&b), &a, &names, &c, &f), ERR_PROTO);
    assert_string_equal(f.message, "messages[0]: too many members");
    buf_fini(&b);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_arena_limit),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_too_many_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
