/* drafter.h - shared by the checks of an EAGLE-3 drafter (M-12, M-13). */
#ifndef SB_CHECK_DRAFTER_H
#define SB_CHECK_DRAFTER_H

#include "tools/check/read/check.h"
#include "tools/check/scan/group.h"

/* Reads the configuration of a drafter into side. What cannot be read is a finding of check 56.
 * SB_ERR_UNSUPPORTED names what no part of this program reads; no finding about such a drafter
 * would be true. */
sb_status sb_drafter_config(sb_check *check, sb_side *side, int tell, sb_error *err);

/* SB_ERR_UNSUPPORTED if a weight of the drafter is quantized. */
sb_status sb_drafter_formats(const sb_side *side, sb_error *err);

/* Check 4: reports the tensors that the configuration implies and that are not there. */
void sb_drafter_absent(sb_check *check, sb_groups *groups);

/* Check 3: why the configuration of the drafter has no place for this tensor; NULL: no special
 * reason. */
const char *sb_drafter_unknown(const sb_check *check, const char *name);

/* A tensor of the drafter; NULL: it is not there. */
static inline const sb_tensor *sb_drafter_tensor(const sb_check *check, const char *name)
{
    return sb_checkpoint_find(check->self.checkpoint, name);
}

/* (Vd) The token of each row of the head, by d2t, or the row itself without d2t. NULL if the
 * drafter has no such list: a map of another shape, a token outside the vocabulary, or no memory
 * (findings.lost). The caller frees it. */
uint32_t *sb_drafter_tokens(sb_check *check);

#endif
