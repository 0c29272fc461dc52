/*
 * base/conf: a map with free keys, and one top-level map in a file that is somebody else's. Values
 * as texts, messages with positions, what the rest of such a file may have, a file cut at every
 * byte, lack of memory at every allocation.
 */
#include "base/conf.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ours {
    struct conf_list env;
    struct conf_list few;
    char *word;
};

struct file {
    struct ours ours;
};

static const struct conf_key OURS_KEYS[] = {
    {CONF_FIELD("env", struct ours, env), .type = CONF_MAP_OF_STRING, .max = 1000,
     .nullable = true},
    {CONF_FIELD("few", struct ours, few), .type = CONF_MAP_OF_STRING, .min = 1, .max = 2},
    {CONF_FIELD("word", struct ours, word), .type = CONF_STRING},
};
static const struct conf_map OURS = {OURS_KEYS, 3, sizeof(struct ours), false};
static const struct conf_key FILE_KEYS[] = {
    {CONF_FIELD("ours", struct file, ours), .type = CONF_MAP, .map = &OURS, .nullable = true},
};
static const struct conf_map OPEN = {FILE_KEYS, 1, sizeof(struct file), true};
static const struct conf_map CLOSED = {FILE_KEYS, 1, sizeof(struct file), false};

static struct file f;
static struct conf_doc *doc;

static void parse_n(const struct conf_map *map, const char *text, size_t n)
{
    struct error e = {.code = ERR_OK};

    memset(&f, 0, sizeof(f));
    enum err err = conf_parse("f.yml", text, n, map, &f, &doc, &e);
    if (err != ERR_OK) {
        print_error("%s\n", e.msg);
    }
    assert_int_equal(err, ERR_OK);
    assert_non_null(doc);
}

static void parse(const char *text)
{
    parse_n(&OPEN, text, strlen(text));
}

static void done(void)
{
    conf_fini(&OPEN, &f);
    assert_null(f.ours.env.items);
    assert_int_equal(f.ours.env.n, 0);
    conf_doc_free(doc);
    doc = NULL;
}

static void fails(const struct conf_map *map, const char *text, const char *want)
{
    struct error e = {.code = ERR_OK};

    memset(&f, 0, sizeof(f));
    assert_int_equal(conf_parse("f.yml", text, strlen(text), map, &f, &doc, &e), ERR_CONFIG);
    assert_null(doc);
    assert_string_equal(e.msg, want);
    conf_fini(&OPEN, &f);
}

static void assert_pair(size_t i, const char *name, const char *value)
{
    const struct conf_pair *pairs = f.ours.env.items;

    assert_true(i < f.ours.env.n);
    assert_string_equal(pairs[i].name, name);
    assert_string_equal(pairs[i].value, value);
}

/* ---- a map with free keys ---- */

static void test_scalars_are_texts(void **state)
{
    (void)state;
    parse("ours:\n"
          "  env:\n"
          "    DEBUG: 1\n"
          "    on: true\n"
          "    PRICE: 0.10\n"
          "    OCTAL: 0010\n"
          "    NOTHING:\n"
          "    TILDE: ~\n"
          "    NULL_: null\n"
          "    quoted: \"~\"\n"
          "    'empty': ''\n"
          "    LINES: |\n"
          "      one\n"
          "      two\n"
          "    TAB: \"a\\tb\\e\"\n"
          "    a b=c: \" = \"\n"
          "    \xc3\xa9: \"\xe2\x82\xac\"\n"
          "    7: seven\n"
          "    3.5: x\n");
    assert_int_equal(f.ours.env.n, 15);
    assert_pair(0, "DEBUG", "1");
    assert_pair(1, "on", "true");
    assert_pair(2, "PRICE", "0.10");
    assert_pair(3, "OCTAL", "0010");
    assert_pair(4, "NOTHING", "");
    assert_pair(5, "TILDE", "");
    assert_pair(6, "NULL_", "");
    assert_pair(7, "quoted", "~");
    assert_pair(8, "empty", "");
    assert_pair(9, "LINES", "one\ntwo\n");
    assert_pair(10, "TAB", "a\tb\x1b");
    assert_pair(11, "a b=c", " = ");
    assert_pair(12, "\xc3\xa9", "\xe2\x82\xac");
    assert_pair(13, "7", "seven");
    assert_pair(14, "3.5", "x");
    done();
}

