/* loaded_find.c - where the files have a parameter, given an engine's name for it.
 *
 * Engines drop or add the prefix of the text model, fuse projections and stack experts. Some files
 * do so, too. Everything is looked up by plain names of members, which do not depend on how a
 * checkpoint stores its experts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/model/probe.h"
#include "tools/check/loaded/loaded_parts.h"

enum { NAME = SB_MAX_TENSOR_NAME + 64 };

static const char *const prefixes[] = {"model.language_model.", "language_model.model.", "model.",
                                       "language_model.", ""};

/* Fused parameters: the last word of their module, and the modules that they consist of, one below
 * the other. */
static const struct {
    const char *fused, *parts[4];
} fusions[] = {
    {"qkv_proj", {"q_proj", "k_proj", "v_proj"}},
    {"gate_up_proj", {"gate_proj", "up_proj"}},
    {"in_proj_qkvz", {"in_proj_qkv", "in_proj_z"}},
    {"in_proj_ba", {"in_proj_b", "in_proj_a"}},
};

/* Stacks of experts, [E, N, K]. */
static const struct {
    const char *stack, *parts[3];
} stacks[] = {
    {"experts.gate_up_proj", {"gate_proj", "up_proj"}},
    {"experts.down_proj", {"down_proj"}},
    {"experts.w13_weight", {"gate_proj", "up_proj"}},
    {"experts.w2_weight", {"down_proj"}},
};

sb_segment sb_segment_of(const sb_member *member)
{
    return (sb_segment){.matrix = member->matrix, .rows = member->matrix.rows, .member = member};
}

int sb_segment_of_tensor(const sb_tensor *t, sb_segment *out)
{
    sb_matrix matrix;
    if (!sb_tensor_matrix(t, &matrix))
        return 0;
    *out = (sb_segment){.matrix = matrix, .rows = matrix.rows, .tensor = t};
    return 1;
}

static int ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0 && (n == m || text[n - m - 1] == '.');
}

/* --- one module ------------------------------------------------------------------------------- */

static const sb_member *member_of(const sb_check *check, const char *plain)
{
    char name[NAME];
    size_t n = strlen(plain);
    if (n >= sizeof name)
        return NULL;
    memcpy(name, plain, n + 1);
    if (n > 7 && strcmp(name + n - 7, ".weight") == 0)
        name[n - 7] = '\0';
    const sb_member *member = sb_member_plain(&check->self.units, name);
    if (!member && strcmp(name, "lm_head") == 0 && check->self.has_config &&
        check->self.config.tie_embeddings)
        member = sb_member_plain(&check->self.units, "embed_tokens");
    return member;
}

static const sb_tensor *tensor_of(const sb_check *check, const char *plain)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s%s", check->self.units.prefix, plain);
    const sb_tensor *t = sb_checkpoint_find(check->self.checkpoint, name);
    return t ? t : sb_checkpoint_find(check->self.checkpoint, plain);
}

/* Finds a matrix of a layer, or a tensor of floats, with or without the prefix of the text
 * model. */
static int find_module(const sb_check *check, const char *name, sb_segment *out)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t n = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], n) != 0)
            continue;
        const sb_member *member = member_of(check, name + n);
        const sb_tensor *tensor = member ? NULL : tensor_of(check, name + n);
        if (member) {
            *out = sb_segment_of(member);
            return 1;
        }
        if (tensor && sb_segment_of_tensor(tensor, out))
            return 1;
    }
    return 0;
}

static const sb_tensor *find_tensor(const sb_check *check, const char *name)
{
    const sb_tensor *t = sb_checkpoint_find(check->self.checkpoint, name);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !t; i++) {
        size_t n = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], n) == 0)
            t = tensor_of(check, name + n);
    }
    return t;
}

/* --- a parameter ------------------------------------------------------------------------------ */

static sb_status add(sb_held_values *held, const sb_segment *segment, sb_error *err)
{
    if ((held->count & (held->count - 1)) == 0) { /* room is the next power of two */
        size_t room = held->count ? 2 * held->count : 1;
        sb_segment *grown = sb_realloc(held->segments, room, sizeof *grown);
        if (!grown)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for the parts of a parameter");
        held->segments = grown;
    }
    held->segments[held->count++] = *segment;
    held->elements += (uint64_t)segment->rows * segment->matrix.cols;
    return SB_OK;
}

