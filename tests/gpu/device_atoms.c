/* device_atoms.c - compares the atoms on a device with their host bodies, bit for bit: random and
 * hostile fragments, and those of golden/atoms. Where two readings are open (H-13), the device must
 * have the bits of one of them throughout, and the program prints which.
 *
 *   device_atoms COUNT SECONDS [device|host|other|mixed|plant [FOLDER]]
 *
 * COUNT fragments of each atom, if SECONDS suffice. In FOLDER a file for each atom that differs
 * lists the fragments that differ: the number, from which the fragment is drawn, and the words that
 * were computed, lane by lane; for the first hundred also the inputs and the words that are right.
 *
 * device: the default. host: the interpreter of ref/formats/atoms.h instead of the device. other:
 * the interpreter with the second readings. mixed: the interpreter with both readings in turn,
 * which must fail. plant: the interpreter with the first readings and one wrong bit in each result,
 * which must fail. Exit status 0, 1, 2 for wrong use, 4 without a device, or if the time was over
 * before the last fragment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/container/json.h"
#include "tests/gpu/atom_host.h"

enum { BATCH = 6 * 1024, LANE_IN = 32 * DEVICE_IN, LANE_OUT = 32 * DEVICE_OUT };

static const struct atom {
    const char *name;
    sb_format format;
    sb_atom_id row;
    unsigned from_a, from_b;
    unsigned open; /* the point of H-13 that is open for the device's own instruction */
} atoms[DEVICE_ATOM_COUNT] = {
    [DEVICE_ATOM_bf16] = {"bf16", SB_FORMAT_bf16, SB_ATOM_sm120_f16, 0, 0, SB_ATOM_PLUS_ZERO},
    [DEVICE_ATOM_f16] = {"f16", SB_FORMAT_f16, SB_ATOM_sm120_f16, 0, 0, 0},
    [DEVICE_ATOM_e4m3] = {"e4m3", SB_FORMAT_e4m3, SB_ATOM_sm120_fp8, 0, 0, 0},
    [DEVICE_ATOM_e4m3_portable] = {"e4m3, portable", SB_FORMAT_e4m3, SB_ATOM_sm120_fp8, 0, 0, 0},
    [DEVICE_ATOM_nvfp4] = {"nvfp4", SB_FORMAT_e2m1, SB_ATOM_sm120_nvfp4, 0, 0,
                           SB_ATOM_EMPTY_AS_ZERO},
    [DEVICE_ATOM_nvfp4_12] = {"nvfp4<1,2>", SB_FORMAT_e2m1, SB_ATOM_sm120_nvfp4, 1, 2,
                              SB_ATOM_EMPTY_AS_ZERO},
    [DEVICE_ATOM_nvfp4_portable] = {"nvfp4, portable", SB_FORMAT_e2m1, SB_ATOM_sm120_nvfp4, 0, 0,
                                    0},
    [DEVICE_ATOM_nvfp4_portable_01] = {"nvfp4<0,1>, portable", SB_FORMAT_e2m1, SB_ATOM_sm120_nvfp4,
                                       0, 1, 0},
    [DEVICE_ATOM_nvfp4_portable_12] = {"nvfp4<1,2>, portable", SB_FORMAT_e2m1, SB_ATOM_sm120_nvfp4,
                                       1, 2, 0},
    [DEVICE_ATOM_nvfp4_portable_13] = {"nvfp4<1,3>, portable", SB_FORMAT_e2m1, SB_ATOM_sm120_nvfp4,
                                       1, 3, 0},
    [DEVICE_ATOM_s8] = {"s8", SB_FORMAT_e2m1, SB_ATOM_COUNT, 0, 0, 0},
    [DEVICE_ATOM_convert] = {"conversions", SB_FORMAT_e2m1, SB_ATOM_COUNT, 0, 0, 0},
    [DEVICE_ATOM_ldmatrix] = {"ldmatrix", SB_FORMAT_e2m1, SB_ATOM_COUNT, 0, 0, 0},
};

