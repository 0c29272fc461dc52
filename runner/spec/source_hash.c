/* See source_hash.h. */
#include "spec/source_hash.h"

#include "net/sha256.h"
#include "spec/tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A length before each part: "a" "bc" is not "ab" "c". */
static void add_framed(struct sha256 *h, struct span part)
{
    char length[24];
    int n = snprintf(length, sizeof(length), "%zu:", part.n);

    sha256_add(h, span_of(length, (size_t)n));
    sha256_add(h, part);
}

static enum err add_file(struct sha256 *h, const struct tree_entry *entry, struct error *e)
{
    char block[65536];
    char size[32];
    ssize_t n = 0;
    int fd = tree_open(entry);

    if (fd < 0) {
        return err_sys(e, ERR_CONFIG, errno, "%s", entry->path);
    }
    add_framed(h, span_str(entry->path));
    snprintf(size, sizeof(size), "%llu:", (unsigned long long)entry->st->st_size);
    sha256_add(h, span_str(size));
    do {
        n = read(fd, block, sizeof(block));
        sha256_add(h, span_of(block, n > 0 ? (size_t)n : 0));
    } while (n > 0);
    int sys = errno;
    close(fd);
    return n == 0 ? ERR_OK : err_sys(e, ERR_CONFIG, sys, "%s", entry->path);
}

static enum err on_entry(void *ctx, const struct tree_entry *entry, struct error *e)
{
    size_t n = strlen(entry->name);
    bool compiled = n > 4 && strcmp(entry->name + n - 4, ".pyc") == 0;

    if (entry->name[0] == '.' || strcmp(entry->name, "__pycache__") == 0 || compiled) {
        return ERR_AGAIN;
    }
    return S_ISREG(entry->st->st_mode) ? add_file(ctx, entry, e) : ERR_OK;
}

enum err source_hash(const char *const *directories, size_t n, char out[SOURCE_HASH_SIZE],
                     struct error *e)
{
    struct sha256 *h = sha256_new();
    char hex[SHA256_HEX_SIZE];
    enum err rc = h == NULL ? err_set(e, ERR_NOMEM, "out of memory") : ERR_OK;

    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        sha256_add(h, SPAN("directory:")); /* no length begins like this */
        rc = tree_walk(directories[i], on_entry, h, e);
    }
    if (rc != ERR_OK) {
        sha256_free(h);
        return rc;
    }
    if (!sha256_end(h, hex)) {
        return err_set(e, ERR_NOMEM, "out of memory for a hash");
    }
    memcpy(out, hex, SOURCE_HASH_SIZE - 1);
    out[SOURCE_HASH_SIZE - 1] = '\0';
    return ERR_OK;
}
