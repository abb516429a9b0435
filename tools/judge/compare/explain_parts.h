/* explain_parts.h - the parts of a search for explanations, for explain*.c only. */
#ifndef SB_COMPARE_EXPLAIN_PARTS_H
#define SB_COMPARE_EXPLAIN_PARTS_H

#include "tools/judge/compare/explain.h"

/* explain_run.c: what one comparison of the kept steps judged, and how far off it was. */
typedef struct explain_result {
    /* sum over all ratios of the doublings beyond the bound, plus the number of failures */
    double score;
    double worst;                          /* largest error / bound */
    size_t values, tokens, states, hidden; /* the numbers of what was judged */
    int failed; /* something failed, or the comparison could not be made or trusted */
    int watched;
    double apart; /* the distance of the watched element */
    double kl;    /* largest divergence of a token */
} explain_result;

/* One or two changes with their places. */
typedef struct explain_trial {
    const sb_change *change[2];
    sb_site place[2];
    size_t count;
    explain_result site, whole; /* at the site of the failure, and in everything */
    int verified;               /* `whole` is measured */
} explain_trial;

typedef struct explain_search {
    const sb_model *model;
    const sb_differ_options *options;
    const sb_keep *keep;
    const sb_changes *changes;
    sb_explain_progress progress;
    uint64_t done, total;
    size_t rows;           /* judged at the site */
    explain_result before; /* everything, without a change */
    explain_trial *trials; /* (count) at one site, the best first */
    size_t count, room;
    sb_error *err;
} explain_search;

/* The ways of a comparison. */
typedef struct explain_way {
    const sb_forced_site *site; /* judges this site alone, up to the failed row; NULL: all steps */
    const sb_place *watch;      /* the first failure, for its distance; or NULL */
    int early; /* from the first kept step on, not from the last one that needs no earlier ones */
    size_t perturbed; /* of free runs; 0: as many as in the options */
} explain_way;

/* Compares the kept steps with the reference changed. verdicts: receives the results, or NULL. Only
 * lack of memory is an error. */
sb_status explain_run(const explain_search *s, const explain_trial *t, const explain_way *way,
                      explain_result *result, sb_verdicts *verdicts);

/* True if everything that was judged before is judged again. */
int explain_judges_all(const explain_result *result, const explain_result *before);

/* explain_place.c: the places that the failed elements of one tap allow, the widest first. seen:
 * the verdicts in which it failed. */
enum { EXPLAIN_PLACES = 24 };
size_t explain_places(const explain_search *s, const sb_failing *f, const sb_verdicts *seen,
                      sb_site out[EXPLAIN_PLACES]);

/* A place of every layer, tap, token. */
sb_site explain_everywhere(void);

/* The place in the layer and tap where the op failed; in every layer, or at every tap, if it failed
 * in several. */
sb_site explain_narrowed(const sb_site *place, const sb_failing *f, const sb_verdicts *v);

#endif
