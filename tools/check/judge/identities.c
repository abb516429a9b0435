#include "tools/check/judge/identities.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *container;
    uint64_t experts, shared, attention, large, small, head;
    const char *name;
} layouts[] = {
#define SB_LAYOUT(container, experts, shared, attention, large, small, head, name)                 \
    {container, experts, shared, attention, large, small, head, name},
#include "tools/check/judge/layouts.def"
#undef SB_LAYOUT
};

/* Number of matrices of the text model by class, and of other tensors. */
typedef struct matrices {
    uint64_t layers, experts, shared, attention, large, small;
    uint64_t body; /* tensors that are never quantized; includes lm_head and the vision tower */
} matrices;

static uint64_t tensors_in(const sb_check *check, sb_region region)
{
    const sb_units *u = &check->self.units;
    uint64_t n = 0;
    for (size_t i = 0; i < u->count; i++) {
        const sb_unit *unit = &u->rows[i];
        if (unit->region != region)
            continue;
        n += unit->tensor != NULL;
        for (unsigned p = 0; p < SB_PART_COUNT && !unit->tensor; p++)
            n += unit->found.part[p] != NULL;
    }
    return n;
}

static matrices count_matrices(const sb_config *c, uint64_t vision)
{
    uint64_t full = 0, layers = c->layers;
    for (uint32_t i = 0; i < c->layers; i++)
        full += c->layer_is_full[i];
    uint64_t linear = layers - full;
    return (matrices){.layers = layers,
                      .experts = 3 * layers * c->experts,
                      .shared = 3 * layers,
                      .attention = 4 * full,
                      .large = 3 * linear,
                      .small = 2 * linear,
                      .body = 2 * layers + 2 * layers + 2 * full + 4 * linear + 2 +
                              !c->tie_embeddings + vision};
}

/* The kind of MTP head with this number of tensors. 17 tensors of a head do not belong to the E
 * experts. */
static const char *head_of(uint64_t experts, uint64_t tensors)
{
    const struct {
        uint64_t tensors;
        const char *name;
    } heads[] = {
        {0, "no MTP head"},
        {17 + 2, "MTP head with stacked experts in floats"},
        {17 + 3 * experts, "MTP head in floats, expert by expert"},
        {2 * (3 * experts + 7) + 10, "MTP head in FP8"},
        {3 * (3 * experts + 4) + 13, "MTP head in INT4, its shared expert in BF16"},
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (heads[i].tensors == tensors)
            return heads[i].name;
    return NULL;
}

/* The container of the first routed expert of the text model. */
static const char *experts_container(const sb_check *check)
{
    const sb_units *u = &check->self.units;
    for (size_t i = 0; i < u->count; i++) {
        const sb_unit *unit = &u->rows[i];
        if (unit->region == SB_REGION_trunk && unit->expected && !unit->tensor && !unit->status &&
            (unit->expected->expert != SB_NO_EXPERT || unit->found.experts))
            return sb_container_name(unit->found.container);
    }
    return "";
}

/* V-5: "If it is the total of a published layout, computed from the configuration, the INFO names
 * the layout"
 */
void sb_count_identity(const sb_check *check, char *text, size_t size)
{
    const sb_config *c = &check->self.config;
    uint64_t tensors = sb_checkpoint_count(check->self.checkpoint);
    text[0] = '\0';
    if (!c->experts || c->family != SB_QWEN3_5_MOE)
        return;
    uint64_t vision = tensors_in(check, SB_REGION_vision), mtp = tensors_in(check, SB_REGION_mtp);
    matrices m = count_matrices(c, vision);
    const char *head = head_of(c->experts, mtp), *container = experts_container(check);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts && head; i++) {
        uint64_t experts = layouts[i].experts ? layouts[i].experts * m.experts : 2 * m.layers;
        uint64_t sum = experts + layouts[i].shared * m.shared + layouts[i].attention * m.attention +
                       layouts[i].large * m.large + layouts[i].small * m.small +
                       (layouts[i].head - 1) * !c->tie_embeddings + m.body + mtp;
        if (sum != tensors ||
            strncmp(container, layouts[i].container, strlen(layouts[i].container)) != 0)
            continue;
        snprintf(text, size, "the number of %s (%s%s)", layouts[i].name, head,
                 vision ? "" : ", no vision tower");
        return;
    }
}
