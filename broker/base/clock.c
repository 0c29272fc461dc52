/* Time: see clock.h. */
#include "base/clock.h"

#include <stdio.h>
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
