/* Bytes per token, computed from the headers of whole models of the real shapes. Their data is a
 * hole in the file. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/checkpoint.h"
#include "tests/lib/sparse.h"
#include "tools/check/floor/floor.h"

#define PROGRAM "test_floor"

enum { SMALL, LARGE, MODELS };
static const char *const presets[MODELS] = {"35b-a3b", "122b-a10b"};

/* How a recipe stores each kind of linear layer, and figures worked out by hand with two or three
 * digits: GB per token, tokens per second at 273 and at 255 GB/s, and at 273 GB/s with 32768 tokens
 * in the cache. */
typedef struct recipe {
    const char *name;
    sb_scheme experts, shared, mixers, head;
    double kv_bytes;
    struct {
        double gb, at_273, at_255, at_32k;
    } by_hand[MODELS];
} recipe;

static const recipe recipes[] = {
    {"bf16",
     SB_SCHEME_plain,
     SB_SCHEME_plain,
     SB_SCHEME_plain,
     SB_SCHEME_plain,
     2,
     {{6.02, 45, 42, 41}, {18.3, 14.9, 13.9, 14.3}}},
    {"fp8",
     SB_SCHEME_fp8_block,
     SB_SCHEME_fp8_block,
     SB_SCHEME_fp8_block,
     SB_SCHEME_plain,
     1,
     {{3.61, 76, 71, 69}, {10.1, 26.9, 25.2, 25.9}}},
    {"fp8-head",
     SB_SCHEME_fp8_block,
     SB_SCHEME_fp8_block,
     SB_SCHEME_fp8_block,
     SB_SCHEME_fp8_block,
     1,
     {{3.10, 88, 82, 79}, {9.37, 29.1, 27.2, 27.9}}},
    {"fp4-experts",
     SB_SCHEME_nvfp4_modelopt,
     SB_SCHEME_plain,
     SB_SCHEME_plain,
     SB_SCHEME_plain,
     1,
     {{4.57, 60, 56, 56}, {13.1, 20.8, 19.4, 20.2}}},
    {"fp4-fp8",
     SB_SCHEME_nvfp4_ct,
     SB_SCHEME_fp8_block,
     SB_SCHEME_fp8_block,
     SB_SCHEME_plain,
     1,
     {{3.17, 86, 80, 78}, {8.55, 31.9, 29.8, 30.5}}},
    {"fp4-mix",
     SB_SCHEME_nvfp4_modelopt,
     SB_SCHEME_nvfp4_modelopt,
     SB_SCHEME_fp8_tensor,
     SB_SCHEME_nvfp4_modelopt,
     1,
     {{2.38, 115, 107, 100}, {7.25, 37.7, 35.2, 35.7}}},
    {"fp4",
     SB_SCHEME_nvfp4_ct,
     SB_SCHEME_nvfp4_ct,
     SB_SCHEME_nvfp4_ct,
     SB_SCHEME_nvfp4_ct,
     1,
     {{1.82, 150, 140, 126}, {5.45, 50, 47, 47}}},
};
enum { RECIPES = sizeof recipes / sizeof *recipes, MIX = 5 };

static sb_scheme choose(void *ctx, const sb_expected *x, int in_mtp)
{
    const recipe *r = ctx;
    unsigned modules = in_mtp ? 0 : sb_modules_of(x->role);
    if (modules & SB_MODULES_EXPERTS)
        return r->experts;
    if (modules & SB_MODULES_SHARED)
        return r->shared;
    if (modules & SB_MODULES_HEAD)
        return r->head;
    return modules & (SB_MODULES_ATTENTION | SB_MODULES_LINEAR) ? r->mixers : SB_SCHEME_plain;
}

static const char *make(const recipe *r, unsigned model, int stacked)
{
    char name[64];
    recipe copy = *r;
    snprintf(name, sizeof name, "%s-%s-%s", r->name, presets[model], stacked ? "stacked" : "split");
    const char *folder = test_path(PROGRAM, name);
    test_sparse_model(folder, presets[model], stacked, choose, &copy);
    return folder;
}

static sb_ledger read_ledger(const char *folder)
{
    sb_error err;
    sb_ledger l;
    if (sb_ledger_read(folder, &l, &err))
        fail_msg("%s", err.text);
    return l;
}

static sb_floor floor_at(const sb_ledger *l, double bandwidth, uint64_t context, double kv_bytes,
                         uint32_t draft)
{
    sb_floor f;
    sb_floor_options o = {.bandwidth = bandwidth * 1e9,
                          .context = context,
                          .kv_bytes = kv_bytes,
                          .state_bytes = 4,
                          .draft = draft,
                          .accept = 0.78};
    sb_floor_compute(l, &o, &f);
    return f;
}

