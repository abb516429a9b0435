/* codecs32.c - every one of the 2^32 binary32 numbers through the encoders of ref/formats.
 *
 *   codecs32 --codecs [NAME]
 *       compares every encoder, or one, with the definition (codec_oracle.h)
 *   codecs32 --forms FILE
 *       prints how often any two encoders of e2m1_forms.def differ, and where; FILE has to contain
 *       every line of this table
 *
 * Exit status 0 if nothing differs, 1 if something does, 2 for a wrong command line. */
#include <pthread.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ref/base/bytes.h"
#include "ref/base/pool.h"
#include "ref/formats/e2m1_forms.h"
#include "tests/exhaustive/codec_oracle.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum { BLOCK_BITS = 18, BLOCKS = 1 << (32 - BLOCK_BITS), FORMS = SB_E2M1_FORM_COUNT };

static int close_with(unsigned passed, unsigned failed)
{
    printf("%u passed, %u failed\n", passed, failed);
    return failed || passed == 0 ? 1 : 0;
}

/* --- encoders against the definition ---------------------------------------------------------- */
static uint64_t wrong_in_block(const codec *c, uint64_t first)
{
    uint64_t wrong = 0;
    uint32_t hint = 0;
    for (uint64_t bits = first; bits < first + ((uint64_t)1 << BLOCK_BITS); bits++) {
        float x = sb_f32_from_bits((uint32_t)bits);
        uint32_t got = c->encode(x), want = codec_expected(c, x, &hint);
        if (got != want && wrong++ < 1) {
            pthread_mutex_lock(&lock);
            fprintf(stderr, "FAIL %s(%08x = %a) got %02x want %02x\n", c->name, (unsigned)bits,
                    (double)x, (unsigned)got, (unsigned)want);
            pthread_mutex_unlock(&lock);
        }
    }
    return wrong;
}

typedef struct sweep {
    const codec *c;
    uint64_t wrong;
} sweep;

static void one_block(void *ctx, size_t b, size_t worker)
{
    sweep *s = ctx;
    const uint64_t wrong = wrong_in_block(s->c, (uint64_t)b << BLOCK_BITS);
    (void)worker;
    pthread_mutex_lock(&lock);
    s->wrong += wrong;
    pthread_mutex_unlock(&lock);
}

static int codecs(const char *only)
{
    unsigned passed = 0, failed = 0;
    codec_prepare();
    for (size_t k = 0; k < codec_count; k++) {
        const codec *c = &codec_table[k];
        if (only && strcmp(only, c->name) != 0)
            continue;
        double start = seconds();
        sweep s = {c, 0};
        sb_parallel_in_order((size_t)BLOCKS, 1, one_block, &s);
        const uint64_t wrong = s.wrong;
        printf("%s codec %s: 4294967296 inputs, %llu wrong, %.1f s on %d threads\n",
               wrong ? "FAIL" : "PASS", c->name, (unsigned long long)wrong, seconds() - start,
               (int)sb_threads());
        fflush(stdout);
        passed += wrong == 0;
        failed += wrong != 0;
    }
    return close_with(passed, failed);
}

/* --- forms of E2M1 against each other --------------------------------------------------------- */
typedef enum input_class {
    IS_NAN,
    IS_MINUS_ZERO,
    IS_BELOW_ZERO, /* x < 0 that rounds to zero */
    IS_TIE,        /* midway between two magnitudes */
    IS_BEYOND,     /* beyond 6 */
    IS_OTHER,
    CLASSES
} input_class;

