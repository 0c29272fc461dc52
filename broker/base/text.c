/* UTF-8, patterns and numbers with units: see text.h. Pure. */
#include "base/text.h"

#include <fnmatch.h>
#include <string.h>

#define NANO         UINT64_C(1000000000)
#define NANO_DIGITS  9
#define WHOLE_DIGITS 9 /* so that the whole part in billionths fits */

static bool continuation(unsigned char c)
{
    return (c & 0xc0u) == 0x80u;
}

/* The range of the second byte is what rules out overlong forms, surrogates and too large ones. */
static bool second_byte_ok(unsigned char first, unsigned char second)
{
    switch (first) {
    case 0xe0:
        return second >= 0xa0 && second <= 0xbf;
    case 0xed:
        return second >= 0x80 && second <= 0x9f;
    case 0xf0:
        return second >= 0x90 && second <= 0xbf;
    case 0xf4:
        return second >= 0x80 && second <= 0x8f;
    default:
        return continuation(second);
    }
}

size_t text_utf8_char(const char *p, size_t n)
{
    unsigned char c = (unsigned char)p[0];
    size_t len = 0;

    if (c < 0x80) {
        return 1;
    }
    if (c >= 0xc2 && c <= 0xdf) {
        len = 2;
    } else if (c >= 0xe0 && c <= 0xef) {
        len = 3;
    } else if (c >= 0xf0 && c <= 0xf4) {
        len = 4;
    } else {
        return 0;
    }
    if (n < len || !second_byte_ok(c, (unsigned char)p[1])) {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if (!continuation((unsigned char)p[i])) {
            return 0;
        }
    }
    return len;
}

bool text_utf8_valid(const char *p, size_t n)
{
    size_t i = 0;

    while (i < n) {
        size_t len = text_utf8_char(p + i, n - i);
        if (len == 0) {
            return false;
        }
        i += len;
    }
    return true;
}

size_t text_cut(const char *p, size_t n, size_t max)
{
    if (n <= max) {
        return n;
    }
    while (max > 0 && continuation((unsigned char)p[max])) {
        max--;
    }
    return max;
}

size_t text_utf8_put(char out[4], uint32_t cp)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0u | (cp >> 6));
        out[1] = (char)(0x80u | (cp & 0x3fu));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0u | (cp >> 12));
        out[1] = (char)(0x80u | ((cp >> 6) & 0x3fu));
        out[2] = (char)(0x80u | (cp & 0x3fu));
        return 3;
    }
    out[0] = (char)(0xf0u | (cp >> 18));
    out[1] = (char)(0x80u | ((cp >> 12) & 0x3fu));
    out[2] = (char)(0x80u | ((cp >> 6) & 0x3fu));
    out[3] = (char)(0x80u | (cp & 0x3fu));
    return 4;
}

bool text_glob(const char *pattern, const char *text)
{
    return fnmatch(pattern, text, FNM_NOESCAPE) == 0;
}

bool text_u64(struct span s, uint64_t *out)
{
    uint64_t v = 0;

    if (s.n == 0) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') {
            return false;
        }
        uint64_t digit = (uint64_t)(s.p[i] - '0');
        if (v > (UINT64_MAX - digit) / 10) {
            return false;
        }
        v = v * 10 + digit;
    }
    *out = v;
    return true;
}

int text_hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *p = c == '\0' ? NULL : strchr(digits, c);

    return p == NULL ? -1 : (int)((p - digits) % 16);
}

bool text_hex(struct span s, unsigned char *out, size_t n)
{
    if (s.n != 2 * n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        int high = text_hex_digit(s.p[2 * i]);
        int low = text_hex_digit(s.p[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

void text_put_hex(const unsigned char *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

bool text_nano(const char *text, uint64_t *out, const char **rest)
{
    uint64_t whole = 0;
    uint64_t part = 0;
    size_t digits = 0;
    const char *p = text;

    for (; *p >= '0' && *p <= '9'; p++) {
        whole = whole * 10 + (uint64_t)(*p - '0');
    }
    if (p == text || p - text > WHOLE_DIGITS) {
        return false;
    }
    if (*p == '.') {
        for (p++; *p >= '0' && *p <= '9'; p++) {
            part = digits < NANO_DIGITS ? part * 10 + (uint64_t)(*p - '0') : part;
            digits++;
        }
        if (digits == 0 || digits > NANO_DIGITS) {
            return false;
        }
    }
    for (; digits < NANO_DIGITS; digits++) {
        part *= 10;
    }
    *out = whole * NANO + part;
    *rest = p;
    return true;
}

bool text_size(struct span s, uint64_t *out)
{
    static const struct {
        struct span unit;
        unsigned shift;
    } units[] = {
        {{"KiB", 3}, 10}, {{"MiB", 3}, 20}, {{"GiB", 3}, 30}, {{"KB", 2}, 10},
        {{"MB", 2}, 20},  {{"GB", 2}, 30},  {{"K", 1}, 10},   {{"M", 1}, 20},
        {{"G", 1}, 30},   {{"B", 1}, 0},    {{"", 0}, 0},
    };

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        struct span u = units[i].unit;
        if (s.n <= u.n || memcmp(s.p + s.n - u.n, u.p, u.n) != 0) {
            continue;
        }
        uint64_t v = 0;
        if (!text_u64(span_of(s.p, s.n - u.n), &v) || v > (UINT64_MAX >> units[i].shift)) {
            return false;
        }
        *out = v << units[i].shift;
        return true;
    }
    return false;
}
