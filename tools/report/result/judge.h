/* judge.h - the output of `samebit judge`. */
#ifndef SB_REPORT_JUDGE_H
#define SB_REPORT_JUDGE_H

#include <stdio.h>

#include "tools/report/result/judge_baseline.h"
#include "tools/judge/gate/judged.h"
#include "tools/judge/gate/meta.h"

typedef struct sb_judge_report {
    const sb_gate_judged *cases;
    size_t count;
    sb_verdict verdict;            /* the most severe one */
    const sb_judge_change *change; /* since the baseline, or NULL */
    const char *baseline;
    int same_bits;                /* a changed bit fails */
    const char *file, *got;       /* the operands */
    const char *const *arguments; /* the command line after "samebit", for the page */
    size_t argument_count;
} sb_judge_report;

/* True if the comparison with the baseline fails. */
int sb_judge_change_fails(const sb_judge_report *report);

void sb_judge_text(const sb_judge_report *report, FILE *out);
json_t *sb_judge_json(const sb_judge_report *report);
json_t *sb_judge_case_json(const sb_gate_judged *judged); /* one of its cases */
sb_status sb_judge_html(const sb_judge_report *report, const char *path, sb_error *err);
sb_status sb_judge_junit(const sb_judge_report *report, const char *path, sb_error *err);

/* The same for the metamorphic gate. */
void sb_judge_meta_text(const sb_gate_meta *meta, FILE *out);
json_t *sb_judge_meta_json(const sb_gate_meta *meta);
sb_status sb_judge_meta_html(const sb_gate_meta *meta, const sb_judge_report *report,
                             const char *path, sb_error *err); /* report: for its operands */
sb_status sb_judge_meta_junit(const sb_gate_meta *meta, const char *path, sb_error *err);

#endif
