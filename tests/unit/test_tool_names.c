/*
 * Names of tools that a provider would refuse: how they are changed, that they come back, and that
 * nothing else in a request changes.
 */
#include "base/json_span.h"
#include "fixtures/torture.h"
#include "llm/tool_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define ARENA_MAX (8u * 1024u * 1024u)

static struct json_value json(struct span text)
{
    static const struct json_rules rules = {.max_depth = JSON_DEPTH_MAX};
    struct json_value v;
    struct json_fault fault;

    assert_int_equal(json_check_value(text, &rules, &v, &fault), ERR_OK);
    return v;
}

struct bed {
    struct arena arena;
    struct buf text;
    struct tool_names names;
};

static void bed_init(struct bed *bed)
{
    arena_init(&bed->arena, ARENA_MAX);
    buf_init(&bed->text, ARENA_MAX);
}

static void bed_fini(struct bed *bed)
{
    buf_fini(&bed->text);
    arena_fini(&bed->arena);
}

/* Tools of these names (JSON strings without quotes), NULL at the end. */
static enum err read_tools(struct bed *bed, const char *const *names)
{
    struct chat_request r = {.messages = json(SPAN("[]"))};

    buf_clear(&bed->text);
    buf_put_char(&bed->text, '[');
    for (size_t i = 0; names[i] != NULL; i++) {
        buf_printf(&bed->text, "%s{\"function\":{\"name\":\"%s\"}}", i == 0 ? "" : ",", names[i]);
    }
    buf_put_char(&bed->text, ']');
    r.params[CHAT_TOOLS] = json(buf_span(&bed->text));
    return tool_names_read(&r, &bed->arena, &bed->names);
}

static void assert_changed(const struct bed *bed, struct span name, const char *expected)
{
    struct span changed = tool_names_changed(&bed->names, name);

    assert_int_equal(changed.n, strlen(expected));
    assert_memory_equal(changed.p, expected, changed.n);
    assert_true(span_eq(tool_names_original(&bed->names, changed), name));
}

#define SIXTY_FOUR "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-"

static void test_fit(void **state)
{
    const char *const names[] = {"a", "-", "_", SIXTY_FOUR, "\\u0061b", NULL};
    struct bed bed;

    (void)state;
    bed_init(&bed);
    torture_off();
    assert_int_equal(read_tools(&bed, names), ERR_OK);
    assert_int_equal(bed.names.n, 0);
    assert_int_equal(bed.arena.used, 0);
    assert_changed(&bed, SPAN(SIXTY_FOUR), SIXTY_FOUR);
    struct span name = SPAN("x.y");
    assert_ptr_equal(tool_names_changed(NULL, name).p, name.p);
    assert_ptr_equal(tool_names_original(NULL, name).p, name.p);
    bed_fini(&bed);
}

/* Hashes are FNV-1a, 64 bits folded to 32, computed apart from this code. */
static void test_changed(void **state)
{
    char long_name[201];
    const char *const names[] = {
        "github.search",         "a.b", "fit",       "",  long_name, SIXTY_FOUR "x",
        "\xc3\xa9t\xe2\x82\xac", "a b", "a\\u002fb", NULL};
    struct bed bed;

    (void)state;
    memset(long_name, 'x', 200);
    long_name[200] = '\0';
    bed_init(&bed);
    assert_int_equal(read_tools(&bed, names), ERR_OK);
    assert_int_equal(bed.names.n, 8);
    assert_changed(&bed, SPAN("github.search"), "github_search_7baa379a");
    assert_changed(&bed, SPAN("a.b"), "a_b_e27bcb35");
    assert_changed(&bed, SPAN("fit"), "fit");
    assert_changed(&bed, SPAN(""), "_4fd0bfc1");
    assert_changed(&bed, SPAN("\xc3\xa9t\xe2\x82\xac"), "_t__3407f40b");
    assert_changed(&bed, span_str(long_name),
                   "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_c02c10c9");
    assert_changed(&bed, SPAN(SIXTY_FOUR "x"),
                   "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRS_7832a3f2");
    assert_changed(&bed, SPAN("a b"), "a_b_e2bca18b");
    assert_changed(&bed, SPAN("a/b"), "a_b_e2480c78");
    assert_changed(&bed, SPAN("unknown.name"), "unknown.name");
    for (size_t i = 0; i < bed.names.n; i++) {
        assert_true(bed.names.items[i].changed.n <= TOOL_NAME_MAX);
    }
    bed_fini(&bed);
}