/* x agrees with `by_hand`, which is rounded: to whole units from 39 on, to 0.1 from 10 on, else to
 * 0.01. */
static void about(double x, double by_hand)
{
    double unit = by_hand >= 39 ? 1 : by_hand >= 10 ? 0.1 : 0.01;
    double off = x - by_hand;
    if ((off < 0 ? -off : off) > 0.51 * unit)
        fail_msg("%.4f, worked out by hand: %.4g", x, by_hand);
}

TEST(figures_by_hand)
{
    for (unsigned m = 0; m < MODELS; m++)
        for (unsigned i = 0; i < RECIPES; i++) {
            const recipe *r = &recipes[i];
            sb_ledger l = read_ledger(make(r, m, 1));
            assert_int_equal(l.files.count, 0);
            assert_int_equal(l.tensors.count, 0);
            assert_int_equal(l.trunk[SB_FLOOR_other].tensors + l.mtp[SB_FLOOR_other].tensors, 0);
            about(floor_at(&l, 273, 0, r->kv_bytes, 0).token.total / 1e9, r->by_hand[m].gb);
            about(floor_at(&l, 273, 0, r->kv_bytes, 0).rate, r->by_hand[m].at_273);
            about(floor_at(&l, 255, 0, r->kv_bytes, 0).rate, r->by_hand[m].at_255);
            about(floor_at(&l, 273, 32768, r->kv_bytes, 0).rate, r->by_hand[m].at_32k);
        }
}

/* Separate and stacked experts have the same bytes, except for the scalars that gate and up share
 * in a stack. */
TEST(split_and_stacked)
{
    sb_ledger a = read_ledger(make(&recipes[MIX], SMALL, 0));
    sb_ledger b = read_ledger(make(&recipes[MIX], SMALL, 1));
    assert_int_equal(a.files.count + a.tensors.count + b.files.count + b.tensors.count, 0);
    /* 40 layers, 256 experts, 3 matrices, 4 parts; in stacks 2 matrices */
    assert_int_equal(a.trunk[SB_FLOOR_experts].tensors, 40 * 256 * 3 * 4);
    assert_int_equal(b.trunk[SB_FLOOR_experts].tensors, 40 * 2 * 4);
    assert_true(a.trunk[SB_FLOOR_experts].routed == a.trunk[SB_FLOOR_experts].stored);
    /* up_proj has its own two scalars, the stack of gate and up has one of each per expert */
    assert_true(a.trunk[SB_FLOOR_experts].stored - b.trunk[SB_FLOOR_experts].stored ==
                40 * 256 * 2 * 4);
    for (unsigned c = SB_FLOOR_experts + 1; c < SB_FLOOR_CLASSES; c++)
        assert_true(a.trunk[c].stored == b.trunk[c].stored);
}

/* Every class of the NVFP4 mixture of 35B-A3B, to the byte. */
TEST(classes_by_hand)
{
    enum { H = 2048, V = 248320, GDN = 30, ATT = 10, L = 40, I = 512 };
    sb_ledger l = read_ledger(make(&recipes[MIX], SMALL, 1));
    sb_floor f = floor_at(&l, 273, 32768, 1, 2);
    const double *read = f.token.read;
    double expert = 3.0 * I * H * 9 / 16;
    assert_true(read[SB_FLOOR_experts] == L * 8 * (expert + 2 * 2 * 4));
    assert_true(read[SB_FLOOR_shared] == L * (expert + 3 * 2 * 4));
    assert_true(read[SB_FLOOR_gdn] == GDN * (H * (8192.0 + 4096 + 4096) + 3 * 2 * 4 +
                                             2 * (2.0 * 32 * H + 8192 * 4 + 2 * 32 + 128)));
    assert_true(read[SB_FLOOR_attention] ==
                ATT * (H * (8192.0 + 2 * 512 + 4096) + 4 * 2 * 4 + 2 * 2 * 256));
    assert_true(read[SB_FLOOR_router] == L * 2.0 * H * (256 + 1));
    assert_true(read[SB_FLOOR_norms] == (2.0 * L + 1) * 2 * H);
    assert_true(read[SB_FLOOR_head] == (double)V * H * 9 / 16 + 8);
    assert_true(read[SB_FLOOR_embedding] == 2.0 * H);
    assert_true(read[SB_FLOOR_dense] + read[SB_FLOOR_fusion] + read[SB_FLOOR_vision] == 0);
    assert_true(f.token.state == GDN * 32.0 * 128 * 128 * 4 * 2);
    assert_true(f.token.conv == GDN * 8192.0 * (3 + 1) * 2);
    assert_true(f.kv_token == 10240 && f.token.kv_read == 10240.0 * 32768);
    assert_true(f.token.kv_written == 10240 && f.verify.kv_written == 3 * 10240);
    /* the MTP head stays BF16: its own layer and the fusion; the head of the trunk is shared */
    assert_true(f.draft.read[SB_FLOOR_experts] == 8 * 3.0 * I * H * 2);
    assert_true(f.draft.read[SB_FLOOR_fusion] == 2.0 * H * H * 2);
    assert_true(f.draft.read[SB_FLOOR_norms] == 5 * 2.0 * H);
    assert_true(f.draft.read[SB_FLOOR_head] == read[SB_FLOOR_head]);
    assert_true(f.draft.kv_read == 1024.0 * 32768 && f.draft.state + f.draft.conv == 0);
    /* FP4 scales matter: 1/9 of the bytes of a quantized expert */
    assert_true(l.trunk[SB_FLOOR_experts].dtype[SB_DTYPE_U8] ==
                8 * l.trunk[SB_FLOOR_experts].dtype[SB_DTYPE_F8_E4M3]);
}

