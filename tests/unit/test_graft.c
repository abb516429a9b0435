/* test_graft.c - the configuration of a graft, dialect by dialect: what is changed and what is
 * kept. */
#include "tests/lib/checkpoint.h"
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/file.h"
#include "ref/container/json.h"
#include "ref/model/held.h"
#include "ref/model/layers.h"
#include "tests/lib/sparse.h"
#include "tools/check/graft/adapt.h"
#include "tools/check/graft/graft.h"

/* A checkpoint of this format, made at the first call. */
static const char *made(const char *format)
{
    static struct {
        const char *format, *path;
    } known[32];
    size_t i = 0;
    while (known[i].path && strcmp(known[i].format, format) != 0)
        i++;
    if (!known[i].path) {
        known[i].format = format;
        known[i].path = test_checkpoint("test_graft", "T3", "plain", format, "text");
    }
    return known[i].path;
}

/* The changes and the notes, one line each. */
typedef struct told {
    char changes[4000], notes[2000];
    size_t change_count, note_count;
} told;

static void join(const sb_graft_lines *lines, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < lines->count && strlen(text) + 300 < size; i++)
        snprintf(text + strlen(text), size - strlen(text), "%.250s\n", lines->line[i]);
}

static sb_status try_graft(const char *base, const char *pattern, const char *other, int dry,
                           told *out, sb_error *err)
{
    const char *const take[1] = {pattern};
    sb_graft_options o = {.source = base,
                          .other = other,
                          .target = test_path("test_graft", "out"),
                          .take = take,
                          .take_count = 1,
                          .dry_run = dry,
                          .replace = 1};
    sb_grafted g;
    sb_status status = sb_graft(&o, &g, err);
    join(&g.changes, out->changes, sizeof out->changes);
    join(&g.notes, out->notes, sizeof out->notes);
    out->change_count = g.changes.count;
    out->note_count = g.notes.count;
    sb_grafted_free(&g);
    return status;
}

static told graft(const char *base, const char *pattern, const char *other)
{
    told t;
    sb_error err = {""};
    if (try_graft(base, pattern, other, 0, &t, &err))
        fail_msg("%s of %s into %s: %s", pattern, other, base, err.text);
    return t;
}

/* Counts the layers of a folder whose declaration differs from their storage. */
typedef struct count {
    sb_declared *declared;
    size_t layers, wrong;
    char first[1200];
} count;

static sb_status count_layer(void *ctx, const char *name, const sb_found *found, sb_error *err)
{
    count *c = ctx;
    sb_declaration d;
    sb_status status = sb_declared_for(c->declared, name, &d, err);
    c->layers++;
    if (!status && !sb_declaration_agrees(&d, found) && c->wrong++ == 0)
        snprintf(c->first, sizeof c->first, "%s: %s", name, d.rule);
    return status;
}

static count disagreements(void)
{
    const char *folder = test_path("test_graft", "out");
    count c = {.declared = NULL};
    sb_checkpoint *checkpoint = NULL;
    sb_error err = {""};
    if (sb_checkpoint_open(folder, &checkpoint, &err) ||
        sb_declared_load(folder, &c.declared, &err) ||
        sb_each_layer(checkpoint, count_layer, &c, &err))
        fail_msg("%s", err.text);
    sb_checkpoint_close(checkpoint);
    sb_declared_free(c.declared);
    return c;
}

static void agree(const char *base, const char *pattern, const char *other)
{
    told t = graft(made(base), pattern, made(other));
    count c = disagreements();
    if (t.note_count || c.wrong)
        fail_msg("%s of %s into %s: %zu of %zu, %s\n%s", pattern, other, base, c.wrong, c.layers,
                 c.first, t.notes);
}

/* W-5 in every dialect: the grafted layers are quantized less, more, or otherwise than the replaced
 * ones. */
