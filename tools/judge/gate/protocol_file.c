/* protocol_file.c - a protocol as a file: its tensors, and the metadata to make it again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/spec.h"
#include "ref/container/writer.h"
#include "ref/math/fn.h"
#include "tools/judge/gate/protocol.h"

/* The content of a file's tensor for a tensor of the protocol. */
typedef enum content { GIVEN, REAL_HI, REAL_LO, EXACT, BOUND, WRITTEN, CONTENTS } content;

static const struct {
    const char *prefix;
    sb_dtype dtype;
} contents[CONTENTS] = {
    [GIVEN] = {"in.", SB_DTYPE_F32},        [REAL_HI] = {"real.hi.", SB_DTYPE_F64},
    [REAL_LO] = {"real.lo.", SB_DTYPE_F64}, [EXACT] = {"exact.", SB_DTYPE_F32},
    [BOUND] = {"bound.", SB_DTYPE_F64},     [WRITTEN] = {"written.", SB_DTYPE_U8},
};

static void store_value(sb_dtype dtype, float x, unsigned char *to)
{
    if (dtype == SB_DTYPE_BF16) /* exact, and keeps the bits of NaN */
        sb_store_u16(to, (uint16_t)(sb_bits_f32(x) >> 16));
    else
        sb_store_u32(to, sb_bits_f32(x));
}

/* An input; padding rows of padded batches are NaN. */
static float given(const sb_protocol *p, const sb_protocol_round *r, const sb_protocol_tensor *t,
                   size_t i)
{
    int64_t at = sb_protocol_place(p, r, t, i);
    if (at == SB_PROTOCOL_ZERO)
        return 0.0f;
    if (at == SB_PROTOCOL_PAD)
        return sb_f32_from_bits(0x7fc00000u);
    if (t->kind == SB_PROTOCOL_WEIGHT)
        return p->weight[at];
    if (t->kind == SB_PROTOCOL_BEFORE)
        return r->before[at];
    float x = r->in[t->which][at];
    return !p->conv && t->which == 3 && p->layout->alpha ? sb_exp(x) : x;
}

/* The expected value of an element. Rows of no sequence may hold anything: their bound is
 * infinite. */
static void store_expected(const sb_protocol *p, const sb_protocol_round *r,
                           const sb_protocol_tensor *t, content what, size_t i, unsigned char *to)
{
    int64_t at = sb_protocol_place(p, r, t, i);
    int after = t->kind == SB_PROTOCOL_AFTER;
    int any = !after && (at < 0 || !r->real_row[(size_t)at / (p->out_heads * p->out_width)]);
    sb_dd real = any ? (sb_dd){0.0, 0.0} : after ? r->real_after[at] : r->real_out[at];
    if (what == EXACT)
        sb_store_u32(to, any ? 0u : sb_bits_f32(after ? r->after[at] : r->out[at]));
    else if (what == WRITTEN)
        *to = r->written[at];
    else if (what == BOUND)
        sb_store_u64(to, any ? (uint64_t)0x7ff << 52
                             : sb_bits_f64(after ? r->bound_after[at] : r->bound_out[at]));
    else
        sb_store_u64(to, sb_bits_f64(what == REAL_HI ? real.hi : real.lo));
}

static int fill_part(const sb_protocol *p, size_t round, const sb_protocol_tensor *t, content what,
                     sb_protocol_part *part)
{
    const sb_protocol_round *r = &p->round[round];
    part->dtype = what == GIVEN ? t->dtype : contents[what].dtype;
    part->rank = t->rank;
    part->axes = t->axes;
    memcpy(part->shape, t->shape, sizeof t->shape);
    snprintf(part->name, sizeof part->name, "round.%zu.%s%s", round, contents[what].prefix,
             t->name);
    size_t width = sb_dtype_bits(part->dtype) / 8;
    part->size = t->count * width;
    part->bytes = sb_alloc(t->count, width);
    for (size_t i = 0; part->bytes && i < t->count; i++) {
        unsigned char *to = part->bytes + i * width;
        if (what != GIVEN)
            store_expected(p, r, t, what, i, to);
        else if (t->kind == SB_PROTOCOL_NUMBER)
            sb_store_u32(to, (uint32_t)sb_protocol_number(r, t, i));
        else
            store_value(t->dtype, given(p, r, t, i), to);
    }
    return !part->bytes;
}