static void test_empty_maps(void **state)
{
    static const char *const none[] = {
        "ours: { env: {} }", "ours: { env: ~ }", "ours:\n  env:\n", "ours:\n", "{}", ""};

    (void)state;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        parse(none[i]);
        assert_int_equal(f.ours.env.n, 0);
        done();
    }
    parse("ours: { env: {}, few: { a: b } }");
    assert_int_equal(f.ours.few.n, 1);
    assert_true(conf_has(doc, &f.ours, "env"));
    assert_false(conf_has(doc, &f.ours, "word"));
    done();
}

static void test_faults(void **state)
{
    (void)state;
    fails(&OPEN, "ours:\n  env:\n    A: 1\n    A: 2\n",
          "f.yml:4:5: ours.env.A: is given twice, expected it once");
    fails(&OPEN, "ours: { env: { 1: a, '1': b } }",
          "f.yml:1:22: ours.env.1: is given twice, expected it once");
    fails(&OPEN, "ours:\n  env: [ A ]\n",
          "f.yml:2:8: ours.env: is a list, expected a map of 0 to 1000 keys");
    fails(&OPEN, "ours: { env: A }",
          "f.yml:1:14: ours.env: is a single value, expected a map of 0 to 1000 keys");
    fails(&OPEN, "ours: { few: {} }",
          "f.yml:1:14: ours.few: has 0 keys, expected a map of 1 to 2 keys");
    fails(&OPEN, "ours: { few: { a: 1, b: 2, c: 3 } }",
          "f.yml:1:14: ours.few: has 3 keys, expected a map of 1 to 2 keys");
    fails(&OPEN, "ours: { few: ~ }",
          "f.yml:1:14: ours.few: has no value, expected a map of 1 to 2 keys");
    fails(&OPEN, "ours:\n  env:\n    A:\n      - secret\n",
          "f.yml:4:7: ours.env.A: is a list, expected a text");
    fails(&OPEN, "ours: { env: { A: { secret: 1 } } }",
          "f.yml:1:19: ours.env.A: is a map, expected a text");
    fails(&OPEN, "ours: { env: { ? [ a ] : b } }",
          "f.yml:1:18: ours.env.?: is no key, expected a name");
    fails(&OPEN, "ours: { env: { '': b } }",
          "f.yml:1:16: ours.env.?: its name is empty, expected a text");
    fails(&OPEN, "ours: { env: { \"a\\nb\": c } }",
          "f.yml:1:16: ours.env.?: its name has a control character, expected a text");
    fails(&OPEN, "ours: { env: { A: \"x\\0secret\" } }",
          "f.yml:1:19: ours.env.A: has a NUL, expected a text");
}

/* Long and strange names are shown short and printable. */
static void test_shown_names(void **state)
{
    char text[8000];
    char name[5001];

    (void)state;
    memset(name, 'n', 4096);
    name[4096] = '\0';
    snprintf(text, sizeof(text), "ours: { env: { ? %s : [] } }", name);
    fails(&OPEN, text,
          "f.yml:1:4117: ours.env.nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...: is a list, "
          "expected a text");
    snprintf(text, sizeof(text), "ours: { env: { ? %s : x } }", name);
    parse(text);
    assert_pair(0, name, "x");
    done();
    memset(name, 'n', 4097);
    name[4097] = '\0';
    snprintf(text, sizeof(text), "ours: { env: { ? %s : x } }", name);
    fails(&OPEN, text, "f.yml:1:18: ours.env.?: its name is too long, expected a text");
    fails(&OPEN, "ours: { env: { \xc3\xa9: [] } }",
          "f.yml:1:19: ours.env.\?\?: is a list, expected a text");
}

/* The caller's own rule about a name or a value points at the pair. */
static void test_fault_of_a_pair(void **state)
{
    struct error e = {.code = ERR_OK};

    (void)state;
    parse("x: 1\nours:\n  env:\n    A: 1\n    B-: secret\n");
    const struct conf_pair *pairs = f.ours.env.items;
    assert_int_equal(conf_fault(doc, &pairs[1], pairs[1].name, &e, "is %s", "odd"), ERR_CONFIG);
    assert_string_equal(e.msg, "f.yml:5:9: ours.env.B-: is odd");
    assert_true(conf_has(doc, &pairs[0], "A"));
    assert_int_equal(conf_fault(doc, &f.ours, "env", &e, "is odd"), ERR_CONFIG);
    assert_string_equal(e.msg, "f.yml:4:5: ours.env: is odd");
    done();
}

