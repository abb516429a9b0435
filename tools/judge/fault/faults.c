#include "tools/judge/fault/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "gpu/gpu.h"
#include "tools/judge/fault/drafter.h"
#include "tools/judge/fault/drawer.h"
#include "tools/judge/fault/kernels.h"
#include "tools/judge/fault/planted.h"
#include "tools/judge/trace/step.h"

const char *sb_fault_plant_name(sb_fault_plant plant)
{
    static const char *const names[] = {"op",      "op",         "op",     "session", "prefix",
                                        "engine",  "checkpoint", "file",   "trace",   "kernel",
                                        "session", "self",       "engine", "sampler", "drafter",
                                        "none",    "elsewhere"};
    return names[plant];
}

static const struct {
    const char *name;
    sb_fault fault;
} rows[] = {
#define SB_FAULT(name, origin, plant, arg, vehicle, setting, script, fires, quiet, words)          \
    {name,                                                                                         \
     {"", origin, SB_PLANT_##plant, arg, vehicle, setting, script, fires, quiet, words, 0, NULL}},
#define SB_BENIGN(name, origin, plant, arg, vehicle, setting, script, fires, quiet, words)         \
    {name,                                                                                         \
     {"", origin, SB_PLANT_##plant, arg, vehicle, setting, script, fires, quiet, words, 1, NULL}},
#define SB_ELSEWHERE(name, origin, plant, words)                                                   \
    {name, {"", origin, SB_PLANT_##plant, "", "", "", "", "", "", words, 0, NULL}},
#define SB_SITED(name, plant, arg, site, vehicle, setting, script, fires, quiet, words)            \
    {"at." name,                                                                                   \
     {"", "", SB_PLANT_##plant, arg, vehicle, setting, script, fires, quiet, words, 0, site}},
#define SB_SOUND(name, plant, arg, site, vehicle, setting, script, words)                          \
    {"sound." name,                                                                                \
     {"", "", SB_PLANT_##plant, arg, vehicle, setting, script, "", "", words, 1, site}},
#include "tools/judge/fault/lists/incidents.def"
#include "tools/judge/fault/lists/sites.def"
#undef SB_SITED
#undef SB_SOUND
#undef SB_FAULT
#undef SB_BENIGN
#undef SB_ELSEWHERE
};

static sb_fault *add(sb_faults *faults, const char *prefix, const char *name)
{
    sb_fault *items = sb_grow(faults->items, faults->count, &faults->room, sizeof *items);
    if (!items)
        return NULL;
    faults->items = items;
    sb_fault *f = &faults->items[faults->count++];
    memset(f, 0, sizeof *f);
    snprintf(f->name, sizeof f->name, "%s%s", prefix, name);
    return f;
}

/* Spreads the faults of ops over the models; every model has every op. */
static const char *vehicle_of(size_t i)
{
    static const char *const vehicles[] = {"T1:4 bf16 mistakes", "T3 bf16 mistakes",
                                           "T5:4 bf16 mistakes"};
    return vehicles[i % 3];
}

static const char *const op_signs[] = {
#define SB_OP(name, clause) "op:" #name,
#include "ref/ops/ops.def"
#undef SB_OP
};

/* The letters of slips.def and hits.def as signs. */
static const char *slip_signs(const char *letters)
{
    static const struct {
        const char *letters, *signs;
    } table[] = {{"R", "recurrent"},       {"C", "conv"},
                 {"CR", "conv recurrent"}, {"K", "kv"},
                 {"E", "mtp|drafts"},      {"H", "mtp|drafts"},
                 {"L", "drafts"},          {"PKCREH", "fail|refused"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].letters, letters) == 0)
            return table[i].signs;
    return "fail";
}

/* The signs that must be quiet. The op that makes a state may fire with it. */
static const char *slip_quiet(const char *letters)
{
    static const struct {
        const char *letters, *signs;
    } table[] = {{"R", "conv kv op:conv op:attention op:linear op:gates"},
                 {"C", "recurrent kv op:delta_rule op:attention op:linear op:gates"},
                 {"CR", "kv op:attention op:linear op:gates"},
                 {"K", "conv recurrent op:conv op:delta_rule op:linear"},
                 {"E", "conv recurrent kv logits op:conv op:delta_rule op:linear"},
                 {"H", "conv recurrent kv logits op:conv op:delta_rule op:linear"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].letters, letters) == 0)
            return table[i].signs;
    return "op:linear op:gates op:swiglu";
}

/* Fills in the fault of row i of a list. */
static void in_op(const sb_planted *p, size_t i, sb_fault *f)
{
    f->plant = p->plant ? SB_PLANT_mistake : p->run ? SB_PLANT_op : SB_PLANT_covered;
    f->vehicle = vehicle_of(p->kind == SB_OP_FAULT_head ? 0 : i); /* T3 has only one key head */
    f->setting = p->op == SB_OP_delta_rule_chunk ? "delta_rule=chunk64" : "";
    f->script = "plain";
    f->fires = op_signs[p->op];
    f->quiet = "ops";
}

static void between_calls(const sb_planted *p, size_t i, sb_fault *f)
{
    f->plant = SB_PLANT_slip;
    f->origin = p->with;
    f->vehicle = i % 2 ? "T4 bf16 predictable" : "T1:4 bf16 predictable";
    f->script = "rounds";
    /* after the prompt only the first wrong piece is named */
    f->fires = strcmp(p->name, "stale_snapshot") == 0 ? "conv|recurrent" : slip_signs(p->where);
    f->quiet = slip_quiet(p->where);
}

static void of_prefix(const sb_planted *p, size_t i, sb_fault *f)
{
    f->plant = SB_PLANT_hit;
    f->vehicle = i % 2 ? "T4 bf16 predictable" : "T1:4 bf16 predictable";
    f->script = "hit";
    f->fires = strcmp(p->where, "PKCREH") == 0 ? "kv conv recurrent mtp" : slip_signs(p->where);
    f->quiet = slip_quiet(p->where);
}

static int add_list(sb_faults *faults, const char *prefix, const sb_planted *list)
{
    for (size_t i = 0; list[i].name; i++) {
        sb_fault *f = list[i].benign ? NULL : add(faults, prefix, list[i].name);
        if (f) {
            f->arg = list[i].name;
            f->words = list[i].words;
            f->origin = f->setting = "";
            (list[i].at ? between_calls : list[i].restore ? of_prefix : in_op)(&list[i], i, f);
        } else if (!list[i].benign) {
            return 0;
        }
    }
    return 1;
}

static int add_draws(sb_faults *faults)
{
    for (const sb_draw_fault *row = sb_draw_faults; row->name; row++) {
        sb_fault *f = add(faults, row->sound ? "sound.draw." : "draw.", row->name);
        if (!f)
            return 0;
        f->plant = SB_PLANT_draw;
        f->arg = row->name;
        f->words = row->words;
        f->origin = f->setting = f->quiet = "";
        f->vehicle = "T4 bf16 mistakes";
        f->script = "draws";
        f->fires = row->sound ? "near_tie" : "sampler";
        f->benign = row->sound;
    }
    return 1;
}

/* Nothing is wrong in the target. */
static int add_drafters(sb_faults *faults)
{
    for (const sb_drafter_fault *row = sb_drafter_faults; row->name; row++) {
        sb_fault *f = add(faults, row->sound ? "sound.drafter." : "drafter.", row->name);
        if (!f)
            return 0;
        f->plant = SB_PLANT_drafter;
        f->arg = row->name;
        f->words = row->words;
        f->origin = row->origin;
        f->setting = row->setting;
        f->vehicle = "T4 bf16 predictable";
        f->script = "drafter";
        f->fires = row->fires;
        f->quiet = "logits kv conv recurrent round";
        f->benign = row->sound;
    }
    return 1;
}

static int add_kernels(sb_faults *faults)
{
    for (size_t i = 0; i < sb_kernel_fault_count(); i++) {
        sb_fault *f = add(faults, "", "");
        if (!f)
            return 0;
        sb_kernel_fault_at(i, f);
    }
    return 1;
}

sb_status sb_faults_list(sb_faults *out, sb_error *err)
{
    int enough = 1;
    *out = (sb_faults){.count = 0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows && enough; i++) {
        sb_fault *f = add(out, "", rows[i].name);
        enough = f != NULL;
        if (f) {
            char name[sizeof f->name];
            memcpy(name, f->name, sizeof name);
            *f = rows[i].fault;
            memcpy(f->name, name, sizeof name);
        }
    }
    enough = enough && add_list(out, "session.", sb_slips) && add_list(out, "hit.", sb_hits) &&
             add_list(out, "mistake.", sb_mistakes) && add_list(out, "op.", sb_op_faults) &&
             add_draws(out) && add_kernels(out) && add_drafters(out);
    return enough ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for the list of faults");
}

void sb_faults_free(sb_faults *faults)
{
    free(faults->items);
    *faults = (sb_faults){.count = 0};
}

const char *sb_fault_why_not(const sb_fault *f)
{
    if (f->plant == SB_PLANT_none || f->plant == SB_PLANT_covered)
        return f->words;
    return f->plant == SB_PLANT_kernel && !sb_backend_emu() ? "no emulator: built without C++"
                                                            : NULL;
}

int sb_fault_matches(const sb_fault *fault, const char *pattern)
{
    return sb_tap_matches(pattern, fault->name) ||
           (*fault->origin && strcmp(fault->origin, pattern) == 0);
}