/* V-126: "A chained protocol gives the pool of its first round alone" */
static int is_given(const sb_protocol *p, size_t round, const sb_protocol_tensor *t)
{
    return !(p->chained && round && t->kind == SB_PROTOCOL_BEFORE);
}

sb_status sb_protocol_parts(const sb_protocol *p, sb_protocol_part **out, size_t *count,
                            sb_error *err)
{
    size_t n = 0, room = p->rounds * SB_PROTOCOL_TENSORS * CONTENTS;
    sb_protocol_part *parts = sb_alloc(room, sizeof *parts);
    int failed = !parts;
    for (size_t k = 0; k < p->rounds && !failed; k++) {
        sb_protocol_tensor t[SB_PROTOCOL_TENSORS];
        size_t tensors = sb_protocol_tensors(p, &p->round[k], t);
        for (size_t i = 0; i < tensors && !failed; i++) {
            int output = t[i].kind == SB_PROTOCOL_OUT || t[i].kind == SB_PROTOCOL_AFTER;
            int last = t[i].kind == SB_PROTOCOL_AFTER ? WRITTEN : BOUND;
            if (!output && is_given(p, k, &t[i]))
                failed |= fill_part(p, k, &t[i], GIVEN, &parts[n++]);
            for (int what = REAL_HI; output && what <= last && !failed; what++)
                failed |= fill_part(p, k, &t[i], (content)what, &parts[n++]);
        }
    }
    *out = parts;
    *count = n;
    if (!failed)
        return SB_OK;
    sb_protocol_parts_free(parts, n);
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for a protocol");
}

void sb_protocol_parts_free(sb_protocol_part *parts, size_t count)
{
    for (size_t i = 0; parts && i < count; i++)
        free(parts[i].bytes);
    free(parts);
}

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct source {
    const sb_protocol_part *parts;
    size_t count;
} source;

static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    const source *s = ctx;
    (void)err;
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->parts[i].name, tensor->name) == 0)
            memcpy(bytes, s->parts[i].bytes + first, count);
    return SB_OK;
}

static sb_status write_keys(sb_writer *writer, const sb_protocol *p, const sb_gate_arith *ar,
                            const source *s, sb_error *err)
{
    char version[24], rounds[24], seed[24], scale[40];
    snprintf(version, sizeof version, "%d", SB_SPEC_VERSION);
    snprintf(rounds, sizeof rounds, "%zu", p->rounds);
    snprintf(seed, sizeof seed, "%" PRIu64, p->seed);
    snprintf(scale, sizeof scale, "%.9g", (double)sb_protocol_scale(p));
    const char *const pairs[][2] = {{"samebit.vectors", version},
                                    {"samebit.vectors.op", "protocol"},
                                    {"samebit.vectors.protocol", p->conv ? "conv" : "delta_rule"},
                                    {"samebit.vectors.layout", p->layout->name},
                                    {"samebit.vectors.source", p->layout->source},
                                    {"samebit.vectors.rounds", rounds},
                                    {"samebit.vectors.regime", sb_gate_regime_name(p->regime)},
                                    {"samebit.vectors.seed", seed},
                                    {"samebit.vectors.chained", p->chained ? "1" : "0"},
                                    {"samebit.vectors.arith", ar->name},
                                    {"samebit.vectors.scale", scale}};
    sb_status status = SB_OK;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && !status; i++)
        status = sb_writer_metadata(writer, s->parts[0].name, pairs[i][0], pairs[i][1], err);
    for (size_t i = 0; i < s->count && !status; i++) {
        char key[120];
        snprintf(key, sizeof key, "samebit.vectors.axes.%s", s->parts[i].name);
        status = sb_writer_metadata(writer, s->parts[0].name, key, s->parts[i].axes, err);
    }
    return status;
}

sb_status sb_protocol_write(sb_protocol *p, const sb_gate_arith *ar, const char *path,
                            sb_error *err)
{
    source s = {NULL, 0};
    sb_protocol_part *parts = NULL;
    sb_writer *writer = NULL;
    sb_status status = sb_protocol_expect(p, ar, err);
    if (status)
        return status;
    status = sb_protocol_parts(p, &parts, &s.count, err);
    if (status)
        return status;
    s.parts = parts;
    status = sb_writer_new(path, 0, SB_WRITER_FILE | SB_WRITER_REPLACE, &writer, err);
    for (size_t i = 0; i < s.count && !status; i++)
        status = sb_writer_add(writer, parts[i].name, parts[i].dtype, parts[i].rank, parts[i].shape,
                               err);
    if (!status)
        status = write_keys(writer, p, ar, &s, err);
    if (!status)
        status = sb_writer_run(writer, fill, &s, err);
    sb_writer_free(writer);
    sb_protocol_parts_free(parts, s.count);
    return status;
}