static void forget(sb_held_values *held)
{
    free(held->segments);
    const char *lacks = held->lacks;
    *held = (sb_held_values){.lacks = lacks};
}

static sb_status from_parts(const sb_check *check, const sb_loaded_param *p, sb_held_values *held,
                            sb_error *err)
{
    sb_segment s;
    sb_status status = SB_OK;
    for (size_t i = 0; i < p->part_count && !status; i++) {
        const sb_loaded_part *part = &p->parts[i];
        if (!find_module(check, part->module, &s) || (part->has_rows && part->end > s.rows)) {
            held->lacks = part->module;
            forget(held);
            return SB_OK;
        }
        if (part->has_rows) {
            s.first = (uint32_t)part->first;
            s.rows = (uint32_t)(part->end - part->first);
        }
        status = add(held, &s, err);
    }
    return status;
}

/* Adds the modules of a list below `base` ("model.layers.3.self_attn.", "...experts.5."). *all
 * becomes 0 if a module is missing. */
static sb_status add_named(const sb_check *check, const char *base, int n, const char *const *parts,
                           sb_held_values *held, int *all, sb_error *err)
{
    char name[NAME];
    sb_segment s;
    sb_status status = SB_OK;
    for (; *parts && *all && !status; parts++) {
        snprintf(name, sizeof name, "%.*s%s", n, base, *parts);
        *all = find_module(check, name, &s);
        if (*all)
            status = add(held, &s, err);
    }
    return status;
}

static sb_status from_stack(const sb_check *check, const sb_loaded_param *p, const char *stack,
                            const char *const *parts, sb_held_values *held, sb_error *err)
{
    char base[NAME];
    int n = (int)(strlen(p->name) - strlen(stack)), all = 1;
    sb_status status = SB_OK;
    for (uint64_t e = 0; e < p->shape[0] && e < SB_MAX_EXPERTS && all && !status; e++) {
        int m = snprintf(base, sizeof base, "%.*sexperts.%u.", n, p->name, (unsigned)e);
        status = add_named(check, base, m < (int)sizeof base ? m : 0, parts, held, &all, err);
    }
    if (!all)
        forget(held);
    return status;
}

static sb_status from_fusion(const sb_check *check, const sb_loaded_param *p, sb_held_values *held,
                             sb_error *err)
{
    char name[NAME];
    int all = 1;
    sb_status status = SB_OK;
    snprintf(name, sizeof name, "%s", p->name);
    size_t n = strlen(name);
    if (n > 7 && strcmp(name + n - 7, ".weight") == 0)
        name[n - 7] = '\0';
    for (size_t i = 0; i < sizeof fusions / sizeof *fusions && !status; i++)
        if (ends_with(name, fusions[i].fused))
            status = add_named(check, name, (int)(strlen(name) - strlen(fusions[i].fused)),
                               fusions[i].parts, held, &all, err);
    if (!all)
        forget(held);
    return status;
}

static int is_float(sb_dtype dtype)
{
    sb_format format;
    return sb_plain_format(dtype, &format);
}

sb_status sb_loaded_find(const sb_check *check, const sb_loaded_param *p, sb_held_values *out,
                         sb_error *err)
{
    sb_segment s;
    *out = (sb_held_values){0};
    if (strlen(p->name) > SB_MAX_TENSOR_NAME)
        return SB_OK;
    if (!is_float(p->dtype)) { /* compared as stored bytes */
        out->raw = find_tensor(check, p->name);
        return SB_OK;
    }
    if (p->part_count)
        return from_parts(check, p, out, err);
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++)
        if (p->rank == 3 && ends_with(p->name, stacks[i].stack))
            return from_stack(check, p, stacks[i].stack, stacks[i].parts, out, err);
    if (find_module(check, p->name, &s))
        return add(out, &s, err);
    return from_fusion(check, p, out, err);
}

void sb_held_values_free(sb_held_values *held)
{
    free(held->segments);
    *held = (sb_held_values){0};
}
