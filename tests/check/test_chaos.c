/* test_chaos.c - however a folder is damaged, the check ends, its messages are single lines, and
 * they are the same with every number of threads.
 *
 *   SAMEBIT_CHAOS=N  the number of folders (60; 3000 with CHECK_ALL=1) */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "tests/check/folder.h"

static const struct {
    const char *folder, *original;
} vehicles[] = {
    {"golden/quant/ct-nvfp4", "golden/quant/in/moe-mtp"},
    {"golden/quant/modelopt-nvfp4", "golden/quant/in/moe-mtp"},
    {"golden/quant/fp8", "golden/quant/in/moe-mtp"},
    {"golden/quant/ct-fp8-dynamic", "golden/quant/in/moe-mtp"},
    {"golden/quant/autoround-gptq-mtp", "golden/quant/in/moe-mtp"},
    {"golden/quant/ct-w4a16-asym", "golden/quant/in/dense"},
    {"golden/quant/modelopt-fp8-block", "golden/quant/in/dense"},
    {"golden/quant/awq", "golden/quant/in/dense"},
    {"golden/quant/ct-mxfp4", "golden/quant/in/dense"},
    {"golden/quant/in/moe-mtp", "golden/quant/in/moe-mtp"},
};

typedef struct dice {
    uint64_t key, index;
} dice;

static uint32_t roll(dice *d, size_t n)
{
    return sb_rng_below(d->key, d->index++, (uint32_t)n);
}

static folder_tensor *any(folder *f, dice *d)
{
    return f->tensors[roll(d, f->count)];
}

/* Gives a tensor another shape, of as many bytes, or of fewer or more. */
static void deform(folder_tensor *t, dice *d)
{
    uint64_t n = folder_values(t), shape[4] = {1, n, 1, 1};
    switch (roll(d, 5)) {
    case 0:
        folder_reshape(t, 1, &n);
        break;
    case 1:
        folder_reshape(t, 2, shape);
        break;
    case 2:
        folder_reshape(t, 4, shape);
        break;
    case 3:
        if (t->rank == 2) {
            uint64_t turned[2] = {t->shape[1], t->shape[0]};
            folder_reshape(t, 2, turned);
        }
        break;
    default:
        if (t->rank) {
            uint64_t other[SB_MAX_RANK];
            memcpy(other, t->shape, sizeof other);
            uint64_t *one = &other[roll(d, t->rank)];
            *one = roll(d, 2) ? *one + 1 : *one / 2 + 1;
            folder_resize(t, t->rank, other);
        }
    }
}

static void retype(folder_tensor *t, dice *d)
{
    static const sb_dtype dtypes[] = {
        SB_DTYPE_U8,  SB_DTYPE_I8,  SB_DTYPE_F8_E4M3, SB_DTYPE_F8_E5M2, SB_DTYPE_F16, SB_DTYPE_BF16,
        SB_DTYPE_F32, SB_DTYPE_I32, SB_DTYPE_I64,     SB_DTYPE_F64,     SB_DTYPE_BOOL};
    sb_dtype dtype = dtypes[roll(d, sizeof dtypes / sizeof *dtypes)];
    uint64_t last = t->rank ? t->shape[t->rank - 1] : 0, bits = last * sb_dtype_bits(t->dtype);
    if (bits && bits % sb_dtype_bits(dtype) == 0)
        folder_retype(t, dtype);
}

static void bytes(folder_tensor *t, dice *d)
{
    uint32_t how = roll(d, 4);
    for (uint64_t i = 0; i < t->size; i++)
        t->bytes[i] = how == 0   ? 0
                      : how == 1 ? 0xff
                      : how == 2 ? (unsigned char)sb_rng_u64(d->key, 1000000 + i)
                                 : (unsigned char)(t->bytes[i] ^ (i == t->size / 2 ? 0x40 : 0));
}

static void edit(folder *f, dice *d)
{
    char name[300];
    folder_tensor *t = any(f, d), *u = any(f, d);
    switch (roll(d, 9)) {
    case 0:
        folder_drop(f, t->name);
        break;
    case 1:
        deform(t, d);
        break;
    case 2:
        retype(t, d);
        break;
    case 3:
        bytes(t, d);
        break;
    case 4:
        if (t->size == u->size)
            folder_swap(t, u);
        break;
    case 5: /* the beginning of one name and the end of another */
        snprintf(name, sizeof name, "%.*s%s", (int)roll(d, strlen(t->name)), t->name,
                 strchr(u->name, '.'));
        if (!folder_maybe(f, name))
            folder_rename(f, t->name, name);
        break;
    case 6:
        folder_twin(f, t->name, t->name, "stray.safetensors");
        break;
    case 7:
        folder_damage_byte(f, NULL, roll(d, 4000), 1u << roll(d, 8));
        break;
    default:
        folder_move(f, t->name, "other.safetensors");
        f->has_index = (int)roll(d, 2);
    }
}

static void same(const folder_result *a, const folder_result *b)
{
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->check.findings.count, b->check.findings.count);
    for (size_t i = 0; i < a->check.findings.count; i++) {
        const sb_finding *x = &a->check.findings.rows[i], *y = &b->check.findings.rows[i];
        assert_int_equal(x->check, y->check);
        assert_int_equal(x->level, y->level);
        assert_string_equal(x->tensor, y->tensor);
        assert_string_equal(x->message, y->message);
        assert_true(*x->message && !strpbrk(x->message, "\n\r\t"));
    }
}

static void one(uint64_t key, uint64_t index)
{
    dice d = {key, index << 20};
    size_t v = roll(&d, sizeof vehicles / sizeof *vehicles);
    const char *original = roll(&d, 2) ? vehicles[v].original : NULL;
    folder *f = folder_of(vehicles[v].folder);
    for (uint32_t edits = 1 + roll(&d, 4); edits > 0; edits--)
        edit(f, &d);
    const char *path = folder_write(f);
    sb_threads_set(1);
    folder_result *a = folder_try_made(path, original, NULL);
    sb_threads_set(3);
    folder_result *b = folder_try_made(path, original, NULL);
    same(a, b);
    folder_result_free(a);
    folder_result_free(b);
    folder_free(f);
}

TEST(test_chaos)
{
    const char *count = getenv("SAMEBIT_CHAOS"), *all = getenv("CHECK_ALL");
    uint64_t n = count ? strtoull(count, NULL, 10) : all && *all == '1' ? 3000 : 60;
    for (uint64_t i = 0; i < n; i++)
        one(sb_rng_key(42, "chaos"), i);
}