/* The same whatever else is there, and in whatever order. */
static void test_same_way(void **state)
{
    const char *const one[] = {"z.z", "a.b", "z.z", NULL};
    const char *const two[] = {"a.b", "c d", "m", "z.z", NULL};
    struct bed first;
    struct bed second;

    (void)state;
    bed_init(&first);
    bed_init(&second);
    assert_int_equal(read_tools(&first, one), ERR_OK);
    assert_int_equal(read_tools(&second, two), ERR_OK);
    assert_int_equal(first.names.n, 2);
    assert_int_equal(second.names.n, 3);
    assert_true(span_eq(tool_names_changed(&first.names, SPAN("a.b")),
                        tool_names_changed(&second.names, SPAN("a.b"))));
    assert_true(span_eq(tool_names_changed(&first.names, SPAN("z.z")),
                        tool_names_changed(&second.names, SPAN("z.z"))));
    bed_fini(&first);
    bed_fini(&second);
}

/* A fit name that is just what another would become; and names whose hashes are equal. */
static void test_collisions(void **state)
{
    const char *const taken[] = {"a.b", "a_b_e27bcb35", NULL};
    const char *const alike[] = {"a.b:c+d/e!f:z", "a.b@c@d@e!f+z", NULL};
    struct bed bed;

    (void)state;
    bed_init(&bed);
    assert_int_equal(read_tools(&bed, taken), ERR_OK);
    assert_int_equal(bed.names.n, 1);
    assert_changed(&bed, SPAN("a_b_e27bcb35"), "a_b_e27bcb35");
    assert_changed(&bed, SPAN("a.b"), "a_b_1340f0f5");
    bed_fini(&bed);
    bed_init(&bed);
    assert_int_equal(read_tools(&bed, alike), ERR_OK);
    assert_int_equal(bed.names.n, 2);
    assert_changed(&bed, SPAN("a.b:c+d/e!f:z"), "a_b_c_d_e_f_z_84f146ae");
    assert_changed(&bed, SPAN("a.b@c@d@e!f+z"), "a_b_c_d_e_f_z_37499af9");
    bed_fini(&bed);
}

static void test_limit(void **state)
{
    struct chat_request r = {.messages = json(SPAN("[]"))};
    struct bed bed;

    (void)state;
    for (int over = 0; over <= 1; over++) {
        bed_init(&bed);
        buf_put_char(&bed.text, '[');
        for (int i = 0; i < 4096 + over; i++) {
            /* twice each: different ones count */
            buf_printf(&bed.text, "%s{\"function\":{\"name\":\"a.%d\",\"name\":\"a.%d\"}}",
                       i == 0 ? "" : ",", i, i);
        }
        buf_put_char(&bed.text, ']');
        r.params[CHAT_TOOLS] = json(buf_span(&bed.text));
        bed.names = (struct tool_names){.n = 77};
        assert_int_equal(tool_names_read(&r, &bed.arena, &bed.names), over ? ERR_LIMIT : ERR_OK);
        assert_int_equal(bed.names.n, over ? 77 : 4096);
        for (size_t i = 0; !over && i < bed.names.n; i++) {
            const struct tool_name *name = &bed.names.items[i];
            assert_true(span_eq(tool_names_changed(&bed.names, name->original), name->changed));
            assert_true(span_eq(tool_names_original(&bed.names, name->changed), name->original));
        }
        bed_fini(&bed);
    }
}

/* ---- where names are ---- */

struct put_row {
    enum tool_names_place which;
    const char *before;
    const char *after;
};

/* Single quotes stand for double ones. */
static void quotes(const char *text, struct buf *b)
{
    buf_clear(b);
    for (; *text != '\0'; text++) {
        buf_put_char(b, *text == '\'' ? '"' : *text);
    }
}

#define NEW "'a_b_e27bcb35'"

