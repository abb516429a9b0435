/* drafter_states.c - check 57: which states of the target a drafter reads, and whether another way
 * to count layers fits better. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/check/judge/config_trees.h"
#include "tools/check/judge/drafter.h"

/* "1, 2 and 4" */
typedef struct list_text {
    char text[120];
} list_text;

static const char *show(const uint32_t *after, uint32_t n, int plus, list_text *room)
{
    size_t used = 0;
    room->text[0] = '\0';
    for (uint32_t i = 0; i < n && used < sizeof room->text; i++)
        used += (size_t)snprintf(room->text + used, sizeof room->text - used, "%s%" PRId64,
                                 !i           ? ""
                                 : i + 1 == n ? " and "
                                              : ", ",
                                 (int64_t)after[i] + plus);
    return room->text;
}

/* 1 if the states are those that absent numbers mean, for a target of L layers, `plus` further. */
static int is_usual(const sb_eagle3_config *c, uint32_t L, int plus)
{
    uint32_t usual[3];
    sb_eagle3_usual_states(L, usual);
    for (uint32_t i = 0; i < 3; i++)
        if (c->states != 3 || (int64_t)c->after[i] + plus != usual[i])
            return 0;
    return usual[0] < usual[1] && usual[1] < usual[2];
}

/* V-157: "would be if counted as in the other dialect" */
static void tell_convention(sb_check *check, const sb_eagle3_config *c, uint32_t L)
{
    const int other = c->counts_outputs ? -1 : 1;
    list_text own, usual;
    if (is_usual(c, L, 0) || !is_usual(c, L, other))
        return;
    sb_check_find(check, 57, SB_LEVEL_warn, "",
                  "config.json: the numbers %s mean the states after %s of %u layers. Counted %s, "
                  "they would be the usual ones, after %s: they were probably copied from a file "
                  "that counts so",
                  c->counts_outputs ? "in eagle_config" : "at the root",
                  show(c->after, c->states, 0, &own), (unsigned)L,
                  c->counts_outputs ? "as at the root, by layers that have run"
                                    : "as in eagle_config, from the output of layer 0",
                  show(c->after, c->states, other, &usual));
}

/* The same without a target: the smallest number begins with 1, and the others are usual for some
 * number of layers. */
static void tell_suspicion(sb_check *check, const sb_eagle3_config *c)
{
    const int other = c->counts_outputs ? -1 : 1;
    const uint32_t L = c->states == 3 ? (uint32_t)((int64_t)c->after[2] + other + 3) : 0;
    if (L && !is_usual(c, L, 0) && is_usual(c, L, other))
        sb_check_find(check, 57, SB_LEVEL_info, "",
                      "config.json: for a target of %u layers these numbers would be the usual "
                      "ones %s; samebit check CKPT --drafter tells",
                      (unsigned)L,
                      c->counts_outputs ? "if they counted layers that have run"
                                        : "if they counted from the output of layer 0");
}

/* V-157: "Every state must exist" */
static int fits(sb_check *check, const sb_eagle3_config *c, uint32_t L)
{
    uint32_t usual[3];
    const uint32_t *after = c->has_after ? c->after : usual;
    list_text text;
    sb_eagle3_usual_states(L, usual);
    for (uint32_t i = 0; i < c->states; i++) {
        if (after[i] <= L && (!i || after[i] > after[i - 1]))
            continue;
        sb_check_find(check, 57, SB_LEVEL_fatal, "",
                      "config.json: the states after %s layers are read, and the target has %u "
                      "layers%s; expected ascending numbers up to %u",
                      show(after, c->states, 0, &text), (unsigned)L,
                      c->has_after ? "" : ": the numbers are absent, and the usual states collide",
                      (unsigned)L);
        return 0;
    }
    return 1;
}

