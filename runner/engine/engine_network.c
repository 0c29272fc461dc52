/* Networks: the gateway of one, and the runner's own. */
#include "engine/engine_private.h"

#include "base/json.h"

#include <arpa/inet.h>
#include <string.h>

/* The first gateway that is an IPv4 address; podman writes one that is none as "<nil>". */
static void read_gateway(struct json_value top, char *out, size_t size)
{
    struct json_value config = json_find(json_find(top, "IPAM"), "Config");
    struct json_value item;
    size_t cursor = 0;

    out[0] = '\0';
    while (json_array_next(config, &cursor, &item)) {
        struct in_addr address;
        (void)engine_text(item, "Gateway", out, size);
        out[strcspn(out, "/")] = '\0';
        if (inet_pton(AF_INET, out, &address) == 1) {
            return;
        }
        out[0] = '\0';
    }
}

enum err engine_network_inspect(struct engine *engine, const char *name, struct engine_network *out,
                                bool *found, struct error *e)
{
    char path[ENGINE_PATH_MAX];
    struct fetch_answer answer;
    struct json_value top;

    *out = (struct engine_network){0};
    *found = false;
    enum err rc = engine_path_of(engine, path, "/networks/", name, "", e);
    if (rc != ERR_OK) {
        return rc;
    }
    struct fetch_request request = {.method = "GET", .path = path};
    rc = engine_call(engine, &request, &answer, e);
    if (rc == ERR_OK) {
        rc = engine_expect(&answer, "network inspect", 200, 404, e);
    }
    if (rc == ERR_OK && answer.status == 200) {
        rc = engine_json(&answer, JSON_OBJECT, "network inspect", &top, e);
        if (rc == ERR_OK) {
            *found = true;
            (void)engine_text(top, "Id", out->id, sizeof(out->id));
            out->internal = json_find(top, "Internal").type == JSON_TRUE;
            read_gateway(top, out->gateway, sizeof(out->gateway));
        }
    }
    buf_fini(&answer.body);
    return rc;
}

/*
 * Without icc two containers of it do not reach each other; internal keeps the internet and the
 * cloud's metadata address away.
 */
static enum err make_network(struct engine *engine, const char *name, struct error *e)
{
    char path[ENGINE_PATH_MAX];
    struct fetch_answer answer;
    struct buf body;

    enum err rc = engine_path(engine, path, e, "/networks/create");
    if (rc != ERR_OK) {
        return rc;
    }
    buf_init(&body, 4096);
    buf_put_str(&body, "{\"Name\":");
    json_put_string(&body, span_str(name));
    buf_put_str(&body, ",\"CheckDuplicate\":true,\"Driver\":\"bridge\",\"Internal\":true,"
                       "\"Labels\":{\"tactus.network\":\"1\"}");
    if (!engine->podman) { /* podman refuses options that it does not know */
        buf_put_str(&body, ",\"Options\":{\"com.docker.network.bridge.enable_icc\":\"false\"}");
    }
    buf_put_char(&body, '}');
    struct fetch_request request = {.method = "POST", .path = path, .body = buf_span(&body)};
    rc = engine_call(engine, &request, &answer, e);
    if (rc == ERR_OK) {
        rc = engine_expect(&answer, "network create", 201, 0, e);
    }
    buf_fini(&answer.body);
    buf_fini(&body);
    return rc;
}

enum err engine_network_ensure(struct engine *engine, const char *name, struct engine_network *out,
                               struct error *e)
{
    struct error made = {0};
    bool found = false;
    enum err rc = engine_network_inspect(engine, name, out, &found, e);

    if (rc != ERR_OK || found) {
        return rc;
    }
    /* Somebody may be faster: Docker then says 409, podman 500. Being there is what counts. */
    enum err making = make_network(engine, name, &made);
    if (making != ERR_OK && making != ERR_UPSTREAM) {
        if (e != NULL) {
            *e = made;
        }
        return making;
    }
    rc = engine_network_inspect(engine, name, out, &found, e);
    if (rc != ERR_OK || found) {
        return rc;
    }
    if (making != ERR_OK) {
        if (e != NULL) {
            *e = made;
        }
        return making;
    }
    return err_set(e, ERR_UPSTREAM, "the engine: network %s is not there after it was made", name);
}
