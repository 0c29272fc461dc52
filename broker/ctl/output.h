/*
 * What brokerctl writes: one stream (stdout or stderr) that knows whether a person's terminal is at
 * its end. On a terminal, text that came from elsewhere cannot steer it: control characters other
 * than newline and tab become U+FFFD. Into a pipe or a file every byte goes as it came.
 *
 * Writes are collected and leave with output_flush(); a failure is remembered, what follows it is
 * dropped, and output_flush() tells. No allocation.
 */
#ifndef TACTUS_CTL_OUTPUT_H
#define TACTUS_CTL_OUTPUT_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_SIZE 4096u

struct output {
    int fd;        /* borrowed */
    bool terminal; /* clean what is remote, indent JSON */
    bool colour;
    int sys;   /* errno of the first write that failed, or 0 */
    char last; /* the last byte of text put here, '\n' at the start */
    size_t n;
    char held[OUTPUT_SIZE];
};

enum output_style { OUTPUT_PLAIN, OUTPUT_BOLD, OUTPUT_DIM, OUTPUT_RED };

/* `terminal` and `colour` as output_terminal() and output_colour() say, or as a test wants them. */
void output_init(struct output *o, int fd, bool terminal, bool colour);

bool output_terminal(int fd);

/* True when colour is welcome on a terminal: NO_COLOR is not set (or empty), TERM is not "dumb". */
bool output_colour(const char *no_color, const char *term);

/* Our own text, as it is. */
void output_put(struct output *o, struct span text);
void output_str(struct output *o, const char *text);
void output_printf(struct output *o, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Text from elsewhere; `text` holds whole characters (a half one counts as invalid). */
void output_remote(struct output *o, struct span text);

/* The same for the inside of one line, for any kind of end: control characters become U+FFFD, and
 * newlines, carriage returns and tabs become a space. */
void output_remote_line(struct output *o, struct span text);

/* A valid JSON text from elsewhere and a newline: as it came, or indented on a terminal. */
void output_json(struct output *o, struct span json);

/* A newline, unless the last thing put was one or nothing was put. */
void output_end_line(struct output *o);

/* Spaces after `text` up to `width` characters; none when it has as many. */
void output_pad(struct output *o, struct span text, size_t width);

/* `label` in bold, and spaces up to `width`: the start of a line of a document. */
void output_label(struct output *o, const char *label, size_t width);

/* Starts a style; OUTPUT_PLAIN ends it. Nothing without colour. */
void output_style(struct output *o, enum output_style style);

/* Sends everything. ERR_CLOSED: the reader went away (EPIPE); ERR_IO: anything else. The failure
 * stays, so a later flush tells it again. */
enum err output_flush(struct output *o, struct error *e);

#endif
