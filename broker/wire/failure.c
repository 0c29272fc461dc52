/*
 * Failures: filled by methods and providers, written as the `error` object of a terminal event.
 * A provider's own words only get in through failure_set_message, which redacts them; and no
 * failure needs an allocation to be told, but for the scratch space of that redaction.
 */
#include "wire/failure.h"

#include "base/json.h"
#include "base/redact.h"
#include "base/text.h"
#include "tactus/protocol.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define RETRY_AFTER_MAX 86400.0

void failure_init(struct failure *f, const char *type, const char *fmt, ...)
{
    va_list ap;
    size_t n = 0;

    *f = (struct failure){.type = type, .retry_after = -1.0};
    va_start(ap, fmt);
    int r = vsnprintf(f->message, sizeof f->message, fmt, ap);
    va_end(ap);
    if (r > 0) {
        n = (size_t)r < FAILURE_MESSAGE_MAX ? (size_t)r : FAILURE_MESSAGE_MAX;
    }
    if ((size_t)n == FAILURE_MESSAGE_MAX) {
        /* Cut: do not leave half a character at the end. */
        size_t start = n;
        while (start > 0 && n - start < 3 &&
               ((unsigned char)f->message[start - 1] & 0xC0) == 0x80) {
            start--;
        }
        if (start > 0 && text_utf8_char(f->message + start - 1, n - (start - 1)) == 0) {
            n = start - 1;
        }
    }
    f->message[n] = '\0';
}

/* Copies `text`, made printable, as much of it as fits. */
static void copy_clean(struct failure *f, struct span text)
{
    size_t n = 0;
    size_t i = 0;

    while (i < text.n) {
        const char *from = text.p + i;
        size_t len = text_utf8_char(from, text.n - i);
        size_t step = len == 0 ? 1 : len;

        if (len == 0) {
            from = "\xEF\xBF\xBD";
            len = 3;
        } else if ((len == 1 && ((unsigned char)*from < 0x20 || *from == 0x7F)) ||
                   (len == 2 && (unsigned char)from[0] == 0xC2 && (unsigned char)from[1] < 0xA0)) {
            from = " ";
            len = 1;
        }
        if (n + len > FAILURE_MESSAGE_MAX) {
            break;
        }
        memcpy(f->message + n, from, len);
        n += len;
        i += step;
    }
    f->message[n] = '\0';
}

void failure_set_message(struct failure *f, const struct redact *r, struct span text)
{
    struct buf clean;

    /* Redacted before it is cut: half a secret would not be recognised. A secret of 4 bytes becomes
     * a mark of 10, so the text can grow; nothing else makes it larger. */
    buf_init(&clean, text.n < SIZE_MAX / 8 ? text.n * 4 + 64 : SIZE_MAX / 2);
    redact_text(r, text, true, &clean);
    if (buf_status(&clean) != ERR_OK) {
        copy_clean(f, SPAN("(the provider's message cannot be shown)"));
    } else {
        copy_clean(f, buf_span(&clean));
    }
    buf_fini(&clean);
}

void failure_from_status(struct failure *f, int status)
{
    static const struct {
        int status;
        const char *type;
        enum failure_flag retryable;
    } map[] = {
        {400, TACTUS_E_API_BAD_REQUEST, FAILURE_NO}, {401, TACTUS_E_API_AUTHENTICATION, FAILURE_NO},
        {403, TACTUS_E_API_PERMISSION, FAILURE_NO},  {404, TACTUS_E_API_NOT_FOUND, FAILURE_NO},
        {408, TACTUS_E_API_TIMEOUT, FAILURE_YES},    {409, TACTUS_E_API_CONFLICT, FAILURE_YES},
        {413, TACTUS_E_API_BAD_REQUEST, FAILURE_NO}, {422, TACTUS_E_API_UNPROCESSABLE, FAILURE_NO},
        {429, TACTUS_E_API_RATE_LIMIT, FAILURE_YES},
    };

    f->status = status;
    f->retryable = FAILURE_NO;
    f->type = TACTUS_E_API_STATUS;
    if (status >= 500) {
        f->type = TACTUS_E_API_SERVER;
        f->retryable = FAILURE_YES;
        return;
    }
    if (status < 400) {
        f->type = TACTUS_E_API_RESPONSE;
        return;
    }
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        if (map[i].status == status) {
            f->type = map[i].type;
            f->retryable = map[i].retryable;
        }
    }
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct span trim(const char *text)
{
    struct span s = span_str(text);

    while (s.n > 0 && (*s.p == ' ' || *s.p == '\t')) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t')) {
        s.n--;
    }
    return s;
}

