/*
 * The loop: deadlines in order however they are moved, tasks that queue tasks, messages from other
 * threads and their limit, writes to files and pipes. Order is asserted, not durations.
 */
#include "net/loop.h"

#include "fixtures/torture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#define MANY 1000

struct mark {
    struct loop_deadline d;
    struct loop_task task;
    struct seen *seen;
    unsigned number;
    uint64_t due; /* what it was last set to */
    unsigned fired;
};

struct seen {
    struct loop *loop;
    unsigned order[MANY];
    size_t n;
    size_t stop_at; /* then the loop is stopped */
    bool early;     /* something fired before it was due */
};

static struct seen open_loop(void)
{
    struct seen s = {0};
    struct error e = {0};

    assert_int_equal(loop_new(&s.loop, &e), ERR_OK);
    return s;
}

static void note(struct seen *s, unsigned number)
{
    assert_true(s->n < MANY);
    s->order[s->n++] = number;
    if (s->n == s->stop_at) {
        loop_stop(s->loop);
    }
}

static void run_until(struct seen *s, size_t n)
{
    s->stop_at = n;
    loop_run(s->loop);
    assert_int_equal(s->n, n);
}

static void check_order(const struct seen *s, const unsigned *expected, size_t n)
{
    assert_int_equal(s->n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(s->order[i], expected[i]);
    }
}

/* ---- deadlines ---- */

static void on_due(void *ctx)
{
    struct mark *m = ctx;

    m->seen->early = m->seen->early || loop_now(m->seen->loop) < m->due;
    assert_int_equal(m->d.at, 0);
    m->fired++;
    note(m->seen, m->number);
}

static void set(struct mark *m, uint64_t in_ms)
{
    m->due = loop_now(m->seen->loop) + in_ms;
    assert_int_equal(loop_deadline_set(m->seen->loop, &m->d, m->due), ERR_OK);
}

static void init(struct seen *s, struct mark *marks, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        marks[i] = (struct mark){.seen = s, .number = i};
        loop_deadline_init(&marks[i].d, on_due, &marks[i]);
    }
}

static void test_deadlines_in_order(void **state)
{
    static const unsigned expected[] = {3, 1, 4, 0, 2};
    struct seen s = open_loop();
    struct mark m[5];

    (void)state;
    init(&s, m, 5);
    set(&m[0], 8);
    set(&m[1], 4);
    set(&m[2], 10);
    set(&m[3], 2);
    set(&m[4], 6);
    run_until(&s, 5);
    check_order(&s, expected, 5);
    assert_false(s.early);
    loop_free(s.loop);
}

static void test_deadlines_moved(void **state)
{
    static const unsigned expected[] = {2, 1, 3, 0};
    struct seen s = open_loop();
    struct mark m[6];

    (void)state;
    init(&s, m, 6);
    set(&m[0], 2);
    set(&m[1], 4);
    set(&m[2], 50);
    set(&m[3], 5);
    set(&m[4], 3);
    set(&m[5], 1);
    set(&m[0], 9); /* later */
    set(&m[2], 2); /* earlier */
    set(&m[3], 20);
    set(&m[3], 6); /* later, then not so late */
    loop_deadline_clear(s.loop, &m[4].d);
    loop_deadline_clear(s.loop, &m[5].d);
    loop_deadline_clear(s.loop, &m[5].d); /* again: harmless */
    run_until(&s, 4);
    check_order(&s, expected, 4);
    assert_false(s.early);
    assert_int_equal(m[4].fired + m[5].fired, 0);
    loop_free(s.loop);
}

/* A cleared one leaves nothing behind: the memory of it may go at once, and it may be set anew. */
/* A loop that wakes late: what was moved behind another still comes after it. */
static void test_moved_deadlines_when_late(void **state)
{
    static const unsigned expected[] = {2, 1};
    struct seen s = open_loop();
    struct mark a = {.seen = &s, .number = 1};
    struct mark b = {.seen = &s, .number = 2};
    uint64_t now = loop_now(s.loop);

    (void)state;
    loop_deadline_init(&a.d, on_due, &a);
    loop_deadline_init(&b.d, on_due, &b);
    assert_int_equal(loop_deadline_set(s.loop, &a.d, now + 1), ERR_OK);
    assert_int_equal(loop_deadline_set(s.loop, &b.d, now + 2), ERR_OK);
    assert_int_equal(loop_deadline_set(s.loop, &a.d, now + 3), ERR_OK);
    (void)usleep(20000); /* all are due when it first looks */
    run_until(&s, 2);
    check_order(&s, expected, 2);
    loop_free(s.loop);
}

