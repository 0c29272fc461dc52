/* events.emit: one event, checked, put on the bus as the bytes that came, acknowledged. */
#include "base/redact.h"
#include "events/bus.h"
#include "events/events.h"
#include "tactus/protocol.h"
#include "wire/request.h"

void events_emit_start(struct request *r, void *ctx)
{
    struct bus *bus = ctx;
    struct json_value event = request_param(r, "event");
    const struct limits *limits = &request_config(r)->limits;
    static const struct span ok = {"{\"ok\":true}", 11};

    if (event.type != JSON_OBJECT && request_drop_relayed(r)) {
        request_done(r, &ok, 1);
        return;
    }
    if (event.type != JSON_OBJECT) {
        request_fail_text(r, TACTUS_E_BAD_REQUEST, "params.event must be an object");
        return;
    }
    if (event.text.n > limits->max_event_bytes) {
        request_fail_text(r, TACTUS_E_MESSAGE_TOO_LARGE,
                          "params.event over events.max_event_bytes (%llu bytes)",
                          (unsigned long long)limits->max_event_bytes);
        return;
    }
    enum err rc = bus_publish(bus, request_grant(r), json_find(event, "event_type"), event.text,
                              request_config(r)->redact);
    if (rc != ERR_OK) {
        request_fail_err(r, rc);
        return;
    }
    request_done(r, &ok, 1);
}
