/* standalone.c - drives a fuzz target without libFuzzer.
 *
 *   fuzz_<target> [-n MUTATIONS] [-t SECONDS] [-f FIRST] [-s SEED] [-e SUFFIX] [-v] PATH...
 *
 * Runs the target over every given file and over the files of given folders (with names that end in
 * SUFFIX), then over MUTATIONS damaged copies, from number FIRST on. With -t it stops after
 * SECONDS, or after MUTATIONS if -n is given, too. Mutation i is a pure function of the files, SEED
 * and i. If a mutation ends the program, its number is printed, and -f repeats it. Exit status 1
 * means that no input was accepted: the target, or the choice of files, is broken. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/container/file.h"

typedef struct corpus_file {
    char *path;
    unsigned char *bytes;
    size_t size;
} corpus_file;

typedef struct corpus {
    corpus_file *files;
    size_t count;
    const char *suffix;
} corpus;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(3);
}

static void add_file(corpus *c, const char *path)
{
    sb_error err;
    size_t n = strlen(path);
    size_t m = strlen(c->suffix);
    if (n < m || strcmp(path + n - m, c->suffix) != 0)
        return;
    corpus_file *grown = sb_realloc(c->files, c->count + 1, sizeof *grown);
    if (!grown)
        die(path, "out of memory");
    c->files = grown;
    corpus_file *f = &grown[c->count++];
    f->path = sb_strdup(path);
    if (!f->path || sb_read_file(path, 1 << 20, &f->bytes, &f->size, &err) != SB_OK)
        die(path, f->path ? err.text : "out of memory");
}

static void add_path(corpus *c, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        die(path, "cannot open");
    if (!S_ISDIR(info.st_mode)) {
        add_file(c, path);
        return;
    }
    DIR *dir = opendir(path);
    if (!dir)
        die(path, "cannot list");
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.')
            continue;
        char *inner = sb_path_join(path, entry->d_name);
        if (!inner)
            die(path, "out of memory");
        add_path(c, inner);
        free(inner);
    }
    closedir(dir);
}

/* A folder lists its files in any order, but mutations must not depend on that order. */
static int by_path(const void *left, const void *right)
{
    const corpus_file *a = left;
    const corpus_file *b = right;
    return strcmp(a->path, b->path);
}

/* The draws of one mutation. */
typedef struct draws {
    uint64_t key;
    uint64_t at;
} draws;

static size_t draw(draws *d, size_t below)
{
    return below ? sb_rng_below(d->key, d->at++, (uint32_t)below) : 0;
}

/* A text that grows and shrinks in place. */
typedef struct victim {
    unsigned char *bytes;
    size_t size;
    size_t room;
} victim;

static void splice(victim *v, size_t at, size_t removed, const void *inserted, size_t count)
{
    size_t tail = v->size - at - removed;
    if (at + count + tail > v->room)
        return;
    memmove(v->bytes + at + count, v->bytes + at + removed, tail);
    memcpy(v->bytes + at, inserted, count);
    v->size = at + count + tail;
}

static void insert_token(victim *v, draws *d)
{
    static const char *const tokens[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\"",
                                         "0",
                                         "-0",
                                         "-1",
                                         "1.0",
                                         "1e999",
                                         "NaN",
                                         "null",
                                         "true",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "18446744073709551616",
                                         "4294967296",
                                         "\\u0000",
                                         "\\ud800",
                                         "\xff",
                                         "\"\":{}",
                                         "[[[[[[[[",
                                         "{\"a\":",
                                         "\"dtype\":\"F4\"",
                                         "\"text_config\":{",
                                         "\"rope_theta\":1,",
                                         " ",
                                         "\n",
                                         "/"};
    const char *token = tokens[draw(d, sizeof tokens / sizeof tokens[0])];
    size_t at = draw(d, v->size + 1);
    size_t most = v->size - at < 8 ? v->size - at : 8;
    splice(v, at, draw(d, most + 1), token, strlen(token));
}

static void mutate(victim *v, const corpus *c, draws *d)
{
    const corpus_file *other = &c->files[draw(d, c->count)];
    size_t at = draw(d, v->size);
    size_t length = draw(d, 32);
    unsigned char byte = (unsigned char)draw(d, 256);
    switch (draw(d, 7)) {
    case 0: /* flips one bit */
        if (v->size)
            v->bytes[at] ^= (unsigned char)(1u << byte % 8);
        break;
    case 1: /* changes one byte */
        if (v->size)
            v->bytes[at] = byte;
        break;
    case 2: /* cuts the end */
        v->size = at;
        break;
    case 3: /* removes a part */
        splice(v, at, length < v->size - at ? length : v->size - at, "", 0);
        break;
    case 4: { /* inserts a part of another file, or of itself */
        size_t from = draw(d, other->size);
        size_t count = length < other->size - from ? length : other->size - from;
        splice(v, at, 0, other->bytes + from, count);
        break;
    }
    case 5: /* replaces one digit by another */
        for (size_t i = at; i < v->size; i++) {
            if (v->bytes[i] >= '0' && v->bytes[i] <= '9') {
                v->bytes[i] = (unsigned char)('0' + byte % 10);
                break;
            }
        }
        break;
    default:
        insert_token(v, d);
        break;
    }
}

