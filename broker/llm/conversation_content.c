/*
 * What a message says: a string, or a list of parts. Texts stay where they are; of an inline image
 * the media type and the base64 text are found.
 */
#include "llm/conversation_private.h"

#include <strings.h>

static bool base64_char(unsigned char c)
{
    return (unsigned)((c | 0x20) - 'a') < 26 || (unsigned)(c - '0') < 10 || c == '+' || c == '/';
}

/* Not empty, the usual alphabet, at most two `=` at its end. */
static bool base64(struct span s)
{
    size_t n = s.n;
    bool good = true;

    while (n > 0 && s.n - n < 2 && s.p[n - 1] == '=') {
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        good = base64_char((unsigned char)s.p[i]) && good;
    }
    return n > 0 && good;
}

/* image/… of the characters of a media type, and nothing behind it. */
static bool image_type(struct span s)
{
    if (s.n <= strlen("image/") || strncasecmp(s.p, "image/", strlen("image/")) != 0) {
        return false;
    }
    for (size_t i = strlen("image/"); i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool good = (unsigned)((c | 0x20) - 'a') < 26 || (unsigned)(c - '0') < 10 || c == '+' ||
                    c == '-' || c == '.' || c == '_';
        if (!good) {
            return false;
        }
    }
    return true;
}

/* As providers want it: in small letters, and image/jpeg for the image/jpg that many write. */
static enum err media_type(struct reader *r, struct span given, struct span *out)
{
    void *p = NULL;
    enum err err = reader_alloc(r, given.n, &p);

    if (err != ERR_OK) {
        return err;
    }
    char *small = p;
    for (size_t i = 0; i < given.n; i++) {
        small[i] = given.p[i];
        if (given.p[i] >= 'A' && given.p[i] <= 'Z') {
            small[i] = (char)(given.p[i] | 0x20);
        }
    }
    *out = span_of(small, given.n);
    if (span_eq(*out, SPAN("image/jpg"))) {
        *out = SPAN("image/jpeg");
    }
    return ERR_OK;
}

static bool begins(struct span s, const char *with)
{
    return s.n >= strlen(with) && strncasecmp(s.p, with, strlen(with)) == 0;
}

/* data:MEDIA;base64,DATA, or an address. */
static enum err read_url(struct reader *r, struct where w, const char *member,
                         struct json_value value, struct part *part)
{
    struct span url;
    enum err err = reader_text(r, value, &url);

    if (err != ERR_OK) {
        return err;
    }
    if (begins(url, "http://") || begins(url, "https://")) {
        part->url = value;
        return ERR_OK;
    }
    if (begins(url, "data:")) {
        struct span rest = span_after(url, strlen("data:"));
        const char *semicolon = memchr(rest.p, ';', rest.n);
        size_t n = semicolon == NULL ? rest.n : (size_t)(semicolon - rest.p);
        struct span type = span_of(rest.p, n);
        struct span tail = span_after(rest, n);
        if (image_type(type) && begins(tail, ";base64,")) {
            part->data = span_after(tail, strlen(";base64,"));
            if (base64(part->data)) {
                return media_type(r, type, &part->media_type);
            }
        }
    }
    return reader_expected(r, w, member, "an http or https URL, or data:image/...;base64,...");
}

static enum err read_image(struct reader *r, struct where w, const struct json_members *m,
                           struct buf *parts)
{
    struct json_value image = json_get(m, "image_url");
    struct json_members inner;
    struct part part = {.kind = PART_IMAGE, .message = r->message};
    struct json_value url = image;
    const char *member = "image_url";

    if (image.type == JSON_OBJECT) {
        enum err err = reader_members(r, w, "image_url", image, &inner);
        if (err != ERR_OK) {
            return err;
        }
        url = json_get(&inner, "url");
        member = "image_url.url";
    }
    if (url.type != JSON_STRING) {
        return reader_expected(r, w, member,
                               image.type == JSON_OBJECT ? "a string" : "a string or an object");
    }
    enum err err = read_url(r, w, member, url, &part);
    buf_put(parts, &part, err == ERR_OK ? sizeof(part) : 0);
    return err == ERR_OK ? buf_status(parts) : err;
}

static enum err put_text(struct reader *r, struct json_value text, struct buf *parts)
{
    struct part part = {.kind = PART_TEXT, .message = r->message, .text = text};

    if (text.text.n > 2) {
        buf_put(parts, &part, sizeof(part));
    }
    return buf_status(parts);
}

static enum err read_item(struct reader *r, struct where w, struct json_value item, bool images,
                          struct buf *parts)
{
    struct json_members m;
    struct json_value type;
    struct json_value text;
    enum err err = reader_members(r, w, NULL, item, &m);

    if (err == ERR_OK) {
        err = reader_string(r, w, &m, "type", &type);
    }
    if (err != ERR_OK) {
        return err;
    }
    const bool refusal = json_string_is(type, "refusal");
    if (refusal || json_string_is(type, "text")) {
        err = reader_string(r, w, &m, refusal ? "refusal" : "text", &text);
        return err == ERR_OK ? put_text(r, text, parts) : err;
    }
    if (json_string_is(type, "image_url")) {
        return images ? read_image(r, w, &m, parts)
                      : reader_bad(r, w, ": only a user or a tool may give an image");
    }
    struct span name = reader_excerpt(r, type);
    return reader_bad(r, w, ": type is %.*s, which is not supported (expected text%s)", (int)name.n,
                      name.p, images ? " or image_url" : "");
}

enum err reader_content(struct reader *r, struct json_value content, bool images, struct buf *parts)
{
    struct where w = {.top = "messages", .in_top = true, .i = r->message};
    struct json_value item;
    size_t cursor = 0;
    enum err err = ERR_OK;

    if (content.type == JSON_STRING) {
        return put_text(r, content, parts);
    }
    if (content.type != JSON_ARRAY) {
        return reader_expected(r, w, "content", "a string or a list of parts");
    }
    w.list = "content";
    for (; err == ERR_OK && json_array_next(content, &cursor, &item); w.j++) {
        err = read_item(r, w, item, images, parts);
    }
    return err;
}
