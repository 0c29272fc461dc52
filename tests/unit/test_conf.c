/*
 * YAML through a table: every type with its bounds and its messages, positions, defaults, what is
 * refused (unknown, duplicate and missing keys, anchors, aliases, tags, depth, a second document),
 * and lack of memory at every allocation. No message has a secret or a text from the file.
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
#include <unistd.h>

struct item {
    char *name;
    struct conf_list words;
    struct conf_list keys;
};

struct part {
    uint64_t big;
    uint64_t size;
    uint32_t wait;
    uint32_t pause;
};

struct whole {
    unsigned count;
    bool flag;
    int pick;
    unsigned mode;
    char *text;
    char *url;
    struct conf_secret secret;
    struct conf_list items;
    struct part part;
};

static const char *const PICKS[] = {"one", "two", "three", NULL};
static const char *const WEB[] = {"http", "https", NULL};

static const struct conf_key ITEM_KEYS[] = {
    {CONF_FIELD("name", struct item, name), .type = CONF_NAME, .required = true},
    {CONF_FIELD("words", struct item, words), .type = CONF_LIST_OF_STRING, .max = 3},
    {CONF_FIELD("keys", struct item, keys), .type = CONF_LIST_OF_SECRET, .min = 1, .max = 2},
};
static const struct conf_map ITEM = {ITEM_KEYS, 3, sizeof(struct item), false};

static const struct conf_key PART_KEYS[] = {
    {CONF_FIELD("big", struct part, big), .type = CONF_UINT, .max = UINT64_MAX, .fallback = "7"},
    {CONF_FIELD("size", struct part, size), .type = CONF_SIZE, .min = 1, .max = 1 << 20,
     .fallback = "64KiB"},
    {CONF_FIELD("wait", struct part, wait), .type = CONF_DURATION, .min = 1, .max = 86400000,
     .fallback = "1.5"},
    {CONF_FIELD("pause", struct part, pause), .type = CONF_DURATION, .max = UINT32_MAX},
};
static const struct conf_map PART = {PART_KEYS, 4, sizeof(struct part), false};

static const struct conf_key WHOLE_KEYS[] = {
    {CONF_FIELD("count", struct whole, count), .type = CONF_UINT, .min = 1, .max = 256,
     .fallback = "3"},
    {CONF_FIELD("flag", struct whole, flag), .type = CONF_BOOL, .fallback = "true"},
    {CONF_FIELD("pick", struct whole, pick), .type = CONF_ENUM, .choices = PICKS,
     .fallback = "two"},
    {CONF_FIELD("mode", struct whole, mode), .type = CONF_MODE, .fallback = "0660"},
    {CONF_FIELD("text", struct whole, text), .type = CONF_STRING, .max = 10, .fallback = "default"},
    {CONF_FIELD("url", struct whole, url), .type = CONF_URL, .choices = WEB},
    {CONF_FIELD("secret", struct whole, secret), .type = CONF_SECRET},
    {CONF_FIELD("items", struct whole, items), .type = CONF_LIST_OF_MAP, .map = &ITEM, .max = 4},
    {CONF_FIELD("part", struct whole, part), .type = CONF_MAP, .map = &PART},
};
static const struct conf_map WHOLE = {WHOLE_KEYS, 9, sizeof(struct whole), false};

static struct whole w;
static struct conf_doc *doc;

static void parse(const char *text)
{
    struct error e = {.code = ERR_OK, .msg = "untouched"};

    memset(&w, 0, sizeof(w));
    enum err err = conf_parse("f.yml", text, strlen(text), &WHOLE, &w, &doc, &e);
    if (err != ERR_OK) {
        print_error("%s\n", e.msg);
    }
    assert_int_equal(err, ERR_OK);
    assert_string_equal(e.msg, "untouched");
    assert_non_null(doc);
}

static void done(void)
{
    conf_fini(&WHOLE, &w);
    conf_doc_free(doc);
    doc = NULL;
}

static void fails_n(const char *text, size_t n, const char *want)
{
    struct error e = {.code = ERR_OK};

    memset(&w, 0, sizeof(w));
    assert_int_equal(conf_parse("f.yml", text, n, &WHOLE, &w, &doc, &e), ERR_CONFIG);
    assert_null(doc);
    assert_int_equal(e.code, ERR_CONFIG);
    assert_string_equal(e.msg, want);
    conf_fini(&WHOLE, &w);
    assert_int_equal(conf_parse("f.yml", text, n, &WHOLE, &w, &doc, NULL), ERR_CONFIG);
    conf_fini(&WHOLE, &w);
}

static void fails(const char *text, const char *want)
{
    fails_n(text, strlen(text), want);
}

static void check_defaults(void)
{
    assert_int_equal(w.count, 3);
    assert_true(w.flag);
    assert_int_equal(w.pick, 1);
    assert_int_equal(w.mode, 0660);
    assert_string_equal(w.text, "default");
    assert_null(w.url);
    assert_int_equal(w.secret.kind, CONF_SECRET_NONE);
    assert_int_equal(w.items.n, 0);
    assert_int_equal(w.part.big, 7);
    assert_int_equal(w.part.size, 65536);
    assert_int_equal(w.part.wait, 1500);
    assert_int_equal(w.part.pause, 0);
}

static void test_defaults(void **state)
{
    (void)state;
    static const char *const empty[] = {"",          "# nothing\n",    "{}",
                                        "---\n{}\n", "---\n{}\n...\n", "\xEF\xBB\xBF{}\n"};

    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
        parse(empty[i]);
        check_defaults();
        assert_false(conf_has(doc, &w, "count"));
        assert_false(conf_has(doc, &w, "part"));
        done();
    }
    memset(&w, 0, sizeof(w));
    assert_int_equal(conf_defaults(&WHOLE, &w, NULL), ERR_OK);
    check_defaults();
    conf_fini(&WHOLE, &w);
    assert_null(w.text);
}

static void test_everything(void **state)
{
    (void)state;

    parse("count: 256\nflag: false\npick: three\nmode: \"0600\"\ntext: 'a b'\n"
          "url: https://h.example:8443/v1//\nsecret: { env: X_Y }\n"
          "items:\n  - name: a\n    words: [x, 'y z', 7]\n    keys:\n    - file: /k\n    - env: E\n"
          "  - { name: B.-_9 }\n"
          "part: { big: 18446744073709551615, size: 1MiB, wait: 24h, pause: 0 }\n");
    assert_int_equal(w.count, 256);
    assert_false(w.flag);
    assert_int_equal(w.pick, 2);
    assert_int_equal(w.mode, 0600);
    assert_string_equal(w.text, "a b");
    assert_string_equal(w.url, "https://h.example:8443/v1");
    assert_int_equal(w.secret.kind, CONF_SECRET_ENV);
    assert_string_equal(w.secret.source, "X_Y");
    assert_int_equal(w.items.n, 2);
    const struct item *items = w.items.items;
    assert_string_equal(items[0].name, "a");
    assert_int_equal(items[0].words.n, 3);
    assert_string_equal(((char **)items[0].words.items)[1], "y z");
    assert_string_equal(((char **)items[0].words.items)[2], "7");
    const struct conf_secret *keys = items[0].keys.items;
    assert_int_equal(items[0].keys.n, 2);
    assert_int_equal(keys[0].kind, CONF_SECRET_FILE);
    assert_string_equal(keys[0].source, "/k");
    assert_int_equal(keys[1].kind, CONF_SECRET_ENV);
    assert_string_equal(items[1].name, "B.-_9");
    assert_int_equal(items[1].words.n, 0);
    assert_true(w.part.big == UINT64_MAX);
    assert_int_equal(w.part.size, 1 << 20);
    assert_int_equal(w.part.wait, 86400000);
    assert_true(conf_has(doc, &items[0], "keys"));
    assert_false(conf_has(doc, &items[1], "keys"));
    assert_true(conf_has(doc, &w.part, "big"));
    done();
}

/* JSON is YAML. */
static void test_json_text(void **state)
{
    (void)state;

    parse("{\n \"count\": 5,\n \"text\": \"a\\/b\",\n \"items\": [{\"name\": \"x\", \"words\": "
          "[\"*\"]}],\n \"part\": {\"wait\": 0.5, \"size\": 4096}\n}");
    assert_int_equal(w.count, 5);
    assert_string_equal(w.text, "a/b");
    assert_int_equal(w.part.wait, 500);
    assert_int_equal(w.part.size, 4096);
    done();
}