static const struct put_row rows[] = {
    {TOOL_NAMES_TOOLS,
     "[ {'function' : {'name' : 'a.b' , 'description':'a.b','parameters':{'name':'a.b'}},"
     "'type':'function','name':'a.b'}, {'function':{'name':'fit'}}, 7, {'function':7} ]",
     "[ {'function' : {'name' : " NEW " , 'description':'a.b','parameters':{'name':'a.b'}},"
     "'type':'function','name':'a.b'}, {'function':{'name':'fit'}}, 7, {'function':7} ]"},
    {TOOL_NAMES_TOOLS,
     "[{'f\\u0075nction':{'n\\u0061me':'a\\u002Eb','x':1.0}},{'function':{'name':'f\\u0069t'}}"
     "]",
     "[{'f\\u0075nction':{'n\\u0061me':" NEW ",'x':1.0}},{'function':{'name':'f\\u0069t'}}]"},
    {TOOL_NAMES_TOOLS, "[]", "[]"},
    {TOOL_NAMES_TOOLS, "{'function':{'name':'a.b'}}", "{'function':{'name':'a.b'}}"},
    {TOOL_NAMES_TOOLS, "[{'function':{'name':'a.b'}},{'function':{'name':['a.b']}}]",
     "[{'function':{'name':" NEW "}},{'function':{'name':['a.b']}}]"},
    {TOOL_NAMES_CHOICE, "'auto'", "'auto'"},
    {TOOL_NAMES_CHOICE, "{'type':'function','function':{'name':'a.b'}}",
     "{'type':'function','function':{'name':" NEW "}}"},
    {TOOL_NAMES_CHOICE,
     "{'allowed_tools':{'mode':'auto','tools':[{'function':{'name':'a.b'}}]},'name':'a.b'}",
     "{'allowed_tools':{'mode':'auto','tools':[{'function':{'name':" NEW "}}]},'name':'a.b'}"},
    {TOOL_NAMES_MESSAGES,
     "[{'role':'user','name':'a.b','content':'a.b'},7,{'role':'assistant','name':'a.b',"
     "'tool_calls':[{'id':'a.b','function':{'name':'a.b','arguments':'a.b'}},{'function':"
     "{'arguments':'','name':'a\\u002eb'}}],'function_call':{'name':'a.b'}},"
     "{'name':'a.b','role':'tool','tool_call_id':'a.b'},{'role':'function','name':'a.b'}]",
     "[{'role':'user','name':'a.b','content':'a.b'},7,{'role':'assistant','name':'a.b',"
     "'tool_calls':[{'id':'a.b','function':{'name':" NEW ",'arguments':'a.b'}},{'function':"
     "{'arguments':'','name':" NEW "}}],'function_call':{'name':" NEW "}},"
     "{'name':" NEW ",'role':'tool','tool_call_id':'a.b'},{'role':'function','name':" NEW "}]"},
    /* keys that come again: all of them, so that whichever counts is right */
    {TOOL_NAMES_MESSAGES, "[{'role':'tool','name':'a.b','name':'a.b','name':7}]",
     "[{'role':'tool','name':" NEW ",'name':" NEW ",'name':7}]"},
};

static void test_put(void **state)
{
    struct tool_name name = {SPAN("a.b"), SPAN("a_b_e27bcb35")};
    struct tool_names names = {&name, 1};
    struct tool_names none = {NULL, 0};
    struct buf before;
    struct buf after;
    struct buf out;

    (void)state;
    buf_init(&before, 4096);
    buf_init(&after, 4096);
    buf_init(&out, 4096);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        quotes(rows[i].before, &before);
        quotes(rows[i].after, &after);
        struct json_value v = json(buf_span(&before));

        buf_clear(&out);
        tool_names_put(&names, rows[i].which, v, &out);
        assert_string_equal(buf_cstr(&out), buf_cstr(&after));
        buf_clear(&out);
        tool_names_put(&none, rows[i].which, v, &out);
        assert_string_equal(buf_cstr(&out), buf_cstr(&before));
        buf_clear(&out);
        tool_names_put(NULL, rows[i].which, v, &out);
        assert_string_equal(buf_cstr(&out), buf_cstr(&before));
    }
    buf_fini(&before);
    buf_fini(&after);
    buf_fini(&out);
}

