/*
 * The runner's side of the broker's admin port: a grant with a listener of its own for one run.
 * Source of the calls: the broker's admin API (broker/http).
 *
 * Errors: ERR_IO (no answer), ERR_UPSTREAM (refused; e->sys is the HTTP status, the message the
 * broker's), ERR_PROTO, ERR_CLOSED (a signal), ERR_CONFIG, ERR_NOMEM.
 */
#ifndef TACTUS_RUNNER_GRANTS_H
#define TACTUS_RUNNER_GRANTS_H

#include "net/admin_peer.h"
#include "spec/settings.h"

#include <limits.h>

#define GRANTS_ID_SIZE 65

/* Where the admin port is. */
struct grants {
    struct driver *driver;
    struct admin_peer admin;
    char renewal[32]; /* the body of a renewal under way */
};

/*
 * `text`: /path, unix:///path, http+unix:///path, http://host:port[/#token=T]; NULL: the
 * environment's, else the usual sockets, of which the first that exists is taken. ERR_CONFIG when
 * it is none of these; ERR_IO when there is no broker to be found (the message says where it was
 * looked for).
 */
enum err grants_init(struct grants *g, struct driver *d, const char *text,
                     struct error *e) MUST_CHECK;
void grants_fini(struct grants *g);
/* `g` as one text that grants_init reads, token included. */
void grants_address(const struct grants *g, char out[ADMIN_PEER_TEXT_SIZE]);

struct grant_wish {
    const char *run; /* execution id */
    enum transport transport;
    const char *bind; /* tcp, tls: the address to listen on */
    uint16_t port;
    const char *cert_file; /* tls: NULL: the broker's own */
    const char *key_file;
    char *const *models;
    size_t nmodels;
    char *const *tools;
    size_t ntools;
    uint32_t ttl_ms;
};

struct run_grant {
    char id[GRANTS_ID_SIZE];
    char endpoint[PATH_MAX]; /* as the broker says it: /path, tcp://…, tls://… */
    char ca_file[PATH_MAX];  /* ""; tls: what a client has to trust */
};

enum err grants_create(struct grants *g, const struct grant_wish *wish, struct run_grant *out,
                       struct error *e) MUST_CHECK;

/* Lengthens its life; `allow_from` (NULL: unchanged) is the only address that may connect. */
enum err grants_renew(struct grants *g, const char *id, uint32_t ttl_ms, const char *allow_from,
                      struct error *e) MUST_CHECK;

/* The same without waiting; its answer is dropped. Ends an earlier one that still runs. */
void grants_renew_later(struct grants *g, const char *id, uint32_t ttl_ms,
                        struct fetch_call **renewal);

/* ERR_OK too when there is no such grant any more. */
enum err grants_delete(struct grants *g, const char *id, struct error *e) MUST_CHECK;

/*
 * Which of these values are secrets that the broker holds: sets secret[i]. Only hashes leave this
 * process.
 */
enum err grants_match(struct grants *g, const struct env_entry *values, size_t n, bool *secret,
                      struct error *e) MUST_CHECK;

#endif