/* --- reading ---------------------------------------------------------------------------------- */

static const char *key(const sb_safetensors *file, const char *name)
{
    char full[80];
    snprintf(full, sizeof full, "samebit.vectors%s%s", *name ? "." : "", name);
    const char *value = sb_metadata_get(&file->metadata, full);
    return value ? value : "";
}

int sb_protocol_is(const sb_safetensors *file)
{
    return strcmp(key(file, "op"), "protocol") == 0;
}

static int number(const char *text, uint64_t *out)
{
    uint64_t n = 0;
    size_t i = 0;
    for (; text[i] >= '0' && text[i] <= '9' && i < 20; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (n > (UINT64_MAX - digit) / 10)
            return 0;
        n = n * 10 + digit;
    }
    *out = n;
    return i > 0 && !text[i];
}

static const sb_tensor *find(const sb_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

/* V-127: "a protocol file whose content does not follow from its metadata is refused" */
static sb_status compare(const sb_safetensors *file, const sb_protocol *p, const char *path,
                         sb_error *err)
{
    sb_protocol_part *parts;
    size_t count;
    sb_status status = sb_protocol_parts(p, &parts, &count, err);
    if (status)
        return status;
    if (file->count != count)
        status = sb_fail(err, SB_ERR_INPUT, "%s: has %zu tensors, expected %zu by its metadata",
                         path, file->count, count);
    for (size_t i = 0; i < count && !status; i++) {
        const sb_protocol_part *part = &parts[i];
        const sb_tensor *t = find(file, part->name);
        if (!t || t->dtype != part->dtype || t->rank != part->rank || t->bytes != part->size ||
            memcmp(t->shape, part->shape, part->rank * sizeof *part->shape) != 0 ||
            memcmp(t->data, part->bytes, part->size) != 0)
            status =
                sb_fail(err, SB_ERR_INPUT, "%s: %s is not the tensor that the metadata describe",
                        path, part->name);
    }
    sb_protocol_parts_free(parts, count);
    return status;
}

static const sb_op_table reference = {
#define SB_OP(name, clause) .name = sb_##name##_ref,
#include "ref/ops/ops.def"
#undef SB_OP
};

static sb_status remake(const sb_safetensors *file, const char *path, sb_protocol **out,
                        sb_gate_arith *ar, sb_error *err)
{
    uint64_t version, chained;
    sb_protocol_request request = {
        .layout = key(file, "layout"), .op = key(file, "protocol"), .regime = key(file, "regime")};
    if (!sb_protocol_is(file) || !number(key(file, ""), &version) ||
        !number(key(file, "rounds"), &request.rounds) ||
        !number(key(file, "seed"), &request.seed) || !number(key(file, "chained"), &chained))
        return sb_fail(err, SB_ERR_INPUT, "%s: its metadata do not describe a protocol", path);
    if (version != SB_SPEC_VERSION)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: is of specification %" PRIu64 ", but this program has %d", path,
                       version, SB_SPEC_VERSION);
    request.chained = chained != 0;
    sb_status status = sb_gate_arith_of(key(file, "arith"), ar, err);
    if (!status)
        status = sb_protocol_make(&request, &reference, out, err);
    if (status == SB_ERR_USAGE)
        status = sb_fail(err, SB_ERR_INPUT, "%s: its metadata do not describe a protocol", path);
    if (!status)
        status = sb_protocol_expect(*out, ar, err);
    return status ? status : compare(file, *out, path, err);
}

sb_status sb_protocol_read(const char *path, const char *named, sb_protocol **out,
                           sb_gate_arith *ar, sb_error *err)
{
    sb_safetensors file;
    *out = NULL;
    sb_status status = sb_safetensors_open(path, &file, err);
    if (status)
        return status;
    status = remake(&file, path, out, ar, err);
    if (!status && named && strcmp(named, ar->name) != 0) {
        status = sb_gate_arith_of(named, ar, err);
        if (!status)
            status = sb_protocol_expect(*out, ar, err);
    }
    sb_safetensors_close(&file);
    if (status) {
        sb_protocol_free(*out);
        *out = NULL;
    }
    return status;
}
