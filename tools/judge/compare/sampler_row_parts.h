/* sampler_row_parts.h - the members of a row (sampler_row.h). */
#ifndef SB_COMPARE_SAMPLER_ROW_PARTS_H
#define SB_COMPARE_SAMPLER_ROW_PARTS_H

#include "tools/judge/compare/sampler_row.h"

/* A token: its logit after penalties is between least and most. */
typedef struct sb_row_item {
    double least, most;
    double light, heavy; /* e^(least / temperature) and e^(most / temperature): sb_add_up */
    uint32_t token;
    sb_support support, next;
} sb_row_item;

/* A place in the falling order of logits after penalties, without intervals. */
typedef struct sb_row_place {
    uint32_t token;
    double logit;
    double weight; /* relative to the first place, at the temperature `weighed` of the row */
} sb_row_place;

struct sb_sampler_row {
    size_t vocab;
    sb_row_item *items;     /* (V) by id */
    sb_row_item **by_least; /* (V) by falling `least` */
    sb_row_item **by_most;  /* (V) by falling `most` */
    double *sums;           /* (4, V + 1) sums over beginnings of both orders */
    uint32_t *all;          /* (V) how often each token occurred; in the window */
    uint32_t *generated;    /* (V) the same, of generated tokens only */
    unsigned char *support; /* (V) of all samplers that may be meant */
    sb_row_place *order;    /* (V) tokens by falling logit, for sb_sampler_row_point */
    double largest, temperature, weighed;
    int knows; /* everything is declared */
};

/* Counts the tokens of the window, 0: all. */
void sb_sampler_row_count(sb_sampler_row *row, const sb_token_counts *counts, double window);

/* A logit after the penalties. */
double sb_penalized(const sb_sampler_row *row, const sb_settings *settings, uint32_t token,
                    double logit);

#endif
