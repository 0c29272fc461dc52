/*
 * One line an event, on stderr: level, module, message and key=value fields, as JSON or as text for
 * a terminal. Never bodies, prompts or keys; everything passes the redactor. The level and the
 * sink are the only globals of the project. Any thread; each line is one write(2).
 *
 *   log_info("session", LOG_MSG("closed"), LOG_U64("conn", id), LOG_STR("why", err_name(e)));
 */
#ifndef TACTUS_BASE_LOG_H
#define TACTUS_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redact;

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

struct log_field {
    const char *key;
    const char *str; /* NULL: `u64` is the value */
    uint64_t u64;
};

#define LOG_MSG(text) ((struct log_field){.key = "msg", .str = (text)})
#define LOG_STR(k, v) ((struct log_field){.key = (k), .str = (v)})
#define LOG_U64(k, v) ((struct log_field){.key = (k), .u64 = (uint64_t)(v)})

/* `r` is borrowed and may be NULL; set it again (or NULL) before it is freed. */
void log_setup(enum log_level level, enum log_format format, const struct redact *r);
bool log_enabled(enum log_level level);
/* The first field is the message. */
void log_event(enum log_level level, const char *module, const struct log_field *fields, size_t n);

#define LOG_AT(level, module, ...)                                                                 \
    do {                                                                                           \
        if (log_enabled(level)) {                                                                  \
            const struct log_field log_fields_[] = {__VA_ARGS__};                                  \
            log_event((level), (module), log_fields_,                                              \
                      sizeof(log_fields_) / sizeof(log_fields_[0]));                               \
        }                                                                                          \
    } while (0)

#define log_error(module, ...) LOG_AT(LOG_ERROR, module, __VA_ARGS__)
#define log_warn(module, ...)  LOG_AT(LOG_WARN, module, __VA_ARGS__)
#define log_info(module, ...)  LOG_AT(LOG_INFO, module, __VA_ARGS__)
#define log_debug(module, ...) LOG_AT(LOG_DEBUG, module, __VA_ARGS__)

#endif
