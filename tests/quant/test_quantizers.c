/* test_quantizers.c - the quantizers of tools/make against the real ones: on the weights that a
 * real program was given, the codes, scales, zero points and factors are the bytes that it wrote.
 */
#include "tests/lib/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/quant/planted.h"

/* SAMEBIT_QUANT: as in fixture.c. */
static sb_checkpoint *opened(const char *below, const char *name)
{
    const char *folder = getenv("SAMEBIT_QUANT");
    char path[512];
    sb_checkpoint *checkpoint;
    sb_error err = {""};
    snprintf(path, sizeof path, "%s/%s%s", folder ? folder : "golden/quant", below, name);
    if (sb_checkpoint_open(path, &checkpoint, &err))
        fail_msg("%s", err.text);
    return checkpoint;
}

static const char *content_name(sb_content content)
{
    switch (content) {
    case SB_CONTENT_codes:
        return "codes";
    case SB_CONTENT_scales:
        return "scales";
    case SB_CONTENT_zeros:
        return "zero points";
    case SB_CONTENT_factor:
        return "factor";
    default:
        return NULL; /* a quantizer of weights does not make this */
    }
}

typedef struct counts {
    size_t layers;
    uint64_t bytes[SB_CONTENT_kv + 1]; /* compared */
    uint64_t apart, known;             /* unexplained differences, and known ones */
    char first[256];                   /* the first unexplained difference */
} counts;

/* KNOWN_ZEROS: in that folder a negative weight that rounds to zero has code 0, not 0x80. A block
 * of zeros does not determine its scale and has another one. */
static int explained(const quantizer_row *row, const source_layer *layer, sb_content content,
                     uint64_t byte, unsigned ours, unsigned theirs)
{
    if (row->known != KNOWN_ZEROS)
        return 0;
    if (content == SB_CONTENT_codes)
        return layer->weights[byte] < 0.0f && ours == 0x80 && theirs == 0;
    /* one scale of two bytes per block of 128 x 128 */
    uint64_t across = (layer->cols + 127) / 128, block = byte / 2;
    for (uint64_t r = block / across * 128; r < layer->rows && r < (block / across + 1) * 128; r++)
        for (uint64_t k = block % across * 128; k < layer->cols && k < (block % across + 1) * 128;
             k++)
            if (layer->weights[r * layer->cols + k] != 0.0f)
                return 0;
    return 1;
}

/* Compares one tensor of a layer; `real` has the size of ours. */
static void compare_bytes(const quantizer_row *row, const source_layer *layer, sb_content content,
                          const sb_tensor *real, const unsigned char *ours, counts *seen)
{
    seen->bytes[content] += real->bytes;
    for (uint64_t i = 0; i < real->bytes; i++) {
        if (ours[i] == real->data[i])
            continue;
        if (explained(row, layer, content, i, ours[i], real->data[i])) {
            seen->known++;
            continue;
        }
        if (seen->apart++ == 0)
            snprintf(seen->first, sizeof seen->first,
                     "%s %s (%s), byte %" PRIu64 ": got %02x, the real quantizer has %02x",
                     row->folder, real->name, content_name(content), i, ours[i], real->data[i]);
    }
}

/* The tensor of a layer; compressed-tensors and Qwen have two names for the scales of blocks. */
static const sb_tensor *real_tensor(const sb_checkpoint *real, const char *module,
                                    const char *suffix)
{
    char name[512];
    snprintf(name, sizeof name, "%s.%s", module, suffix);
    const sb_tensor *t = sb_checkpoint_find(real, name);
    if (!t && strcmp(suffix, "weight_scale_inv") == 0)
        return real_tensor(real, module, "weight_scale");
    if (!t)
        fail_msg("%s: no tensor %s", sb_checkpoint_path(real), name);
    return t;
}

static void compare_layer(const quantizer_row *row, const formula *how, const sb_checkpoint *source,
                          const sb_checkpoint *real, const char *module, counts *seen)
{
    source_layer layer = source_layer_of(source, module);
    if (!layer.weights)
        fail_msg("%s %s: not in the source %s", row->folder, module, row->source);
    requantized ours = requantize(row, how, source, module, &layer);
    sb_scheme_tensor part;
    for (size_t i = 0;
         sb_scheme_tensor_at(row->scheme, i, layer.rows, layer.cols, how->group, &part); i++) {
        if (!content_name(part.content))
            continue;
        const sb_tensor *t = real_tensor(real, module, part.suffix);
        if (t->dtype != part.dtype || t->bytes != ours.bytes[part.content])
            fail_msg("%s %s: %s and %" PRIu64 " bytes, expected %s and %" PRIu64, row->folder,
                     t->name, sb_dtype_name(t->dtype), t->bytes, sb_dtype_name(part.dtype),
                     ours.bytes[part.content]);
        if (row->view == VIEW_PLAIN) {
            assert_int_equal(t->rank, part.rank);
            for (unsigned d = 0; d < part.rank; d++)
                assert_int_equal(t->shape[d], part.shape[d]);
        }
        compare_bytes(row, &layer, part.content, t, ours.part[part.content], seen);
    }
    requantized_free(&ours);
    free(layer.weights);
    seen->layers++;
}

