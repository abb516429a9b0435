/* codes.h - the successor of each token in recipe `predictable`, and the code vectors of tokens. */
#ifndef SB_TOOLS_MAKE_CODES_H
#define SB_TOOLS_MAKE_CODES_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

/* How the MTP head can predict a token's successor. */
typedef enum sb_code_kind {
    SB_CODE_EMBEDDING, /* from the token's embedding, through the embedding half of mtp.fc */
    SB_CODE_HIDDEN,    /* only from the hidden vector before it, through the hidden half */
    SB_CODE_TRUNK      /* not at all: only the trunk predicts it */
} sb_code_kind;

typedef struct sb_codes {
    uint32_t used;      /* the permutation is over ids 0 .. used-1: one cycle through all of them */
    uint32_t *next;     /* (used) the successor */
    uint32_t *previous; /* (used) its inverse */
    unsigned char *kind; /* (used) sb_code_kind */
    uint32_t length;     /* of a code vector */
    uint64_t key;
    float *sign; /* (4 length + 8) 1 or -1 per dimension of the residual stream */
} sb_codes;

sb_status sb_codes_new(uint64_t seed, uint32_t used, uint32_t length, sb_codes *out, sb_error *err);
void sb_codes_one_sign(sb_codes *codes); /* sets all signs to 1, as for the default seed */
void sb_codes_free(sb_codes *codes);

/* Element i of a token's code: of magnitude 0.75 to 1.25, mean 1, and a random sign. */
float sb_code(const sb_codes *codes, uint32_t token, uint32_t i);

#endif
