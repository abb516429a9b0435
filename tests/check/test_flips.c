/* test_flips.c - single bits flipped at random in intact folders, and which flips are caught.
 *
 *   SAMEBIT_FLIPS=N  the number of flips (1000; 100000 with CHECK_ALL=1)
 *
 * A flip is caught if there is a finding above INFO that the intact folder does not have, at the
 * module whose tensor was changed. In headers, the index and config.json, any new finding above
 * INFO counts. Bits are drawn class by class, so that rare classes (global scales, headers) are
 * met, too. The share for a bit drawn from all payloads is computed from the shares of the classes
 * and their sizes.
 *
 * Every flip of a code must be caught by the nearest-code checks (23, 31), or, if the code becomes
 * NaN, by check 28. There are two exceptions: +0 and -0, and flipped codes that are nearest within
 * the slack of a rounding boundary. The test computes them from the bytes, without any code of the
 * checks. */
#include "tests/lib/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/rng.h"
#include "ref/container/checkpoint.h"
#include "tests/check/flip_codes.h"
#include "tests/check/folder.h"

/* --- classes of bits -------------------------------------------------------------------------- */

enum { MAX_CLASSES = 64, MAX_RANGES = 4096 };

typedef struct bit_class {
    char name[48];
    uint64_t bits; /* the number of bits of the class */
    uint64_t drawn, caught;
    uint64_t elsewhere; /* seen, but only at other tensors */
    uint64_t excused;   /* codes that stay nearest */
} bit_class;

/* A range of a file in which the classes of the bits repeat after `element` bits. */
typedef struct range {
    char file[80];
    uint64_t offset, bytes;
    char tensor[200]; /* "" for headers, index and configuration */
    unsigned element; /* 4, 8, 16 or 32 */
    size_t classes[32];
} range;

typedef struct target {
    const char *vehicle, *against;
    const char *path;
    sb_checkpoint *checkpoint, *original;
    folder_result *clean;
    bit_class classes[MAX_CLASSES];
    size_t class_count;
    range ranges[MAX_RANGES];
    size_t range_count;
} target;

static size_t class_of(target *t, const char *name)
{
    for (size_t i = 0; i < t->class_count; i++)
        if (strcmp(t->classes[i].name, name) == 0)
            return i;
    assert_true(t->class_count < MAX_CLASSES);
    snprintf(t->classes[t->class_count].name, sizeof t->classes[0].name, "%s", name);
    return t->class_count++;
}

static int ends(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);
    return n > m && strcmp(name + n - m, suffix) == 0;
}

/* The name of the class of a bit: "block scale, bit 6". */
static void name_bit(const sb_tensor *t, unsigned bit, char *name, size_t size)
{
    const char *kind = ends(t->name, "global_scale") || ends(t->name, "scale_2") ? "global scale"
                       : strstr(t->name, "scale")                                ? "scale"
                       : t->rank == 1                                            ? "plain vector"
                                                                                 : "plain matrix";
    if (strstr(t->name, ".input_global_scale") || strstr(t->name, ".input_scale"))
        kind = "input scale";
    switch (t->dtype) {
    case SB_DTYPE_U8: {
        static const char *const bits[] = {"low bit", "middle bit", "high bit", "sign"};
        snprintf(name, size, "FP4 code, %s", bits[bit % 4]);
        break;
    }
    case SB_DTYPE_F8_E4M3:
        if (strstr(t->name, "scale"))
            snprintf(name, size, "block scale, bit %u", bit);
        else
            snprintf(name, size, "FP8 code, %s",
                     bit == 7  ? "sign"
                     : bit > 2 ? "exponent"
                               : "fraction");
        break;
    case SB_DTYPE_BF16:
        snprintf(name, size, "%s, %s", kind,
                 bit == 15 ? "sign"
                 : bit > 6 ? "exponent"
                           : "fraction");
        break;
    case SB_DTYPE_F32:
        snprintf(name, size, "%s, %s", kind,
                 bit == 31  ? "sign"
                 : bit > 22 ? "exponent"
                 : bit > 15 ? "fraction of BF16"
                            : "fraction below BF16");
        break;
    default:
        fail_msg("%s: no flips of %s", t->name, sb_dtype_name(t->dtype));
    }
}

static range *add_range(target *t, const char *file, uint64_t offset, uint64_t bytes)
{
    assert_true(t->range_count < MAX_RANGES && bytes > 0);
    range *r = &t->ranges[t->range_count++];
    *r = (range){.offset = offset, .bytes = bytes, .element = 8};
    snprintf(r->file, sizeof r->file, "%s", file);
    return r;
}