static void close_to(double x, double expected, double within)
{
    double off = x - expected;
    if ((off < 0 ? -off : off) > within)
        fail_msg("%.6f, expected %.6f", x, expected);
}

/* The union of experts in a round and the rates of rounds, worked out by hand. */
TEST(speculation)
{
    static const double times[] = {1, 1.97, 2.91, 3.82}, gb[] = {2.38, 2.93, 3.46, 3.98};
    static const double rounds[] = {107, 87, 74, 64};
    assert_true(sb_floor_union(256, 8, 1) == 8 && sb_floor_union(10, 3, 1) == 3);
    assert_true(sb_floor_union(4, 4, 7) == 4);
    /* 10 experts, each token chooses 3, two tokens: 10 (1 - 0.49) */
    close_to(sb_floor_union(10, 3, 2), 5.1, 1e-12);
    sb_ledger l = read_ledger(make(&recipes[MIX], SMALL, 1));
    for (uint32_t k = 1; k <= 3; k++) {
        sb_floor f = floor_at(&l, 255, 0, 1, k);
        close_to(f.experts / 8, times[k], 0.0051);
        close_to(f.verify.total / 1e9, gb[k], 0.0051);
        close_to(255e9 / f.verify.total, rounds[k], 0.51);
        close_to(f.round, f.verify.total + k * f.draft.total, 1);
        close_to(f.rounds * f.round, 255e9, 1);
    }
    sb_floor f = floor_at(&l, 255, 0, 1, 2);
    close_to(f.emitted, 1 + 0.78 + 0.78 * 0.78, 1e-12);
    close_to(255e9 / f.verify.total * f.emitted, 176, 0.5); /* without the draft head's own reads */
    close_to(f.spec_rate, 141.9, 0.05);
    assert_true(f.token.total == floor_at(&l, 255, 0, 1, 0).token.total);
}

/* At the break-even acceptance both ways are equally fast; below it speculation is slower. */
TEST(break_even)
{
    sb_ledger l = read_ledger(make(&recipes[MIX], LARGE, 1));
    for (uint32_t k = 1; k <= 4; k++) {
        sb_floor_options o = {
            .bandwidth = 255e9, .kv_bytes = 1, .state_bytes = 4, .draft = k, .accept = 0};
        sb_floor f;
        sb_floor_compute(&l, &o, &f);
        assert_true(f.break_even > 0 && f.break_even < 1 && f.spec_rate < f.rate);
        o.accept = f.break_even;
        sb_floor_compute(&l, &o, &f);
        close_to(f.spec_rate / f.rate, 1, 1e-9);
        o.accept -= 0.001;
        sb_floor_compute(&l, &o, &f);
        assert_true(f.spec_rate < f.rate);
    }
    /* a draft head as expensive as the model never pays */
    l.mtp[SB_FLOOR_fusion].stored = (uint64_t)20e9;
    assert_true(floor_at(&l, 255, 0, 1, 2).break_even > 1);
}