static void test_as_many_as_allowed(void **state)
{
    char *text = malloc(20000);
    size_t n = 0;

    (void)state;
    assert_non_null(text);
    n += (size_t)snprintf(text, 20000, "ours:\n  env:\n");
    for (int i = 0; i < 1000; i++) {
        n += (size_t)snprintf(text + n, 20000 - n, "    V%d: %d\n", i, i);
    }
    parse(text);
    assert_int_equal(f.ours.env.n, 1000);
    assert_pair(999, "V999", "999");
    done();
    snprintf(text + n, 20000 - n, "    V1000: x\n");
    fails(&OPEN, text, "f.yml:3:5: ours.env: has 1001 keys, expected a map of 0 to 1000 keys");
    free(text);
}

/* ---- one map of somebody else's file ---- */

static void test_the_rest_is_left_alone(void **state)
{
    static const char *const files[] = {
        "name: x\nours: { word: w }\n",
        "ours: { word: w }\nours2: { word: 3 }\nword: { ours: 1 }\n",
        "base: &b { a: 1 }\nother: *b\nours: { word: w }\nlist: [ *b, &c 1, *c ]\n",
        "<<: { x: 1 }\nmine: !include other.yml\nbin: !!binary aGk=\nours: { word: w }\n",
        "deep: [[[[[[[[[[[[[[[[[[[[ &x {a: [[ 1 ]] } ]]]]]]]]]]]]]]]]]]]]\nours: { word: w }\n",
        "a: 1\na: 2\n? [ 1, 2 ]\n: pair\n? { x: 1 }\n: pair\nours: { word: w }\n",
        "a: &a\n  ours: { word: 1 }\nb:\n  - ours: *a\n  - x\nours: { word: w }\n",
        "{ a: &a [], b: { c: *a }, 'ours': { \"word\": w }, d: *a }",
        "---\na: &a |\n  ours:\n    word: x\nours:\n  word: w\n...\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        parse(files[i]);
        assert_non_null(f.ours.word);
        assert_string_equal(f.ours.word, "w");
        done();
    }
    parse("name: x\n");
    assert_null(f.ours.word);
    assert_false(conf_has(doc, &f, "ours"));
    done();
}

/* In our own part everything is as strict as ever, whatever stands around it. */
static void test_ours_is_strict(void **state)
{
    (void)state;
    fails(&OPEN, "a: &a w\nours: { word: *a }\n",
          "f.yml:2:15: yaml: an alias (*name), expected the value itself");
    fails(&OPEN, "a: &a { word: w }\nours: *a\n",
          "f.yml:2:7: yaml: an alias (*name), expected the value itself");
    fails(&OPEN, "a: [ 1 ]\nours: { word: &a w }\n",
          "f.yml:2:15: yaml: an anchor (&name), expected the value itself");
    fails(&OPEN, "ours: &a { word: w }\nb: *a\n",
          "f.yml:1:7: yaml: an anchor (&name), expected the value itself");
    fails(&OPEN, "ours: { word: !!str w }\n",
          "f.yml:1:15: yaml: a tag (!name), expected the value itself");
    fails(&OPEN, "ours: { word: w, [ a ]: b, env: [[[[[[[[[[[1]]]]]]]]]]] }\n",
          "f.yml:1:43: yaml: maps and lists too deep in each other, expected 12 at most");
    fails(&OPEN, "ours: { wrod: w }\n",
          "f.yml:1:9: ours.wrod: is an unknown key, expected one of env, few, word");
    fails(&OPEN, "ours: { word: w }\nours: { word: w }\n",
          "f.yml:2:1: ours: is given twice, expected it once");
    /* A key cannot be ours by an alias. */
    fails(&OPEN, "a: &k ours\n*k : { word: &x w }\n",
          "f.yml:2:1: yaml: an alias (*name), expected the value itself");
    fails(&OPEN, "&k ours: { word: w }\n",
          "f.yml:1:1: yaml: an anchor (&name), expected the value itself");
    fails(&OPEN, "? [ &a 1 ]\n: x\n",
          "f.yml:1:5: yaml: an anchor (&name), expected the value itself");
    /* Nor is a list a file with keys and values. */
    fails(&OPEN, "[ a, &b c ]\n", "f.yml:1:6: yaml: an anchor (&name), expected the value itself");
    fails(&OPEN, "- a\n- b\n", "f.yml:1:1: file: is a list, expected a map");
    fails(&OPEN, "&a { x: y }\n", "f.yml:1:1: yaml: an anchor (&name), expected the value itself");
}

static void test_the_rest_is_yaml(void **state)
{
    (void)state;
    fails(&OPEN, "ours: { word: w }\n---\nx: y\n",
          "f.yml:2:1: yaml: a second document, expected one");
    fails(&OPEN, "a: *nowhere\n",
          "f.yml:1:4: yaml: found undefined alias, expected well-formed YAML");
    fails(&OPEN, "a: [ 1\nours: { word: w }\n",
          "f.yml:2:5: yaml: did not find expected ',' or ']' while parsing a flow sequence, "
          "expected well-formed YAML");
}

