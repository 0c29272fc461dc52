/* The one shape of the admin API's errors. Used by everything behind it. */
#include "http/admin_fault.h"

#include "base/json.h"
#include "base/redact.h"
#include "tactus/protocol.h"

#include <stdarg.h>
#include <stdio.h>

bool admin_fault_set(struct admin_fault *f, int status, const char *type, const char *fmt, ...)
{
    va_list ap;

    f->status = status;
    f->type = type;
    va_start(ap, fmt);
    if (vsnprintf(f->message, sizeof(f->message), fmt, ap) < 0) {
        f->message[0] = '\0';
    }
    va_end(ap);
    return false;
}

bool admin_fault_no_memory(struct admin_fault *f)
{
    return admin_fault_set(f, 503, TACTUS_E_INTERNAL, "out of memory");
}

void admin_fault_put_json(const struct admin_fault *f, const struct redact *r, struct buf *b)
{
    struct buf message;

    buf_init(&message, 4 * sizeof(f->message)); /* a mark is longer than the shortest secret */
    redact_text(r, span_str(f->message), false, &message);
    buf_put_str(b, "{\"error\":{\"type\":");
    json_put_string(b, span_str(f->type));
    buf_put_str(b, ",\"message\":");
    json_put_string(b, buf_status(&message) == ERR_OK ? buf_span(&message)
                                                      : SPAN("(no memory to show it)"));
    buf_put_str(b, "}}");
    buf_fini(&message);
}
