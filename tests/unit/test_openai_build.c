/* The request that goes to an OpenAI-compatible provider: exact bytes, and what is refused. */
#include "base/json_span.h"
#include "fixtures/torture.h"
#include "llm/provider.h"
#include "llm/tool_names.h"
#include "tactus/protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const struct provider keyed = {.name = "p",
                                      .ops = &provider_openai,
                                      .base_url = "https://api.example/v1",
                                      .stream_usage = true,
                                      .max_reply_bytes = 1024};

static const struct span secret = {"sk-secret", 9};

/* The whole request: `key` may be empty. */
static enum err prepare(const struct provider *p, const struct chat_request *r, struct span key,
                        struct provider_http *h, struct failure *f)
{
    struct provider_auth auth = {.key = key};
    enum err rc = provider_openai.build(p, r, h, f);

    h->plain_headers = h->nheaders;
    return rc == ERR_OK ? provider_openai.authorize(p, &auth, h, f) : rc;
}

static struct json_value json(const char *text)
{
    static const struct json_rules rules = {.max_depth = 16};
    struct json_value v;
    struct json_fault fault;

    assert_int_equal(json_check_value(span_str(text), &rules, &v, &fault), ERR_OK);
    return v;
}

static struct chat_request request(const char *model, const char *messages)
{
    return (struct chat_request){.model = span_str(model), .messages = json(messages)};
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

static void assert_body(const struct provider *p, const struct chat_request *r,
                        const char *expected)
{
    struct provider_http h;
    struct failure f;

    provider_http_init(&h, 4096);
    assert_int_equal(prepare(p, r, secret, &h, &f), ERR_OK);
    assert_string_equal(buf_cstr(&h.body), expected);
    provider_http_fini(&h);
}

static void test_plain(void **state)
{
    struct chat_request r = request("m\"\u65e5", "[ {\"role\":\"user\", \"n\":1.0} ]");
    struct provider_http h;
    struct failure f;

    (void)state;
    provider_http_init(&h, 4096);
    assert_int_equal(prepare(&keyed, &r, secret, &h, &f), ERR_OK);
    assert_string_equal(buf_cstr(&h.url), "https://api.example/v1/chat/completions");
    assert_string_equal(
        buf_cstr(&h.body),
        "{\"model\":\"m\\\"\u65e5\",\"messages\":[ {\"role\":\"user\", \"n\":1.0} ]}");
    assert_int_equal(h.nheaders, 3);
    assert_string_equal(header(&h, "Content-Type"), "application/json");
    assert_string_equal(header(&h, "Accept"), "application/json");
    assert_string_equal(header(&h, "Authorization"), "Bearer sk-secret");
    provider_http_strip(&h); /* another key */
    assert_int_equal(h.nheaders, 2);
    assert_null(header(&h, "Authorization"));
    provider_http_fini(&h);
    assert_int_equal(h.nheaders, 0);
}

static void test_stream(void **state)
{
    struct chat_request r = request("m", "[]");
    struct provider p = keyed;
    struct provider_http h;
    struct failure f;

    (void)state;
    r.stream = true;
    provider_http_init(&h, 4096);
    assert_int_equal(prepare(&p, &r, SPAN(""), &h, &f), ERR_OK);
    assert_string_equal(header(&h, "Accept"), "text/event-stream");
    assert_null(header(&h, "Authorization"));
    provider_http_fini(&h);
    assert_body(&p, &r,
                "{\"model\":\"m\",\"messages\":[],\"stream\":true,\"stream_options\":"
                "{\"include_usage\":true}}");
    /* BerriAI/litellm#23847 */
    p.stream_usage = false;
    assert_body(&p, &r, "{\"model\":\"m\",\"messages\":[],\"stream\":true}");
}

/* Numbers and escapes go on as they came; null is absent; the order is ours. */
static void test_params(void **state)
{
    struct chat_request r = request("m", "[]");
    struct provider p = keyed;

    (void)state;
    r.params[CHAT_USER] = json("\"\\u0041\"");
    r.params[CHAT_SEED] = json("9007199254740993");
    r.params[CHAT_TEMPERATURE] = json("1.0");
    r.params[CHAT_STOP] = json("null");
    r.params[CHAT_METADATA] = json("{\"z\" : 1e400}");
    assert_body(&p, &r,
                "{\"model\":\"m\",\"messages\":[],\"temperature\":1.0,\"seed\":9007199254740993,"
                "\"metadata\":{\"z\" : 1e400},\"user\":\"\\u0041\"}");
    for (size_t i = 0; i < CHAT_PARAM_COUNT; i++) {
        r.params[i] = json("0");
    }
    assert_body(&p, &r,
                "{\"model\":\"m\",\"messages\":[],\"temperature\":0,\"max_tokens\":0,\"tools\":0,"
                "\"tool_choice\":0,\"top_p\":0,\"stop\":0,\"seed\":0,\"response_format\":0,"
                "\"max_completion_tokens\":0,\"reasoning_effort\":0,\"parallel_tool_calls\":0,"
                "\"frequency_penalty\":0,\"presence_penalty\":0,\"logit_bias\":0,\"metadata\":0,"
                "\"user\":0}");
}

/* Only names that OpenAI would refuse are written in another way; all else is as it came. */
static void test_tool_names(void **state)
{
    struct chat_request r =
        request("m", "[ {\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a.b\",\"function\":"
                     "{\"name\":\"a.b\",\"arguments\":\"{}\"}}]},"
                     "{\"role\":\"tool\",\"name\":\"a.b\",\"content\":\"a.b\"} ]");
    struct tool_names names;
    struct arena arena;

    (void)state;
    r.params[CHAT_TOOLS] = json("[{\"type\":\"function\", \"function\":{\"name\":\"a\\u002eb\"}},"
                                "{\"function\":{\"name\":\"fit\",\"x\":1.0}}]");
    r.params[CHAT_TOOL_CHOICE] = json("{\"function\":{\"name\":\"a.b\"}}");
    r.params[CHAT_STOP] = json("[\"a.b\"]");
    arena_init(&arena, 1 << 20);
    assert_int_equal(tool_names_read(&r, &arena, &names), ERR_OK);
    r.names = &names;
    assert_body(&keyed, &r,
                "{\"model\":\"m\",\"messages\":[ {\"role\":\"assistant\",\"tool_calls\":[{\"id\":"
                "\"a.b\",\"function\":{\"name\":\"a_b_e27bcb35\",\"arguments\":\"{}\"}}]},"
                "{\"role\":\"tool\",\"name\":\"a_b_e27bcb35\",\"content\":\"a.b\"} ],"
                "\"tools\":[{\"type\":\"function\", \"function\":{\"name\":\"a_b_e27bcb35\"}},"
                "{\"function\":{\"name\":\"fit\",\"x\":1.0}}],"
                "\"tool_choice\":{\"function\":{\"name\":\"a_b_e27bcb35\"}},\"stop\":[\"a.b\"]}");
    names.n = 0; /* as when all are fit: the bytes that came */
    r.params[CHAT_STOP].type = JSON_ABSENT;
    r.messages = json("[{\"role\":\"tool\",\"name\":\"a\\u002eb\"}]");
    r.params[CHAT_TOOLS] = json("[ ]");
    assert_body(&keyed, &r,
                "{\"model\":\"m\",\"messages\":[{\"role\":\"tool\",\"name\":\"a\\u002eb\"}],"
                "\"tools\":[ ],\"tool_choice\":{\"function\":{\"name\":\"a.b\"}}}");
    arena_fini(&arena);
}

static void test_key_cannot_add_headers(void **state)
{
    static const char *const keys[] = {"a\rb", "a\nb", "a\0b"};
    struct chat_request r = request("m", "[]");

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct provider p = keyed;
        struct provider_http h;
        struct failure f;

        provider_http_init(&h, 4096);
        assert_int_equal(prepare(&p, &r, span_of(keys[i], 3), &h, &f), ERR_PROTO);
        assert_string_equal(f.type, TACTUS_E_API_AUTHENTICATION);
        assert_int_equal(f.retryable, FAILURE_NO);
        provider_http_fini(&h);
    }
}

