/*
 * As PID 1 one call reaches all. Otherwise /proc is walked: the processes there with their parents,
 * in ascending order as the kernel gives them, then whose parent is ours is ours. Since orphans
 * come to us, nobody leaves the tree by forking twice or by a session of his own.
 */
#include "init/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct tree_process {
    pid_t pid;
    pid_t parent;
    bool ours;
};

void tree_init(struct tree *t)
{
    *t = (struct tree){.self = getpid(), .pid1 = getpid() == 1};
    if (t->pid1) {
        return;
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    void *room = mmap(NULL, TREE_MAX * sizeof(struct tree_process), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    t->table = room != MAP_FAILED ? room : NULL;
}

/* A whole name or field of digits, up to `end`; 0 when it is none. */
static pid_t number_of(const char *p, char end)
{
    int64_t number = 0;

    for (; *p >= '0' && *p <= '9' && number <= INT_MAX; p++) {
        number = number * 10 + (*p - '0');
    }
    return *p == end && number <= INT_MAX ? (pid_t)number : 0;
}

/* Fills `text` from the small file `name` below /proc; false when there is none. */
static bool read_file(int proc, const char *name, char *text, size_t size)
{
    int fd = openat(proc, name, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, text, size - 1);
    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* The parent of `pid` by its stat, "PID (NAME) STATE PARENT …" with anything in NAME; 0 when it is
 * gone. */
static pid_t parent_of(int proc, pid_t pid)
{
    char name[32];
    char text[512];

    (void)snprintf(name, sizeof(name), "%d/stat", (int)pid);
    if (!read_file(proc, name, text, sizeof(text))) {
        return 0;
    }
    const char *close_of_name = strrchr(text, ')');
    return close_of_name != NULL && strlen(close_of_name) > 4 ? number_of(close_of_name + 4, ' ')
                                                              : 0;
}

/* /proc, or -1 where it is missing or shows another PID namespace than ours. */
static int open_proc(const struct tree *t)
{
    char self[16] = "";
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (proc < 0) {
        return proc;
    }
    if (readlinkat(proc, "self", self, sizeof(self) - 1) <= 0 || number_of(self, '\0') != t->self) {
        (void)close(proc);
        return -1; /* as open() fails */
    }
    return proc;
}

/* All processes into the table; how many. */
static size_t list(struct tree *t, int proc)
{
    /* The kernel's records need the alignment of their widest member. */
    _Alignas(struct dirent64) char records[8192];
    size_t count = 0;
    ssize_t n = getdents64(proc, records, sizeof(records));

    while (n > 0) {
        for (ssize_t at = 0; at < n && count < TREE_MAX;) {
            const struct dirent64 *entry = (const void *)(records + at);
            at += entry->d_reclen;
            pid_t pid = number_of(entry->d_name, '\0');
            pid_t parent = pid > 0 ? parent_of(proc, pid) : 0;
            if (parent > 0) {
                t->table[count++] = (struct tree_process){.pid = pid, .parent = parent};
            }
        }
        n = getdents64(proc, records, sizeof(records));
    }
    return count;
}

static const struct tree_process *find(const struct tree *t, size_t count, pid_t pid)
{
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->table[middle].pid < pid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && t->table[low].pid == pid ? &t->table[low] : NULL;
}

/* Marks the descendants. Parents mostly have the lower numbers, so that the first round finds all;
 * another one is needed for those that do not. */
static void mark(struct tree *t, size_t count)
{
    bool changed = true;

    while (changed) {
        changed = false;
        for (size_t i = 0; i < count; i++) {
            struct tree_process *p = &t->table[i];
            const struct tree_process *parent =
                p->parent != t->self ? find(t, count, p->parent) : NULL;
            if (!p->ours && (p->parent == t->self || (parent != NULL && parent->ours))) {
                p->ours = true;
                changed = true;
            }
        }
    }
}

/* A number may have passed to a stranger since it was listed. The descriptor holds on to the
 * process that has it now, and a parent of ours proves that this one is ours. */
static void signal_one(const struct tree *t, int proc, const struct tree_process *p, int number)
{
    int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    bool unknown = fd < 0 && errno != ESRCH; /* no such call here */
    pid_t parent = parent_of(proc, p->pid);

    if (parent > 0 && (parent == t->self || parent == p->parent)) {
        if (fd >= 0) {
            (void)syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
        } else if (unknown) {
            (void)kill(p->pid, number);
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

void tree_signal(struct tree *t, pid_t group, int number)
{
    if (t->pid1) {
        (void)kill(-1, number);
        return;
    }
    int proc = t->table != NULL ? open_proc(t) : -1;
    if (proc < 0) {
        (void)kill(-group, number);
        return;
    }
    size_t count = list(t, proc);
    mark(t, count);
    for (size_t i = 0; i < count; i++) {
        if (t->table[i].ours) {
            signal_one(t, proc, &t->table[i], number);
        }
    }
    (void)close(proc);
}
