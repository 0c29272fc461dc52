/* Time: see clock.h. */
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t now_ms(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

uint64_t clock_mono_ms(void)
{
    return (uint64_t)now_ms(CLOCK_MONOTONIC);
}

uint64_t clock_mono_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)(t.tv_nsec / 1000);
}

int64_t clock_wall_ms(void)
{
    return now_ms(CLOCK_REALTIME);
}

void clock_rfc3339(int64_t wall_ms, char out[CLOCK_RFC3339_SIZE])
{
    int64_t ms = wall_ms % 1000;
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;

    if (ms < 0) {
        ms += 1000;
        seconds--;
    }
    if (gmtime_r(&seconds, &tm) == NULL || tm.tm_year < -900 || tm.tm_year > 8099) {
        snprintf(out, CLOCK_RFC3339_SIZE, "0000-00-00T00:00:00.000Z");
        return;
    }
    char date[20];
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, CLOCK_RFC3339_SIZE, "%.19s.%03uZ", date, (unsigned)ms % 1000u);
}

/* `text` by a pattern in which 0 stands for any digit. */
static bool has_shape(struct span text, const char *shape)
{
    if (text.n != strlen(shape)) {
        return false;
    }
    for (size_t i = 0; i < text.n; i++) {
        bool digit = text.p[i] >= '0' && text.p[i] <= '9';
        if (shape[i] == '0' ? !digit : text.p[i] != shape[i]) {
            return false;
        }
    }
    return true;
}

static int number(const char *p, size_t n)
{
    int v = 0;

    for (size_t i = 0; i < n; i++) {
        v = v * 10 + (p[i] - '0');
    }
    return v;
}

bool clock_parse(struct span text, int64_t *wall_ms)
{
    static const char *const shapes[] = {"0000-00-00", "0000-00-00T00:00:00Z",
                                         "0000-00-00T00:00:00.0Z", "0000-00-00T00:00:00.00Z",
                                         "0000-00-00T00:00:00.000Z"};
    static const int scale[] = {0, 0, 100, 10, 1};
    size_t shape = 0;

    while (shape < sizeof(shapes) / sizeof(shapes[0]) && !has_shape(text, shapes[shape])) {
        shape++;
    }
    if (shape == sizeof(shapes) / sizeof(shapes[0])) {
        return false;
    }
    const char *p = text.p;
    bool timed = shape > 0;
    struct tm tm = {.tm_year = number(p, 4) - 1900,
                    .tm_mon = number(p + 5, 2) - 1,
                    .tm_mday = number(p + 8, 2),
                    .tm_hour = timed ? number(p + 11, 2) : 0,
                    .tm_min = timed ? number(p + 14, 2) : 0,
                    .tm_sec = timed ? number(p + 17, 2) : 0};
    struct tm wanted = tm;
    time_t seconds = timegm(&tm);
    if (tm.tm_mon != wanted.tm_mon || tm.tm_mday != wanted.tm_mday ||
        tm.tm_hour != wanted.tm_hour || tm.tm_min != wanted.tm_min ||
        tm.tm_sec != wanted.tm_sec) { /* the 31st of February */
        return false;
    }
    *wall_ms = (int64_t)seconds * 1000 + (shape > 1 ? number(p + 20, shape - 1) * scale[shape] : 0);
    return true;
}