/* Each place is looked at. */
static void test_read_places(void **state)
{
    static const char *const messages[] = {
        "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"a.b\"}}]}]",
        "[{\"role\":\"assistant\",\"function_call\":{\"name\":\"a.b\"}}]",
        "[{\"name\":\"a.b\",\"role\":\"tool\"}]",
        "[{\"name\":\"a.b\",\"role\":\"function\"}]",
    };
    static const char *const fit[] = {
        "[{\"name\":\"a.b\",\"role\":\"user\"}]",
        "[{\"name\":\"a.b\",\"role\":\"assistant\"}]",
        "[{\"name\":\"a.b\"},{\"role\":7,\"name\":\"a.b\"},{\"role\":\"tool\",\"name\":7}]",
        "[]",
    };
    struct chat_request r = {.messages = json(SPAN("[]"))};
    struct bed bed;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        bed_init(&bed);
        r.messages = json(span_str(messages[i]));
        assert_int_equal(tool_names_read(&r, &bed.arena, &bed.names), ERR_OK);
        assert_int_equal(bed.names.n, 1);
        assert_changed(&bed, SPAN("a.b"), "a_b_e27bcb35");
        r.messages = json(span_str(fit[i]));
        assert_int_equal(tool_names_read(&r, &bed.arena, &bed.names), ERR_OK);
        assert_int_equal(bed.names.n, 0);
        bed_fini(&bed);
    }
    bed_init(&bed);
    r.params[CHAT_TOOL_CHOICE] = json(SPAN("{\"function\":{\"name\":\"a.b\"}}"));
    assert_int_equal(tool_names_read(&r, &bed.arena, &bed.names), ERR_OK);
    assert_int_equal(bed.names.n, 1);
    bed_fini(&bed);
}

/* ---- trouble ---- */

/* A buffer that has room for `max` bytes: the text is whole, or the buffer says so. */
static void test_put_limit(void **state)
{
    struct tool_name name = {SPAN("a.b"), SPAN("a_b_e27bcb35")};
    struct tool_names names = {&name, 1};
    struct json_value v = json(SPAN("{\"function\":{\"name\":\"a\\u002eb\"},\"z\":1}"));
    static const char whole[] = "{\"function\":{\"name\":\"a_b_e27bcb35\"},\"z\":1}";
    struct buf b;

    (void)state;
    for (size_t max = 1; max < sizeof(whole) + 4; max++) {
        buf_init(&b, max);
        tool_names_put(&names, TOOL_NAMES_CHOICE, v, &b);
        assert_int_equal(buf_status(&b), max < sizeof(whole) - 1 ? ERR_LIMIT : ERR_OK);
        buf_fini(&b);
        /* what failed before stays failed */
        buf_init(&b, max);
        buf_put(&b, whole, sizeof(whole) - 1);
        buf_put(&b, whole, sizeof(whole) - 1);
        assert_int_equal(buf_status(&b), ERR_LIMIT);
        tool_names_put(&names, TOOL_NAMES_CHOICE, v, &b);
        assert_int_equal(buf_status(&b), ERR_LIMIT);
        buf_fini(&b);
    }
}

static void test_allocation_failures(void **state)
{
    struct chat_request r = {
        .messages = json(SPAN("[{\"role\":\"tool\",\"name\":\"a\\u002eb\"}]")),
        .params = {[CHAT_TOOLS] = json(SPAN("[{\"function\":{\"name\":\"c.d\"}}]"))}};
    size_t n = 0;

    (void)state;
    for (;; n++) {
        struct tool_names names = {.n = 77};
        struct arena a;
        struct buf b;

        arena_init(&a, ARENA_MAX);
        buf_init(&b, 4096);
        torture_fail_after(n);
        enum err err = tool_names_read(&r, &a, &names);
        if (err == ERR_OK) {
            tool_names_put(&names, TOOL_NAMES_MESSAGES, r.messages, &b);
            err = buf_status(&b);
        } else {
            assert_int_equal(names.n, 77);
        }
        size_t used = torture_count();
        torture_off();
        buf_fini(&b);
        arena_fini(&a);
        if (used <= n) {
            assert_int_equal(err, ERR_OK);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
    }
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_changed),
        cmocka_unit_test(test_same_way),
        cmocka_unit_test(test_collisions),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_put),
        cmocka_unit_test(test_read_places),
        cmocka_unit_test(test_put_limit),
        cmocka_unit_test(test_allocation_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