/* A file whose map is not open stays as strict as it was. */
static void test_closed(void **state)
{
    (void)state;
    fails(&CLOSED, "a: &a 1\n", "f.yml:1:4: yaml: an anchor (&name), expected the value itself");
    fails(&CLOSED, "a: 1\n", "f.yml:1:1: a: is an unknown key, expected one of ours");
    fails(&CLOSED, "a: [[[[[[[[[[[[1]]]]]]]]]]]]\n",
          "f.yml:1:15: yaml: maps and lists too deep in each other, expected 12 at most");
}

static void test_depth_of_the_rest(void **state)
{
    static char text[200000];
    int n = snprintf(text, sizeof(text), "x: ");

    (void)state;
    memset(text + n, '[', 63);
    memset(text + n + 63, ']', 63);
    snprintf(text + n + 126, 100, "\nours: { word: w }\n");
    parse(text);
    assert_string_equal(f.ours.word, "w");
    done();
    memset(text + n, '[', 64);
    memset(text + n + 64, ']', 64);
    text[n + 128] = '\0';
    fails(&OPEN, text,
          "f.yml:1:67: yaml: maps and lists too deep in each other, expected 64 at most");
    memset(text + n, '[', sizeof(text) - 1 - (size_t)n);
    fails(&OPEN, text,
          "f.yml:1:67: yaml: maps and lists too deep in each other, expected 64 at most");
}

/* Nine lists of nine aliases each, nine times: no node is read twice. */
static void test_alias_bomb_of_the_rest(void **state)
{
    char text[2000];
    size_t n = (size_t)snprintf(text, sizeof(text), "a0: &a0 [x,x,x,x,x,x,x,x,x]\n");

    (void)state;
    for (int i = 1; i < 10; i++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "a%d: &a%d [", i, i);
        for (int k = 0; k < 9; k++) {
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s*a%d", k == 0 ? "" : ",", i - 1);
        }
        n += (size_t)snprintf(text + n, sizeof(text) - n, "]\n");
    }
    snprintf(text + n, sizeof(text) - n, "ours: { word: w }\n");
    parse(text);
    assert_string_equal(f.ours.word, "w");
    done();
}

/* ---- every byte, every allocation ---- */

static const char whole[] = "first: &a [ 1, { x: !t y } ]\n"
                            "ours:\n"
                            "  env: { A: 1, B: \"two\\n\", C: ~ }\n"
                            "  few: { D: d }\n"
                            "  word: w\n"
                            "last: *a\n";

static void test_cut_anywhere(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof(whole); n++) {
        char *text = malloc(n + 1); /* of this very size, for the address sanitizer */
        struct error e = {.code = ERR_OK};
        assert_non_null(text);
        memcpy(text, whole, n);
        memset(&f, 0, sizeof(f));
        enum err err = conf_parse("f.yml", text, n, &OPEN, &f, &doc, &e);
        assert_true(err == ERR_OK || (err == ERR_CONFIG && doc == NULL));
        assert_true(err == ERR_OK || strncmp(e.msg, "f.yml:", 6) == 0);
        conf_fini(&OPEN, &f);
        conf_doc_free(doc);
        doc = NULL;
        free(text);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    for (size_t n = 0;; n++) {
        struct error e = {.code = ERR_OK};
        memset(&f, 0, sizeof(f));
        torture_fail_after(n);
        enum err err = conf_parse("f.yml", whole, sizeof(whole) - 1, &OPEN, &f, &doc, &e);
        torture_off();
        if (err == ERR_OK) {
            assert_true(n > 10);
            assert_pair(1, "B", "two\n");
            done();
            return;
        }
        assert_int_equal(err, ERR_NOMEM);
        assert_null(doc);
        conf_fini(&OPEN, &f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars_are_texts),
        cmocka_unit_test(test_empty_maps),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_shown_names),
        cmocka_unit_test(test_fault_of_a_pair),
        cmocka_unit_test(test_as_many_as_allowed),
        cmocka_unit_test(test_the_rest_is_left_alone),
        cmocka_unit_test(test_ours_is_strict),
        cmocka_unit_test(test_the_rest_is_yaml),
        cmocka_unit_test(test_closed),
        cmocka_unit_test(test_depth_of_the_rest),
        cmocka_unit_test(test_alias_bomb_of_the_rest),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
