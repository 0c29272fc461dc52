/*
 * The parts of conversation_read. conversation.c has whose turn it is, calls and results;
 * conversation_content.c reads content; conversation_params.c all that is no message.
 */
#ifndef TACTUS_LLM_CONVERSATION_PRIVATE_H
#define TACTUS_LLM_CONVERSATION_PRIVATE_H

#include "base/buf.h"
#include "llm/conversation.h"

/* A request being read. Lists grow in `struct buf`s and get their place in the arena at the end. */
struct reader {
    const struct chat_request *request;
    struct arena *arena;
    struct failure *failure;
    struct conversation *out;
    size_t message;     /* the one being read */
    struct buf system;  /* struct part */
    struct buf parts;   /* struct part: those of all turns, one turn after another */
    struct buf inner;   /* struct part: those of all results, likewise */
    struct buf turns;   /* struct turn, without `parts` */
    struct buf calls;   /* struct reader_id of calls; those of earlier messages are sorted */
    struct buf results; /* struct reader_id */
    struct buf pending; /* struct part: the calls of the message being read */
    struct buf list;    /* struct tool, or struct json_value of `stop` */
    struct buf scratch;
};

/* Which call has which id. */
struct reader_id {
    struct span id; /* decoded */
    size_t part;    /* its index in `parts` */
};

/* Where something is in the request: top[i].list[j].member. */
struct where {
    const char *top;
    bool in_top; /* `i` counts */
    size_t i;
    const char *list;   /* NULL: none */
    size_t j;           /* in `list` */
    const char *member; /* NULL: none; may have dots in it */
};

/* ERR_PROTO: BadRequest, "WHERE: text" or "WHERE text" when `fmt` begins with a space. */
enum err reader_bad(struct reader *r, struct where w, const char *fmt, ...)
    PRINTF_LIKE(3, 4) MUST_CHECK;
/* ERR_PROTO: BadRequest, "WHERE.member: expected what". `member` may be NULL. */
enum err reader_expected(struct reader *r, struct where w, const char *member,
                         const char *what) MUST_CHECK;

/* The members of an object; `member` is its name for errors, or NULL. */
enum err reader_members(struct reader *r, struct where w, const char *member, struct json_value v,
                        struct json_members *out) MUST_CHECK;
/* Null is absent from here on. `type` must be what it is, or it must be absent. */
enum err reader_optional(struct reader *r, struct where w, const struct json_members *m,
                         const char *name, enum json_type type, struct json_value *out) MUST_CHECK;
/* As reader_optional, and it must be there. */
enum err reader_string(struct reader *r, struct where w, const struct json_members *m,
                       const char *name, struct json_value *out) MUST_CHECK;
enum err reader_bool(struct reader *r, struct where w, const struct json_members *m,
                     const char *name, bool *out) MUST_CHECK;

/* A string's text: where it is, or decoded into the arena. */
enum err reader_text(struct reader *r, struct json_value string, struct span *out) MUST_CHECK;
/* `n` bytes of the arena; *out is NULL when `n` is 0. */
enum err reader_alloc(struct reader *r, size_t n, void **out) MUST_CHECK;
/* What `list` holds, in the arena. */
enum err reader_keep(struct reader *r, const struct buf *list, void **out) MUST_CHECK;
/* At most 100 bytes of a decoded text, for messages: use with %.*s. */
struct span reader_excerpt(struct reader *r, struct json_value string);

/*
 * A message's `content`: its texts and images are added to `parts`, empty texts left out. Absent
 * content is for the caller of this. Images only where `images` says so.
 */
enum err reader_content(struct reader *r, struct json_value content, bool images,
                        struct buf *parts) MUST_CHECK;

/* Everything but messages. */
enum err reader_params(struct reader *r) MUST_CHECK;

#endif