/* Runs the target on a block of exactly this size, so that a sanitizer sees a read of one byte too
 * many. */
static void run_exact(const unsigned char *bytes, size_t size)
{
    unsigned char *exact = malloc(size ? size : 1);
    if (!exact)
        die(fuzz_name, "out of memory");
    memcpy(exact, bytes, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void run_mutation(const corpus *c, uint64_t seed, unsigned long i)
{
    static unsigned char room[(1 << 20) + 4096];
    char path[64];
    snprintf(path, sizeof path, "%s.%lu", fuzz_name, i);
    draws d = {sb_rng_key(seed, path), 0};
    const corpus_file *from = &c->files[draw(&d, c->count)];
    victim v = {room, from->size, sizeof room};
    memcpy(room, from->bytes, from->size);
    for (size_t left = 1 + draw(&d, 4); left > 0; left--)
        mutate(&v, c, &d);
    run_exact(v.bytes, v.size);
}

static unsigned long number(const char *text)
{
    char *end;
    unsigned long value = text ? strtoul(text, &end, 10) : 0;
    if (!text || end == text || *end)
        die(text ? text : "option", "expected a number");
    return value;
}

/* --- which one it was ------------------------------------------------------------------------- */

static char current[48];         /* "fuzz_x: mutation N\n"; empty before the first */
static int told = STDERR_FILENO; /* the original stderr: a target may redirect descriptor 2 */

static void name_current(unsigned long i)
{
    snprintf(current, sizeof current, "fuzz_%.20s: mutation %lu\n", fuzz_name, i);
}

static void say_current(void)
{
    if (write(told, current, strlen(current)) < 0)
        _exit(3);
}

static void on_signal(int signal_number)
{
    say_current();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* A sanitizer ends the program without calling the driver. */
void __sanitizer_set_death_callback(void (*call)(void)) __attribute__((weak));
void __sanitizer_set_report_fd(void *fd) __attribute__((weak));

static void watch_for_death(void)
{
    int copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    told = copy < 0 ? told : copy;
    if (__sanitizer_set_report_fd)
        __sanitizer_set_report_fd((void *)(intptr_t)told);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(say_current);
        signal(SIGABRT, on_signal);
        return;
    }
    static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], on_signal);
}

/* --- the command line ------------------------------------------------------------------------- */

typedef struct settings {
    unsigned long mutations, first, seconds;
    uint64_t seed;
    int counted, verbose;
} settings;

/* Reads options up to the first path; returns its index. */
static int read_options(int argc, char **argv, settings *o, corpus *c)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "-n") == 0) {
            o->mutations = number(argv[++i]);
            o->counted = 1;
        } else if (strcmp(argv[i], "-t") == 0)
            o->seconds = number(argv[++i]);
        else if (strcmp(argv[i], "-f") == 0)
            o->first = number(argv[++i]);
        else if (strcmp(argv[i], "-s") == 0)
            o->seed = number(argv[++i]);
        else if (strcmp(argv[i], "-e") == 0 && i + 1 < argc)
            c->suffix = argv[++i];
        else if (strcmp(argv[i], "-v") == 0)
            o->verbose = 1;
        else
            die(argv[i], "unknown option");
    }
    if (o->seconds && !o->counted)
        o->mutations = ULONG_MAX;
    return i;
}

/* Seconds of a clock that is never set. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the number of mutations that ran. */
static unsigned long run_mutations(const corpus *c, const settings *o)
{
    double begin = now();
    unsigned long k = 0;
    for (; k < o->mutations && !(o->seconds && now() - begin >= (double)o->seconds); k++) {
        name_current(o->first + k);
        if (o->verbose)
            say_current();
        run_mutation(c, o->seed, o->first + k);
    }
    return k;
}

int main(int argc, char **argv)
{
    corpus c = {.suffix = ""};
    settings o = {.seed = 1};
    for (int i = read_options(argc, argv, &o, &c); i < argc; i++)
        add_path(&c, argv[i]);
    if (c.count == 0)
        die(fuzz_name, "no files");
    qsort(c.files, c.count, sizeof *c.files, by_path);
    watch_for_death();
    clock_t begin = clock();
    for (size_t k = 0; k < c.count; k++) {
        if (o.verbose)
            fprintf(stderr, "%s\n", c.files[k].path);
        run_exact(c.files[k].bytes, c.files[k].size);
    }
    unsigned long ran = run_mutations(&c, &o);
    printf("fuzz %s: %zu files, %lu mutations, %lu accepted, %.1f s\n", fuzz_name, c.count, ran,
           fuzz_accepted, (double)(clock() - begin) / CLOCKS_PER_SEC);
    for (size_t k = 0; k < c.count; k++) {
        free(c.files[k].path);
        free(c.files[k].bytes);
    }
    free(c.files);
    return fuzz_accepted > 0 ? 0 : 1;
}