static void duration(const char *value, uint32_t want)
{
    char text[64];

    assert_true(snprintf(text, sizeof(text), "part: { pause: %s }", value) > 0);
    parse(text);
    assert_int_equal(w.part.pause, want);
    done();
}

static void test_durations(void **state)
{
    (void)state;
    static const char *const wrong[] = {"-1",
                                        "1x",
                                        ".5",
                                        "5.",
                                        "1.0000",
                                        "s",
                                        "1 s",
                                        "1ms",
                                        "0x10",
                                        "1.5.5",
                                        "1e3",
                                        "1,5",
                                        "ss",
                                        "1.s",
                                        "50d",
                                        "9999999999",
                                        "18446744073709552",
                                        "99999999999999999999",
                                        "4294967.296"};

    duration("0", 0);
    duration("0.001", 1);
    duration("0.05", 50);
    duration("1.5", 1500);
    duration("30s", 30000);
    duration("'2m'", 120000);
    duration("1.5h", 5400000);
    duration("2d", 172800000);
    duration("4294967.295", UINT32_MAX);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char text[64];
        char want[200];
        assert_true(snprintf(text, sizeof(text), "part: { pause: %s }",
                             strchr(wrong[i], ',') != NULL ? "'1,5'" : wrong[i]) > 0);
        assert_true(snprintf(want, sizeof(want),
                             "f.yml:1:16: part.pause: is \"%s\", expected a time from 0.000 to "
                             "4294967 seconds, such as 30, 0.5 or 10m",
                             wrong[i]) > 0);
        fails(text, want);
    }
    fails("part:\n  wait: 0\n",
          "f.yml:2:9: part.wait: is \"0\", expected a time from 0.001 to 86400 "
          "seconds, such as 30, 0.5 or 10m");
}

