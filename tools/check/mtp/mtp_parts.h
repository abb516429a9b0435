/* mtp_parts.h - shared by mtp_audit.c, mtp_lines.c and mtp_traits.c. */
#ifndef SB_CHECK_MTP_PARTS_H
#define SB_CHECK_MTP_PARTS_H

#include "tools/check/mtp/mtp.h"
#include "tools/check/mtp/mtp_census.h"
#include "tools/check/mtp/mtp_places.h"

/* How a head is stored and declared: the facts that the rows of loader_faults.def test. */
typedef struct sb_mtp_traits {
    int present, moe, stacked;
    int quantized;       /* the trunk is quantized, at least in part */
    sb_container trunk;  /* the container of the trunk's experts, or of its MLP */
    sb_dialect dialect;  /* SB_DIALECT_COUNT: nothing is declared */
    int head_plain;      /* all linear layers of the head are floats */
    int uniform;         /* all routed and shared experts of the head are stored alike */
    int attention_plain; /* the linear layers of the head's attention are floats */
    int fc_plain;
    sb_container head_experts;
    /* the linear layers of the trunk's linear attention are floats */
    int linear_attention_plain;
    int fc_excluded, experts_excluded; /* the configuration excludes them from quantization */
    /* the rule that excludes the head's q_proj names this projection */
    int by_projection;
    int shared_is_routed; /* shared and routed experts have the same width */
} sb_mtp_traits;

sb_status sb_mtp_traits_of(const sb_check *check, sb_mtp_audit *audit, sb_mtp_traits *out,
                           sb_error *err);

/* The part of the head that a layer or tensor belongs to, by its name: an index of audit->parts, or
 * SB_MTP_PARTS. */
unsigned sb_mtp_part_of(const char *name);

/* The first check of the head that options leave out (--only, --skip); 0: none. */
unsigned sb_mtp_left_out(const sb_check *check);

/* Fills audit->lines. */
sb_status sb_mtp_fill_lines(const sb_check *check, const sb_mtp_census *census,
                            const sb_mtp_places *places, sb_mtp_audit *audit, sb_error *err);

/* Fills audit->faults with the faults of audit->engine; with those of all engines if it is NULL. */
void sb_mtp_fill_faults(const sb_mtp_traits *traits, sb_mtp_audit *audit);

/* Fills audit->settle: commands that compare an engine's counters with the head. */
void sb_mtp_fill_settle(const char *path, sb_mtp_audit *audit);

#endif
