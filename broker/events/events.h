/*
 * Events of containers: the methods events.emit (ctx: the struct bus) and control.request (ctx:
 * NULL). Starts are methods' starts (wire/methods.h).
 */
#ifndef TACTUS_EVENTS_EVENTS_H
#define TACTUS_EVENTS_EVENTS_H

struct request;

void events_emit_start(struct request *r, void *ctx);
void control_request_start(struct request *r, void *ctx);

#endif