static void add_text(target *t, const char *file, uint64_t offset, uint64_t bytes, const char *what)
{
    range *r = add_range(t, file, offset, bytes);
    for (unsigned bit = 0; bit < 8; bit++)
        r->classes[bit] = class_of(t, what);
    t->classes[r->classes[0]].bits += 8 * bytes;
}

static void add_tensor(target *t, const sb_tensor *tensor)
{
    char name[48];
    range *r = add_range(t, sb_checkpoint_shard_name(t->checkpoint, tensor->shard),
                         sb_checkpoint_offset(t->checkpoint, tensor), tensor->bytes);
    snprintf(r->tensor, sizeof r->tensor, "%s", tensor->name);
    r->element = tensor->dtype == SB_DTYPE_U8 ? 4 : sb_dtype_bits(tensor->dtype);
    for (unsigned bit = 0; bit < r->element; bit++) {
        name_bit(tensor, bit, name, sizeof name);
        r->classes[bit] = class_of(t, name);
        t->classes[r->classes[bit]].bits += tensor->bytes * 8 / r->element;
    }
}

static void add_file(target *t, const char *file, const char *what)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", t->path, file);
    FILE *in = fopen(path, "rb");
    if (!in)
        return;
    assert_int_equal(fseek(in, 0, SEEK_END), 0);
    add_text(t, file, 0, (uint64_t)ftell(in), what);
    fclose(in);
}

static void list_bits(target *t)
{
    for (uint32_t s = 0; s < sb_checkpoint_shards(t->checkpoint); s++) {
        const char *file = sb_checkpoint_shard_name(t->checkpoint, s);
        uint64_t first = UINT64_MAX;
        for (size_t i = 0; i < sb_checkpoint_count(t->checkpoint); i++) {
            const sb_tensor *tensor = sb_checkpoint_at(t->checkpoint, i);
            uint64_t offset = sb_checkpoint_offset(t->checkpoint, tensor);
            if (tensor->shard == s && offset < first)
                first = offset;
        }
        add_text(t, file, 0, 8, "length of the header");
        add_text(t, file, 8, first - 8, "header");
    }
    for (size_t i = 0; i < sb_checkpoint_count(t->checkpoint); i++)
        add_tensor(t, sb_checkpoint_at(t->checkpoint, i));
    add_file(t, "model.safetensors.index.json", "index");
    add_file(t, "config.json", "config.json");
}

/* --- one flip --------------------------------------------------------------------------------- */

typedef struct flip {
    const range *where;
    size_t class;
    uint64_t bit; /* its position in the range */
} flip;

static flip draw(const target *t, uint64_t key, uint64_t index)
{
    flip f = {NULL, index % t->class_count, 0};
    uint64_t count = t->classes[f.class].bits, at = sb_rng_u64(key, index) % count;
    for (size_t i = 0; i < t->range_count; i++) {
        const range *r = &t->ranges[i];
        unsigned here = 0, which[32];
        for (unsigned bit = 0; bit < r->element; bit++)
            if (r->classes[bit] == f.class)
                which[here++] = bit;
        uint64_t elements = r->bytes * 8 / r->element, bits = elements * here;
        if (at >= bits) {
            at -= bits;
            continue;
        }
        f.where = r;
        f.bit = at / here * r->element + which[at % here];
        return f;
    }
    fail_msg("class %s has fewer bits than counted", t->classes[f.class].name);
    return f;
}

