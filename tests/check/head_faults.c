#include "tests/check/head_faults.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "tests/lib/cmocka.h"

/* --- tensors ---------------------------------------------------------------------------------- */

static float *values_of(const test_tensor *t, size_t *n)
{
    *n = (size_t)t->size / 2;
    float *x = malloc(*n * sizeof *x);
    assert_non_null(x);
    assert_int_equal(t->dtype, SB_DTYPE_BF16);
    for (size_t i = 0; i < *n; i++)
        x[i] = sb_f32_from_bits((uint32_t)sb_load_u16(t->bytes + 2 * i) << 16);
    return x;
}

static void store(const test_tensor *t, float *x)
{
    for (size_t i = 0; i < t->size / 2; i++) {
        uint32_t u = sb_bits_f32(x[i]);
        u += 0x7fff + (u >> 16 & 1);
        sb_store_u16(t->bytes + 2 * i, (uint16_t)(u >> 16));
    }
    free(x);
}

static void change(const test_tensor *t, float times, float plus)
{
    size_t n;
    float *x = values_of(t, &n);
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] * times + plus;
    store(t, x);
}

void head_change(const test_folder *f, const char *name, float times, float plus)
{
    change(test_folder_find(f, name), times, plus);
}

static int is_of_head(const test_tensor *t)
{
    return strncmp(t->name, "mtp.", 4) == 0;
}

static test_tensor *part_of(const test_folder *f, const char *part)
{
    size_t length = strlen(part);
    for (size_t i = 0; i < f->count; i++) {
        const char *name = f->tensors[i].name;
        if (!is_of_head(&f->tensors[i]))
            continue;
        name += strncmp(name, "mtp.layers.0.", 13) == 0 ? 13 : 4;
        if (strncmp(name, part, length) == 0 &&
            (name[length] == '\0' || strcmp(name + length, ".weight") == 0))
            return &f->tensors[i];
    }
    return NULL;
}

static test_tensor *known_part(const test_folder *f, const char *part)
{
    test_tensor *t = part_of(f, part);
    if (!t)
        fail_msg("the head has no %s", part);
    return t;
}

/* --- edits ------------------------------------------------------------------------------------ */

static void swap(test_tensor *a, test_tensor *b)
{
    unsigned char *bytes = a->bytes;
    assert_int_equal(a->size, b->size);
    a->bytes = b->bytes;
    b->bytes = bytes;
}

/* Moves each expert, or each half of an expert, into the place before it. */
static void rotate(test_tensor *t, size_t parts_of_each)
{
    size_t parts = (size_t)t->shape[0] * parts_of_each;
    size_t each = (size_t)t->size / parts;
    unsigned char *bytes = malloc((size_t)t->size);
    assert_non_null(bytes);
    for (size_t i = 0; i < parts; i++)
        memcpy(bytes + i * each, t->bytes + (i + 1) % parts * each, each);
    free(t->bytes);
    t->bytes = bytes;
}

/* order: the new embedding half and the new hidden half of mtp.fc, each e, h or 0. */
static void halves(const test_tensor *fc, const char *order)
{
    size_t n, H = (size_t)fc->shape[0];
    float *x = values_of(fc, &n), *y = calloc(n, sizeof *y);
    assert_non_null(y);
    for (size_t at = 0; at < n; at += H) {
        char from = order[at / H % 2];
        const float *row = x + at / (2 * H) * (2 * H);
        if (from != '0')
            memcpy(y + at, from == 'e' ? row : row + H, H * sizeof *y);
    }
    free(x);
    store(fc, y);
}

static void four_bits(const test_tensor *t)
{
    size_t n, cols = (size_t)t->shape[t->rank - 1];
    float *x = values_of(t, &n);
    for (size_t row = 0; row < n; row += cols) {
        float most = 0;
        for (size_t i = 0; i < cols; i++)
            most = fmaxf(most, fabsf(x[row + i]));
        for (size_t i = 0; i < cols && most > 0; i++)
            x[row + i] = rintf(x[row + i] / most * 7) * (most / 7);
    }
    store(t, x);
}

