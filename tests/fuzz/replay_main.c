/*
 * Runs a fuzz target over files, without libFuzzer: every file of the directories given, and every
 * file given. Linked to each tests/fuzz/fuzz_*.c for `make fuzz-replay`.
 */
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX (4u * 1024u * 1024u)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) {
        return 0;
    }
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_MAX);
    int ran = 0;

    if (f != NULL && data != NULL) {
        size_t n = fread(data, 1, INPUT_MAX, f);
        /* An exact copy, so that a read past the end is seen by a sanitizer. */
        uint8_t *exact = malloc(n == 0 ? 1 : n);
        if (exact != NULL) {
            memcpy(exact, data, n);
            (void)LLVMFuzzerTestOneInput(exact, n);
            free(exact);
            ran = 1;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    free(data);
    return ran;
}

static int run_path(const char *path)
{
    struct stat st;
    int ran = 0;

    if (stat(path, &st) != 0) {
        return 0;
    }
    if (!S_ISDIR(st.st_mode)) {
        return run_file(path);
    }
    DIR *d = opendir(path);
    if (d == NULL) {
        return 0;
    }
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char file[PATH_MAX];
        int n = snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.' && n > 0 && (size_t)n < sizeof(file)) {
            ran += run_file(file);
        }
    }
    closedir(d);
    return ran;
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    const char *name = slash == NULL ? argv[0] : slash + 1;
    int ran = 0;

    for (int i = 1; i < argc; i++) {
        ran += run_path(argv[i]);
    }
    if (strncmp(name, "fuzz_", 5) == 0) {
        name += 5;
    }
    printf("fuzz %s: %d inputs\n", name, ran);
    return ran > 0 ? 0 : 1;
}