TEST(options_count)
{
    sb_ledger l = read_ledger(make(&recipes[MIX], SMALL, 1));
    sb_floor_options o = {.bandwidth = 273e9, .context = 1000, .kv_bytes = 2, .state_bytes = 2};
    sb_floor f, g = floor_at(&l, 273, 1000, 1, 0);
    sb_floor_compute(&l, &o, &f);
    assert_true(f.token.state == g.token.state / 2);
    assert_true(f.token.kv_read == 2 * g.token.kv_read);
    assert_true(sb_floor_kv_bytes(SB_KV_NONE) == 2 && sb_floor_kv_bytes(SB_KV_FP8) == 1);
    assert_true(sb_floor_kv_bytes(SB_KV_NVFP4) == 0.5625);
    close_to(sb_floor_implied(&f, &o, f.rate), 273e9, 1);
    o.draft = 3;
    o.accept = 0.5;
    sb_floor_compute(&l, &o, &f);
    close_to(sb_floor_implied(&f, &o, f.spec_rate), 273e9, 1);
}

/* A missing shard, and a shard without tensors that the configuration asks for. */
TEST(what_is_missing)
{
    char path[1024];
    const char *folder = make(&recipes[MIX], SMALL, 1);
    sb_ledger whole = read_ledger(folder);
    snprintf(path, sizeof path, "%s/model-00003-of-%05zu.safetensors", folder, whole.shards);
    assert_int_equal(unlink(path), 0);
    sb_ledger l = read_ledger(folder);
    assert_int_equal(l.files.count, 1);
    assert_non_null(strstr(l.files.first[0], "model-00003-of-"));
    assert_true(l.tensors.count > 1);
    assert_non_null(strstr(l.tensors.first[0], "layers."));
    assert_true(floor_at(&l, 273, 0, 1, 0).rate > floor_at(&whole, 273, 0, 1, 0).rate);
}

