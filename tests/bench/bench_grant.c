/*
 * What it costs to know who is calling: a token's hash, and its grant among 100 000, asked for in
 * random order. One line a measurement: a name, and nanoseconds per operation. The best of several
 * passes counts: others use the machine too.
 */
#include "gate/grant_table.h"

#include "base/clock.h"
#include "net/sha256.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRANTS     100000u
#define PASSES     7u
#define TOKEN_SIZE 44u /* 43 letters, as the admin API makes them */

struct bench {
    struct grant_table *table;
    char (*tokens)[TOKEN_SIZE]; /* in the order of asking: text that was just received is near */
    uint64_t random;
    uint64_t found;
};

static void fail(const char *what)
{
    (void)fprintf(stderr, "bench_grant: %s\n", what);
    exit(EXIT_FAILURE);
}

/* xorshift64*: the same each time. */
static uint64_t next_random(struct bench *b)
{
    b->random ^= b->random >> 12;
    b->random ^= b->random << 25;
    b->random ^= b->random >> 27;
    return b->random * UINT64_C(0x2545f4914f6cdd1d);
}

static void make_token(struct bench *b, char *out)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    for (size_t i = 0; i < TOKEN_SIZE - 1; i++) {
        out[i] = letters[next_random(b) >> 58];
    }
    out[TOKEN_SIZE - 1] = '\0';
}

static void add_grant(struct bench *b, const char *token)
{
    struct grant *g = grant_new();

    if (g == NULL || !sha256_of(span_str(token), g->token_sha256)) {
        fail("no grant");
    }
    g->has_token = true;
    g->name = strdup("bench");
    if (g->name == NULL || grant_table_add(b->table, g, NULL) != ERR_OK) {
        fail("no memory");
    }
    grant_unref(g);
}

static void shuffle(struct bench *b)
{
    char kept[TOKEN_SIZE];

    for (size_t i = GRANTS - 1; i > 0; i--) {
        size_t other = (size_t)(next_random(b) % (i + 1));
        memcpy(kept, b->tokens[i], TOKEN_SIZE);
        memcpy(b->tokens[i], b->tokens[other], TOKEN_SIZE);
        memcpy(b->tokens[other], kept, TOKEN_SIZE);
    }
}

static void check_token(struct bench *b, const char *token)
{
    struct grant *g = grant_table_by_token(b->table, span_of(token, TOKEN_SIZE - 1));

    b->found += g != NULL;
    grant_unref(g);
}

static void hash_token(struct bench *b, const char *token)
{
    unsigned char sha256[SHA256_SIZE];

    b->found += sha256_of(span_of(token, TOKEN_SIZE - 1), sha256);
}

/* `wanted`: how many operations of a pass must succeed. */
static void measure(struct bench *b, const char *name, void (*work)(struct bench *, const char *),
                    uint64_t wanted)
{
    uint64_t best = UINT64_MAX;

    for (unsigned pass = 0; pass < PASSES; pass++) {
        b->found = 0;
        uint64_t start = clock_mono_us();
        for (size_t i = 0; i < GRANTS; i++) {
            work(b, b->tokens[i]);
        }
        uint64_t took = clock_mono_us() - start;
        best = took < best ? took : best;
        if (b->found != wanted) {
            fail(name);
        }
    }
    (void)printf("%s %" PRIu64 "\n", name, best * 1000 / GRANTS);
}

int main(void)
{
    struct bench b = {.random = 1, .table = grant_table_new()};

    b.tokens = calloc(GRANTS, TOKEN_SIZE);
    if (b.tokens == NULL || b.table == NULL) {
        fail("no memory");
    }
    for (size_t i = 0; i < GRANTS; i++) {
        make_token(&b, b.tokens[i]);
        add_grant(&b, b.tokens[i]);
    }
    shuffle(&b);
    measure(&b, "sha256_of_token", hash_token, GRANTS);
    measure(&b, "grant_by_token", check_token, GRANTS);
    for (size_t i = 0; i < GRANTS; i++) {
        make_token(&b, b.tokens[i]);
    }
    measure(&b, "grant_by_unknown_token", check_token, 0);
    grant_table_free(b.table);
    free(b.tokens);
    return EXIT_SUCCESS;
}
