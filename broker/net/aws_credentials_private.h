/* What the files of aws_credentials share. */
#ifndef TACTUS_NET_AWS_CREDENTIALS_PRIVATE_H
#define TACTUS_NET_AWS_CREDENTIALS_PRIVATE_H

#include "net/aws_credentials.h"
#include "net/http_client.h"
#include "net/loop.h"

#include <stdbool.h>
#include <stddef.h>

#define AWS_ANSWER_MAX  32768u /* bytes of an endpoint's answer, of an authorization token */
#define AWS_SESSION_MAX 1024u  /* of a token of the metadata service */
#define AWS_URL_MAX     2048u

enum aws_step {
    AWS_STEP_CONTAINER, /* the only one of its source */
    AWS_STEP_TOKEN,     /* of the metadata service: in this order */
    AWS_STEP_ROLE,
    AWS_STEP_KEYS
};

/* One talk with an endpoint: at most three requests. In ordinary memory, where libcurl has held the
 * same bytes: the secure arena is shared by all loops and small. Wiped as a whole. */
struct aws_exchange {
    struct aws_credentials *owner;
    struct http_call *call;
    enum aws_step step;
    bool retried;
    uint64_t end; /* loop_now() */
    int status;
    size_t n; /* bytes of the answer */
    char answer[AWS_ANSWER_MAX];
    char authorization[AWS_ANSWER_MAX]; /* for a container's endpoint */
    char session[AWS_SESSION_MAX + 1];
    char base[AWS_URL_MAX]; /* of the metadata service */
    char url[AWS_URL_MAX];
};

struct aws_credentials {
    struct loop *loop;
    struct http_client *client;
    const struct aws_environment *env;
    int64_t (*now)(void *ctx);
    void *now_ctx;
    const char *container_host;
    uint32_t connect_ms;
    uint32_t total_ms;
    char *profile;               /* of the options, or NULL */
    struct aws_keys *configured; /* of the options, or NULL */

    struct aws_keys *keys; /* the last that came; NULL: none yet */
    int64_t renew_at;      /* from then on a fetch comes first */
    int64_t fetched_at;
    bool fetching;
    struct aws_exchange *exchange; /* while an endpoint is asked */
    struct error failure;          /* code ERR_OK: the last fetch left usable keys */
    char reasons[400];             /* why the sources before had nothing */

    struct list waiting; /* for a fetch */
    struct list ready;   /* to be called in this turn */
    struct loop_task task;
    bool delivering; /* waiters are being called */
    bool gone;       /* one of them has called aws_credentials_free */
};

/*
 * A source's word: ERR_OK with *out; ERR_AGAIN: it has nothing, `e` says why, the next one is
 * asked; anything else ends the search.
 */
enum err aws_profile_source(struct aws_credentials *c, struct aws_keys **out, struct error *e);

/* A regular file of at most `max` bytes into memory that aws_file_free wipes. ERR_AGAIN: there is
 * none, or it cannot be opened; ERR_LIMIT; ERR_IO; ERR_NOMEM. Messages do not name it. */
struct aws_file {
    char *p;
    size_t n;
    size_t size;
};
enum err aws_file_read(const char *path, size_t max, struct aws_file *out, struct error *e);
void aws_file_free(struct aws_file *f);

/* Asks the container's endpoint or else the metadata service; aws_credentials_done comes later.
 * Not ERR_OK: nothing was begun, `e` begins with the source's name. */
enum err aws_exchange_begin(struct aws_credentials *c, struct error *e);
/* Gives up what is going on, wipes. NULL is harmless. */
void aws_exchange_free(struct aws_exchange *x);

/* The end of a fetch: keys (taken over), or NULL and why. */
void aws_credentials_done(struct aws_credentials *c, struct aws_keys *keys, const struct error *e);

/* Notes why a source had nothing. */
void aws_credentials_note(struct aws_credentials *c, const char *why);

#endif
