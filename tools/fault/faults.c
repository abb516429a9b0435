#include "tools/fault/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "gpu/gpu.h"
#include "tools/fault/kernels.h"
#include "tools/fault/slips.h"
#include "tools/fault/special.h"
#include "tools/trace/step.h"

const char *sb_fault_plant_name(sb_fault_plant plant)
{
    static const char *const names[] = {"op",     "op",         "op",   "session",
                                        "engine", "checkpoint", "file", "trace",
                                        "kernel", "self",       "none", "elsewhere"};
    return names[plant];
}

static const struct {
    const char *name;
    sb_fault fault;
} rows[] = {
#define SB_FAULT(name, origin, plant, arg, vehicle, setting, script, fires, quiet, words)          \
    {name, {"", origin, SB_PLANT_##plant, arg, vehicle, setting, script, fires, quiet, words, 0}},
#define SB_BENIGN(name, origin, plant, arg, vehicle, setting, script, fires, quiet, words)         \
    {name, {"", origin, SB_PLANT_##plant, arg, vehicle, setting, script, fires, quiet, words, 1}},
#define SB_ELSEWHERE(name, origin, plant, words)                                                   \
    {name, {"", origin, SB_PLANT_##plant, "", "", "", "", "", "", words, 0}},
#include "tools/fault/faults.def"
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

/* Every model has every op; they are spread over the models. */
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

static const char *setting_of(sb_op op)
{
    return op == SB_OP_delta_rule_chunk ? "delta_rule=chunk64" : "";
}

static const char *sign_of(const char *op, sb_op *number)
{
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        if (strcmp(op_signs[i] + 3, op) == 0) {
            *number = (sb_op)i;
            return op_signs[i];
        }
    return "";
}

static int add_op_faults(sb_faults *faults)
{
    for (size_t i = 0; i < sb_op_fault_count(); i++) {
        const sb_op_fault *o = sb_op_fault_at(i);
        sb_fault *f = add(faults, "op.", o->name);
        if (!f)
            return 0;
        f->plant = o->run ? SB_PLANT_op : SB_PLANT_covered;
        f->arg = o->name;
        /* T3 has one head of keys */
        f->vehicle = vehicle_of(o->kind == SB_OP_FAULT_head ? 0 : i);
        f->setting = setting_of(o->op);
        f->script = "plain";
        f->fires = op_signs[o->op];
        f->quiet = "ops";
        f->words = o->words;
        f->origin = "";
    }
    return 1;
}

static int add_mistakes(sb_faults *faults)
{
    for (size_t i = 0; i < sb_mistake_count(); i++) {
        const sb_mistake *m = sb_mistake_at(i);
        sb_op op = SB_OP_COUNT;
        sb_fault *f = m->benign ? NULL : add(faults, "mistake.", m->name);
        if (m->benign)
            continue;
        if (!f)
            return 0;
        f->plant = SB_PLANT_mistake;
        f->arg = m->name;
        f->vehicle =
            strcmp(m->name, "no_renormalisation") == 0 ? "T1:4 bf16 mistakes" : vehicle_of(i);
        f->fires = sign_of(m->op, &op);
        f->setting = setting_of(op);
        f->script = "plain";
        f->quiet = "ops";
        f->words = m->what;
        f->origin = "";
    }
    return 1;
}

/* The letters of slips.def as signs. */
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

/* What must be quiet. The op that a state belongs to may be named with it. */
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

static int add_slips(sb_faults *faults)
{
    for (size_t i = 0; i < sb_slip_count(); i++) {
        const sb_slip *s = sb_slip_at(i);
        sb_fault *f = add(faults, "session.", s->name);
        if (!f)
            return 0;
        f->plant = SB_PLANT_slip;
        f->arg = s->name;
        f->vehicle = i % 2 ? "T4 bf16 predictable" : "T1:4 bf16 predictable";
        f->setting = "";
        f->script = "rounds";
        /* behind the prompt the first wrong piece is named alone */
        f->fires =
            strcmp(s->name, "stale_snapshot") == 0 ? "conv|recurrent" : slip_signs(s->differs);
        f->quiet = slip_quiet(s->differs);
        f->words = s->what;
        f->origin = s->fault;
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
    enough =
        enough && add_slips(out) && add_mistakes(out) && add_op_faults(out) && add_kernels(out);
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
