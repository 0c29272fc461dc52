/*
 * Reading the shared files: see aws_profile.h. One pass, line by line, nothing copied: values are
 * spans of the text. A value that goes on over several lines is the span up to the end of the last
 * one, which no key of ours survives.
 */
#include "net/aws_profile.h"

#include <strings.h>

static const char *const key_names[AWS_PROFILE_KEYS] = {
    [AWS_PROFILE_ACCESS_KEY_ID] = "aws_access_key_id",
    [AWS_PROFILE_SECRET_ACCESS_KEY] = "aws_secret_access_key",
    [AWS_PROFILE_SESSION_TOKEN] = "aws_session_token",
    [AWS_PROFILE_ROLE_ARN] = "role_arn",
    [AWS_PROFILE_WEB_IDENTITY_TOKEN_FILE] = "web_identity_token_file",
    [AWS_PROFILE_SSO_SESSION] = "sso_session",
    [AWS_PROFILE_SSO_START_URL] = "sso_start_url",
    [AWS_PROFILE_SSO_ACCOUNT_ID] = "sso_account_id",
    [AWS_PROFILE_LOGIN_SESSION] = "login_session",
    [AWS_PROFILE_CREDENTIAL_PROCESS] = "credential_process"};

struct reader {
    enum aws_profile_file file;
    struct span name;
    struct aws_profile result; /* of this file alone */
    bool inside;               /* a section of that name */
    bool prefixed;             /* [profile default] was seen: [default] is nothing then */
    bool in_key;               /* there is a key that a deeper line can belong to */
    size_t indent;             /* of that key */
    enum aws_profile_key key;  /* AWS_PROFILE_KEYS: one that we do not know */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static struct span trim(struct span s)
{
    while (s.n > 0 && is_blank(s.p[0])) {
        s = span_after(s, 1);
    }
    while (s.n > 0 && is_blank(s.p[s.n - 1])) {
        s.n--;
    }
    return s;
}

/* Without a comment at its end. */
static struct span uncomment(struct span s)
{
    for (size_t i = 0; i < s.n; i++) {
        if ((s.p[i] == '#' || s.p[i] == ';') && (i == 0 || is_blank(s.p[i - 1]))) {
            s.n = i;
        }
    }
    return trim(s);
}

static struct span unquote(struct span s)
{
    if (s.n >= 2 && (s.p[0] == '"' || s.p[0] == '\'') && s.p[s.n - 1] == s.p[0]) {
        return span_of(s.p + 1, s.n - 2);
    }
    return s;
}

/* A section's header, without its brackets. */
static void begin_section(struct reader *r, struct span header)
{
    static const struct span word = {"profile", 7};
    struct span name = trim(header);
    bool prefix =
        name.n > word.n && is_blank(name.p[word.n]) && span_eq(span_of(name.p, word.n), word);

    r->inside = false;
    if (r->file == AWS_PROFILE_CREDENTIALS) {
        r->inside = !prefix && span_eq(name, r->name);
    } else if (prefix) {
        r->inside = span_eq(unquote(trim(span_after(name, word.n))), r->name);
    } else if (span_eq(name, SPAN("default"))) {
        r->inside = span_eq(name, r->name) && !r->prefixed;
    }
    if (r->inside && prefix && !r->prefixed) {
        r->prefixed = true;
        r->result = (struct aws_profile){.found = true}; /* what [default] said is forgotten */
    }
    r->result.found = r->result.found || r->inside;
}

static enum aws_profile_key find_key(struct span name)
{
    for (unsigned i = 0; i < AWS_PROFILE_KEYS; i++) {
        if (name.n == strlen(key_names[i]) && strncasecmp(name.p, key_names[i], name.n) == 0) {
            return (enum aws_profile_key)i;
        }
    }
    return AWS_PROFILE_KEYS;
}

static void read_key(struct reader *r, struct span line)
{
    const char *equals = memchr(line.p, '=', line.n);
    struct span name = equals == NULL ? line : trim(span_of(line.p, (size_t)(equals - line.p)));

    if (equals == NULL || name.n == 0) {
        return;
    }
    r->in_key = true;
    r->key = find_key(name);
    if (r->inside && r->key != AWS_PROFILE_KEYS) {
        struct span value = span_after(line, (size_t)(equals - line.p) + 1);
        r->result.value[r->key] = (struct aws_profile_value){uncomment(value), r->file};
    }
}

/* `line`: a deeper one, trimmed. */
static void continue_key(struct reader *r, struct span line)
{
    if (!r->inside || r->key == AWS_PROFILE_KEYS) {
        return;
    }
    struct span *value = &r->result.value[r->key].text;
    if (value->n > 0) {
        value->n = (size_t)(line.p + line.n - value->p);
    }
}

static void read_line(struct reader *r, struct span raw)
{
    struct span line = trim(raw);

    if (line.n == 0 || line.p[0] == '#' || line.p[0] == ';') {
        return;
    }
    size_t indent = (size_t)(line.p - raw.p);
    if (r->in_key && indent > r->indent) {
        continue_key(r, line);
        return;
    }
    r->in_key = false;
    r->indent = indent;
    if (line.p[0] == '[') {
        const char *end = memchr(line.p, ']', line.n);
        r->inside = false;
        if (end != NULL) {
            begin_section(r, span_of(line.p + 1, (size_t)(end - line.p) - 1));
        }
        return;
    }
    read_key(r, line);
}

/* Id, secret and token are of one file: a token beside another file's keys is none of theirs. */
static void merge(struct aws_profile *p, const struct aws_profile *file)
{
    if (file->value[AWS_PROFILE_ACCESS_KEY_ID].text.n > 0 ||
        file->value[AWS_PROFILE_SECRET_ACCESS_KEY].text.n > 0) {
        for (unsigned i = 0; i <= AWS_PROFILE_SESSION_TOKEN; i++) {
            p->value[i] = (struct aws_profile_value){0};
        }
    }
    for (unsigned i = 0; i < AWS_PROFILE_KEYS; i++) {
        if (file->value[i].text.n > 0) {
            p->value[i] = file->value[i];
        }
    }
    p->found = p->found || file->found;
}

void aws_profile_read(struct span text, enum aws_profile_file file, struct span name,
                      struct aws_profile *p)
{
    struct reader r = {.file = file, .name = name};
    struct span bom = SPAN("\xef\xbb\xbf");

    if (text.n >= bom.n && span_eq(span_of(text.p, bom.n), bom)) {
        text = span_after(text, bom.n);
    }
    while (text.n > 0) {
        const char *end = memchr(text.p, '\n', text.n);
        size_t n = end == NULL ? text.n : (size_t)(end - text.p);
        read_line(&r, span_of(text.p, n));
        text = span_after(text, end == NULL ? n : n + 1);
    }
    merge(p, &r.result);
}

const char *aws_profile_key_name(enum aws_profile_key key)
{
    return key < AWS_PROFILE_KEYS ? key_names[key] : "";
}

enum aws_profile_key aws_profile_unsupported(const struct aws_profile *p)
{
    bool keys = p->value[AWS_PROFILE_ACCESS_KEY_ID].text.n > 0;

    for (unsigned i = AWS_PROFILE_ROLE_ARN; i < AWS_PROFILE_KEYS; i++) {
        bool harmless = keys && i == AWS_PROFILE_CREDENTIAL_PROCESS;
        if (p->value[i].text.n > 0 && !harmless) {
            return (enum aws_profile_key)i;
        }
    }
    return AWS_PROFILE_KEYS;
}
