/* judge_baseline.h - what changed since an earlier judgement: two documents of samebit judge
 * --json. */
#ifndef SB_CLI_JUDGE_BASELINE_H
#define SB_CLI_JUDGE_BASELINE_H

#include <jansson.h>

#include "ref/base/status.h"

typedef struct sb_judge_change {
    size_t worse;   /* cases that passed, and do not any more; and those that are not there */
    size_t better;  /* the other way round */
    size_t changed; /* outputs of which a bit changed */
    json_t *rows;   /* array of {name, what, worse} in words, one each */
} sb_judge_change;

/* Reads a document that samebit judge wrote; SB_ERR_INPUT if it is none. */
sb_status sb_judge_baseline_load(const char *path, json_t **out, sb_error *err);
sb_status sb_judge_baseline_parse(const char *text, size_t size, const char *file, json_t **out,
                                  sb_error *err);

/* V-117: "Cases of the same name and of the same inputs are compared". SB_ERR_INPUT where a case
 * of one name has other inputs. */
sb_status sb_judge_baseline_compare(const json_t *before, const json_t *now, const char *file,
                                    sb_judge_change *out, sb_error *err);
void sb_judge_change_free(sb_judge_change *change);

#endif
