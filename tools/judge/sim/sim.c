#include "tools/judge/sim/sim.h"

#include <stdio.h>
#include <string.h>

#include "ref/ops/knob.h"
#include "tools/judge/sim/arith.h"
#include "tools/judge/sim/sims.def"

/* --- known values of the knobs ---------------------------------------------------------------- */

#define OP(name) (1u << SB_OP_##name)
#define ALL 0xffffffffu
#define NONE 0u

static const struct {
    unsigned known; /* number of known values, from the first */
    uint32_t ops;
} known[SB_KNOB_COUNT] = {
#define SB_KNOWN(knob, values, ops) [SB_KNOB_##knob] = {values, ops},
#include "tools/judge/sim/known.def"
#undef SB_KNOWN
};

_Static_assert(SB_OP_COUNT <= 32, "a bit for every op");

static int is_unknown(sb_op op, const sb_knobs *knobs)
{
    sb_knobs first;
    sb_knobs_exact(&first);
    for (unsigned k = 0; k < SB_KNOB_COUNT; k++) {
        unsigned value = (unsigned)(knobs->value[k] - first.value[k]);
        int reads = known[k].known ? (known[k].ops >> op & 1u) != 0 : 1;
        if (reads && value >= (known[k].known ? known[k].known : 1))
            return 1;
    }
    return 0;
}

int sb_op_rounds_at_ends(sb_op op, const sb_knobs *knobs)
{
    sb_knobs first;
    sb_knobs_exact(&first);
    for (unsigned k = 0; k < SB_KNOB_COUNT; k++) {
        const int reads = !known[k].known || (known[k].ops >> op & 1u);
        if (reads && k != SB_KNOB_act && k != SB_KNOB_params && knobs->value[k] != first.value[k])
            return 0;
    }
    return 1;
}

int sb_sim_inherits(const sb_sim *sim, sb_op op, const sb_knobs *knobs)
{
    (void)sim; /* all sims know the same values */
    return is_unknown(op, knobs);
}

/* --- the rows, with a function for each op ---------------------------------------------------- */

static const char *const nothing[] = {NULL};
static const char *const chunks[] = {"delta_rule=chunk64", NULL};

#define SB_NUMBER(x, name, ...) SIM_##name,
enum { SB_SIMS(SB_NUMBER, ) SIM_COUNT };

#define SB_ARITH(x, name, help, order, lanes, fused, atom, form, fn, chunk, ...)                   \
    static const sb_sim_arith arith_##name = {order, lanes, fused, atom, form, fn, chunk};
SB_SIMS(SB_ARITH, )

#define SB_FUNCTION(op, name, ...)                                                                 \
    static sb_status name##_##op(const sb_knobs *knobs, const sb_##op##_args *args)                \
    {                                                                                              \
        if (is_unknown(SB_OP_##op, knobs))                                                         \
            return sb_##op##_ref(knobs, args);                                                     \
        return sb_sim_##op(&arith_##name, knobs, args);                                            \
    }
#define SB_OP(op, clause) SB_SIMS(SB_FUNCTION, op)
#include "ref/ops/ops.def"
#undef SB_OP

static const sb_sim sims[] = {
#define SB_ENTRY(op, name, ...) [SIM_##name].backend.ops.op = name##_##op,
#define SB_OP(op, clause) SB_SIMS(SB_ENTRY, op)
#include "ref/ops/ops.def"
#undef SB_OP
#define SB_TEXT(x, id, text, order, lanes, fused, atom, form, fn, chunk, row, wants)               \
    [SIM_##id].name = #id, [SIM_##id].help = (text), [SIM_##id].backend.name = "sim:" #id,         \
    [SIM_##id].settings = (wants), [SIM_##id].arithmetic = (row),
    SB_SIMS(SB_TEXT, )};

size_t sb_sim_count(void)
{
    return SIM_COUNT;
}

const sb_sim *sb_sim_at(size_t i)
{
    return &sims[i];
}

sb_status sb_sim_find(const char *name, const sb_sim **out, sb_error *err)
{
    char names[600] = "";
    for (size_t i = 0; i < SIM_COUNT; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", sims[i].name);
        if (strcmp(sims[i].name, name) == 0) {
            *out = &sims[i];
            return SB_OK;
        }
    }
    return sb_fail(err, SB_ERR_USAGE, "there is no simulated engine '%s'; expected one of: %s",
                   name, names);
}