static void test_wrong_scalars(void **state)
{
    (void)state;
    static const char n[] = ", expected a whole number from 1 to 256";
    static const char *const counts[] = {
        "0", "257", "-1", "1.0", "010", "+1", "x", "1_0", "18446744073709551616"};
    char text[128];
    char want[256];

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        assert_true(snprintf(text, sizeof(text), "count: %s", counts[i]) > 0);
        assert_true(snprintf(want, sizeof(want), "f.yml:1:8: count: is \"%s\"%s", counts[i], n) >
                    0);
        fails(text, want);
    }
    fails("count: '5'",
          "f.yml:1:8: count: is a text in quotes, expected a whole number from 1 to 256");
    fails("count:", "f.yml:1:7: count: has no value, expected a whole number from 1 to 256");
    fails("count: [1]", "f.yml:1:8: count: is a list, expected a whole number from 1 to 256");
    fails("count: {a: 1}", "f.yml:1:8: count: is a map, expected a whole number from 1 to 256");
    fails("flag: yes", "f.yml:1:7: flag: is \"yes\", expected true or false");
    fails("flag: True", "f.yml:1:7: flag: is \"True\", expected true or false");
    fails("flag: 'true'", "f.yml:1:7: flag: is a text in quotes, expected true or false");
    fails("flag: ~", "f.yml:1:7: flag: has no value, expected true or false");
    fails("pick: Two", "f.yml:1:7: pick: is \"Two\", expected one of one, two, three");
    fails("mode: '0999'",
          "f.yml:1:7: mode: is \"0999\", expected a file mode of octal digits, such "
          "as \"0660\"");
    fails("mode: '1000'",
          "f.yml:1:7: mode: is \"1000\", expected a file mode of octal digits, such "
          "as \"0660\"");
    fails("mode: '00660'", "f.yml:1:7: mode: is \"00660\", expected a file mode of octal digits, "
                           "such as \"0660\"");
    fails("part: {size: 0}", "f.yml:1:14: part.size: is \"0\", expected a size from 1 to 1048576 "
                             "bytes, such as 4096 or 64KiB");
    fails("part: {size: 1048577}", "f.yml:1:14: part.size: is \"1048577\", expected a size from 1 "
                                   "to 1048576 bytes, such as 4096 or 64KiB");
    fails("part: {size: 1 MiB}", "f.yml:1:14: part.size: is \"1 MiB\", expected a size from 1 to "
                                 "1048576 bytes, such as 4096 or 64KiB");
    fails(
        "pick: \"a\\nb\xC3\xBC 5678901234567890123456789012345678901234567890\"",
        "f.yml:1:7: pick: is \"a?b?? 56789012345678901234567890123456789012...\", expected one of "
        "one, two, three");
}

