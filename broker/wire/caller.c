/*
 * Who is calling: the grant that a session's requests run under. The listener says, or a
 * certificate (once a connection), or each message's token. Called by session.c.
 */
#include "wire/session_private.h"

/* What the client must send of its token, and of what goes before it, to be known. */
#define TOKEN_WITHIN 4096u

static bool is_known_by(void *ctx, const char *name)
{
    struct session *s = ctx;

    s->known = grant_table_by_cert(s->wire->grants, name);
    return s->known != NULL;
}

void caller_by_certificate(struct session *s)
{
    grant_unref(s->known);
    s->known = NULL;
    if (session_listener(s)->auth_required && s->wire->grants != NULL) {
        stream_peer_names(s->stream, is_known_by, s);
    }
}

bool caller_is_unknown(const struct session *s)
{
    return session_listener(s)->auth_required && s->known == NULL;
}

struct grant *caller_find(struct session *s, struct span message, const struct json_members *top)
{
    const struct listener_config *l = session_listener(s);
    struct json_value token = json_get(top, "token");

    if (!l->auth_required) {
        return grant_ref(s->door->grant != NULL ? s->door->grant
                                                : s->wire->config->grants[l->grant]);
    }
    if (s->known != NULL) {
        return grant_ref(s->known);
    }
    if (token.type != JSON_STRING || token.escaped || s->wire->grants == NULL ||
        (size_t)(token.text.p - message.p) + token.text.n > TOKEN_WITHIN) {
        return NULL;
    }
    return grant_table_by_token(s->wire->grants, span_of(token.text.p + 1, token.text.n - 2));
}

/* The string behind `"token"`, wherever that stands in `text`; moves *text past it. */
static bool next_token(struct span *text, struct span *token)
{
    static const char key[] = "\"token\"";
    const char *at = memmem(text->p, text->n, key, sizeof(key) - 1);
    const char *end = text->p + text->n;

    if (at == NULL) {
        return false;
    }
    const char *p = at + sizeof(key) - 1;
    *text = span_of(p, (size_t)(end - p));
    while (p < end && (*p == ' ' || *p == '\t' || *p == ':')) {
        p++;
    }
    const char *close = p < end && *p == '"' ? memchr(p + 1, '"', (size_t)(end - p - 1)) : NULL;
    *token = close == NULL ? (struct span){NULL, 0} : span_of(p + 1, (size_t)(close - p - 1));
    return true;
}

bool caller_may_go_on(struct session *s)
{
    const struct buf *kept = &s->framing.kept;
    struct span head = span_of(kept->p, kept->len < TOKEN_WITHIN ? kept->len : TOKEN_WITHIN);
    struct span token;

    if (!caller_is_unknown(s) || kept->len < TOKEN_WITHIN || s->vouched) {
        return true;
    }
    while (!s->vouched && s->wire->grants != NULL && next_token(&head, &token)) {
        struct grant *g = grant_table_by_token(s->wire->grants, token);
        s->vouched = g != NULL;
        grant_unref(g);
    }
    return s->vouched;
}
