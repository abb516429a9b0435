#include "tools/check/read/fused.h"

#include <stddef.h>

const char *const sb_fused_sets[SB_FUSED_SETS][SB_FUSED_MOST] = {
    {"q_proj", "k_proj", "v_proj"},
    {"gate_proj", "up_proj", NULL},
    {"in_proj_qkv", "in_proj_z", NULL},
    {"in_proj_b", "in_proj_a", NULL},
};