static void turn(const target *t, const flip *f)
{
    char path[512];
    unsigned char byte = 0;
    snprintf(path, sizeof path, "%s/%s", t->path, f->where->file);
    int fd = open(path, O_RDWR);
    off_t at = (off_t)(f->where->offset + f->bit / 8);
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= (unsigned char)(1u << f->bit % 8);
    assert_true(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

/* True if there is a new finding above INFO at `module`, of this check (0: of any check). */
static int found(const target *t, const folder_result *r, const char *module, unsigned check)
{
    for (size_t i = 0; i < r->check.findings.count; i++) {
        const sb_finding *f = &r->check.findings.rows[i];
        if (f->level > SB_LEVEL_info && (!check || f->check == check) &&
            strstr(f->tensor, module) && !folder_has(t->clean, f))
            return 1;
    }
    return 0;
}

/* --- all flips -------------------------------------------------------------------------------- */

static void one(target *t, uint64_t key, uint64_t index)
{
    flip f = draw(t, key, index);
    bit_class *c = &t->classes[f.class];
    char module[200];
    sb_check_options options = {.path = t->path, .against = folder_path(t->against)};
    folder_result r = {.options = options};
    snprintf(module, sizeof module, "%s", f.where->tensor);
    if (strrchr(module, '.'))
        *strrchr(module, '.') = '\0';
    int fp4 = strncmp(c->name, "FP4", 3) == 0, fp8 = strncmp(c->name, "FP8", 3) == 0;
    int nearest =
        fp4 || fp8 ? flip_stays_nearest(t->checkpoint, t->original, f.where->tensor, f.bit) : -1;
    turn(t, &f);
    r.status = sb_check_run(&r.options, &r.check, &r.why);
    uint64_t caught = r.status != SB_OK || found(t, &r, module, 0);
    c->drawn++;
    c->caught += caught;
    c->elsewhere += (uint64_t)(!caught && found(t, &r, "", 0));
    c->excused += (uint64_t)(nearest == 1);
    /* a code that became NaN cannot be nearest, and is FATAL to check 28 */
    if (nearest == 0 && !found(t, &r, module, fp4 ? 23 : 31) && !found(t, &r, module, 28)) {
        printf("%s bit %llu of %s\n", t->vehicle, (unsigned long long)f.bit, f.where->tensor);
        fail_msg("check %u does not see a flipped code that is no nearest one", fp4 ? 23 : 31);
    }
    sb_check_free(&r.check);
    turn(t, &f);
}

static void print_table(const target *t)
{
    double all = 0, seen = 0;
    printf("\n%s against %s\n%-36s %9s %7s %7s %9s\n", t->vehicle, t->against, "class of bit",
           "bits", "flipped", "caught", "elsewhere");
    for (size_t i = 0; i < t->class_count; i++) {
        const bit_class *c = &t->classes[i];
        double share = c->drawn ? (double)c->caught / (double)c->drawn : 0;
        printf("%-36s %9llu %7llu %6.1f%% %9llu", c->name, (unsigned long long)c->bits,
               (unsigned long long)c->drawn, 100 * share, (unsigned long long)c->elsewhere);
        if (c->excused)
            printf("   %llu stay nearest", (unsigned long long)c->excused);
        printf("\n");
        all += (double)c->bits;
        seen += share * (double)c->bits;
        if (strncmp(c->name, "length", 6) == 0)
            assert_int_equal(c->caught, c->drawn);
        if (strncmp(c->name, "plain", 5) == 0) /* all are caught, except signs of zeros in norms */
            assert_true(c->drawn - c->caught <= 1 + c->drawn / 20);
    }
    printf("%-36s %9.0f %7s %6.1f%%\n", "any bit", all, "", 100 * seen / all);
    assert_true(seen > 0.9 * all);
}

static uint64_t flips(void)
{
    const char *count = getenv("SAMEBIT_FLIPS"), *all = getenv("CHECK_ALL");
    return count ? strtoull(count, NULL, 10) : all && *all == '1' ? 100000 : 1000;
}

static void flip_all(const char *vehicle, const char *against)
{
    static target t;
    folder *f = folder_of(vehicle);
    sb_error err;
    t = (target){.vehicle = vehicle, .against = against};
    t.path = folder_write(f);
    folder_free(f);
    t.clean = folder_check_made(t.path, against, NULL);
    expect_none_above(t.clean, SB_LEVEL_warn);
    if (sb_checkpoint_open(folder_path(vehicle), &t.checkpoint, &err) ||
        sb_checkpoint_open(folder_path(against), &t.original, &err))
        fail_msg("%s", err.text);
    list_bits(&t);
    for (uint64_t i = 0; i < flips() / 3 + 1; i++)
        one(&t, sb_rng_key(42, vehicle), i);
    print_table(&t);
    folder_result_free(t.clean);
    sb_checkpoint_close(t.checkpoint);
    sb_checkpoint_close(t.original);
}

TEST(test_ct)
{
    flip_all("golden/quant/ct-nvfp4", "golden/quant/in/moe-mtp");
}

TEST(test_modelopt)
{
    flip_all("golden/quant/modelopt-nvfp4", "golden/quant/in/moe-mtp");
}

TEST(test_fp8)
{
    flip_all("T4 fp8-block recipe=plain", "T4 bf16 recipe=plain");
}