/* "12" or "1.5"; < 0 when it is neither. */
static double decimal(struct span s)
{
    double v = 0;
    double place = 1;
    bool fraction = false;

    if (s.n == 0 || !is_digit(s.p[0]) || !is_digit(s.p[s.n - 1])) {
        return -1.0;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '.' && !fraction) {
            fraction = true;
        } else if (!is_digit(s.p[i])) {
            return -1.0;
        } else if (fraction) {
            place /= 10;
            v += place * (s.p[i] - '0');
        } else {
            v = v * 10 + (s.p[i] - '0');
        }
    }
    return v;
}

/* The month of a name of three letters, 0-11; 12 when it is none. */
static int month_of(struct span s)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

    for (int i = 0; s.n == 3 && i < 12; i++) {
        if (memcmp(names + (size_t)i * 3, s.p, 3) == 0) {
            return i;
        }
    }
    return 12;
}

/* "HH:MM:SS" into `t`. */
static bool time_of(struct span s, struct tm *t)
{
    uint64_t h = 0;
    uint64_t m = 0;
    uint64_t sec = 0;

    if (s.n != 8 || s.p[2] != ':' || s.p[5] != ':' || !text_u64(span_of(s.p, 2), &h) ||
        !text_u64(span_of(s.p + 3, 2), &m) || !text_u64(span_of(s.p + 6, 2), &sec) || h > 23 ||
        m > 59 || sec > 60) {
        return false;
    }
    t->tm_hour = (int)h;
    t->tm_min = (int)m;
    t->tm_sec = (int)sec;
    return true;
}

/*
 * The three forms of an HTTP date (RFC 9110, 5.6.7) have the same words in different order and
 * with different separators: a month, a time, and two numbers, the day before the year.
 */
static bool http_date(struct span s, int64_t *out)
{
    struct tm t = {.tm_mon = 12, .tm_hour = -1};
    uint64_t number[2] = {0, 0};
    size_t numbers = 0;
    size_t i = 0;

    while (i < s.n) {
        size_t n = strcspn(s.p + i, " ,-\t");
        struct span word = span_of(s.p + i, n < s.n - i ? n : s.n - i);

        if (word.n > 0 && is_digit(word.p[0])) {
            if (t.tm_hour < 0 && time_of(word, &t)) {
                i += word.n + 1;
                continue;
            }
            if (numbers == 2 || !text_u64(word, &number[numbers])) {
                return false;
            }
            numbers++;
        } else if (t.tm_mon == 12) {
            t.tm_mon = month_of(word);
        }
        i += word.n + 1;
    }
    if (numbers != 2 || t.tm_mon == 12 || t.tm_hour < 0 || number[0] < 1 || number[0] > 31 ||
        number[1] > 9999) {
        return false;
    }
    if (number[1] < 100) {
        number[1] += number[1] < 70 ? 2000 : 1900;
    }
    t.tm_mday = (int)number[0];
    t.tm_year = (int)number[1] - 1900;
    *out = (int64_t)timegm(&t);
    return true;
}

double failure_retry_after(const char *retry_after, const char *retry_after_ms, int64_t now_wall_ms)
{
    double seconds = decimal(trim(retry_after_ms));
    int64_t date = 0;

    if (seconds >= 0) {
        seconds /= 1000;
    } else {
        seconds = decimal(trim(retry_after));
    }
    if (seconds < 0 && http_date(trim(retry_after), &date)) {
        seconds = (double)(date * 1000 - now_wall_ms) / 1000;
        seconds = seconds < 0 ? 0 : seconds;
    }
    return seconds > RETRY_AFTER_MAX ? RETRY_AFTER_MAX : seconds;
}

void failure_put_json(const struct failure *f, struct buf *b)
{
    buf_put_str(b, "{\"type\":");
    json_put_string(b, span_str(f->type));
    buf_put_str(b, ",\"message\":");
    json_put_string(b, span_str(f->message));
    if (f->status != 0) {
        buf_printf(b, ",\"status\":%d", f->status);
    }
    if (f->retryable != FAILURE_UNSAID) {
        buf_printf(b, ",\"retryable\":%s", f->retryable == FAILURE_YES ? "true" : "false");
    }
    if (f->retry_after >= 0) {
        buf_put_str(b, ",\"retry_after\":");
        json_put_double(b, f->retry_after);
    }
    if (f->provider[0] != '\0') {
        buf_put_str(b, ",\"provider\":");
        json_put_string(b, span_str(f->provider));
    }
    if (f->request_id[0] != '\0') {
        buf_put_str(b, ",\"request_id\":");
        json_put_string(b, span_str(f->request_id));
    }
    if (f->has_partial) {
        buf_put_str(b, ",\"partial_text_bytes\":");
        json_put_u64(b, f->partial_text_bytes);
    }
    buf_put_char(b, '}');
}
