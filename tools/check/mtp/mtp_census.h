/* mtp_census.h - which tensors of an MTP head exist, compared with the configuration. */
#ifndef SB_CHECK_MTP_CENSUS_H
#define SB_CHECK_MTP_CENSUS_H

#include "tools/check/mtp/mtp.h"
#include "tools/check/read/check.h"

typedef struct sb_mtp_census {
    uint64_t tensors; /* number of tensors whose names begin with "mtp." */
    /* number of tensors whose names contain "mtp.", but do not begin with it */
    uint64_t misplaced;
    const char *first_misplaced; /* NULL: none */
    int declared, stacked;
    /* Identities: tensors of the architecture; a quantized one counts once. */
    uint64_t implied, found, model_implied, model_found;
    size_t parts[SB_MTP_PARTS]; /* of `implied`, by part of the head */
    uint64_t missing_experts;   /* experts of the head among the identities that are not found */
    char first_missing[SB_NAME_MAX];
} sb_mtp_census;

/* Without a configuration, the members after stacked stay 0. Fails only when memory runs out. */
sb_status sb_mtp_census_take(const sb_check *check, sb_mtp_census *out, sb_error *err);

/* A number of tensors that a known exporter writes for this head, and which exporter. */
typedef struct sb_mtp_fingerprint {
    uint64_t tensors;
    const char *who;
} sb_mtp_fingerprint;

/* The fingerprint with exactly this number of tensors, else the nearest; *exact tells which
 * case. */
sb_mtp_fingerprint sb_mtp_fingerprint_of(const sb_config *config, uint64_t tensors, int *exact);

/* 1 if the configuration declares a head. */
int sb_mtp_declared(const sb_check *check);

#endif
