/*
 * The first reading of a configuration: its text as libyaml's events. Refused here, before anything
 * is built: what is no YAML, a second document, anchors, aliases, tags and depth. Values of keys
 * that are somebody else's (conf_map.open) may have all of these but a second document; they are
 * skipped afterwards, so nothing of ours can lie behind an alias. Pure. Called by conf.c.
 */
#include "base/conf_private.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

#define FILE_SHOWN 128u /* bytes of a long file name in a message: its end */

enum err conf_fault_at(const char *name, size_t line, size_t column, const char *path,
                       struct error *e, const char *fmt, va_list args)
{
    char what[sizeof(((struct error *)NULL)->msg)];
    size_t n = strlen(name);
    const char *tail = n > FILE_SHOWN ? name + n - FILE_SHOWN : name;

    if (vsnprintf(what, sizeof(what), fmt, args) < 0) {
        what[0] = '\0';
    }
    return err_set(e, ERR_CONFIG, "%s%s:%zu:%zu: %s: %s", tail == name ? "" : "…", tail, line,
                   column, path, what);
}

/* A fault of the text itself. `mark` counts from 0. */
static enum err fault_yaml(const char *name, const yaml_mark_t *mark, struct error *e,
                           const char *fmt, ...) PRINTF_LIKE(4, 5);
static enum err fault_yaml(const char *name, const yaml_mark_t *mark, struct error *e,
                           const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    enum err err = conf_fault_at(name, mark->line + 1, mark->column + 1, "yaml", e, fmt, args);
    va_end(args);
    return err;
}

enum err conf_fault_parser(const char *name, const struct yaml_parser_s *parser, struct span text,
                           struct error *e)
{
    yaml_mark_t mark = parser->problem_mark;
    const char *problem = parser->problem != NULL ? parser->problem : "cannot be read";

    if (parser->error == YAML_MEMORY_ERROR) {
        return err_set(e, ERR_NOMEM, "out of memory for the configuration");
    }
    if (parser->error == YAML_READER_ERROR) { /* has only a byte's number */
        mark = (yaml_mark_t){0};
        for (size_t i = 0; i < parser->problem_offset && i < text.n; i++) {
            mark.column = text.p[i] == '\n' ? 0 : mark.column + 1;
            mark.line += text.p[i] == '\n' ? 1 : 0;
        }
    }
    return fault_yaml(name, &mark, e, "%s%s%s, expected well-formed YAML", problem,
                      parser->context != NULL ? " " : "",
                      parser->context != NULL ? parser->context : "");
}

/* Where in the document the next event lies. */
struct position {
    const struct conf_map *map;
    size_t documents;
    size_t depth;  /* maps and lists that are open */
    bool root_map; /* the outermost of them is a map */
    bool at_value; /* in that map: a key has been read, its value has not */
    bool foreign;  /* … and the key is somebody else's */
};

static bool is_foreign(const struct conf_map *map, const yaml_event_t *key)
{
    if (!map->open || key->type != YAML_SCALAR_EVENT) {
        return false;
    }
    struct span name = span_of((const char *)key->data.scalar.value, key->data.scalar.length);
    for (size_t i = 0; i < map->nkeys; i++) {
        if (span_eq(span_str(map->keys[i].name), name)) {
            return false;
        }
    }
    return true;
}

/* Counts `event` in. Depth is counted before it is judged, and back before the end is. */
static void advance(struct position *p, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        p->documents++;
        return;
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        p->root_map = p->depth == 0 ? event->type == YAML_MAPPING_START_EVENT : p->root_map;
        p->depth++;
        return;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        p->depth--;
        break;
    case YAML_SCALAR_EVENT:
    case YAML_ALIAS_EVENT:
        break;
    default:
        return;
    }
    if (p->depth == 1 && p->root_map) { /* a key or a value of the outermost map is complete */
        p->at_value = !p->at_value;
        p->foreign = p->at_value && is_foreign(p->map, event);
    }
}

/* Why an event of ours is refused, or NULL. */
static const char *event_fault(const yaml_event_t *event, size_t depth)
{
    const yaml_char_t *anchor = NULL;
    const yaml_char_t *tag = NULL;

    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return "an alias (*name), expected the value itself";
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default:
        break;
    }
    if (anchor != NULL) {
        return "an anchor (&name), expected the value itself";
    }
    if (tag != NULL) {
        return "a tag (!name), expected the value itself";
    }
    return depth > CONF_MAX_DEPTH ? "maps and lists too deep in each other, expected 12 at most"
                                  : NULL;
}

static const char *take_event(struct position *p, const yaml_event_t *event)
{
    bool foreign = p->foreign; /* as it was: the event may be the value's end */

    advance(p, event);
    if (p->documents > 1) {
        return "a second document, expected one";
    }
    if (!foreign) {
        return event_fault(event, p->depth);
    }
    return p->depth > CONF_MAX_FOREIGN_DEPTH
               ? "maps and lists too deep in each other, expected 64 at most"
               : NULL;
}

enum err conf_check_events(const char *name, struct span text, const struct conf_map *map,
                           struct error *e)
{
    struct position position = {.map = map};
    yaml_parser_t parser;
    yaml_event_t event;
    bool end = false;
    enum err err = ERR_OK;

    if (!yaml_parser_initialize(&parser)) {
        return err_set(e, ERR_NOMEM, "out of memory for the configuration");
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.p, text.n);
    while (err == ERR_OK && !end) {
        if (!yaml_parser_parse(&parser, &event)) {
            err = conf_fault_parser(name, &parser, text, e);
            break;
        }
        const char *what = take_event(&position, &event);
        if (what != NULL) {
            err = fault_yaml(name, &event.start_mark, e, "%s", what);
        }
        end = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return err;
}
