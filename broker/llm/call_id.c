/*
 * See call_id.h. Provider types that write requests call it for each call and each result.
 */
#include "llm/call_id.h"

#include "net/sha256.h"

static bool fits(struct span id)
{
    for (size_t i = 0; i < id.n; i++) {
        char c = id.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-')) {
            return false;
        }
    }
    return id.n >= 1 && id.n <= CALL_ID_MAX;
}

enum err call_id_put(struct json_value id, struct buf *b)
{
    char hash[SHA256_HEX_SIZE];
    struct buf text;

    buf_init(&text, id.text.n + 4); /* a lone surrogate at the end grows by less than the quotes */
    json_string_decode(id, &text, NULL);
    enum err err = buf_status(&text);
    if (err == ERR_OK && fits(buf_span(&text))) {
        buf_put_span(b, buf_span(&text));
    } else if (err == ERR_OK && sha256_hex(buf_span(&text), hash)) {
        buf_put_str(b, hash);
    } else if (err == ERR_OK) {
        err = ERR_NOMEM; /* hashing fails only so */
    }
    buf_fini(&text);
    return err == ERR_OK ? buf_status(b) : err;
}
