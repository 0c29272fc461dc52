/* See frames.h. Called by attach for every read. */
#include "engine/frames.h"

void frames_init(struct frames *f)
{
    *f = (struct frames){.nheader = 0};
}

bool frames_whole(const struct frames *f)
{
    return f->nheader == 0;
}

static enum err check_header(const struct frames *f, struct error *e)
{
    const unsigned char *h = f->header;

    if (h[0] > 3 || h[1] != 0 || h[2] != 0 || h[3] != 0) {
        return err_set(e, ERR_PROTO, "not a frame of an attached stream: %02x %02x %02x %02x", h[0],
                       h[1], h[2], h[3]);
    }
    return ERR_OK;
}

/* Takes what is missing of the header. */
static enum err take_header(struct frames *f, struct span *in)
{
    size_t n = FRAMES_HEADER - f->nheader;

    n = n < in->n ? n : in->n;
    memcpy(f->header + f->nheader, in->p, n);
    f->nheader += n;
    *in = span_after(*in, n);
    if (f->nheader < FRAMES_HEADER) {
        return ERR_AGAIN;
    }
    f->left = (uint32_t)f->header[4] << 24 | (uint32_t)f->header[5] << 16 |
              (uint32_t)f->header[6] << 8 | f->header[7];
    return ERR_OK;
}

enum err frames_next(struct frames *f, struct span *in, int *stream, struct span *piece,
                     struct error *e)
{
    while (in->n > 0) {
        if (f->nheader < FRAMES_HEADER) {
            enum err rc = take_header(f, in);
            if (rc != ERR_OK) {
                return rc;
            }
        }
        enum err valid = check_header(f, e);
        if (valid != ERR_OK) {
            return valid;
        }
        size_t n = f->left < in->n ? f->left : in->n;
        struct span payload = span_of(in->p, n);
        *in = span_after(*in, n);
        f->left -= (uint32_t)n;
        if (f->left == 0) {
            f->nheader = 0;
        }
        if (n > 0) {
            *piece = payload;
            *stream = f->header[0];
            return ERR_OK;
        }
    }
    return ERR_AGAIN;
}