/* Texts are never shown: one may be a secret in the wrong place. */
static void test_wrong_texts(void **state)
{
    (void)state;

    parse("text: 1234567890");
    done();
    parse("text: 'null'");
    assert_string_equal(w.text, "null");
    done();
    fails("text: ''", "f.yml:1:7: text: is empty, expected a text");
    fails("text: null", "f.yml:1:7: text: has no value, expected a text");
    fails("text: 12345678901", "f.yml:1:7: text: is too long, expected a text");
    fails("text: \"a\\0b\"", "f.yml:1:7: text: has a control character, expected a text");
    fails("text: |\n  ab\n", "f.yml:1:7: text: has a control character, expected a text");
    fails("items: [{name: 'a b'}]", "f.yml:1:16: items[0].name: has a character that a name cannot "
                                    "have, expected a name of 1 to 63 of the characters A-Z a-z "
                                    "0-9 _ . -");
    fails("items: [{name: ''}]", "f.yml:1:16: items[0].name: is empty, expected a name of 1 to 63 "
                                 "of the characters A-Z a-z 0-9 _ . -");
    parse("items: [{name: "
          "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff123}]");
    done();
    fails(
        "items: [{name: aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff1234}]",
        "f.yml:1:16: items[0].name: is too long, expected a name of 1 to 63 of the characters A-Z "
        "a-z 0-9 _ . -");
}

static void url(const char *value, const char *what)
{
    char text[128];
    char want[256];

    assert_true(snprintf(text, sizeof(text), "url: \"%s\"", value) > 0);
    if (what == NULL) {
        parse(text);
        size_t n = strlen(value);
        while (value[n - 1] == '/') {
            n--;
        }
        assert_int_equal(strlen(w.url), n);
        assert_memory_equal(w.url, value, n);
        done();
        return;
    }
    assert_true(snprintf(want, sizeof(want),
                         "f.yml:1:6: url: %s, expected a URL (http://HOST, "
                         "https://HOST) without user, query and fragment",
                         what) > 0);
    fails(text, want);
}

static void test_urls(void **state)
{
    (void)state;
    static const char chars[] = "has a character that this URL cannot have";
    static const char host[] = "has no good host or port";

    url("http://h", NULL);
    url("https://h/", NULL);
    url("https://h///", NULL);
    url("http://127.0.0.1:1/v1", NULL);
    url("http://[::1]:65535/v1/x/", NULL);
    url("http://[::1]", NULL);
    url("", "is empty");
    url("h", "is no such URL");
    url("ftp://h", "is no such URL");
    url("HTTP://h", "is no such URL");
    url("http:/h", "is no such URL");
    url("http://", "is no such URL");
    url("http:///x", host);
    url("http://:80", host);
    url("http://h:", host);
    url("http://h:0", host);
    url("http://h:65536", host);
    url("http://h:8x", host);
    url("http://a:b:1", host);
    url("http://[]", host);
    url("http://[::1", host);
    url("http://[::1]x", host);
    url("http://user:pass@h", chars);
    url("http://h?key=x", chars);
    url("http://h#x", chars);
    url("http://h x", chars);
    url("http://h\\n", "has a control character");
}

