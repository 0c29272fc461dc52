/* See owner.h: /proc/PID/stat and the boot id. Field 22 of stat is the start time (proc(5)). */
#include "spec/owner.h"

#include "base/span.h"
#include "base/text.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BOOT_ID     "/proc/sys/kernel/random/boot_id"
#define START_FIELD 20 /* fields after the one in parentheses, which is the second */

/* The file's first bytes as a text; "" when it cannot be read. */
static void read_text(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);

    out[n > 0 ? n : 0] = '\0';
    if (fd >= 0) {
        close(fd);
    }
}

static void read_boot(char out[64])
{
    read_text(BOOT_ID, out, 64);
    out[strcspn(out, "\n")] = '\0';
}

static void read_start(const char *pid, char out[24])
{
    char path[64];
    char text[1024];
    char *save = NULL;

    out[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    read_text(path, text, sizeof(text));
    char *name_end = strrchr(text, ')'); /* the name itself may hold anything */
    char *field = name_end == NULL ? NULL : strtok_r(name_end + 1, " ", &save);
    for (int i = 1; i < START_FIELD && field != NULL; i++) {
        field = strtok_r(NULL, " ", &save);
    }
    if (field != NULL && strlen(field) < 24) {
        memcpy(out, field, strlen(field) + 1);
    }
}

void owner_self(struct owner *out)
{
    snprintf(out->pid, sizeof(out->pid), "%d", (int)getpid());
    read_start(out->pid, out->start);
    read_boot(out->boot);
}

bool owner_lives(const struct owner *owner)
{
    char boot[64];
    char start[24];
    uint64_t pid = 0;

    read_boot(boot);
    if (owner->boot[0] != '\0' && boot[0] != '\0' && strcmp(owner->boot, boot) != 0) {
        return false;
    }
    if (!text_u64(span_str(owner->pid), &pid) || pid == 0) {
        return true;
    }
    read_start(owner->pid, start);
    return start[0] != '\0' && (owner->start[0] == '\0' || strcmp(start, owner->start) == 0);
}
