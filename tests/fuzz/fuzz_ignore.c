/* A path (up to the first NUL, else "a/b/c") and a .dockerignore from any bytes. Holds: what lies
 * in something that is left out is left out too, unless a line takes something back; a line more
 * that takes everything back does; comments change nothing. */
#include "spec/ignore.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_SIZE 300
#define TEXT_SIZE 4000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* `text` and `more` as lines of one file. */
static bool matches_with(struct span text, const char *more, const char *path)
{
    static char file[TEXT_SIZE + 64];
    int n = snprintf(file, sizeof(file), "%.*s\n%s\n", (int)text.n, text.p, more);

    return ignore_matches(span_of(file, (size_t)n), path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[PATH_SIZE + 8] = "a/b/c";
    struct span text = {(const char *)data, size};
    const char *end = size == 0 ? NULL : memchr(data, '\0', size);

    if (end != NULL && end - text.p < PATH_SIZE) {
        memcpy(path, text.p, (size_t)(end - text.p) + 1);
        text = span_after(text, (size_t)(end - text.p) + 1);
    }
    bool ignored = ignore_matches(text, path);
    bool back = ignore_takes_back(text);
    if (text.n <= TEXT_SIZE && memchr(text.p, '\0', text.n) == NULL) {
        demand(matches_with(text, "# nothing\n", path) == ignored);
        demand(!matches_with(text, "!**", path) || strspn(path, "./") == strlen(path));
    }
    if (ignored && !back) {
        snprintf(path + strlen(path), 8, "/below");
        demand(ignore_matches(text, path));
    }
    return 0;
}