static void test_deadline_cleared_and_freed(void **state)
{
    static const unsigned expected[] = {0, 1};
    struct seen s = open_loop();
    struct mark m[2];
    struct mark *gone = malloc(sizeof(*gone));

    (void)state;
    assert_non_null(gone);
    init(&s, m, 2);
    init(&s, gone, 1);
    set(gone, 1);
    set(&m[0], 2);
    set(&m[1], 3);
    loop_deadline_clear(s.loop, &gone->d);
    free(gone);
    loop_deadline_clear(s.loop, &m[1].d);
    set(&m[1], 4);
    run_until(&s, 2);
    check_order(&s, expected, 2);
    loop_free(s.loop);
}

static void on_due_again(void *ctx)
{
    struct mark *m = ctx;

    on_due(m);
    if (m->fired < 3) {
        set(m, 1);
    }
}

struct meddler {
    struct mark *clears;
    struct mark *moves;
    struct mark *starts;
    struct mark *self;
};

static struct meddler meddler;

static void on_due_meddle(void *ctx)
{
    on_due(ctx);
    loop_deadline_clear(meddler.self->seen->loop, &meddler.clears->d);
    set(meddler.moves, 4);
    set(meddler.starts, 1);
}

/* Two that are due in the same turn: the first takes the second away, moves a third, starts a
 * fourth. */
static void test_deadlines_inside_a_callback(void **state)
{
    static const unsigned expected[] = {0, 3, 2};
    static const unsigned again[] = {0, 0, 0};
    struct seen s = open_loop();
    struct mark m[4];

    (void)state;
    init(&s, m, 4);
    loop_deadline_init(&m[0].d, on_due_meddle, &m[0]);
    meddler = (struct meddler){&m[1], &m[2], &m[3], &m[0]};
    uint64_t at = loop_now(s.loop) + 2;
    for (unsigned i = 0; i < 3; i++) {
        m[i].due = at;
        assert_int_equal(loop_deadline_set(s.loop, &m[i].d, at), ERR_OK);
    }
    run_until(&s, 3);
    check_order(&s, expected, 3);
    assert_false(s.early);
    loop_free(s.loop);

    s = open_loop();
    init(&s, m, 1);
    loop_deadline_init(&m[0].d, on_due_again, &m[0]);
    set(&m[0], 1);
    run_until(&s, 3);
    check_order(&s, again, 3);
    loop_free(s.loop);
}

/* Many, in a scrambled order, some moved, some cleared: each once, none early, in order. */
static void test_many_deadlines(void **state)
{
    struct seen s = open_loop();
    static struct mark m[MANY];
    size_t live = 0;

    (void)state;
    init(&s, m, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        set(&m[i], 1 + (i * 7919u) % 40);
    }
    for (unsigned i = 0; i < MANY; i += 3) {
        set(&m[i], 1 + (i * 104729u) % 40);
    }
    for (unsigned i = 0; i < MANY; i += 7) {
        loop_deadline_clear(s.loop, &m[i].d);
    }
    for (unsigned i = 0; i < MANY; i++) {
        live += m[i].d.at != 0;
    }
    run_until(&s, live);
    assert_false(s.early);
    for (size_t i = 1; i < s.n; i++) {
        assert_true(m[s.order[i - 1]].due <= m[s.order[i]].due);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(m[i].fired, i % 7 == 0 ? 0 : 1);
    }
    loop_free(s.loop);
}

static void test_deadline_without_memory(void **state)
{
    struct seen s = open_loop();
    static struct mark m[200];

    (void)state;
    init(&s, m, 200);
    torture_fail_after(0);
    assert_int_equal(loop_deadline_set(s.loop, &m[0].d, 1), ERR_NOMEM);
    assert_int_equal(m[0].d.at, 0);
    loop_deadline_clear(s.loop, &m[0].d);
    size_t armed = 0;
    enum err rc = ERR_OK;
    for (; rc == ERR_OK; armed += rc == ERR_OK) {
        torture_fail_after(armed == 0 ? 1 : 0); /* the first growth succeeds */
        rc = loop_deadline_set(s.loop, &m[armed].d, loop_now(s.loop) + 1);
    }
    assert_int_equal(rc, ERR_NOMEM);
    assert_true(armed > 10);
    /* Moving one that is armed needs none. */
    assert_int_equal(loop_deadline_set(s.loop, &m[0].d, loop_now(s.loop) + 3), ERR_OK);
    torture_off();
    run_until(&s, armed);
    assert_int_equal(s.order[armed - 1], 0);
    loop_free(s.loop);
}