/* instead: use the interpreter, with the first or second reading or both in turn. planted: with a
 * wrong bit */
static int instead, planted;
static enum { FIRST, SECOND, MIXED } readings;

/* --- fragments as words ----------------------------------------------------------------------- */
static void to_words(const atom_warp *w, uint32_t *out)
{
    for (unsigned lane = 0; lane < 32; lane++, out += DEVICE_IN) {
        memcpy(out, w->a[lane], sizeof w->a[lane]);
        memcpy(out + 4, w->b[lane], sizeof w->b[lane]);
        out[6] = w->sa[lane];
        out[7] = w->sb[lane];
        memcpy(out + 8, w->c[lane], sizeof w->c[lane]);
    }
}

static void from_words(int which, const uint32_t *in, atom_warp *w)
{
    for (unsigned lane = 0; lane < 32; lane++, in += DEVICE_IN) {
        memcpy(w->a[lane], in, sizeof w->a[lane]);
        memcpy(w->b[lane], in + 4, sizeof w->b[lane]);
        w->sa[lane] = in[6];
        w->sb[lane] = in[7];
        memcpy(w->c[lane], in + 8, sizeof w->c[lane]);
    }
    w->from_a = atoms[which].from_a;
    w->from_b = atoms[which].from_b;
}

static void draw(int which, uint64_t at, uint32_t *out)
{
    const uint64_t key = sb_rng_u64(sb_rng_key(43, atoms[which].name), at);
    if (atoms[which].row != SB_ATOM_COUNT) {
        atom_warp w;
        atom_draw(atoms[which].format, (unsigned)(at % ATOM_KINDS), key, &w);
        to_words(&w, out);
        return;
    }
    for (unsigned i = 0; i < LANE_IN; i++) {
        const float x = sb_rng_normal(key, i); /* random bits seldom fit E4M3 and E2M1 */
        out[i] = (uint32_t)sb_rng_u64(key, LANE_IN + i);
        if (i % DEVICE_IN >= 8 && key & 1)
            memcpy(&out[i], &x, sizeof x);
    }
}

/* --- the right results ------------------------------------------------------------------------ */
static void right(int which, const uint32_t *in, int odd, uint32_t *out)
{
    atom_warp w;
    from_words(which, in, &w);
    atom_host(which, &w, in, odd, out);
}

/* The same by the interpreter, with readings of H-13. */
static void by_model(int which, const uint32_t *in, unsigned open, uint32_t *out)
{
    atom_warp w;
    float d[32][4];
    sb_atom row = sb_atoms[atoms[which].row];
    row.open = open;
    from_words(which, in, &w);
    memcpy(d, w.c, sizeof d);
    atom_model(&row, atoms[which].format, &w, 8, d);
    memcpy(out, d, sizeof d);
}

typedef struct turns {
    int which;
    uint64_t first;
    uint32_t *in, *out, *other;
} turns;

static void instead_of_device(void *ctx, size_t i, size_t worker)
{
    const turns *j = ctx;
    (void)worker;
    const int second = readings == SECOND || (readings == MIXED && i & 1);
    if (atoms[j->which].row == SB_ATOM_COUNT)
        right(j->which, j->in + i * LANE_IN, i & 1, j->out + i * LANE_OUT);
    else
        by_model(j->which, j->in + i * LANE_IN, second ? atoms[j->which].open : 0,
                 j->out + i * LANE_OUT);
}

static const char *call(int which, uint32_t *in, uint32_t *out, size_t warps)
{
    if (!instead)
        return device_atom(which, in, out, warps);
    turns j = {which, 0, in, out, NULL};
    sb_parallel_for(warps, 1, instead_of_device, &j);
    if (planted)
        out[warps / 2 * LANE_OUT + 5] ^= 1;
    return NULL;
}

