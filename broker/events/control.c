/* control.request: a question for a person. Nobody can answer yet: there is no admin side. */
#include "events/events.h"
#include "tactus/protocol.h"
#include "wire/request.h"

void control_request_start(struct request *r, void *ctx)
{
    (void)ctx;
    if (request_param(r, "request").type != JSON_OBJECT) {
        request_fail_text(r, TACTUS_E_BAD_REQUEST, "params.request must be an object");
        return;
    }
    request_fail_text(r, TACTUS_E_NO_CONTROL_HANDLER, "No control handler configured");
}