static input_class class_of(float x)
{
    static const float ties[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    float a = fabsf(x);
    if (x != x)
        return IS_NAN;
    if (x == 0)
        return signbit(x) ? IS_MINUS_ZERO : IS_OTHER;
    if (x < 0 && a <= 0.25f)
        return IS_BELOW_ZERO;
    for (size_t i = 0; i < sizeof ties / sizeof ties[0]; i++)
        if (a == ties[i])
            return IS_TIE;
    return a > 6 ? IS_BEYOND : IS_OTHER;
}

typedef struct difference {
    uint64_t count[CLASSES], first; /* `first` is the first argument as bits, or 2^32 */
} difference;

static difference differences[FORMS][FORMS];

static void compare_block(uint64_t first, difference found[FORMS][FORMS])
{
    for (uint64_t bits = first; bits < first + ((uint64_t)1 << BLOCK_BITS); bits++) {
        uint8_t code[FORMS];
        float x = sb_f32_from_bits((uint32_t)bits);
        int differ = 0;
        for (unsigned f = 0; f < FORMS; f++) {
            code[f] = sb_e2m1_encode((sb_e2m1_form)f, x);
            differ |= code[f] ^ code[0];
        }
        for (unsigned f = 0; differ && f < FORMS; f++)
            for (unsigned g = f + 1; g < FORMS; g++) {
                if (code[f] == code[g])
                    continue;
                found[f][g].count[class_of(x)]++;
                if (found[f][g].first > bits)
                    found[f][g].first = bits;
            }
    }
}

static void all_forms(void *ctx, size_t b, size_t worker)
{
    difference found[FORMS][FORMS] = {{{{0}, 0}}};
    (void)ctx;
    (void)worker;
    for (unsigned f = 0; f < FORMS; f++)
        for (unsigned g = 0; g < FORMS; g++)
            found[f][g].first = (uint64_t)1 << 32;
    compare_block((uint64_t)b << BLOCK_BITS, found);
    pthread_mutex_lock(&lock);
    for (unsigned f = 0; f < FORMS; f++)
        for (unsigned g = 0; g < FORMS; g++) {
            difference *to = &differences[f][g], *from = &found[f][g];
            for (unsigned c = 0; c < CLASSES; c++)
                to->count[c] += from->count[c];
            if (to->first > from->first)
                to->first = from->first;
        }
    pthread_mutex_unlock(&lock);
}

static void compare_all(void)
{
    for (unsigned f = 0; f < FORMS; f++)
        for (unsigned g = 0; g < FORMS; g++)
            differences[f][g].first = (uint64_t)1 << 32;
    sb_parallel_in_order((size_t)BLOCKS, 1, all_forms, NULL);
}

/* One row of the table, as printed and as in the document. */
static void row(char *line, size_t size, sb_e2m1_form f, sb_e2m1_form g)
{
    const difference *d = &differences[f][g];
    uint64_t all = 0;
    char first[32] = "-";
    for (unsigned c = 0; c < CLASSES; c++)
        all += d->count[c];
    if (all)
        snprintf(first, sizeof first, "%08x", (unsigned)d->first);
    int n = snprintf(line, size, "| %s | %s | %llu |", sb_e2m1_form_name(f), sb_e2m1_form_name(g),
                     (unsigned long long)all);
    for (unsigned c = 0; c < CLASSES; c++)
        n += snprintf(line + n, size - (size_t)n, " %llu |", (unsigned long long)d->count[c]);
    snprintf(line + n, size - (size_t)n, " %s |", first);
}

/* Whether a file contains exactly this line. */
static int stands_in(const char *path, const char *wanted)
{
    char line[512];
    int found = 0;
    FILE *in = fopen(path, "r");
    while (in && !found && fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        found = strcmp(line, wanted) == 0;
    }
    if (in)
        fclose(in);
    return found;
}

static int forms(const char *document)
{
    unsigned passed = 0, failed = 0;
    double start = seconds();
    compare_all();
    for (unsigned f = 0; f < FORMS; f++)
        for (unsigned g = f + 1; g < FORMS; g++) {
            char line[512];
            row(line, sizeof line, (sb_e2m1_form)f, (sb_e2m1_form)g);
            int good = stands_in(document, line);
            printf("%s%s\n", line, good ? "" : "   <- FAIL: not in the document");
            passed += good ? 1 : 0;
            failed += good ? 0 : 1;
        }
    printf("forms: 4294967296 inputs, %.1f s on %d threads\n", seconds() - start,
           (int)sb_threads());
    return close_with(passed, failed);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "--codecs") == 0 && argc <= 3)
        return codecs(argc == 3 ? argv[2] : NULL);
    if (strcmp(mode, "--forms") == 0 && argc == 3)
        return forms(argv[2]);
    fprintf(stderr, "usage: codecs32 --codecs [NAME] | --forms FILE\n");
    return 2;
}