/* --- one atom --------------------------------------------------------------------------------- */
typedef struct tally {
    uint64_t fragments, differ, from_other, decide; /* decide: elements that tell the two readings
                                                     * apart */
    uint64_t listed, unlike;                        /* fragments that differ */
    FILE *list;                                     /* NULL: none differed yet, or no list */
    int golden; /* fragments of golden/atoms, with their numbers there */
    char first[200];
} tally;

/* --- evidence --------------------------------------------------------------------------------- */
static const char *evidence; /* the folder, or NULL */
enum { LISTED = 20000, WITH_INPUTS = 100 };

static void list_words(FILE *to, const char *what, const uint32_t *words, unsigned count)
{
    fprintf(to, " %s", what);
    for (unsigned i = 0; i < count; i++)
        fprintf(to, " %08x", (unsigned)words[i]);
}

static FILE *open_list(const char *name, int golden)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s %s.txt", evidence, golden ? "golden atom" : "atom", name);
    for (char *at = path + strlen(evidence) + 1; *at; at++)
        if (strchr(" ,<>/", *at))
            *at = '-';
    return fopen(path, "a");
}

static void list(int which, uint64_t fragment, const uint32_t *in, const uint32_t *got,
                 const uint32_t *want, tally *t)
{
    if (!evidence || t->unlike++ >= LISTED)
        return;
    if (!t->list && !(t->list = open_list(atoms[which].name, t->golden)))
        return;
    fprintf(t->list, "fragment %llu", (unsigned long long)fragment);
    if (t->listed++ < WITH_INPUTS) {
        list_words(t->list, "in", in, LANE_IN);
        list_words(t->list, "right", want, LANE_OUT);
    }
    list_words(t->list, "got", got, LANE_OUT);
    fprintf(t->list, "\n");
}

static void close_list(const tally *t)
{
    if (!t->list)
        return;
    fprintf(t->list, "%llu fragments differ, %llu are listed\n", (unsigned long long)t->unlike,
            (unsigned long long)t->listed);
    fclose(t->list);
}

/* Compares one fragment. other: the second reading, or `want` if it is not known to differ. */
static void hold(int which, uint64_t fragment, const uint32_t *in, const uint32_t *got,
                 const uint32_t *want, const uint32_t *other, tally *t)
{
    static uint32_t second[LANE_OUT];
    if (atoms[which].open && !t->from_other && memcmp(got, want, sizeof second) != 0) {
        by_model(which, in, atoms[which].open, second);
        other = second;
    }
    for (unsigned i = 0; i < LANE_OUT; i++) {
        t->from_other += got[i] != other[i];
        t->decide += want[i] != other[i];
        if (got[i] != want[i] && t->differ++ == 0)
            snprintf(t->first, sizeof t->first,
                     ": fragment %llu, lane %u, element %u is %08x, not %08x",
                     (unsigned long long)fragment, i / DEVICE_OUT, i % DEVICE_OUT, (unsigned)got[i],
                     (unsigned)want[i]);
    }
    if (memcmp(got, want, sizeof second) != 0)
        list(which, fragment, in, got, want, t);
    t->fragments++;
}

static void draw_one(void *ctx, size_t i, size_t worker)
{
    const turns *j = ctx;
    (void)worker;
    uint32_t *in = j->in + i * LANE_IN, *out = j->out + i * LANE_OUT;
    draw(j->which, j->first + i, in);
    right(j->which, in, i & 1, out);
    if (atoms[j->which].open && (j->first + i) % ATOM_KINDS >= ATOM_APART)
        by_model(j->which, in, atoms[j->which].open, j->other + i * LANE_OUT);
    else
        memcpy(j->other + i * LANE_OUT, out, LANE_OUT * sizeof *out);
}

/* The data of a batch: inputs, outputs, and the wanted outputs by both readings. */
typedef struct room {
    uint32_t *in, *out, *want, *other;
} room;