static void test_secrets(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"sk-canary", "is a single value"},
        {"[sk-canary]", "is a list"},
        {"", "has no value"},
        {"{}", "is no secret reference"},
        {"{sk-canary: 1}", "is no secret reference"},
        {"{env: A, file: B}", "is no secret reference"},
        {"{env: A, env: B}", "is no secret reference"},
        {"{[env]: A}", "is no secret reference"},
        {"{env: }", "names no variable"},
        {"{env: ''}", "names no variable"},
        {"{env: 'sk-canary=x'}", "names no variable"},
        {"{env: [sk-canary]}", "names no variable"},
        {"{file: ''}", "names no file"},
        {"{file: \"sk-canary\\n\"}", "names no file"},
    };

    parse("secret: {file: a=b}");
    assert_string_equal(w.secret.source, "a=b");
    done();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char text[128];
        char want[160];
        assert_true(snprintf(text, sizeof(text), "secret: %s", wrong[i][0]) > 0);
        assert_true(snprintf(want, sizeof(want),
                             "f.yml:1:%d: secret: %s, expected { env: NAME }, { file: PATH }, { "
                             "credential: NAME } or { command: [PROGRAM] }",
                             wrong[i][0][0] == '\0' ? 8 : 9, wrong[i][1]) > 0);
        fails(text, want);
        assert_null(strstr(want, "canary"));
    }
    fails("items:\n- name: x\n  keys: [{env: A}, sk-canary]",
          "f.yml:3:20: items[0].keys[1]: is a single value, expected { env: NAME }, { file: PATH "
          "}, { credential: NAME } or { command: [PROGRAM] }");
}

static void test_keys(void **state)
{
    (void)state;

    fails("count: 1\nkount: 2\n",
          "f.yml:2:1: kount: is an unknown key, expected one of count, flag, "
          "pick, mode, text, url, secret, items, part");
    fails("part:\n  big: 1\n  <<: 2\n",
          "f.yml:3:3: part.<<: is an unknown key, expected one of big, size, wait, pause");
    fails("part: {[a]: 1}", "f.yml:1:8: part.?: is no key, expected one of big, size, wait, pause");
    fails("count: 1\nflag: true\ncount: 1\n", "f.yml:3:1: count: is given twice, expected it once");
    fails("items: [{name: a}, {name: b, name: b}]",
          "f.yml:1:30: items[1].name: is given twice, expected it once");
    fails("items:\n  - name: a\n  - words: []\n",
          "f.yml:3:5: items[1].name: is missing, expected a name of 1 to 63 of the characters A-Z "
          "a-z 0-9 _ . -");
    fails("part:\n", "f.yml:1:6: part: has no value, expected a map");
    fails("part: []\n", "f.yml:1:7: part: is a list, expected a map");
    fails("part: x\n", "f.yml:1:7: part: is a single value, expected a map");
    fails("[]\n", "f.yml:1:1: file: is a list, expected a map");
    fails("x\n", "f.yml:1:1: file: is a single value, expected a map");
}

static void test_lists(void **state)
{
    (void)state;

    parse("items: []");
    assert_int_equal(w.items.n, 0);
    done();
    parse("items: [{name: a}, {name: a}, {name: a}, {name: a}]");
    done();
    fails("items: [{name: a}, {name: a}, {name: a}, {name: a}, {name: a}]",
          "f.yml:1:8: items: has 5 items, expected a list of 0 to 4 maps");
    fails("items: [{name: a, keys: []}]",
          "f.yml:1:25: items[0].keys: has 0 items, expected a list of 1 to 2 secrets");
    fails("items: {name: a}", "f.yml:1:8: items: is a map, expected a list of 0 to 4 maps");
    fails("items: [a]", "f.yml:1:9: items[0]: is a single value, expected a map");
    fails("items: [{name: a, words: [a, {b: c}]}]",
          "f.yml:1:30: items[0].words[1]: is a map, expected a text");
    fails("items: [{name: a, words: [a, '']}]",
          "f.yml:1:30: items[0].words[1]: is empty, expected a text");
    fails("items: [{name: a, words: x}]",
          "f.yml:1:26: items[0].words: is a single value, expected a list of 0 to 3 texts");
}