/* ---- tasks ---- */

static void on_task(void *ctx)
{
    struct mark *m = ctx;

    m->fired++;
    note(m->seen, m->number);
}

static void on_endless(void *ctx)
{
    struct mark *m = ctx;

    m->fired++;
    loop_defer(m->seen->loop, &m->task);
}

/* A task that queues itself for ever starves neither deadlines nor other tasks. */
static void test_endless_task(void **state)
{
    struct seen s = open_loop();
    struct mark endless = {.seen = &s};
    struct mark m[1];

    (void)state;
    loop_task_init(&endless.task, on_endless, &endless);
    loop_defer(s.loop, &endless.task);
    init(&s, m, 1);
    uv_run(loop_uv(s.loop), UV_RUN_NOWAIT);
    assert_true(endless.fired > 0 && endless.fired < 100); /* then sockets get their turn */
    set(&m[0], 3);
    run_until(&s, 1);
    loop_task_cancel(&endless.task);
    unsigned fired = endless.fired;
    set(&m[0], 1);
    run_until(&s, 2);
    assert_int_equal(endless.fired, fired);
    loop_free(s.loop);
}

static void on_hundred(void *ctx)
{
    struct mark *m = ctx;

    m->fired++;
    if (m->fired < 100) {
        loop_defer(m->seen->loop, &m->task);
    } else {
        note(m->seen, m->number);
    }
}

/* While tasks wait the loop does not sleep. */
static void test_task_that_queues_itself(void **state)
{
    static const unsigned expected[] = {1};
    struct seen s = open_loop();
    struct mark m[2];

    (void)state;
    init(&s, m, 2);
    loop_task_init(&m[1].task, on_hundred, &m[1]);
    loop_defer(s.loop, &m[1].task);
    set(&m[0], 5000); /* what would wake it otherwise */
    run_until(&s, 1);
    check_order(&s, expected, 1);
    loop_deadline_clear(s.loop, &m[0].d);
    loop_free(s.loop);
}

static struct mark *victim;
static struct mark *extra;

static void on_task_meddle(void *ctx)
{
    on_task(ctx);
    loop_task_cancel(&victim->task);
    loop_defer(extra->seen->loop, &extra->task);
    loop_defer(extra->seen->loop, &extra->task);
}

/* In the order of queueing; queued twice runs once; cancelled in the same round does not run. */
static void test_tasks(void **state)
{
    static const unsigned expected[] = {0, 1, 3, 4};
    struct seen s = open_loop();
    struct mark m[5];

    (void)state;
    init(&s, m, 5);
    for (unsigned i = 0; i < 5; i++) {
        loop_task_init(&m[i].task, i == 1 ? on_task_meddle : on_task, &m[i]);
    }
    victim = &m[2];
    extra = &m[4];
    for (unsigned i = 0; i < 4; i++) {
        loop_defer(s.loop, &m[i].task);
    }
    for (unsigned i = 4; i-- > 0;) {
        loop_defer(s.loop, &m[i].task);
    }
    run_until(&s, 4);
    check_order(&s, expected, 4);
    loop_free(s.loop);
}

/* ---- messages ---- */

#define THREADS    4
#define PER_THREAD 5000

struct letter {
    struct loop_message message;
    unsigned thread;
    unsigned number;
};

struct office {
    struct loop *loop;
    unsigned next[THREADS]; /* the number that must come next from each */
    unsigned total;
    struct letter letters[THREADS][PER_THREAD];
};

static struct office *office;

static void on_letter(struct loop_message *m, struct loop *loop)
{
    struct letter *l = LIST_ENTRY(m, struct letter, message);

    assert_ptr_equal(loop, office->loop);
    assert_int_equal(l->number, office->next[l->thread]);
    office->next[l->thread]++;
    office->total++;
    if (office->total == THREADS * PER_THREAD) {
        loop_stop(loop);
    }
}

static void *post_all(void *ctx)
{
    struct letter *letters = ctx;

    for (unsigned i = 0; i < PER_THREAD; i++) {
        letters[i].message.fn = on_letter;
        letters[i].number = i;
        while (loop_post(office->loop, &letters[i].message) != ERR_OK) {
            (void)sched_yield();
        }
    }
    return NULL;
}