static const char *batch(int which, uint64_t first, size_t warps, const room *r, tally *t)
{
    turns j = {which, first, r->in, r->want, r->other};
    sb_parallel_for(warps, 1, draw_one, &j);
    const char *wrong = call(which, r->in, r->out, warps);
    for (size_t i = 0; i < warps && !wrong; i++)
        hold(which, first + i, r->in + i * LANE_IN, r->out + i * LANE_OUT, r->want + i * LANE_OUT,
             r->other + i * LANE_OUT, t);
    return wrong;
}

/* SAID_skipped: ended early without a difference. */
enum { SAID_failed, SAID_passed, SAID_skipped, SAID_WORDS };

/* H-13: prints the device's reading. */
static void say_reading(unsigned open, const tally *t)
{
    static const char *const of_groups[] = {"a group of zeros has the exponent of its scales",
                                            "a group of zeros has the exponent of a zero"};
    static const char *const of_signs[] = {"a negative sum that is cut away is -0",
                                           "a negative sum that is cut away is +0"};
    const char *const *readings_of = open == SB_ATOM_EMPTY_AS_ZERO ? of_groups : of_signs;
    if (!open || (t->differ && t->from_other))
        return;
    if (t->decide)
        printf("; %s, as %llu elements decide", readings_of[t->differ != 0],
               (unsigned long long)t->decide);
    else
        printf("; %s, or not: no element decides", readings_of[0]);
}