/* V-157: "Two more findings concern eagle_config" */
static void tell_engines(sb_check *check, const sb_eagle3_config *c, uint32_t L)
{
    const sb_config *target = &check->target.config;
    if (!c->has_after || is_usual(c, L, 0))
        return;
    if (c->counts_outputs)
        sb_check_find(check, 57, SB_LEVEL_info, "",
                      "config.json: the numbers stand in eagle_config. The V2 runner of vLLM 0.33 "
                      "ignores them there, and reads the usual states, which are others");
    if (c->counts_outputs && !sb_family_is_qwen3(target->family) && c->after[c->states - 1] == L)
        sb_check_find(check, 57, SB_LEVEL_warn, "",
                      "config.json: the output of the last layer is read; SGLang marks the layer "
                      "after it, which does not exist in this model");
}

/* V-157: "num_aux_hidden_states" */
static void tell_count(sb_check *check, const sb_eagle3_config *c)
{
    sb_config_trees trees;
    if (sb_config_trees_load(check->self.checkpoint, &trees)) {
        const json_t *count = sb_value_get(trees.root, "num_aux_hidden_states");
        if (json_is_integer(count) && json_integer_value(count) != (json_int_t)c->states)
            sb_check_find(check, 57, SB_LEVEL_error, "",
                          "config.json: num_aux_hidden_states is %lld, but %u states are read",
                          (long long)json_integer_value(count), (unsigned)c->states);
        else if (!count && c->states != 3 && !c->counts_outputs)
            sb_check_find(check, 57, SB_LEVEL_warn, "",
                          "config.json: %u states are numbered at the root, and "
                          "num_aux_hidden_states is absent: vLLM then makes fc for 3",
                          (unsigned)c->states);
    }
    sb_config_trees_free(&trees);
}

/* V-157: "fc has columns for" */
static void tell_columns(sb_check *check, const sb_eagle3_config *c)
{
    const sb_tensor *fc = sb_drafter_tensor(check, "fc.weight");
    if (!fc || fc->rank != 2 || !fc->shape[1] || fc->shape[1] % c->target_hidden ||
        fc->shape[1] / c->target_hidden == c->states)
        return;
    sb_check_find(check, 57, SB_LEVEL_error, fc->name,
                  "has columns for %" PRIu64 " states of %u, but config.json gives %u states%s",
                  fc->shape[1] / c->target_hidden, (unsigned)c->target_hidden, (unsigned)c->states,
                  c->has_after ? "" : ", which are three where the numbers are absent");
}

/* V-157: "An INFO says after how many layers each state is taken" */
static void tell_states(sb_check *check, const sb_eagle3_config *c)
{
    const uint32_t L = check->target.config.layers;
    const int known = check->target.checkpoint != NULL;
    uint32_t usual[3];
    list_text text;
    sb_eagle3_usual_states(L, usual);
    if (!c->has_after && !known)
        sb_check_find(check, 57, SB_LEVEL_info, "",
                      "reads the states after 2, L/2 and L - 3 layers of its target: config.json "
                      "has no numbers");
    else
        sb_check_find(check, 57, SB_LEVEL_info, "", "reads the states after %s layers%s%s",
                      show(c->has_after ? c->after : usual, c->states, 0, &text),
                      known ? " of its target" : "",
                      !c->has_after       ? ": config.json has no numbers"
                      : c->counts_outputs ? "; the file counts from the output of layer 0"
                                          : "");
}

void sb_check_drafter_states(sb_check *check)
{
    const sb_eagle3_config *c = &check->self.drafter;
    const uint32_t L = check->target.config.layers;
    if (!check->self.is_drafter || !check->self.has_config)
        return;
    tell_states(check, c);
    tell_columns(check, c);
    tell_count(check, c);
    if (!check->target.checkpoint) {
        if (c->has_after)
            tell_suspicion(check, c);
        return;
    }
    if (!fits(check, c, L))
        return;
    tell_engines(check, c, L);
    if (c->has_after)
        tell_convention(check, c, L);
}
