/* siblings.c - check 4: each module exists once, with all tensors of one way to store it. */
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/check/judge/absent.h"
#include "tools/check/scan/group.h"
#include "tools/check/judge/structure.h"

#define HAS(found, suffix) ((found)->part[SB_PART_##suffix] != NULL)

/* 1 if a part that the others need is missing, whatever their shapes. */
static int is_incomplete(const sb_found *f)
{
    const sb_tensor *weight = f->part[SB_PART_weight], *packed = f->part[SB_PART_weight_packed];
    const sb_tensor *scale = f->part[SB_PART_weight_scale];
    int e4m3 = scale && scale->dtype == SB_DTYPE_F8_E4M3;
    if (HAS(f, qweight))
        return !HAS(f, qzeros) || !HAS(f, scales);
    if (packed && packed->dtype == SB_DTYPE_I32)
        return !scale || !HAS(f, weight_shape);
    if (packed)
        return !scale || (e4m3 && !HAS(f, weight_global_scale));
    if (!weight)
        return 1;
    if (weight->dtype == SB_DTYPE_U8)
        return !scale || (e4m3 && !HAS(f, weight_scale_2));
    if (weight->dtype == SB_DTYPE_F8_E4M3)
        return !scale && !HAS(f, weight_scale_inv);
    return weight->dtype == SB_DTYPE_I8 && !scale;
}

/* 1 if some part does not belong to the others. */
static int is_mixed(const sb_found *f)
{
    if (HAS(f, weight) + HAS(f, weight_packed) + HAS(f, qweight) > 1)
        return 1;
    if (f->container == SB_CONTAINER_COUNT || f->container == SB_CONTAINER_int_awq)
        return 0; /* a g_idx beside what looks like AWQ is a question of orientation: check 8 */
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        if (f->part[p] && p != SB_PART_pre_quant_scale &&
            !(p == SB_PART_weight_scale_2 && f->container == SB_CONTAINER_int4_modelopt) &&
            !sb_container_takes(f->container, (sb_model_part)p))
            return 1;
    return 0;
}

/* 1 if FP8 scales form a grid in two dimensions. */
static int is_grid(const sb_found *f)
{
    const sb_tensor *weight = f->part[SB_PART_weight];
    const sb_tensor *scale = HAS(f, weight_scale_inv) ? f->part[SB_PART_weight_scale_inv]
                                                      : f->part[SB_PART_weight_scale];
    return weight && weight->dtype == SB_DTYPE_F8_E4M3 && scale && scale->rank > 1 &&
           scale->shape[scale->rank - 1] > 1 && scale->dtype != SB_DTYPE_F8_E4M3;
}

unsigned sb_unit_fault(const sb_unit *unit)
{
    const sb_found *f = &unit->found;
    if (unit->tensor || !unit->status)
        return 0;
    if (is_incomplete(f) || is_mixed(f) || unit->status == SB_ERR_UNSUPPORTED)
        return 4;
    if (f->container == SB_CONTAINER_int_gptq || f->container == SB_CONTAINER_int_awq)
        return 8;
    return is_grid(f) ? 32 : 7;
}

/* V-4: "A part under another dialect's name is named beside the absent one": the scales that a
 * module has instead of the required ones; "" if it has none. */
static const char *misnamed_scales(const sb_found *f)
{
    static const sb_model_part scales[] = {SB_PART_weight_scale, SB_PART_weight_scale_inv,
                                           SB_PART_scales};
    for (size_t i = 0; i < sizeof scales / sizeof *scales && is_incomplete(f); i++)
        if (f->part[scales[i]] && !HAS(f, weight_scale))
            return f->part[scales[i]]->name;
    return "";
}

/* V-4: "A way of storing that is known and not read by this version is a WARN" */
static void tell_unreadable(sb_check *check, sb_groups *groups, const sb_unit *unit)
{
    char key[SB_MAX_TENSOR_NAME + 32];
    const char *misnamed = misnamed_scales(&unit->found);
    int unread = unit->status == SB_ERR_UNSUPPORTED && !is_incomplete(&unit->found) &&
                 !is_mixed(&unit->found);
    if (sb_elsewhere(check, unit->name))
        return;
    snprintf(key, sizeof key, "%s: %s", unit->kind,
             unread ? "not read by this version" : "tensors that are not a whole layer");
    sb_group_find(groups, check, 4, unread ? SB_LEVEL_warn : SB_LEVEL_fatal,
                  sb_unit_tensor(unit, SB_PART_COUNT), key, "%s%s%s%s", unit->problem,
                  *misnamed ? "; there is " : "", *misnamed ? SB_SHOW(misnamed) : "",
                  unread ? " (this version does not read it, so it has no further checks)" : "");
}

/* V-4: "A matrix that two units hold, one by one and within a stack, is FATAL" */
static void tell_doubles(sb_check *check, sb_groups *groups)
{
    const sb_units *u = &check->self.units;
    for (size_t i = 1; i < u->member_count; i++) {
        const sb_member *a = &u->members[i - 1], *b = &u->members[i];
        char key[SB_MAX_TENSOR_NAME + 32];
        if (strcmp(a->plain, b->plain) != 0)
            continue;
        snprintf(key, sizeof key, "%s: stored twice", b->unit->kind);
        sb_group_find(groups, check, 4, SB_LEVEL_fatal, sb_unit_tensor(b->unit, SB_PART_COUNT), key,
                      "%s is stored twice: in %s and in %s", SB_SHOW(b->name),
                      SB_SHOW(sb_unit_tensor(a->unit, SB_PART_COUNT)),
                      SB_SHOW(sb_unit_tensor(b->unit, SB_PART_COUNT)));
    }
}

void sb_check_siblings(sb_check *check)
{
    const sb_units *units = &check->self.units;
    sb_groups groups = {0};
    for (size_t i = 0; i < units->count; i++)
        if (sb_unit_fault(&units->rows[i]) == 4)
            tell_unreadable(check, &groups, &units->rows[i]);
    tell_doubles(check, &groups);
    if (!sb_is_fragment(check))
        sb_tell_absent(check, &groups);
    sb_groups_end(&groups, check);
}
