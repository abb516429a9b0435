#include "tools/report/result/replay.h"

#include <inttypes.h>
#include <stdio.h>

#include "ref/container/show.h"
#include "tools/report/part/document.h"

void sb_replay_print(const sb_replay_document *d)
{
    const sb_bundle *b = d->bundle;
    printf("%s: op %s, ", b->name, b->op_name);
    if (b->layer != SB_NO_LAYER)
        printf("layer %u, ", (unsigned)b->layer);
    printf("sequence %" PRIu64 ", token %" PRIu64 "; output %s, %zu x %zu, arithmetic %s\n",
           b->sequence, b->token, b->output, b->rows, b->cols, b->arithmetic);
    printf("recorded in the bundle: %s\n", b->words);
    if (d->changed)
        printf("the reference gives other values than the bundle expects: %zu of %zu\n", d->changed,
               d->count);
    else
        printf("the reference gives the %zu values that the bundle expects, bit for bit\n",
               d->count);
    if (d->backend)
        printf("%s: ", SB_SHOW(d->backend));
    printf("%s: %zu of %zu elements are outside of their bound", sb_verdict_name(d->verdict),
           d->outside, d->count);
    if (!d->infinite)
        printf(", worst %.3g times the bound", d->worst);
    printf("; row %zu, column %zu is %.9g, expected %.9g within %.3g\n", d->first / b->cols,
           d->first % b->cols, (double)d->found[d->first], (double)b->out[d->first],
           b->bound[d->first]);
}

json_t *sb_replay_json(const sb_replay_document *d)
{
    const sb_bundle *b = d->bundle;
    json_t *out = sb_document("replay");
    SB_PUT(out, "op", b->op_name);
    SB_PUT(out, "name", b->name);
    SB_PUT(out, "layer", SB_KNOWN(b->layer != SB_NO_LAYER, b->layer));
    SB_PUT(out, "sequence", b->sequence);
    SB_PUT(out, "token", b->token);
    SB_PUT(out, "backend", SB_KNOWN(d->backend, SB_SHOW(d->backend)));
    SB_PUT(out, "output", b->output);
    SB_PUT(out, "elements", d->count);
    SB_PUT(out, "outside", d->outside);
    SB_PUT(out, "changed", d->changed);
    SB_PUT(out, "row", d->first / b->cols);
    SB_PUT(out, "column", d->first % b->cols);
    SB_PUT(out, "worst", SB_KNOWN(!d->infinite, d->worst));
    SB_PUT(out, "verdict", sb_verdict_name(d->verdict));
    return out;
}