/* Each thread's messages come once, in its order. */
static void test_post(void **state)
{
    pthread_t threads[THREADS];
    struct error e = {0};

    (void)state;
    office = calloc(1, sizeof(*office));
    assert_non_null(office);
    assert_int_equal(loop_new(&office->loop, &e), ERR_OK);
    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned i = 0; i < PER_THREAD; i++) {
            office->letters[t][i].thread = t;
        }
        assert_int_equal(pthread_create(&threads[t], NULL, post_all, office->letters[t]), 0);
    }
    loop_run(office->loop);
    for (unsigned t = 0; t < THREADS; t++) {
        (void)pthread_join(threads[t], NULL);
        assert_int_equal(office->next[t], PER_THREAD);
    }
    loop_free(office->loop);
    free(office);
}

static unsigned arrived;

static void on_counted(struct loop_message *m, struct loop *loop)
{
    (void)m;
    (void)loop;
    arrived++;
}

/* A full mailbox refuses; what it holds still comes, and then there is room. */
static void test_post_limit(void **state)
{
    struct seen s = open_loop();
    const size_t most = 65536;
    struct loop_message *m = calloc(most + 1, sizeof(*m));

    (void)state;
    assert_non_null(m);
    arrived = 0;
    for (size_t i = 0; i <= most; i++) {
        m[i].fn = on_counted;
        assert_int_equal(loop_post(s.loop, &m[i]), i < most ? ERR_OK : ERR_LIMIT);
    }
    loop_run_closing(s.loop);
    assert_int_equal(arrived, most);
    assert_int_equal(loop_post(s.loop, &m[most]), ERR_OK);
    loop_run_closing(s.loop);
    assert_int_equal(arrived, most + 1);
    loop_free(s.loop);
    free(m);
}

static void *stop_it(void *ctx)
{
    loop_stop(ctx);
    return NULL;
}

/* A stop is not lost, whether it comes before the run or from another thread during it. */
static void test_stop(void **state)
{
    struct seen s = open_loop();
    pthread_t t;

    (void)state;
    loop_stop(s.loop);
    loop_run(s.loop);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(pthread_create(&t, NULL, stop_it, s.loop), 0);
        loop_run(s.loop);
        (void)pthread_join(t, NULL);
    }
    loop_free(s.loop);
}

static void test_new_without_memory(void **state)
{
    struct loop *loop = NULL;
    enum err rc = ERR_NOMEM;
    size_t n = 0;

    (void)state;
    for (; rc != ERR_OK; n++) {
        struct error e = {0};
        torture_fail_after(n);
        rc = loop_new(&loop, &e);
        torture_off();
        assert_true(rc == ERR_OK || (rc == ERR_NOMEM && e.code == ERR_NOMEM));
    }
    assert_int_equal(n, 4);
    loop_free(loop);
    loop_free(NULL);
}

/* ---- writes ---- */

struct writer {
    struct loop *loop;
    struct loop_write *w;
    unsigned done;
    enum err rc;
};

static void on_written(void *ctx, enum err rc)
{
    struct writer *w = ctx;

    w->done++;
    w->rc = rc;
}

static void open_writer(struct writer *w)
{
    struct error e = {0};

    *w = (struct writer){0};
    assert_int_equal(loop_new(&w->loop, &e), ERR_OK);
    w->w = loop_write_new(w->loop, on_written, w);
    assert_non_null(w->w);
}

static void close_writer(struct writer *w)
{
    loop_free(w->loop);
    loop_write_free(w->w);
}

static void wait_written(struct writer *w, unsigned n)
{
    while (w->done < n) {
        uv_run(loop_uv(w->loop), UV_RUN_ONCE);
    }
    assert_int_equal(w->done, n);
}

static void test_write_file(void **state)
{
    char path[] = "/tmp/tactus-test-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC | O_APPEND);
    struct writer w;
    char text[32];

    (void)state;
    assert_true(fd >= 0);
    (void)unlink(path);
    open_writer(&w);
    assert_int_equal(loop_write(w.w, fd, SPAN("one\n")), ERR_OK);
    assert_int_equal(w.done, 0); /* not before it returns */
    assert_int_equal(loop_write(w.w, fd, SPAN("too soon\n")), ERR_IO);
    wait_written(&w, 1);
    assert_int_equal(w.rc, ERR_OK);
    assert_int_equal(loop_write(w.w, fd, SPAN("two\n")), ERR_OK);
    wait_written(&w, 2);
    assert_int_equal(pread(fd, text, sizeof(text), 0), 8);
    assert_memory_equal(text, "one\ntwo\n", 8);
    close(fd);
    close_writer(&w);
}

