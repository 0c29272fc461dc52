/* See quantity.h. */
#include "spec/quantity.h"

#include "base/span.h"
#include "base/text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define NANO UINT64_C(1000000000)

bool quantity_u64(const char *text, uint64_t *out)
{
    return text_u64(span_str(text), out);
}

bool quantity_nano(const char *text, uint64_t *out)
{
    const char *rest = NULL;
    uint64_t nano = 0;

    if (!text_nano(text, &nano, &rest) || *rest != '\0') {
        return false;
    }
    *out = nano;
    return true;
}

static bool unit_of(const char *text, unsigned *shift)
{
    static const char units[] = "bkmgt";
    const char *at = *text == '\0' ? units : strchr(units, tolower((unsigned char)*text));

    if (at == NULL) {
        return false;
    }
    *shift = 10 * (unsigned)(at - units);
    const char *rest = *text == '\0' ? "" : text + 1;
    return *rest == '\0' ||
           (at != units && (strcasecmp(rest, "b") == 0 || strcasecmp(rest, "ib") == 0));
}

bool quantity_bytes(const char *text, uint64_t *out)
{
    const char *rest = text + strspn(text, "0123456789");
    uint64_t whole = 0;
    uint64_t nano = 0;
    unsigned shift = 0;

    if (*rest != '.') {
        if (!text_u64(span_of(text, (size_t)(rest - text)), &whole) || !unit_of(rest, &shift) ||
            whole > UINT64_MAX >> shift) {
            return false;
        }
        *out = whole << shift;
        return true;
    }
    if (!text_nano(text, &nano, &rest) || !unit_of(rest, &shift)) {
        return false;
    }
    whole = nano / NANO;
    uint64_t part = nano % NANO;
    if (whole > UINT64_MAX >> (shift + 1)) {
        return false;
    }
    *out = (whole << shift) +
           (shift > 30 ? ((part << 30) / NANO) << (shift - 30) : (part << shift) / NANO);
    return true;
}
