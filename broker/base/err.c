/* Error details: formatting into a fixed array, never allocating. Called from everywhere. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void PRINTF_LIKE(4, 0)
    fill(struct error *e, enum err code, int sys, const char *fmt, va_list ap)
{
    e->code = code;
    e->sys = sys;
    vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
}

enum err err_set(struct error *e, enum err code, const char *fmt, ...)
{
    if (e != NULL) {
        va_list ap;
        va_start(ap, fmt);
        fill(e, code, 0, fmt, ap);
        va_end(ap);
    }
    return code;
}

enum err err_sys(struct error *e, enum err code, int sys, const char *fmt, ...)
{
    if (e != NULL) {
        char text[128];
        va_list ap;
        va_start(ap, fmt);
        fill(e, code, sys, fmt, ap);
        va_end(ap);
        size_t n = strlen(e->msg);
        /* The GNU strerror_r: its result may be a constant and not `text`. */
        snprintf(e->msg + n, sizeof(e->msg) - n, ": %s", strerror_r(sys, text, sizeof(text)));
    }
    return code;
}

enum err err_wrap(struct error *e, const char *fmt, ...)
{
    if (e == NULL) {
        return ERR_BUG;
    }
    char inner[sizeof(e->msg)];
    va_list ap;

    memcpy(inner, e->msg, sizeof(inner));
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
    va_end(ap);
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof(e->msg) - n, ": %s", inner);
    return e->code;
}

const char *err_name(enum err code)
{
    switch (code) {
    case ERR_OK:
        return "ok";
    case ERR_AGAIN:
        return "again";
    case ERR_CLOSED:
        return "closed";
    case ERR_IO:
        return "i/o";
    case ERR_PROTO:
        return "protocol";
    case ERR_LIMIT:
        return "limit";
    case ERR_NOMEM:
        return "no memory";
    case ERR_UPSTREAM:
        return "upstream";
    case ERR_CONFIG:
        return "configuration";
    case ERR_BUG:
        break;
    }
    return "bug";
}