static void drawn_anew(const test_tensor *t)
{
    size_t n;
    uint64_t key = sb_rng_key(1, t->name);
    float *x = values_of(t, &n);
    for (size_t i = 0; i < n; i++)
        x[i] = t->rank > 1 ? 0.02f * sb_rng_normal(key, i) : 0.0f;
    store(t, x);
}

void head_fault_plant(const head_fault *fault, const test_folder *f)
{
    switch (fault->edit) {
    case HEAD_EDIT_none:
        return;
    case HEAD_EDIT_times:
        change(known_part(f, fault->a), fault->by, 0);
        return;
    case HEAD_EDIT_plus:
        change(known_part(f, fault->a), 1, fault->by);
        return;
    case HEAD_EDIT_swap:
        swap(known_part(f, fault->a), known_part(f, fault->b));
        return;
    case HEAD_EDIT_rotate:
        rotate(known_part(f, fault->a), (size_t)fault->by);
        if (fault->b)
            rotate(known_part(f, fault->b), (size_t)fault->by);
        return;
    case HEAD_EDIT_fc:
        halves(known_part(f, "fc"), fault->a);
        return;
    default:
        break;
    }
    for (size_t i = 0; i < f->count; i++) {
        const test_tensor *t = &f->tensors[i];
        if (!is_of_head(t))
            continue;
        if (fault->edit == HEAD_EDIT_drawn)
            drawn_anew(t);
        else if (fault->edit == HEAD_EDIT_four && t->rank > 1)
            four_bits(t);
        else if (fault->edit == HEAD_EDIT_norms && t->rank == 1)
            change(t, 1, fault->by);
    }
}

void head_take(const test_folder *f, const test_folder *other)
{
    for (size_t i = 0; i < f->count; i++)
        if (is_of_head(&f->tensors[i]))
            memcpy(f->tensors[i].bytes, test_folder_find(other, f->tensors[i].name)->bytes,
                   (size_t)f->tensors[i].size);
}

/* --- the list --------------------------------------------------------------------------------- */

#define ZERO(part, kind)                                                                           \
    {                                                                                              \
        part " zero", HEAD_EDIT_times, HEAD_RATE, kind, part, NULL, 0                              \
    }
#define SWAP(one, two, effect, kind)                                                               \
    {                                                                                              \
        one " and " two " swapped", HEAD_EDIT_swap, effect, kind, one, two, 0                      \
    }

