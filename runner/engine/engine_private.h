/* Shared by the files of the engine client. Nobody else includes it (unit tests do). */
#ifndef TACTUS_RUNNER_ENGINE_PRIVATE_H
#define TACTUS_RUNNER_ENGINE_PRIVATE_H

#include "base/json_span.h"
#include "engine/engine.h"
#include "net/fetch.h"

#include <limits.h>

#define ENGINE_API_MIN  41 /* 1.41 */
#define ENGINE_API_MAX  51
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

/* How long each kind of call may take. Tests make them short. */
struct engine_limits {
    uint32_t ping_ms;
    uint32_t call_ms;
    uint32_t slow_ms;      /* create, start, kill, remove: an engine under load */
    uint32_t watch_ms;     /* the head of a wait's answer */
    uint32_t take_back_ms; /* between two looks for a container that should not be */
    uint32_t pull_ms;      /* without a word */
    uint32_t build_ms;     /* the same: a step of a build may compile for long */
};

struct engine {
    struct driver *driver;
    struct engine_limits limits;
    struct engine_place place;
    struct fetch_peer peer;
    char version[16]; /* "1.41" */
    bool podman;
};

/* ---- finding ---- */

/* What decides where an engine is looked for: the process's environment, as values. NULL and ""
 * alike mean that it is not set. */
struct engine_surroundings {
    const char *docker_host;
    const char *docker_context;
    const char *docker_config; /* the directory; else .docker in `home` */
    const char *docker_tls_verify;
    const char *docker_cert_path;
    const char *docker_api_version;
    const char *container_host;
    const char *home;
    const char *runtime_dir; /* else /run/user/UID */
    const char *root;        /* stands before /run and /var/run; tests have their own */
    unsigned uid;
};

void engine_surroundings_read(struct engine_surroundings *out);

/* One place to look at. Strings are valid during the call. */
struct engine_hint {
    const char *source;  /* "DOCKER_HOST"; "": one of the usual places */
    const char *address; /* as engine_place_read takes it */
    const char *tls_dir; /* ca.pem, cert.pem and key.pem of a tcp address; NULL: no TLS */
    const char *fault;   /* not NULL: why there is nothing to be tried */
    bool given;          /* somebody asked for this one: no other is tried after it */
};

/* Calls `fn` for each place in order until it says that the search is over (true), or a given one
 * was told. Files of docker's client are read, nothing is connected to. */
typedef bool engine_hint_fn(void *ctx, const struct engine_hint *hint);
void engine_hints(const struct engine_surroundings *s, const char *flag, engine_hint_fn *fn,
                  void *ctx);

/* A file of docker's client: DOCKER_CONFIG or ~/.docker, and `rest` ("/config.json"). False: there
 * is no home, or the path is too long. */
bool engine_docker_file(const struct engine_surroundings *s, const char *rest, char out[PATH_MAX]);
/* Reads and checks a JSON file. True: *text is the caller's to free. False: *text is NULL. */
bool engine_load_json(const char *path, char **text, size_t *n, struct json_value *out);

/* engine_place.c: reads unix:///PATH, /PATH, tcp://HOST:PORT. ERR_CONFIG. */
enum err engine_place_read(const char *text, const char *tls_dir, struct engine_place *out,
                           struct error *e) MUST_CHECK;

/* engine_find in given surroundings. */
enum err engine_find_in(struct driver *d, const struct engine_surroundings *s, const char *flag,
                        struct engine **out, struct buf *report, struct error *e) MUST_CHECK;

/* The API version for an engine that speaks `oldest` to `newest`, into `out` ("1.44"); compared as
 * numbers. `forced` is DOCKER_API_VERSION (NULL, "": none). ERR_PROTO: `newest` is no version;
 * ERR_CONFIG: none that both speak, or `forced` is none of the engine's. */
enum err engine_negotiate(const char *newest, const char *oldest, const char *forced, char out[16],
                          struct error *e) MUST_CHECK;

/* ---- calls ---- */

/* One call, 20 s at most unless the request says else. *out is initialised in every case. */
enum err engine_call(struct engine *engine, const struct fetch_request *request,
                     struct fetch_answer *out, struct error *e) MUST_CHECK;
/* An answer of another status than `expected` (or `also`, if not 0) is ERR_UPSTREAM with the
 * engine's words and sys = status. */
enum err engine_expect(const struct fetch_answer *answer, const char *what, int expected, int also,
                       struct error *e) MUST_CHECK;

/* "/v1.41" and the formatted rest. ERR_CONFIG when it is too long. */
enum err engine_path(const struct engine *engine, char out[ENGINE_PATH_MAX], struct error *e,
                     const char *fmt, ...) PRINTF_LIKE(4, 5);
/* "/v1.41", `before`, the name as a path segment, `after`. */
enum err engine_path_of(const struct engine *engine, char out[ENGINE_PATH_MAX], const char *before,
                        const char *name, const char *after, struct error *e) MUST_CHECK;
/* Percent-encodes everything but unreserved characters. ERR_CONFIG when it does not fit. */
enum err engine_encode(const char *text, char *out, size_t size, struct error *e) MUST_CHECK;
/* The same for a name in a path, where '/' stays when `slashes`. A name with a segment that is
 * empty, "." or ".." would be another path: ERR_CONFIG. */
enum err engine_encode_name(const char *text, bool slashes, char *out, size_t size,
                            struct error *e) MUST_CHECK;

/* What an engine said, for a message: control characters blanked, none at the end. */
void engine_one_line(char *text);

/* Checks an answer's body as JSON of that type. ERR_PROTO. */
enum err engine_json(const struct fetch_answer *answer, enum json_type type, const char *what,
                     struct json_value *out, struct error *e) MUST_CHECK;
/* A string member's text into `out`; false (and "") when it is none or does not fit. */
bool engine_text(struct json_value object, const char *name, char *out, size_t size);
/* The same, on the heap; NULL when it is none or out of memory. */
char *engine_strdup(struct json_value string);

/* As engine_remove, and says whether there was one. */
enum err engine_remove_found(struct engine *engine, const char *id, bool *found,
                             struct error *e) MUST_CHECK;

#endif