static void test_refused_yaml(void **state)
{
    (void)state;

    fails("count: &a 1\n", "f.yml:1:8: yaml: an anchor (&name), expected the value itself");
    fails("part: &a {}\n", "f.yml:1:7: yaml: an anchor (&name), expected the value itself");
    fails("items: &a []\n", "f.yml:1:8: yaml: an anchor (&name), expected the value itself");
    fails("count: *a\n", "f.yml:1:8: yaml: an alias (*name), expected the value itself");
    fails("count: !!int 1\n", "f.yml:1:8: yaml: a tag (!name), expected the value itself");
    fails("part: !x {}\n", "f.yml:1:7: yaml: a tag (!name), expected the value itself");
    fails("count: 1\n---\ncount: 2\n", "f.yml:2:1: yaml: a second document, expected one");
}

/* Twelve levels may be open; how many more there are makes no difference in time or stack. */
static void test_depth(void **state)
{
    (void)state;
    static char text[200000];

    fails("x: [[[[[[[[[[[1]]]]]]]]]]]\n",
          "f.yml:1:1: x: is an unknown key, expected one of count, flag, pick, mode, text, url, "
          "secret, items, part");
    fails("x: [[[[[[[[[[[[1]]]]]]]]]]]]\n",
          "f.yml:1:15: yaml: maps and lists too deep in each other, expected 12 at most");
    memset(text, '[', sizeof(text) - 1);
    fails(text, "f.yml:1:13: yaml: maps and lists too deep in each other, expected 12 at most");
    for (size_t i = 0; i + 2 < sizeof(text); i += 2) {
        memcpy(text + i, "- ", 2);
    }
    fails(text, "f.yml:1:25: yaml: maps and lists too deep in each other, expected 12 at most");
}

/* Nine lists of nine aliases each would be 3 GB. */
static void test_alias_bomb(void **state)
{
    (void)state;

    fails("a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n",
          "f.yml:1:4: yaml: an anchor (&name), expected the value itself");
    fails("a: [x]\nb: [*a,*a]\n", "f.yml:2:5: yaml: an alias (*name), expected the value itself");
}

static void test_broken_yaml(void **state)
{
    (void)state;

    fails("count: 1\n\tflag: true\n", "f.yml:2:1: yaml: found a tab character that violates "
                                      "indentation while scanning a plain scalar, expected "
                                      "well-formed YAML");
    fails("count: [1\n", "f.yml:2:1: yaml: did not find expected ',' or ']' while parsing a flow "
                         "sequence, expected well-formed YAML");
    fails("count: 1\ntext: \"a\xFF\"\n",
          "f.yml:2:9: yaml: invalid leading UTF-8 octet, expected well-formed YAML");
    fails_n("count: 1\n\0", 10,
            "f.yml:2:1: yaml: control characters are not allowed, expected well-formed YAML");
}

static void test_size_limit(void **state)
{
    (void)state;
    char *text = malloc(CONF_MAX_BYTES + 1);

    assert_non_null(text);
    memset(text, '#', CONF_MAX_BYTES + 1);
    memset(&w, 0, sizeof(w));
    assert_int_equal(conf_parse("f.yml", text, CONF_MAX_BYTES, &WHOLE, &w, &doc, NULL), ERR_OK);
    done();
    fails_n(text, CONF_MAX_BYTES + 1, "f.yml:1:1: file: has more than 1 MiB, expected less");
    free(text);
}

static void test_long_file_name(void **state)
{
    (void)state;
    char name[600];
    struct error e = {.code = ERR_OK};

    memset(name, 'n', sizeof(name));
    memcpy(name + sizeof(name) - 7, "/f.yml", 7);
    memset(&w, 0, sizeof(w));
    assert_int_equal(conf_parse(name, "count: 0", 8, &WHOLE, &w, &doc, &e), ERR_CONFIG);
    assert_non_null(
        strstr(e.msg, "n/f.yml:1:8: count: is \"0\", expected a whole number from 1 to"));
    conf_fini(&WHOLE, &w);
}

