/* eagle3_weights.h - the inside of a drafter, for eagle3.c and eagle3_open.c. */
#ifndef SB_RUN_EAGLE3_WEIGHTS_H
#define SB_RUN_EAGLE3_WEIGHTS_H

#include "ref/run/eagle3.h"

struct sb_eagle3 {
    sb_eagle3_config config;
    uint32_t after[SB_EAGLE3_STATES]; /* (config.states) resolved for the target (M-13) */
    sb_checkpoint *checkpoint;
    sb_layer layer;
    sb_weights weights; /* layers: &layer; embed_tokens, final_norm and lm_head */
    sb_model model;     /* config and weights of the drafter, for calls */
    sb_matrix fc, hidden_norm, input_norm, fc_norm[SB_EAGLE3_STATES];
    uint32_t *target_of; /* (Vd) the target's id of each row of the head */
};

#endif