static const char *config_of(const char *folder)
{
    static char text[1 << 16];
    char path[1024];
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

/* Tensors with unknown names, of the vision tower, or only for loaders are listed as not read. */
TEST(not_read)
{
    sb_error err;
    sb_make_options o = {
        .dir = test_path(PROGRAM, "vl"), .preset = "T2", .format = "int4-ct", .layout = "vl"};
    test_sparse_make(&o);
    sb_ledger l = read_ledger(o.dir);
    assert_int_equal(l.tensors.count, 0);
    assert_true(l.trunk[SB_FLOOR_vision].tensors > 10);
    /* weight_shape of every quantized matrix: attention, delta rule, experts, shared experts */
    assert_int_equal(l.trunk[SB_FLOOR_loader].tensors, 4 + 3 * 3 + 4 * (32 * 3 + 3));
    assert_int_equal(l.trunk[SB_FLOOR_other].tensors, 0);
    sb_floor f = floor_at(&l, 273, 0, 1, 0);
    assert_true(f.token.read[SB_FLOOR_vision] + f.token.read[SB_FLOOR_loader] == 0);
    test_sparse *s = test_sparse_new(test_path(PROGRAM, "strange"), 0);
    test_sparse_add(s, "model.layers.0.linear_attn.norm.weight", SB_DTYPE_BF16, 1,
                    (const uint64_t[]){128});
    test_sparse_add(s, "model.layers.0.memory.weight", SB_DTYPE_BF16, 2, (const uint64_t[]){7, 9});
    test_sparse_save(s, config_of(o.dir));
    l = read_ledger(test_path(PROGRAM, "strange"));
    assert_int_equal(l.trunk[SB_FLOOR_other].stored, 2 * 7 * 9);
    assert_int_equal(l.trunk[SB_FLOOR_gdn].stored, 2 * 128);
    assert_true(l.tensors.count > 400 && l.files.count == 0);
    assert_true(floor_at(&l, 1, 0, 1, 0).token.read[SB_FLOOR_other] == 0);
    snprintf(err.text, sizeof err.text, "%s/config.json", o.dir);
    assert_int_equal(unlink(err.text), 0);
    assert_int_equal(sb_ledger_read(o.dir, &l, &err), SB_ERR_IO);
}

/* A dense model whose head is its embedding. */
TEST(dense_and_tied)
{
    sb_make_options o = {.dir = test_path(PROGRAM, "dense"), .preset = "0.8b"};
    test_sparse_make(&o);
    sb_ledger l = read_ledger(o.dir);
    sb_floor f = floor_at(&l, 100, 0, 2, 2);
    assert_int_equal(l.tensors.count, 0);
    assert_true(f.token.read[SB_FLOOR_head] == 2.0 * 248320 * 1024);
    assert_true(f.token.read[SB_FLOOR_dense] == 24 * 3 * 2.0 * 1024 * 3584);
    assert_true(f.draft.read[SB_FLOOR_dense] == 3 * 2.0 * 1024 * 3584);
    assert_true(f.token.read[SB_FLOOR_experts] == 0 && f.experts == 0);
    assert_true(f.verify.read[SB_FLOOR_dense] == f.token.read[SB_FLOOR_dense]);
}

/* NVIDIA's recipe for Qwen3.8 2.4T, and FP8 in blocks for a dense model. */
static sb_scheme choose_max(void *ctx, const sb_expected *x, int in_mtp)
{
    (void)ctx;
    unsigned modules = in_mtp ? 0 : sb_modules_of(x->role);
    if (modules & SB_MODULES_EXPERTS)
        return SB_SCHEME_nvfp4_modelopt;
    return modules & (SB_MODULES_ATTENTION | SB_MODULES_LINEAR | SB_MODULES_DECAY)
               ? SB_SCHEME_fp8_tensor
               : SB_SCHEME_plain;
}

static sb_scheme choose_fp8(void *ctx, const sb_expected *x, int in_mtp)
{
    (void)ctx;
    unsigned modules = in_mtp ? 0 : sb_modules_of(x->role);
    return modules & (SB_MODULES_ATTENTION | SB_MODULES_LINEAR | SB_MODULES_DENSE)
               ? SB_SCHEME_fp8_block
               : SB_SCHEME_plain;
}

/* The two models of Qwen3.8, worked out by hand from their widths. */
TEST(qwen3_8)
{
    const char *folder = test_path(PROGRAM, "2.4t-a95b");
    test_sparse_model(folder, "2.4t-a95b", 1, choose_max, NULL);
    sb_ledger l = read_ledger(folder);
    sb_floor f = floor_at(&l, 273, 0, 1, 0);
    const double *read = f.token.read;
    assert_int_equal(l.files.count + l.tensors.count, 0);
    /* 10 of 512 experts and the shared expert, of 3 matrices of 2048 x 8192 in each of 92 layers */
    assert_true(read[SB_FLOOR_experts] == 92 * 10 * (3.0 * 2048 * 8192 * 9 / 16 + 2 * 2 * 4));
    assert_true(read[SB_FLOOR_shared] == 92 * 3.0 * 2048 * 8192 * 2);
    /* in_proj_qkv of 20480 rows, in_proj_z, out_proj, and in_proj_a and in_proj_b of 128 rows */
    assert_true(read[SB_FLOOR_gdn] == 69 * (8192.0 * (20480 + 2 * 16384 + 2 * 128) + 5 * 2 * 4 +
                                            2 * (20480.0 * 4 + 2 * 128 + 128)));
    assert_true(f.token.state == 69 * 128.0 * 128 * 128 * 4 * 2);
    about(f.token.total / 1e9, 81);
    about(f.rate, 3.36);
    folder = test_path(PROGRAM, "3.8-27b");
    test_sparse_model(folder, "3.8-27b", 0, choose_fp8, NULL);
    l = read_ledger(folder);
    f = floor_at(&l, 273, 0, 1, 0);
    assert_int_equal(l.files.count + l.tensors.count, 0);
    assert_true(f.token.read[SB_FLOOR_dense] ==
                64 * 3.0 * 5120 * 17408 + 64 * 3.0 * 2 * (5120.0 / 128) * (17408.0 / 128));
    about(f.token.total / 1e9, 27.2);
    about(f.rate, 10.0);
}

static sb_scheme choose_nvfp4(void *ctx, const sb_expected *x, int in_mtp)
{
    (void)ctx;
    (void)in_mtp;
    return sb_modules_of(x->role) & (SB_MODULES_EXPERTS | SB_MODULES_ATTENTION)
               ? SB_SCHEME_nvfp4_modelopt
               : SB_SCHEME_plain;
}

/* Qwen3-Coder 30B-A3B in NVFP4, attention too, with a BF16 head: worked out by hand, and two
 * published rates of a DGX Spark as shares of the ceiling. */
TEST(qwen3_coder)
{
    const char *folder = test_path(PROGRAM, "coder-30b-a3b");
    test_sparse_model(folder, "coder-30b-a3b", 0, choose_nvfp4, NULL);
    sb_ledger l = read_ledger(folder);
    sb_floor f = floor_at(&l, 273, 0, 1, 0);
    const double *read = f.token.read;
    assert_int_equal(l.files.count + l.tensors.count, 0);
    /* 8 of 128 experts: 3 matrices of 768 x 2048, each with two factors, in each of 48 layers */
    assert_true(read[SB_FLOOR_experts] == 48 * 8 * 3 * (768.0 * 2048 * 9 / 16 + 2 * 4));
    assert_true(read[SB_FLOOR_shared] == 0 && read[SB_FLOOR_gdn] == 0 && f.token.state == 0);
    about(f.token.total / 1e9, 2.18);
    about(f.rate, 125.4);
    about(65.0 / f.rate, 0.518);
    about(68.0 / f.rate, 0.542);
}