static void test_body_limit(void **state)
{
    struct chat_request r = request("m", "[]");
    struct failure f;

    (void)state;
    for (size_t over = 0; over <= 1; over++) {
        struct provider_http h;
        provider_http_init(&h, strlen("{\"model\":\"m\",\"messages\":[]}") - over);
        assert_int_equal(prepare(&keyed, &r, secret, &h, &f), over ? ERR_LIMIT : ERR_OK);
        provider_http_fini(&h);
    }
}

static void test_allocation_failures(void **state)
{
    struct chat_request r = request("m", "[]");

    (void)state;
    for (size_t n = 0;; n++) {
        struct provider_http h;
        struct failure f;

        provider_http_init(&h, 4096);
        torture_fail_after(n);
        enum err err = prepare(&keyed, &r, secret, &h, &f);
        size_t used = torture_count();
        torture_off();
        provider_http_fini(&h);
        if (used <= n) {
            assert_int_equal(err, ERR_OK);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
    }
}

static void test_types(void **state)
{
    (void)state;
    assert_ptr_equal(provider_ops_find("openai"), &provider_openai);
    assert_ptr_equal(provider_ops_find("builtin"), &provider_builtin);
    assert_null(provider_ops_find("open"));
    assert_null(provider_ops_find(""));
    assert_null(provider_ops_find(NULL));
    assert_null(provider_openai.script_new);
    assert_null(provider_builtin.build);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_tool_names),
        cmocka_unit_test(test_key_cannot_add_headers),
        cmocka_unit_test(test_body_limit),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
