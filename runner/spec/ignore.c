/*
 * See ignore.h. Read anew for each path: such files are short. Patterns and paths are compared part
 * by part, so a star never reaches over a slash.
 */
#include "spec/ignore.h"

#include <ctype.h>
#include <fnmatch.h>
#include <limits.h>

/* ---- one path against one pattern ---- */

/* Slashes and "./" before a part mean nothing. */
static const char *skip(const char *p)
{
    while (*p == '/' || (*p == '.' && (p[1] == '/' || p[1] == '\0'))) {
        p++;
    }
    return p;
}

static const char *next(const char *p)
{
    return skip(p + strcspn(p, "/"));
}

static bool is_any_depth(const char *pattern)
{
    return pattern[0] == '*' && pattern[1] == '*' && (pattern[2] == '/' || pattern[2] == '\0');
}

static bool part_matches(const char *pattern, const char *path)
{
    char wanted[PATH_MAX];
    char part[NAME_MAX + 1];
    size_t n = strcspn(pattern, "/");
    size_t m = strcspn(path, "/");

    if (n >= sizeof(wanted) || m >= sizeof(part)) {
        return false;
    }
    memcpy(wanted, pattern, n);
    wanted[n] = '\0';
    memcpy(part, path, m);
    part[m] = '\0';
    return fnmatch(wanted, part, 0) == 0; /* text_glob knows no \ */
}

/* The pattern matches the path, or a directory that it is in. Only the last ** is ever tried again:
 * what the earlier ones matched first leaves the most to the rest. */
static bool covers(const char *pattern, const char *path)
{
    const char *again = NULL; /* what follows the last **, and where it was tried */
    const char *from = NULL;

    while (*pattern != '\0') {
        if (is_any_depth(pattern)) {
            again = next(pattern);
            if (*again == '\0') {
                return *path != '\0';
            }
            from = path;
            pattern = again;
        } else if (*path != '\0' && part_matches(pattern, path)) {
            pattern = next(pattern);
            path = next(path);
        } else if (again != NULL && *from != '\0') {
            from = next(from);
            path = from;
            pattern = again;
        } else {
            return false;
        }
    }
    return true;
}

/* ---- the file ---- */

struct rule {
    char pattern[PATH_MAX]; /* "": the line says nothing */
    bool back;
};

static struct span without_blanks(struct span s)
{
    while (s.n > 0 && isspace((unsigned char)s.p[s.n - 1])) {
        s.n--;
    }
    while (s.n > 0 && isspace((unsigned char)s.p[0])) {
        s = span_after(s, 1);
    }
    return s;
}

static void read_rule(struct span line, struct rule *out)
{
    bool comment = line.n > 0 && line.p[0] == '#';

    line = without_blanks(line);
    out->back = line.n > 0 && line.p[0] == '!';
    if (out->back) {
        line = without_blanks(span_after(line, 1));
    }
    size_t n = comment || line.n >= sizeof(out->pattern) ? 0 : line.n; /* longer than any path */
    memcpy(out->pattern, line.p, n);
    out->pattern[n] = '\0';
}

/* The next line's rule; false at the end. */
static bool next_rule(struct span *text, struct rule *out)
{
    static const struct span mark = {"\xef\xbb\xbf", 3}; /* some editors begin a file so */

    if (text->n == 0) {
        return false;
    }
    const char *end = memchr(text->p, '\n', text->n);
    size_t n = end == NULL ? text->n : (size_t)(end - text->p);
    struct span line = span_of(text->p, n);
    if (line.n >= mark.n && memcmp(line.p, mark.p, mark.n) == 0) {
        line = span_after(line, mark.n);
    }
    read_rule(line, out);
    *text = span_after(*text, end == NULL ? n : n + 1);
    return true;
}

bool ignore_matches(struct span text, const char *path)
{
    struct rule rule;
    bool ignored = false;

    path = skip(path);
    while (next_rule(&text, &rule)) {
        const char *pattern = skip(rule.pattern);
        if (*pattern != '\0' && ignored == rule.back && covers(pattern, path)) {
            ignored = !rule.back;
        }
    }
    return ignored;
}

bool ignore_takes_back(struct span text)
{
    struct rule rule;

    while (next_rule(&text, &rule)) {
        if (rule.back && *skip(rule.pattern) != '\0') {
            return true;
        }
    }
    return false;
}