struct reader {
    int fd;
    size_t n;
    bool intact;
};

static void *read_all(void *ctx)
{
    struct reader *r = ctx;
    char buf[1000];

    for (;;) {
        ssize_t n = read(r->fd, buf, sizeof(buf));
        if (n <= 0) {
            return NULL;
        }
        for (ssize_t i = 0; i < n; i++) {
            r->intact = r->intact && buf[i] == (char)('a' + r->n % 23);
            r->n++;
        }
    }
}

/* More than a pipe takes at once: the rest follows, on_written comes once. */
static void test_write_pipe(void **state)
{
    const size_t n = 1000000;
    char *text = malloc(n);
    int fd[2];
    struct writer w;
    pthread_t t;

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        text[i] = (char)('a' + i % 23);
    }
    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    struct reader r = {.fd = fd[0], .intact = true};
    open_writer(&w);
    assert_int_equal(loop_write(w.w, fd[1], span_of(text, n)), ERR_OK);
    assert_int_equal(pthread_create(&t, NULL, read_all, &r), 0);
    wait_written(&w, 1);
    assert_int_equal(w.rc, ERR_OK);
    close(fd[1]);
    (void)pthread_join(t, NULL);
    assert_int_equal(r.n, n);
    assert_true(r.intact);
    close(fd[0]);
    close_writer(&w);
    free(text);
}

static void test_write_fails(void **state)
{
    struct writer w;
    int fd[2];

    (void)state;
    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    close(fd[0]);
    open_writer(&w);
    assert_int_equal(loop_write(w.w, fd[1], SPAN("x")), ERR_OK);
    wait_written(&w, 1);
    assert_int_equal(w.rc, ERR_IO);
    close(fd[1]);
    fd[0] = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(fd[0] >= 0);
    assert_int_equal(loop_write(w.w, fd[0], SPAN("x")), ERR_OK); /* it can be used again */
    wait_written(&w, 2);
    assert_int_equal(w.rc, ERR_IO);
    close(fd[0]);
    close_writer(&w);
    torture_fail_after(0);
    assert_null(loop_write_new(NULL, on_written, NULL));
    torture_off();
}

/* A part that was written is not taken for all of it. */
static void test_write_in_part(void **state)
{
    char path[] = "/tmp/tactus-test-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC | O_APPEND);
    struct rlimit before;
    struct rlimit small;
    struct writer w;

    (void)state;
    assert_true(fd >= 0);
    (void)unlink(path);
    open_writer(&w);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 5;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(loop_write(w.w, fd, SPAN("five and more")), ERR_OK);
    wait_written(&w, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(w.rc, ERR_IO);
    assert_int_equal(lseek(fd, 0, SEEK_END), 5);
    close(fd);
    close_writer(&w);
}

/* A write that is under way when the loop is freed is waited for. */
static void test_free_waits_for_a_write(void **state)
{
    struct writer w;
    int fd[2];
    char text[8];

    (void)state;
    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    open_writer(&w);
    assert_int_equal(loop_write(w.w, fd[1], SPAN("last")), ERR_OK);
    close_writer(&w);
    assert_int_equal(w.done, 1);
    assert_int_equal(read(fd[0], text, sizeof(text)), 4);
    close(fd[0]);
    close(fd[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadlines_in_order),
        cmocka_unit_test(test_deadlines_moved),
        cmocka_unit_test(test_moved_deadlines_when_late),
        cmocka_unit_test(test_deadline_cleared_and_freed),
        cmocka_unit_test(test_deadlines_inside_a_callback),
        cmocka_unit_test(test_many_deadlines),
        cmocka_unit_test(test_deadline_without_memory),
        cmocka_unit_test(test_endless_task),
        cmocka_unit_test(test_task_that_queues_itself),
        cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_post),
        cmocka_unit_test(test_post_limit),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_new_without_memory),
        cmocka_unit_test(test_write_file),
        cmocka_unit_test(test_write_pipe),
        cmocka_unit_test(test_write_fails),
        cmocka_unit_test(test_write_in_part),
        cmocka_unit_test(test_free_waits_for_a_write),
    };
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigaction(SIGXFSZ, &ignore, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
