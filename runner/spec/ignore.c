/* See ignore.h. Read anew for each path: such files are short. */
#include "spec/ignore.h"

#include "base/text.h"

#include <ctype.h>
#include <limits.h>

#define PATTERN_MAX 1024

/* The line without blanks around, a leading "./" or "/", and a trailing slash. */
static struct span clean(struct span line)
{
    while (line.n > 0 && isspace((unsigned char)line.p[line.n - 1])) {
        line.n--;
    }
    while (line.n > 0 && isspace((unsigned char)line.p[0])) {
        line = span_after(line, 1);
    }
    while (line.n > 1 && line.p[line.n - 1] == '/') {
        line.n--;
    }
    return line;
}

static struct span without_root(struct span pattern)
{
    while (pattern.n > 0 && pattern.p[0] == '/') {
        pattern = span_after(pattern, 1);
    }
    while (pattern.n > 2 && pattern.p[0] == '.' && pattern.p[1] == '/') {
        pattern = span_after(pattern, 2);
    }
    return pattern;
}

/* The pattern matches the path, or one of the directories that it is in. */
static bool covers(const char *pattern, const char *path)
{
    char part[PATH_MAX];
    size_t n = 0;

    for (const char *end = path; n < sizeof(part); end++) {
        if (*end == '/' || *end == '\0') {
            part[n] = '\0';
            /* A star does not reach over a slash: as many slashes on both sides. */
            size_t slashes = 0;
            size_t wanted = 0;
            for (const char *p = part; *p != '\0'; p++) {
                slashes += *p == '/' ? 1 : 0;
            }
            for (const char *p = pattern; *p != '\0'; p++) {
                wanted += *p == '/' ? 1 : 0;
            }
            if ((slashes == wanted || strstr(pattern, "**") != NULL) && text_glob(pattern, part)) {
                return true;
            }
        }
        if (*end == '\0') {
            return false;
        }
        part[n++] = *end;
    }
    return false;
}

static bool matches(struct span pattern, const char *path)
{
    char text[PATTERN_MAX];

    if (pattern.n == 0 || pattern.n >= sizeof(text)) {
        return false;
    }
    memcpy(text, pattern.p, pattern.n);
    text[pattern.n] = '\0';
    return covers(text, path) || (strncmp(text, "**/", 3) == 0 && covers(text + 3, path));
}

bool ignore_matches(struct span text, const char *path)
{
    bool ignored = false;

    while (text.n > 0) {
        const char *end = memchr(text.p, '\n', text.n);
        size_t n = end == NULL ? text.n : (size_t)(end - text.p);
        struct span line = clean(span_of(text.p, n));
        bool back = line.n > 0 && line.p[0] == '!';
        if (line.n > 0 && line.p[0] != '#' &&
            matches(without_root(back ? span_after(line, 1) : line), path)) {
            ignored = !back;
        }
        text = span_after(text, end == NULL ? n : n + 1);
    }
    return ignored;
}
