/* Pulling an image while a person watches: a bar on a terminal, two lines elsewhere, on stderr. */
#ifndef TACTUS_RUNNER_IMAGE_PROGRESS_H
#define TACTUS_RUNNER_IMAGE_PROGRESS_H

#include "engine/engine.h"

/* As engine_image_pull. */
enum err image_progress_pull(struct engine *engine, const char *name, struct error *e) MUST_CHECK;

#endif
