/* The linear layers that a format quantizes, and their tensors. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/make/plan.h"

/* The scheme of a weight; fp8-block has two schemes with different types of scales. */
static sb_scheme scheme_of(const sb_make_plan *p, const sb_expected *w)
{
    int in_mtp = w->layer >= p->config.layers && w->role != SB_ROLE_lm_head;
    sb_scheme scheme = sb_make_format_scheme(p->format, w->role, in_mtp);
    if (scheme == SB_SCHEME_fp8_block && p->rule == SB_SCALE_RULE_reciprocal)
        return SB_SCHEME_fp8_block_f32;
    return scheme;
}

/* Rows and columns of a weight as a matrix: conv1d is [C, 1, kw]. */
static uint64_t rows_of(const sb_expected *w)
{
    return w->shape[0];
}

static uint64_t cols_of(const sb_expected *w)
{
    return w->shape[w->rank - 1];
}

/* G-6: "AutoRound leaves a matrix as it is if the number of its rows or of its columns is not a
 * multiple of 32" */
static int left_alone(sb_scheme scheme, const sb_expected *w)
{
    return scheme == SB_SCHEME_int4_autoround && (rows_of(w) % 32 != 0 || cols_of(w) % 32 != 0);
}

static sb_status refuse(const sb_make_plan *p, const sb_expected *w, const char *what,
                        uint64_t found, uint32_t multiple, const char *hint, sb_error *err)
{
    return sb_fail(err, SB_ERR_USAGE,
                   "preset %s has no format %s: tensor %s has %" PRIu64
                   " %s, expected a multiple of %" PRIu32 "%s",
                   p->shape.dims.name, p->format->name, w->name, found, what, multiple, hint);
}

/* G-6: "a shape that its program refuses is refused" */
static sb_status check_shape(const sb_make_plan *p, const sb_expected *w, sb_scheme scheme,
                             uint32_t group, sb_error *err)
{
    const sb_scheme_info *info = sb_scheme_at(scheme);
    int words = info->container == SB_CONTAINER_int_gptq || info->container == SB_CONTAINER_int_awq;
    if (cols_of(w) % info->step != 0)
        return refuse(p, w, "columns", cols_of(w), info->step, "", err);
    if (group && cols_of(w) % group != 0)
        return refuse(p, w, "columns", cols_of(w), group, " (--group-size)", err);
    if (words && rows_of(w) % 8 != 0)
        return refuse(p, w, "rows", rows_of(w), 8, "", err);
    return SB_OK;
}

/* Engines fuse q, k and v, and gate and up, to one matrix with one factor. These layers are
 * consecutive in the order of the model's tensors. */
static size_t fused_with(const sb_make_plan *p, const sb_make_linear *l)
{
    size_t own = p->linear_count;
    const sb_make_linear *before = own ? &p->linears[own - 1] : NULL;
    sb_role first = l->role == SB_ROLE_k_proj || l->role == SB_ROLE_v_proj ? SB_ROLE_q_proj
                    : l->role == SB_ROLE_expert_up                         ? SB_ROLE_expert_gate
                    : l->role == SB_ROLE_shared_up_proj ? SB_ROLE_shared_gate_proj
                    : l->role == SB_ROLE_up_proj        ? SB_ROLE_gate_proj
                                                        : SB_ROLE_COUNT;
    sb_fused fused = sb_scheme_at(l->scheme)->fused;
    if (!before || fused == SB_FUSED_NOBODY || first == SB_ROLE_COUNT ||
        (fused == SB_FUSED_EXPERTS && l->role != SB_ROLE_expert_up))
        return own;
    return p->linears[before->fused].role == first ? before->fused : own;
}

static sb_status add_linear(sb_make_plan *p, const sb_expected *w, sb_scheme scheme, uint32_t group,
                            sb_error *err)
{
    static const char suffix[] = ".weight";
    sb_make_linear *linears =
        sb_grow(p->linears, p->linear_count, &p->linear_room, sizeof *linears);
    if (!linears)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu layers", p->linear_count + 1);
    p->linears = linears;
    sb_make_linear *l = &p->linears[p->linear_count];
    *l = (sb_make_linear){.module = sb_strdup(w->name),
                          .role = w->role,
                          .layer = w->layer,
                          .expert = w->expert,
                          .rows = rows_of(w),
                          .cols = cols_of(w),
                          .scheme = scheme,
                          .group = group};
    if (!l->module)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the name of a layer");
    l->module[strlen(l->module) - (sizeof suffix - 1)] = '\0';
    l->fused = fused_with(p, l);
    p->linear_count++;
    return SB_OK;
}

static sb_status add_part(sb_make_plan *p, const sb_make_linear *l, const char *suffix,
                          const sb_make_tensor *tensor, sb_error *err)
{
    char name[SB_NAME_MAX + 32];
    snprintf(name, sizeof name, "%s.%s", l->module, suffix);
    return sb_make_plan_add(p, name, tensor, err);
}

/* Scales of FP8 keys and values belong to the modules of their projections. */
static sb_status add_kv_scale(sb_make_plan *p, const sb_expected *w, sb_error *err)
{
    char name[SB_NAME_MAX + 32];
    int is_key = w->role == SB_ROLE_k_proj;
    if (!p->kv_scales || w->layer >= p->config.layers || (!is_key && w->role != SB_ROLE_v_proj))
        return SB_OK;
    snprintf(name, sizeof name, "%.*s%s", (int)(strlen(w->name) - strlen("weight")), w->name,
             is_key ? "k_scale" : "v_scale");
    sb_make_tensor t = {.dtype = SB_DTYPE_F32,
                        .role = w->role,
                        .layer = w->layer,
                        .expert = SB_NO_EXPERT,
                        .content = SB_CONTENT_kv};
    return sb_make_plan_add(p, name, &t, err);
}

sb_status sb_make_plan_quantize(sb_make_plan *p, const sb_expected *w, int *done, sb_error *err)
{
    sb_scheme scheme = scheme_of(p, w);
    uint32_t group = sb_scheme_at(scheme)->group;
    sb_status status = add_kv_scale(p, w, err);
    *done = scheme != SB_SCHEME_plain && !left_alone(scheme, w);
    if (group && p->group)
        group = p->group;
    if (!*done || status)
        return status;
    status = check_shape(p, w, scheme, group, err);
    if (!status)
        status = add_linear(p, w, scheme, group, err);
    sb_scheme_tensor part;
    for (size_t i = 0;
         !status && sb_scheme_tensor_at(scheme, i, rows_of(w), cols_of(w), group, &part); i++) {
        sb_make_tensor t = {.dtype = part.dtype,
                            .rank = part.rank,
                            .shape = {part.shape[0], part.shape[1]},
                            .role = w->role,
                            .layer = w->layer,
                            .expert = w->expert,
                            .content = part.content,
                            .linear = p->linear_count - 1};
        if (w->rank == 3 && part.content == SB_CONTENT_codes) { /* conv1d keeps its shape */
            t.rank = 3;
            memcpy(t.shape, w->shape, 3 * sizeof *t.shape);
        }
        status = add_part(p, &p->linears[p->linear_count - 1], part.suffix, &t, err);
    }
    return status;
}
