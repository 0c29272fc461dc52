/* Shared by the files of the engine client. Nobody else includes it. */
#ifndef TACTUS_RUNNER_ENGINE_PRIVATE_H
#define TACTUS_RUNNER_ENGINE_PRIVATE_H

#include "base/json_span.h"
#include "engine/engine.h"
#include "io/fetch.h"

#include <limits.h>

#define ENGINE_API_MIN  41 /* 1.41 */
#define ENGINE_API_MAX  51
#define ENGINE_CALL_MS  20000u
#define ENGINE_SLOW_MS  120000u /* create, start: an engine under load */
#define ENGINE_PATH_MAX 2048
#define ENGINE_SOCKET   108

/* Where an engine is. */
struct engine_place {
    char address[PATH_MAX + 16]; /* as a person writes it */
    char socket[ENGINE_SOCKET];  /* "": TCP */
    char base_url[320];
    char ca_file[PATH_MAX]; /* "": no TLS */
    char cert_file[PATH_MAX];
    char key_file[PATH_MAX];
};

struct engine {
    struct driver *driver;
    struct engine_place place;
    struct fetch_peer peer;
    char version[16]; /* "1.41" */
    bool podman;
};

/* engine_place.c: reads unix:///PATH, /PATH, tcp://HOST:PORT. ERR_CONFIG. */
enum err engine_place_read(const char *text, struct engine_place *out, struct error *e) MUST_CHECK;

/* One call under the negotiated version; `fmt` makes the path after it. An answer of another status
 * than `expected` (or `also`, if not 0) is ERR_UPSTREAM with the engine's words and sys = status.
 * *out is initialised in every case. */
enum err engine_call(struct engine *engine, const struct fetch_request *request,
                     struct fetch_answer *out, struct error *e) MUST_CHECK;
enum err engine_expect(const struct fetch_answer *answer, const char *what, int expected, int also,
                       struct error *e) MUST_CHECK;

/* "/v1.41" and the formatted rest. ERR_CONFIG when it is too long. */
enum err engine_path(const struct engine *engine, char out[ENGINE_PATH_MAX], struct error *e,
                     const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Percent-encodes everything but unreserved characters (and '/' when `slashes`). */
enum err engine_encode(const char *text, bool slashes, char *out, size_t size,
                       struct error *e) MUST_CHECK;

/* Checks an answer's body as JSON of that type. ERR_PROTO. */
enum err engine_json(const struct fetch_answer *answer, enum json_type type, const char *what,
                     struct json_value *out, struct error *e) MUST_CHECK;
/* A string member's text into `out`; false (and "") when it is none or does not fit. */
bool engine_text(struct json_value object, const char *name, char *out, size_t size);
/* The same, on the heap; NULL when it is none or out of memory. */
char *engine_strdup(struct json_value string);

#endif