const head_fault head_faults[] = {
    {"none", HEAD_EDIT_none, HEAD_NOTHING, HEAD_ANY, NULL, NULL, 0},
    {"halves of fc swapped", HEAD_EDIT_fc, HEAD_RATE, HEAD_ANY, "he", NULL, 0},
    {"hidden half of fc zero", HEAD_EDIT_fc, HEAD_RATE, HEAD_ANY, "e0", NULL, 0},
    {"embedding half of fc zero", HEAD_EDIT_fc, HEAD_RATE, HEAD_ANY, "0h", NULL, 0},
    {"hidden half of fc twice", HEAD_EDIT_fc, HEAD_RATE, HEAD_ANY, "hh", NULL, 0},
    ZERO("fc", HEAD_ANY),
    {"all norms one too large", HEAD_EDIT_norms, HEAD_RATE, HEAD_ANY, NULL, NULL, 1},
    {"all norms one too small", HEAD_EDIT_norms, HEAD_RATE, HEAD_ANY, NULL, NULL, -1},
    ZERO("norm", HEAD_ANY),
    ZERO("pre_fc_norm_embedding", HEAD_ANY),
    ZERO("pre_fc_norm_hidden", HEAD_ANY),
    ZERO("input_layernorm", HEAD_ANY),
    ZERO("post_attention_layernorm", HEAD_ANY),
    ZERO("self_attn.q_norm", HEAD_ANY),
    ZERO("self_attn.k_norm", HEAD_ANY),
    {"norm one too large", HEAD_EDIT_plus, HEAD_RATE, HEAD_ANY, "norm", NULL, 1},
    {"pre_fc_norm_embedding one too large", HEAD_EDIT_plus, HEAD_RATE, HEAD_ANY,
     "pre_fc_norm_embedding", NULL, 1},
    {"pre_fc_norm_hidden one too large", HEAD_EDIT_plus, HEAD_RATE, HEAD_ANY, "pre_fc_norm_hidden",
     NULL, 1},
    {"input_layernorm one too large", HEAD_EDIT_plus, HEAD_RATE, HEAD_ANY, "input_layernorm", NULL,
     1},
    {"post_attention_layernorm one too large", HEAD_EDIT_plus, HEAD_RATE, HEAD_ANY,
     "post_attention_layernorm", NULL, 1},
    SWAP("pre_fc_norm_embedding", "pre_fc_norm_hidden", HEAD_RATE, HEAD_ANY),
    SWAP("input_layernorm", "post_attention_layernorm", HEAD_RATE, HEAD_ANY),
    SWAP("norm", "pre_fc_norm_hidden", HEAD_RATE, HEAD_ANY),
    ZERO("self_attn.q_proj", HEAD_ANY),
    ZERO("self_attn.k_proj", HEAD_ANY),
    ZERO("self_attn.v_proj", HEAD_ANY),
    ZERO("self_attn.o_proj", HEAD_ANY),
    SWAP("self_attn.k_proj", "self_attn.v_proj", HEAD_RATE, HEAD_ANY),
    ZERO("mlp.gate", HEAD_MOE),
    {"mlp.gate rotated", HEAD_EDIT_rotate, HEAD_RATE, HEAD_MOE, "mlp.gate", NULL, 1},
    {"mlp.gate negative", HEAD_EDIT_times, HEAD_RATE, HEAD_MOE, "mlp.gate", NULL, -1},
    ZERO("mlp.experts.gate_up_proj", HEAD_MOE),
    ZERO("mlp.experts.down_proj", HEAD_MOE),
    {"mlp.experts rotated", HEAD_EDIT_rotate, HEAD_RATE, HEAD_MOE, "mlp.experts.gate_up_proj",
     "mlp.experts.down_proj", 1},
    {"gate and up of experts swapped", HEAD_EDIT_rotate, HEAD_RATE, HEAD_MOE,
     "mlp.experts.gate_up_proj", NULL, 2},
    {"mlp.experts.down_proj negative", HEAD_EDIT_times, HEAD_RATE, HEAD_MOE,
     "mlp.experts.down_proj", NULL, -1},
    ZERO("mlp.shared_expert.gate_proj", HEAD_MOE),
    ZERO("mlp.shared_expert.up_proj", HEAD_MOE),
    ZERO("mlp.shared_expert.down_proj", HEAD_MOE),
    SWAP("mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj", HEAD_RATE, HEAD_MOE),
    ZERO("mlp.shared_expert_gate", HEAD_MOE),
    ZERO("mlp.gate_proj", HEAD_DENSE),
    ZERO("mlp.up_proj", HEAD_DENSE),
    ZERO("mlp.down_proj", HEAD_DENSE),
    SWAP("mlp.gate_proj", "mlp.up_proj", HEAD_RATE, HEAD_DENSE),
    {"four bits per weight", HEAD_EDIT_four, HEAD_IDS, HEAD_ANY, NULL, NULL, 0},
    {"drawn anew", HEAD_EDIT_drawn, HEAD_RATE, HEAD_ANY, NULL, NULL, 0},
    /* without the rotary embedding nothing would change: scores depend on their product */
    SWAP("self_attn.q_norm", "self_attn.k_norm", HEAD_IDS, HEAD_ANY),
};
const size_t head_fault_count = sizeof head_faults / sizeof *head_faults;

const head_fault *head_fault_of(const char *name)
{
    for (size_t i = 0; i < head_fault_count; i++)
        if (strcmp(head_faults[i].name, name) == 0)
            return &head_faults[i];
    fail_msg("no fault %s", name);
    return NULL;
}

int head_fault_fits(const head_fault *fault, const test_folder *f)
{
    int moe = part_of(f, "mlp.experts.down_proj") != NULL;
    int dense = part_of(f, "mlp.down_proj") != NULL;
    return fault->kind == HEAD_ANY || (fault->kind == HEAD_MOE ? moe : dense);
}
