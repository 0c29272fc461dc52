/*
 * See keeper.h. The notes are one line each; the last is "done" when there is nothing to do. A pipe
 * that ends without it means that the runner was killed, or crashed.
 */
#include "run/keeper.h"

#include "base/log.h"
#include "engine/engine.h"
#include "run/grants.h"
#include "spec/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ITEMS_MAX 16
#define TRIES     5
#define TRY_MS    500u

static const char *const item_names[] = {
    [KEEPER_ENGINE] = "engine", [KEEPER_ADMIN] = "admin",         [KEEPER_CONTAINER] = "container",
    [KEEPER_GRANT] = "grant",   [KEEPER_DIRECTORY] = "directory",
};

/* ---- the keeper's own life ---- */

struct notes {
    struct {
        enum keeper_item item;
        char *value;
    } v[ITEMS_MAX];
    size_t n;
    bool done;
};

static const char *value_of(const struct notes *notes, enum keeper_item item)
{
    const char *found = NULL;

    for (size_t i = 0; i < notes->n; i++) {
        if (notes->v[i].item == item) {
            found = notes->v[i].value;
        }
    }
    return found;
}

static void take_note(struct notes *notes, char *line)
{
    char *value = strchr(line, ' ');

    if (strcmp(line, "done") == 0) {
        notes->done = true;
        return;
    }
    if (value == NULL || notes->n == ITEMS_MAX) {
        return;
    }
    *value++ = '\0';
    for (size_t i = 0; i < sizeof(item_names) / sizeof(item_names[0]); i++) {
        char *copy = strcmp(line, item_names[i]) == 0 ? strdup(value) : NULL;
        if (copy != NULL) {
            notes->v[notes->n].item = (enum keeper_item)i;
            notes->v[notes->n].value = copy;
            notes->n++;
        }
    }
}

static void read_notes(FILE *in, struct notes *notes)
{
    char line[PATH_MAX + 32];

    while (fgets(line, sizeof(line), in) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        take_note(notes, line);
    }
}

/* The engine may be in the middle of creating it: what is not there yet is looked for again. */
static void remove_container(struct driver *d, const struct notes *notes)
{
    const char *address = value_of(notes, KEEPER_ENGINE);
    const char *container = value_of(notes, KEEPER_CONTAINER);
    struct engine *engine = NULL;
    bool never = false;

    if (address == NULL || container == NULL ||
        engine_find(d, address, &engine, NULL, NULL) != ERR_OK) {
        return;
    }
    for (int i = 0; i < TRIES; i++) {
        (void)!engine_remove(engine, container, NULL);
        (void)!driver_wait(d, &never, driver_deadline(d, TRY_MS));
    }
    engine_free(engine);
}

static void remove_grant(struct driver *d, const struct notes *notes)
{
    const char *address = value_of(notes, KEEPER_ADMIN);
    const char *id = value_of(notes, KEEPER_GRANT);
    struct grants grants;

    if (address != NULL && id != NULL && grants_init(&grants, d, address, NULL) == ERR_OK) {
        (void)!grants_delete(&grants, id, NULL);
        grants_fini(&grants);
    }
}

static void clean_up(const struct notes *notes)
{
    struct driver driver;

    if (driver_init(&driver, NULL) == ERR_OK) {
        driver.uninterruptible = true;
        remove_grant(&driver, notes);
        remove_container(&driver, notes);
    }
    driver_fini(&driver);
    for (size_t i = 0; i < notes->n; i++) {
        if (notes->v[i].item == KEEPER_DIRECTORY) {
            (void)!workspace_remove(notes->v[i].value, NULL);
        }
    }
}

/* Nothing of the runner's surroundings may hold it up, or be held up by it. */
static void detach(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)setsid();
    (void)sigaction(SIGINT, &ignore, NULL);
    (void)sigaction(SIGTERM, &ignore, NULL);
    (void)sigaction(SIGHUP, &ignore, NULL);
    for (int fd = 0; fd <= 2 && null >= 0; fd++) {
        (void)dup2(null, fd);
    }
}

static void keep(int fd)
{
    struct notes notes = {0};
    FILE *in = fdopen(fd, "r");

    detach();
    if (in == NULL) {
        _exit(1);
    }
    read_notes(in, &notes);
    if (!notes.done) {
        clean_up(&notes);
    }
    _exit(0);
}

/* ---- the runner's side ---- */

enum err keeper_start(struct keeper *k, struct error *e)
{
    int ends[2];

    *k = (struct keeper){.fd = -1};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_sys(e, ERR_IO, errno, "cannot make a pipe");
    }
    k->pid = fork();
    if (k->pid == 0) {
        close(ends[1]);
        keep(ends[0]);
    }
    close(ends[0]);
    if (k->pid < 0) {
        close(ends[1]);
        return err_sys(e, ERR_IO, errno, "cannot start a process");
    }
    k->fd = ends[1];
    return ERR_OK;
}

static void put_line(struct keeper *k, const char *line, size_t n)
{
    ssize_t sent = write(k->fd, line, n);

    if (sent < 0 || (size_t)sent != n) { /* shorter than PIPE_BUF, or it is gone */
        log_warn("runner", LOG_MSG("the keeper is gone: a killed run would leave things behind"));
        close(k->fd);
        k->fd = -1;
    }
}

void keeper_note(struct keeper *k, enum keeper_item item, const char *value)
{
    char line[PATH_MAX];
    int n = snprintf(line, sizeof(line), "%s %s\n", item_names[item], value);

    if (k->fd >= 0 && n > 0 && (size_t)n < sizeof(line)) {
        put_line(k, line, (size_t)n);
    }
}

void keeper_end(struct keeper *k)
{
    if (k->fd >= 0) {
        put_line(k, "done\n", 5);
    }
    if (k->fd >= 0) {
        close(k->fd);
        k->fd = -1;
    }
    if (k->pid > 0) {
        while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        k->pid = 0;
    }
}