TEST(test_dialects)
{
    static const char *const pairs[][2] = {
        {"nvfp4-ct", "bf16"},       {"nvfp4-ct", "fp8-channel"},  {"nvfp4-ct", "fp8-tensor"},
        {"nvfp4-modelopt", "bf16"}, {"fp8-tensor", "nvidia-mix"}, {"nvidia-mix", "fp8-tensor"},
        {"fp8-block", "bf16"},      {"bf16", "fp8-block"},        {"int4-gptq", "int4-autoround"},
        {"int4-autoround", "bf16"}, {"int4-awq", "bf16"},         {"bf16", "int4-awq"},
        {"int4-ct", "mxfp4"},       {"mxfp8", "int4-ct"},         {"int8-gptq", "bf16"},
    };
    static const char *const patterns[] = {"mtp.*", "layers.1.mlp.*", "*self_attn*"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (size_t p = 0; p < 2; p++)
            agree(pairs[i][0], patterns[(i + p) % 3], pairs[i][1]);
}

/* W-6: only the grafted modules are declared as plain, and a note says so. */
TEST(test_hybrid)
{
    told t = graft(made("int4-autoround"), "layers.*.mlp.shared_expert.*", made("fp8-block"));
    assert_int_equal(t.note_count, 1);
    assert_non_null(strstr(t.notes, "\"auto-round\" cannot declare"));
    assert_int_equal(disagreements().wrong, 3 * 4);
}

/* W-15: layers that the dialect cannot declare are refused with its name, in a dry run, too. */
TEST(test_unsaid)
{
    static const char *const rows[][4] = {
        {"nvfp4-ct", "layers.0.mlp.experts.*", "nvidia-mix",
         "\"compressed-tensors\" cannot declare 24 layers stored as nvfp4-modelopt"},
        {"int4-awq", "mtp.*", "fp8-block", "\"awq\" cannot declare 31 layers stored as fp8-block"},
        {"int4-gptq", "mtp.*", "fp8-block", "\"gptq\" cannot declare 31 layers"},
        {"fp8-block", "layers.1.mlp.*", "fp8-channel", "\"fp8\" cannot declare 27 layers"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int dry = 0; dry < 2; dry++) {
            told t;
            sb_error err = {""};
            sb_status status =
                try_graft(made(rows[i][0]), rows[i][1], made(rows[i][2]), dry, &t, &err);
            if (status != SB_ERR_UNSUPPORTED || !strstr(err.text, rows[i][3]))
                fail_msg("%s into %s: %s", rows[i][2], rows[i][0], err.text);
        }
}

/* W-16: FP8 blocks as compressed-tensors and ModelOpt declare them. */
TEST(test_blocks)
{
    static const char *const bases[] = {"nvfp4-ct", "fp8-channel", "int4-ct", "nvfp4-modelopt",
                                        "fp8-tensor"};
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        int modelopt = i >= 3;
        told t = graft(made(bases[i]), i % 2 ? "layers.1.mlp.*" : "mtp.*", made("fp8-block"));
        count c = disagreements();
        if (c.wrong || t.note_count != (size_t)modelopt ||
            !strstr(t.changes, modelopt ? "FP8_PB_WO" : "float-quantized"))
            fail_msg("%s: %zu wrong, first %s\n%s%s", bases[i], c.wrong, c.first, t.changes,
                     t.notes);
    }
}

/* W-17: "rounded once from the exact value" - also a quotient very close to a tie. */
TEST(test_nearest)
{
    static const struct {
        double x, divisor;
        uint16_t bits;
        int exact;
    } rows[] = {
        {1, 1, 0x3f80, 1},
        {-1.5, 1, 0xbfc0, 1},
        {0, 1, 0, 1},
        {-0.0, 3, 0x8000, 1},
        {1.00390625, 1, 0x3f80, 0},           /* 1 + 2^-8: a tie, to even */
        {1.01171875, 1, 0x3f82, 0},           /* 1 + 3 2^-8: a tie, to even */
        {1.00390625 + 0x1p-40, 1, 0x3f81, 0}, /* a tie in binary32 only */
        {1.01171875 - 0x1p-40, 1, 0x3f81, 0}, /* likewise, from above */
        {-1.00390625 - 0x1p-40, 1, 0xbf81, 0},
        {3, 1.5, 0x4000, 1},
        {1, 3, 0x3eab, 0},
        {0x1p-126, 1, 0x0080, 1},
        {0x1p-133, 1, 0x0001, 1},
        {0x1p-134, 1, 0, 0},
        {0x1.ffp127, 1, 0x7f80, 0}, /* beyond the largest finite value */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int exact;
        uint16_t bits = sb_graft_bf16(rows[i].x, rows[i].divisor, &exact);
        if (bits != rows[i].bits || exact != rows[i].exact)
            fail_msg("%a / %a: 0x%04x, exact %d", rows[i].x, rows[i].divisor, bits, exact);
    }
}

/* Few rules are added, none that exists already; a dry run reports the same. */
TEST(test_changes)
{
    told t = graft(made("nvfp4-ct"), "mtp.*", made("bf16")), dry;
    sb_error err = {""};
    assert_int_equal(t.change_count, 0);
    t = graft(made("fp8-channel"), "layers.1.mlp.experts.*", made("bf16"));
    assert_string_equal(t.changes, "config.json: ignore: + \"re:(model\\.|language_model\\.)*"
                                   "layers\\.1\\.mlp\\.experts(\\.|$)\"\n");
    assert_int_equal(
        try_graft(made("fp8-channel"), "layers.1.mlp.experts.*", made("bf16"), 1, &dry, &err),
        SB_OK);
    assert_string_equal(t.changes, dry.changes);
    t = graft(made("int4-gptq"), "mtp.*", made("int4-autoround"));
    assert_non_null(strstr(t.changes, "dynamic: + \"+:^mtp\\.layers\\.0\\.mlp\\.experts(\\.|$)\""));
    t = graft(made("nvfp4-modelopt"), "*self_attn.*", made("nvidia-mix"));
    assert_non_null(strstr(t.changes, "config.json: quant_algo: MIXED_PRECISION instead of NVFP4"));
    assert_non_null(strstr(t.changes, "hf_quant_config.json: quant_algo: MIXED_PRECISION"));
}

/* All bytes of config.json outside of the quantization stay, except the number of MTP layers. */
TEST(test_bytes)
{
    test_folder f = test_folder_load(made("nvfp4-ct"));
    size_t kept = 0;
    for (size_t i = 0; i < f.count; i++)
        if (strncmp(f.tensors[i].name, "mtp.", 4) == 0)
            free(f.tensors[i].bytes);
        else
            f.tensors[kept++] = f.tensors[i];
    f.count = kept;
    test_folder_configure(&f, "\"mtp_num_hidden_layers\": 1", "\"mtp_num_hidden_layers\":   0");
    const char *path = test_folder_save(&f, "test_graft", "headless");
    told t = graft(path, "mtp.*", made("bf16"));
    assert_string_equal(t.changes, "config.json: mtp_num_hidden_layers: 1\n");
    char name[1200], *expected = strdup(f.config);
    unsigned char *text;
    size_t n;
    snprintf(name, sizeof name, "%s/config.json", test_path("test_graft", "out"));
    *(strstr(expected, ":   0") + 4) = '1';
    assert_int_equal(sb_read_file(name, 1 << 20, &text, &n, NULL), SB_OK);
    assert_string_equal((char *)text, expected);
    free(text);
    free(expected);
    test_folder_free(&f);
    assert_int_equal(disagreements().wrong, 0);
}

static sb_status refuse_all(void *ctx, const char *source, const char *result, sb_error *err)
{
    (void)source;
    (void)result;
    ++*(int *)ctx;
    return sb_fail(err, SB_ERR_INPUT, "the verifier says no");
}

/* W-10: if the verifier refuses, the result is removed. */
TEST(test_verify)
{
    int asked = 0;
    const char *const take[1] = {"mtp.*"};
    sb_graft_options o = {.source = made("nvfp4-ct"),
                          .other = made("bf16"),
                          .target = test_path("test_graft", "never"),
                          .take = take,
                          .take_count = 1,
                          .verify = refuse_all,
                          .verify_ctx = &asked};
    sb_grafted g;
    sb_error err = {""};
    sb_checkpoint *c = NULL;
    assert_int_equal(sb_graft(&o, &g, &err), SB_ERR_INPUT);
    assert_string_equal(err.text, "the verifier says no");
    assert_int_equal(asked, 1);
    sb_grafted_free(&g);
    assert_int_equal(sb_checkpoint_open(o.target, &c, &err), SB_ERR_IO);
}

/* The number of grafted tensors of a kind, and of those among them whose names the base does not
 * have. */
static void count_names(const sb_grafted *g, const char *kind, size_t *come, size_t *alone)
{
    *come = *alone = 0;
    for (size_t i = 0; i < g->take.taken_count; i++)
        if (strstr(g->take.taken[i].name, kind)) {
            ++*come;
            *alone += !sb_checkpoint_find(g->base, g->take.taken[i].name);
        }
}

/* The published hybrid of INT4 and FP8 blocks, in its real shape, from headers alone. */
TEST(test_published)
{
    const char *const take[3] = {"layers.*.shared_expert.*", "layers.*.linear_attn.*",
                                 "layers.*.self_attn.*"};
    sb_make_options make = {
        .dir = test_path("test_graft", "int4"), .preset = "122b-a10b", .format = "int4-autoround"};
    test_sparse_make(&make);
    sb_graft_options o = {.source = make.dir, .take = take, .take_count = 3, .dry_run = 1};
    make.format = "fp8-block";
    o.other = make.dir = test_path("test_graft", "fp8");
    test_sparse_make(&make);
    sb_grafted g;
    sb_error err = {""};
    size_t come, alone;
    if (sb_graft(&o, &g, &err))
        fail_msg("%s", err.text);
    count_names(&g, ".shared_expert.", &come, &alone); /* 48 layers */
    assert_true(come == 288 && alone == 144);
    count_names(&g, ".linear_attn.", &come, &alone); /* 36 layers */
    assert_true(come == 36 * 12 && alone == 36 * 8);
    count_names(&g, ".self_attn.", &come, &alone); /* 12 layers */
    assert_true(come == 12 * 10 && alone == 12 * 8);
    assert_int_equal(g.notes.count, 1);
    sb_grafted_free(&g);
}
