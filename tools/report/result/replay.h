/* replay.h - the document of samebit replay, and its forms. */
#ifndef SB_REPORT_REPLAY_H
#define SB_REPORT_REPLAY_H

#include <jansson.h>

#include "tools/judge/compare/bundle.h"

typedef struct sb_replay_document {
    const sb_bundle *bundle; /* as run by the reference */
    const char *backend;     /* whose output was judged; NULL: the recorded output */
    const float *found;
    size_t count, outside, changed;
    size_t first; /* the first element outside, else the one nearest to its bound */
    double worst; /* its error / bound, the largest */
    int infinite; /* outside a bound of nearly 0, or NaN */
    sb_verdict verdict;
} sb_replay_document;

void sb_replay_print(const sb_replay_document *document);
json_t *sb_replay_json(const sb_replay_document *document);

#endif
