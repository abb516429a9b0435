/* judge_baseline.h - changes since an earlier judgement, from two documents of samebit judge
 * --json. */
#ifndef SB_REPORT_JUDGE_BASELINE_H
#define SB_REPORT_JUDGE_BASELINE_H

#include <jansson.h>

#include "ref/base/status.h"

typedef struct sb_judge_change {
    size_t worse;   /* cases that passed and fail now, and missing cases */
    size_t better;  /* cases that failed and pass now */
    size_t changed; /* outputs with a changed bit */
    json_t *rows;   /* array of {name, what, worse}, one per change */
} sb_judge_change;

/* Reads a document of samebit judge; SB_ERR_INPUT for anything else. */
sb_status sb_judge_baseline_load(const char *path, json_t **out, sb_error *err);
sb_status sb_judge_baseline_parse(const char *text, size_t size, const char *file, json_t **out,
                                  sb_error *err);

/* V-117: "Cases of the same name and of the same inputs are compared". SB_ERR_INPUT if a case of
 * the same name has other inputs. */
sb_status sb_judge_baseline_compare(const json_t *before, const json_t *now, const char *file,
                                    sb_judge_change *out, sb_error *err);
void sb_judge_change_free(sb_judge_change *change);

#endif
