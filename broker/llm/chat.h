/* The method llm.chat: parameters checked against the grant, events out, one end. */
#ifndef TACTUS_LLM_CHAT_H
#define TACTUS_LLM_CHAT_H

struct request;

/* A method's start (wire/methods.h); `ctx` is the loop's struct router. */
void chat_start(struct request *r, void *ctx);

#endif