static int said(const char *name, unsigned open, const char *wrong, const tally *t, uint64_t asked)
{
    static const char *const words[SAID_WORDS] = {"[  FAILED  ]", "[       OK ]", "[  SKIPPED ]"};
    const int differs = t->differ && (!open || t->from_other);
    const int verdict = wrong || differs || (!t->fragments && !asked) ? SAID_failed
                        : t->fragments < asked                        ? SAID_skipped
                                                                      : SAID_passed;
    printf("%s atom %s: %llu fragments%s, %llu elements differ%s%s%s", words[verdict], name,
           (unsigned long long)t->fragments,
           verdict == SAID_skipped ? " until the time was over, not all" : "",
           (unsigned long long)(differs ? t->differ : 0), differs ? t->first : "",
           wrong ? ": " : "", wrong ? wrong : "");
    say_reading(open, t);
    printf("\n");
    fflush(stdout);
    return verdict;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int check(int which, uint64_t count, double seconds, const room *r)
{
    tally t = {0};
    const char *wrong = NULL;
    const double begin = now();
    for (uint64_t at = 0; at < count && !wrong && now() - begin < seconds; at += BATCH) {
        wrong = batch(which, at, count - at < BATCH ? (size_t)(count - at) : BATCH, r, &t);
    }
    close_list(&t);
    return said(atoms[which].name, atoms[which].open, wrong, &t, count);
}

/* --- golden/atoms ----------------------------------------------------------------------------- */
static int read_words(const json_t *from, const char *name, uint32_t *out, size_t count)
{
    const char *text = json_string_value(json_object_get(from, name));
    if (!text || strlen(text) != 8 * count)
        return 0;
    for (size_t i = 0; i < count; i++) {
        char word[9] = "";
        memcpy(word, text + 8 * i, 8);
        out[i] = (uint32_t)strtoul(word, NULL, 16);
    }
    return 1;
}

/* Loads a recorded fragment if a kernel with its selectors exists. Returns 0 if the file is
 * damaged. */
static int golden_warp(int which, const json_t *from, uint64_t at, tally *t, const char **wrong)
{
    static uint32_t in[LANE_IN], out[LANE_OUT], want[LANE_OUT], other[LANE_OUT];
    atom_warp w = {.from_a = 0};
    uint32_t c[32][4];
    int good = read_words(from, "a", w.a[0], 128) && read_words(from, "b", w.b[0], 64) &&
               read_words(from, "c", c[0], 128) && read_words(from, "d", want, 128);
    if (good && atoms[which].format == SB_FORMAT_e2m1)
        good = read_words(from, "sa", w.sa, 32) && read_words(from, "sb", w.sb, 32);
    if (!good || json_integer_value(json_object_get(from, "p")) != (int)atoms[which].from_a ||
        json_integer_value(json_object_get(from, "q")) != (int)atoms[which].from_b)
        return good;
    memcpy(w.c, c, sizeof c);
    to_words(&w, in);
    *wrong = call(which, in, out, 1);
    memcpy(other, want, sizeof other);
    if (atoms[which].open)
        by_model(which, in, atoms[which].open, other);
    if (!*wrong)
        hold(which, at, in, out, want, other, t);
    return 1;
}

static int check_golden(int which, const char *file)
{
    char path[64], name[128];
    json_t *document = NULL;
    tally t = {.golden = 1};
    const char *wrong = NULL;
    sb_error err = {""};
    snprintf(path, sizeof path, "golden/atoms/%s.json", file);
    snprintf(name, sizeof name, "%s of %s", atoms[which].name, path);
    if (sb_json_load(path, &document, &err) != SB_OK)
        wrong = err.text;
    const json_t *warps = json_object_get(document, "warps");
    for (size_t i = 0; i < json_array_size(warps) && !wrong; i++)
        if (!golden_warp(which, json_array_get(warps, i), i, &t, &wrong))
            wrong = "the file is damaged";
    const int verdict = said(name, atoms[which].open, wrong, &t, 0);
    close_list(&t);
    json_decref(document);
    return verdict;
}

int main(int argc, char **argv)
{
    static const struct {
        int which;
        const char *file;
    } golden[] = {{DEVICE_ATOM_bf16, "bf16"},
                  {DEVICE_ATOM_f16, "f16"},
                  {DEVICE_ATOM_e4m3, "e4m3"},
                  {DEVICE_ATOM_e4m3_portable, "e4m3"},
                  {DEVICE_ATOM_nvfp4, "nvfp4"},
                  {DEVICE_ATOM_nvfp4_portable, "nvfp4"},
                  {DEVICE_ATOM_nvfp4_portable_13, "nvfp4"}};
    enum { GOLDEN = sizeof golden / sizeof *golden };
    const char *mode = argc >= 4 ? argv[3] : "device";
    planted = strcmp(mode, "plant") == 0;
    readings = strcmp(mode, "other") == 0 ? SECOND : strcmp(mode, "mixed") == 0 ? MIXED : FIRST;
    instead = planted || readings || strcmp(mode, "host") == 0;
    evidence = argc == 5 ? argv[4] : NULL;
    if (argc < 3 || argc > 5 || (!instead && strcmp(mode, "device") != 0)) {
        fprintf(stderr, "usage: %s COUNT SECONDS [device|host|other|mixed|plant [FOLDER]]\n",
                argv[0]);
        return 2;
    }
    if (!instead && !device_name()) {
        printf("SKIPPED atoms: there is no device\n");
        return 4;
    }
    const room r = {sb_alloc(BATCH * LANE_IN, 4), sb_alloc(BATCH * LANE_OUT, 4),
                    sb_alloc(BATCH * LANE_OUT, 4), sb_alloc(BATCH * LANE_OUT, 4)};
    const int there = r.in && r.out && r.want && r.other;
    int count[SAID_WORDS] = {0};
    const double each = strtod(argv[2], NULL) / DEVICE_ATOM_COUNT;
    for (int i = 0; i < GOLDEN; i++)
        count[check_golden(golden[i].which, golden[i].file)]++;
    for (int which = 0; which < DEVICE_ATOM_COUNT && there; which++)
        count[check(which, strtoull(argv[1], NULL, 10), each, &r)]++;
    printf("%d passed, %d failed, %d skipped\n", count[SAID_passed], count[SAID_failed],
           count[SAID_skipped]);
    free(r.in);
    free(r.out);
    free(r.want);
    free(r.other);
    return count[SAID_passed] == DEVICE_ATOM_COUNT + GOLDEN ? 0
           : count[SAID_failed] || !count[SAID_skipped]     ? 1
                                                            : 4;
}
