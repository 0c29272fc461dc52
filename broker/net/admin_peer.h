/*
 * Where a broker's admin API is, as people write it, made into a peer for net/fetch. For the
 * programs that call it: brokerctl and the runner. Pure.
 */
#ifndef TACTUS_NET_ADMIN_PEER_H
#define TACTUS_NET_ADMIN_PEER_H

#include "base/err.h"
#include "net/fetch.h"

#define ADMIN_PEER_ENV       "TACTUS_BROKER_ADMIN"       /* an address, as --admin */
#define ADMIN_PEER_ENV_TOKEN "TACTUS_BROKER_ADMIN_TOKEN" /* for one over TCP */
#define ADMIN_PEER_SOCKET    "/run/tactus/admin.sock"    /* where it usually is */
#define ADMIN_PEER_TEXT_SIZE 700                         /* an address with its token */

/* `peer` points into the rest: not to be copied or moved. */
struct admin_peer {
    struct fetch_peer peer;
    char socket[108];   /* as sockaddr_un has it; "": over TCP */
    char base_url[300]; /* no slash at its end */
    char token[257];    /* "": none */
};

/*
 * Reads `text`: /path, unix:///path, http+unix:///path, http://host:port[/][#token=T]. `token`
 * (NULL or "": none) stands in where an http:// address has none; a Unix socket needs none and is
 * sent none. `name` is borrowed, for messages of fetch. ERR_CONFIG with a message without the
 * token. Over with admin_peer_fini, whatever it returned.
 */
enum err admin_peer_parse(const char *text, const char *token, const char *name,
                          struct admin_peer *out, struct error *e) MUST_CHECK;

/* Wipes the token. */
void admin_peer_fini(struct admin_peer *p);

/* The address as one text: "unix:///path", "http://host:port". With `token` it has that too, and
 * admin_peer_parse reads it to the same. */
void admin_peer_address(const struct admin_peer *p, bool token, char out[ADMIN_PEER_TEXT_SIZE]);

#endif
