/*
 * A profile's name (up to the first NUL, else "default") and a shared file from any bytes, read as
 * either of the two. Holds: a value lies in the text and has no white space around it; without a
 * section of that name there is none; a comment before the text and a foreign section behind it
 * change nothing.
 */
#include "net/aws_profile.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_SIZE 4000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check(const struct aws_profile *p, struct span text)
{
    for (unsigned i = 0; i < AWS_PROFILE_KEYS; i++) {
        struct span v = p->value[i].text;
        if (v.n == 0) {
            continue;
        }
        demand(p->found);
        demand(v.p >= text.p && v.p + v.n <= text.p + text.n);
        demand(strchr(" \t\r\f\v\n", v.p[0]) == NULL || v.p[0] == '\0');
        demand(strchr(" \t\r\f\v\n", v.p[v.n - 1]) == NULL || v.p[v.n - 1] == '\0');
    }
    (void)aws_profile_key_name(aws_profile_unsupported(p));
}

static void same_with_more(struct span text, enum aws_profile_file file, struct span name,
                           const struct aws_profile *p)
{
    static char more[TEXT_SIZE + 128];
    static const char before[] = "; [default]\n";
    static const char behind[] = "\n[foreign\001]\nrole_arn = x\naws_access_key_id = x\n";
    struct aws_profile q = {0};

    memcpy(more, before, sizeof(before) - 1);
    memcpy(more + sizeof(before) - 1, text.p, text.n);
    memcpy(more + sizeof(before) - 1 + text.n, behind, sizeof(behind) - 1);
    aws_profile_read(span_of(more, text.n + sizeof(before) + sizeof(behind) - 2), file, name, &q);
    demand(q.found == p->found);
    for (unsigned i = 0; i < AWS_PROFILE_KEYS; i++) {
        demand(span_eq(q.value[i].text, p->value[i].text));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = {(const char *)data, size};
    struct span name = SPAN("default");
    const char *end = size == 0 ? NULL : memchr(data, '\0', size);

    if (end != NULL) {
        name = span_of(text.p, (size_t)(end - text.p));
        text = span_after(text, name.n + 1);
    }
    for (unsigned file = AWS_PROFILE_CONFIG; file <= AWS_PROFILE_CREDENTIALS; file++) {
        struct aws_profile p = {0};
        aws_profile_read(text, (enum aws_profile_file)file, name, &p);
        check(&p, text);
        bool marked = text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0;
        if (text.n > 0 && text.n <= TEXT_SIZE && !marked && !span_eq(name, SPAN("foreign\001"))) {
            same_with_more(text, (enum aws_profile_file)file, name, &p);
        }
    }
    return 0;
}
