#include "tools/judge/fault/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"

/* --- scenes ----------------------------------------------------------------------------------- */
typedef struct scene {
    const char *word, *vehicle, *setting, *script, *op;
    uint64_t from;
    const char *sound, *why_not;
} scene;

static const scene scenes[] = {
#define SB_SCENE(word, vehicle, setting, script, op, from, sound)                                  \
    {word, vehicle, setting, script, op, from, sound, NULL},
#define SB_NO_SCENE(word, words) {word, "", "", "", "", 0, "", words},
#include "tools/judge/fault/lists/scenes.def"
#undef SB_SCENE
#undef SB_NO_SCENE
};
enum { SCENES = sizeof scenes / sizeof *scenes };

const sb_make_preset *sb_kernel_shape(const char *name)
{
    static const sb_make_preset odd = {.name = "odd",
                                       .family = SB_QWEN3_5_MOE,
                                       .vocab_size = 72,
                                       .ids_used = 70,
                                       .hidden_size = 144,
                                       .layers = 4,
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .head_dim = 64,
                                       .lin_k_heads = 1,
                                       .lin_v_heads = 2,
                                       .lin_k_dim = 24,
                                       .lin_v_dim = 40,
                                       .experts = 8,
                                       .experts_per_token = 2,
                                       .moe_intermediate = 48,
                                       .shared_intermediate = 80,
                                       .norm_topk_prob = 1,
                                       .mrope_section = {3, 3, 2}};
    return strcmp(name, odd.name) == 0 ? &odd : NULL;
}

static int has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return 1;
    return 0;
}

static const scene *scene_of(const char *seen)
{
    for (size_t i = 1; i < SCENES; i++)
        if (has_word(seen, scenes[i].word))
            return &scenes[i];
    return &scenes[0];
}

/* --- the list --------------------------------------------------------------------------------- */
static const struct {
    const char *op, *fails, *stops;
} signs[] = {
#define SB_OP(name, clause) {#name, "op:" #name, "stop:" #name},
#include "ref/ops/ops.def"
#undef SB_OP
};

static const char *sign_of(const sb_gpu_fault *f)
{
    size_t i = 0;
    while (i < SB_OP_COUNT && strcmp(signs[i].op, f->op) != 0)
        i++;
    if (strncmp(f->seen, "op:", 3) == 0)
        return f->seen;
    if (has_word(f->seen, "nan"))
        return "refused";
    return i == SB_OP_COUNT ? "fail" : has_word(f->seen, "stops") ? signs[i].stops : signs[i].fails;
}

/* The number of scenes with a run; they come first in the list. */
static size_t sound_count(void)
{
    size_t n = 0;
    for (size_t i = 0; i < SCENES; i++)
        n += !scenes[i].why_not;
    return sb_backend_emu() ? n : 0;
}

size_t sb_kernel_fault_count(void)
{
    size_t count;
    sb_gpu_faults(&count);
    return count + sound_count();
}

static void sound_at(size_t i, sb_fault *out)
{
    const scene *s = &scenes[i];
    *out = (sb_fault){.origin = "",
                      .plant = SB_PLANT_kernel,
                      .arg = s->sound,
                      .vehicle = s->vehicle,
                      .setting = s->setting,
                      .script = s->script,
                      .fires = "",
                      .quiet = "",
                      .words = "no fault",
                      .benign = 1};
    snprintf(out->name, sizeof out->name, "kernel.none%s%s", *s->word ? "." : "", s->word);
}

void sb_kernel_fault_at(size_t i, sb_fault *out)
{
    size_t count;
    const sb_gpu_fault *f = sb_gpu_faults(&count) + i;
    if (i >= count) {
        sound_at(i - count, out);
        return;
    }
    const scene *s = scene_of(f->seen);
    *out = (sb_fault){.origin = "",
                      .plant = s->why_not ? SB_PLANT_covered : SB_PLANT_kernel,
                      .arg = f->name,
                      .vehicle = s->vehicle,
                      .setting = s->setting,
                      .script = s->script,
                      .fires = s->why_not ? "" : sign_of(f),
                      .quiet = "ops",
                      .words = s->why_not ? s->why_not : f->words};
    snprintf(out->name, sizeof out->name, "kernel.%s", f->name);
}

/* --- the run ---------------------------------------------------------------------------------- */
/* Runs ops outside the scene on the reference, to save time. */
static sb_status partly(void *ctx, const sb_op_call *call)
{
    const scene *s = ctx;
    sb_op_call changed = *call;
    if (call->position < s->from || strcmp(sb_op_name(call->op), s->op) != 0)
        changed.table = &sb_backend_ref()->ops;
    return sb_op_run(&changed);
}

/* The scene with this script. */
static const scene *scene_in(const sb_fault *f)
{
    size_t i = 0;
    while (i + 1 < SCENES &&
           (strcmp(scenes[i].vehicle, f->vehicle) != 0 ||
            strcmp(scenes[i].setting, f->setting) != 0 || strcmp(scenes[i].script, f->script) != 0))
        i++;
    return &scenes[i];
}

sb_status sb_kernel_plant(const sb_fault *f, sb_trial *t, sb_error *err)
{
    static sb_sim emu = {.name = "emu", .arithmetic = "sm120"};
    const char *seed = strncmp(f->arg, "emu:", 4) == 0 ? f->arg + 4 : NULL;
    const scene *s = scene_in(f);
    emu.backend = *sb_backend_emu();
    sb_backend_emu_seed(seed ? strtoull(seed, NULL, 10) : 0);
    sb_kernel_forget(); /* some faults are in the packed weights */
    if (!sb_gpu_plant(seed ? NULL : f->arg))
        return sb_fail(err, SB_ERR_USAGE, "%s: there is no kernel fault %s", f->name, f->arg);
    t->sim = &emu;
    t->with_free = 0;
    t->perturbed = 0;
    if (*s->op) {
        t->hook = partly;
        t->hook_ctx = (void *)(uintptr_t)s;
    }
    return SB_OK;
}

void sb_kernel_unplant(void)
{
    sb_gpu_plant(NULL);
}

void sb_kernel_forget(void)
{
    sb_gpu_forget(sb_backend_emu());
}
