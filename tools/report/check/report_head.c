#include <inttypes.h>

#include "tools/report/check/report.h"

static const char *const sides[] = {"own", "original"};

void sb_report_head_text(const sb_head_run *run, FILE *out)
{
    fprintf(out, "\nHEAD %s: %s\n", sb_head_verdict_name(run->verdict), run->why);
    if (*run->text)
        fprintf(out, "  text: %s\n", run->text);
    for (int h = 0; h < SB_HEAD_SIDES; h++)
        for (int t = 0; t < SB_HEAD_SIDES; t++) {
            const sb_head_cell *c = &run->cell[h][t];
            if (c->known)
                fprintf(out,
                        "  head %-8s trunk %-8s accepted %" PRIu64 " of %" PRIu64
                        ", %.4f (%.4f to %.4f)\n",
                        sides[h], sides[t], c->accepted, c->of, c->rate, c->low, c->high);
        }
    if (run->cell[SB_HEAD_OWN][SB_HEAD_OWN].known)
        fprintf(out, "  the best constant draft: accepted %" PRIu64 " of %" PRIu64 "\n",
                run->common, run->cell[SB_HEAD_OWN][SB_HEAD_OWN].of);
}

static json_t *cell_json(const sb_head_cell *c, int head, int trunk)
{
    return json_pack("{s:s,s:s,s:I,s:I,s:f,s:f,s:f}", "head", sides[head], "trunk", sides[trunk],
                     "accepted", (json_int_t)c->accepted, "drafted", (json_int_t)c->of, "rate",
                     c->rate, "low", c->low, "high", c->high);
}

json_t *sb_report_head_json(const sb_head_run *run)
{
    json_t *table = json_array();
    int failed = !table;
    for (int h = 0; h < SB_HEAD_SIDES; h++)
        for (int t = 0; t < SB_HEAD_SIDES; t++)
            if (run->cell[h][t].known)
                failed |= json_array_append_new(table, cell_json(&run->cell[h][t], h, t)) != 0;
    json_t *out =
        json_pack("{s:s,s:o,s:o,s:b,s:I,s:O}", "verdict", sb_head_verdict_name(run->verdict), "why",
                  sb_report_string(run->why), "text", sb_report_string(run->text), "trunk_bad",
                  run->trunk_bad, "best_constant", (json_int_t)run->common, "table", table);
    json_decref(table);
    if (!failed)
        return out;
    json_decref(out);
    return NULL;
}