/* Returns 1 and the name of the layer if the tensor holds the codes of a layer that the row
 * compares. */
static int layer_of(const quantizer_row *row, const sb_tensor *t, char *module, size_t size)
{
    sb_scheme_tensor codes;
    assert_true(sb_scheme_tensor_at(row->scheme, 0, 128, 128, 32, &codes));
    assert_int_equal(codes.content, SB_CONTENT_codes);
    const char *dot = strrchr(t->name, '.');
    if (!dot || strcmp(dot + 1, codes.suffix) != 0 || t->dtype != codes.dtype ||
        strncmp(t->name, row->only, strlen(row->only)) != 0)
        return 0;
    snprintf(module, size, "%.*s", (int)(dot - t->name), t->name);
    return 1;
}

static counts compare(const quantizer_row *row, const formula *how)
{
    counts seen = {0};
    sb_checkpoint *source = opened("in/", row->source), *real = opened("", row->folder);
    for (size_t i = 0; i < sb_checkpoint_count(real); i++) {
        char module[400];
        if (layer_of(row, sb_checkpoint_at(real, i), module, sizeof module))
            compare_layer(row, how, source, real, module, &seen);
    }
    sb_checkpoint_close(source);
    sb_checkpoint_close(real);
    return seen;
}

TEST(test_quantizers_write_the_real_bytes)
{
    size_t equal = 0;
    for (size_t i = 0; quantizer_row_at(i); i++) {
        const quantizer_row *row = quantizer_row_at(i);
        formula how = formula_of(row);
        counts seen = compare(row, &how);
        printf("%-18s %2zu layers, bytes of codes %6" PRIu64 ", scales %5" PRIu64
               ", zero points %4" PRIu64 ", factors %3" PRIu64 ": %" PRIu64 " differ, %" PRIu64
               " more are zeros\n",
               row->folder, seen.layers, seen.bytes[SB_CONTENT_codes],
               seen.bytes[SB_CONTENT_scales], seen.bytes[SB_CONTENT_zeros],
               seen.bytes[SB_CONTENT_factor], seen.apart, seen.known);
        if (seen.apart)
            fail_msg("%s", seen.first);
        if (seen.layers != row->layers || (row->known == KNOWN_ZEROS && !seen.known))
            fail_msg("%s: %zu layers, expected %zu, and %" PRIu64 " known differences", row->folder,
                     seen.layers, row->layers, seen.known);
        equal++;
    }
    assert_true(equal >= 17);
}

static const quantizer_row *row_of(const char *folder)
{
    for (size_t i = 0; quantizer_row_at(i); i++)
        if (strcmp(quantizer_row_at(i)->folder, folder) == 0)
            return quantizer_row_at(i);
    fail_msg("no row %s", folder);
    return NULL;
}

TEST(test_planted_mistakes_are_seen)
{
    for (size_t i = 0; planted_at(i); i++) {
        const planted *p = planted_at(i);
        formula how = formula_of(row_of(p->folder));
        p->plant(&how);
        counts seen = compare(row_of(p->folder), &how);
        printf("%-18s %s: %" PRIu64 " bytes differ\n", p->folder, p->what, seen.apart);
        if (!seen.apart)
            fail_msg("%s: not seen: %s", p->folder, p->what);
    }
}

static void one_changed(const sb_band *b)
{
    sb_quantize_fp8_channel(b);
    b->codes[b->rows * b->cols - 2] ^= 1;
}

/* Changes one bit of each layer: nothing else differs, and the message says where. */
TEST(test_one_changed_code_is_named)
{
    const quantizer_row *row = row_of("ct-fp8");
    formula how = formula_of(row);
    how.quantize = one_changed;
    counts seen = compare(row, &how);
    assert_int_equal(seen.apart, seen.layers);
    const char *where = "model.layers.0.linear_attn.in_proj_qkv.weight (codes), byte 32766:";
    if (!strstr(seen.first, where))
        fail_msg("%s: does not say %s", seen.first, where);
}
