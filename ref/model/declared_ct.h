/* declared_ct.h - the quantization arguments of compressed-tensors. Used by declared_ct.c. */
#ifndef SB_MODEL_DECLARED_CT_H
#define SB_MODEL_DECLARED_CT_H

#include "ref/model/declared_parts.h"

/* The checked QuantizationArgs: strategy, group size and block are consistent. */
typedef struct sb_ct_args {
    int present; /* the key exists and is not null */
    int is_float;
    int dynamic; /* 0, 1, or 2 for "local" */
    int symmetric;
    int act_order;
    int scale_u8; /* scale_dtype names an unsigned byte: E8M0 */
    uint64_t bits;
    int64_t group; /* 0 if absent */
    uint64_t block[2];
    char strategy[16];
} sb_ct_args;

/* Reads the object at->key; `present` stays 0 if it is absent or null. */
sb_status sb_ct_read_args(const sb_json_object *at, const char *key, sb_ct_args *out,
                          sb_error *err);

#endif