static void fault_is(const void *base, const char *key, const char *want)
{
    struct error e = {.code = ERR_OK};

    assert_int_equal(conf_fault(doc, base, key, &e, "is %d", 5), ERR_CONFIG);
    assert_string_equal(e.msg, want);
}

static void test_fault(void **state)
{
    (void)state;

    parse("items:\n  - name: a\n  - name: b\n    keys:\n      - env: X\npart: {\n  big: 2 }\n");
    struct item *items = w.items.items;
    fault_is(&items[1], "name", "f.yml:3:11: items[1].name: is 5");
    fault_is(&items[1], "keys", "f.yml:5:7: items[1].keys: is 5");
    fault_is(&items[0], "keys", "f.yml:2:5: items[0].keys: is 5"); /* not there: its map */
    fault_is(&w.part, "big", "f.yml:7:8: part.big: is 5");
    fault_is(&w.part, "wait", "f.yml:6:7: part.wait: is 5");
    fault_is(&w, "items", "f.yml:2:3: items: is 5");
    fault_is(&w, "count", "f.yml:1:1: count: is 5");
    done();
}

static void test_load(void **state)
{
    (void)state;
    char path[] = "/tmp/test_conf.XXXXXX";
    char *text = NULL;
    size_t n = 0;
    struct error e = {.code = ERR_OK};
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(conf_load(path, &text, &n, &e), ERR_OK);
    assert_int_equal(n, 0);
    free(text);
    assert_int_equal(write(fd, "count: 1", 8), 8);
    assert_int_equal(conf_load(path, &text, &n, &e), ERR_OK);
    assert_int_equal(n, 8);
    assert_memory_equal(text, "count: 1", 8);
    free(text);
    text = NULL;
    assert_int_equal(ftruncate(fd, CONF_MAX_BYTES), 0);
    assert_int_equal(conf_load(path, &text, &n, &e), ERR_OK);
    assert_int_equal(n, CONF_MAX_BYTES);
    free(text);
    text = NULL;
    assert_int_equal(ftruncate(fd, CONF_MAX_BYTES + 1), 0);
    assert_int_equal(conf_load(path, &text, &n, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "more than 1 MiB"));
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(conf_load(path, &text, &n, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "No such file"));
    assert_int_equal(conf_load("/", &text, &n, &e), ERR_CONFIG);
    torture_fail_after(0);
    assert_int_equal(conf_load("/", &text, &n, &e), ERR_NOMEM);
    torture_off();
    assert_null(text);
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char text[] = "text: ab\nurl: http://h/\nsecret: {env: A}\nitems:\n"
                               "- {name: a, words: [x, y], keys: [{env: X}, {file: Y}]}\n"
                               "- {name: b, words: [z]}\npart: {big: 1}\n";
    struct error e;

    for (size_t n = 0;; n++) {
        memset(&w, 0, sizeof(w));
        torture_fail_after(n);
        enum err err = conf_parse("f.yml", text, sizeof(text) - 1, &WHOLE, &w, &doc, &e);
        torture_off();
        conf_fini(&WHOLE, &w);
        conf_doc_free(doc);
        if (err == ERR_OK) {
            assert_true(n > 12);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
        assert_null(doc);
    }
    doc = NULL;
    for (size_t n = 0; n < 3; n++) {
        memset(&w, 0, sizeof(w));
        torture_fail_after(n);
        assert_int_equal(conf_defaults(&WHOLE, &w, &e), ERR_NOMEM);
        torture_off();
        conf_fini(&WHOLE, &w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),      cmocka_unit_test(test_everything),
        cmocka_unit_test(test_json_text),     cmocka_unit_test(test_durations),
        cmocka_unit_test(test_wrong_scalars), cmocka_unit_test(test_wrong_texts),
        cmocka_unit_test(test_urls),          cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_keys),          cmocka_unit_test(test_lists),
        cmocka_unit_test(test_refused_yaml),  cmocka_unit_test(test_depth),
        cmocka_unit_test(test_alias_bomb),    cmocka_unit_test(test_broken_yaml),
        cmocka_unit_test(test_size_limit),    cmocka_unit_test(test_long_file_name),
        cmocka_unit_test(test_fault),         cmocka_unit_test(test_load),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
