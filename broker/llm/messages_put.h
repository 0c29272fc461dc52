/*
 * The messages of a conversation as JSON for provider types that want them as lists of blocks, the
 * sides alternating: {"role":"user","content":[…]}. What a block looks like is the type's to say
 * (struct messages_style); whose turn it is, what is left out and ids are the same. Pure.
 */
#ifndef TACTUS_LLM_MESSAGES_PUT_H
#define TACTUS_LLM_MESSAGES_PUT_H

#include "base/buf.h"
#include "llm/conversation.h"

struct messages_writer;

struct messages_style {
    const char *type;   /* the provider type's name, in failures */
    const char *format; /* chat_signature.format of the reasoning that is given back */
    bool results_first; /* in a user's message, whatever came first */
    /* Each puts one block: messages_start_block, then the rest. A call's and a result's id is
     * messages_put_id, a result's content messages_put_content. */
    void (*text)(struct messages_writer *w, const struct part *p);
    enum err (*image)(struct messages_writer *w, const struct part *p);
    void (*reasoning)(struct messages_writer *w, const struct part *p);
    enum err (*call)(struct messages_writer *w, const struct part *p);
    enum err (*result)(struct messages_writer *w, const struct part *p);
};

struct messages_writer {
    const struct messages_style *style;
    struct buf *b;
    struct failure *failure;
    bool open;      /* a message is being written */
    bool assistant; /* its side */
    bool any;       /* a block of the list at hand was written */
};

/* Puts the list of messages, with its brackets. Reasoning that another provider signed, or nobody,
 * is of no use and is left out; when all of a turn is, the ones around it are one message. What the
 * style's functions return, or ERR_PROTO with `failure`: there is no message. */
enum err messages_put(struct messages_writer *w, const struct conversation *c) MUST_CHECK;

/* Puts ,"system":[…] with the system's texts; nothing when there are none. */
void messages_put_system(struct messages_writer *w, const struct conversation *c);

/* ---- for styles ---- */

/* The next block of a list begins with `text`. */
void messages_start_block(struct messages_writer *w, const char *text);

/* Puts the id of a call or a result, without quotes, as call_id_put. ERR_PROTO with `failure` when
 * the caller gave none. */
enum err messages_put_id(struct messages_writer *w, const struct part *p) MUST_CHECK;

/* Puts the blocks of a result, without brackets. */
enum err messages_put_content(struct messages_writer *w, const struct part *p) MUST_CHECK;

#endif
