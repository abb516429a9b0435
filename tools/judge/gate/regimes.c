/* regimes.c - the kinds of inputs by name. */
#include "tools/judge/gate/case.h"

#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"

static const struct {
    const char *name, *help;
} regimes[] = {
#define SB_GATE_REGIME(id, name, help) {name, help},
#include "tools/judge/gate/regimes.def"
#undef SB_GATE_REGIME
};

const char *sb_gate_regime_name(sb_gate_regime regime)
{
    return regimes[regime].name;
}

const char *sb_gate_regime_help(sb_gate_regime regime)
{
    return regimes[regime].help;
}

sb_status sb_gate_regime_find(const char *name, sb_gate_regime *out, sb_error *err)
{
    const char *names[SB_GATE_REGIMES + 1] = {NULL};
    char text[256];
    for (int i = 0; i < SB_GATE_REGIMES; i++) {
        names[i] = regimes[i].name;
        if (strcmp(regimes[i].name, name) == 0) {
            *out = (sb_gate_regime)i;
            return SB_OK;
        }
    }
    return sb_fail(err, SB_ERR_USAGE, "regime is '%s', expected one of %s", SB_SHOW(name),
                   sb_gate_words(names, "none", text, sizeof text));
}

int sb_gate_takes(const sb_gate_op *op, sb_gate_regime regime)
{
    const char *name = regimes[regime].name, *at = op->not_regimes;
    size_t n = strlen(name);
    for (; at && *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == n && memcmp(at, name, n) == 0)
            return 0;
    return 1;
}
