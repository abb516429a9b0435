/* got.h - the file with a kernel's output: GOT of `samebit judge`. */
#ifndef SB_GATE_GOT_H
#define SB_GATE_GOT_H

#include "ref/base/hash.h"
#include "ref/container/safetensors.h"
#include "tools/judge/gate/gate.h"

typedef struct sb_gate_gots {
    sb_safetensors file;
    sb_gate_got got[SB_GATE_OUTPUTS]; /* one per output of the case; points into the file */
    const char *same_as;              /* the first output is this input, bit for bit; or NULL */
    char ignored[256];                /* tensors that are no outputs; not read */
} sb_gate_gots;

/* V-113: "GOT holds the tensor `out`, and `out.NAME` for each further output". SB_ERR_INPUT for an
 * out.NAME that the case does not have; sb_gate_judge checks types and shapes. */
sb_status sb_gate_got_open(const char *path, const sb_gate_case *c, sb_gate_gots *out,
                           sb_error *err);

/* The same for a file in memory, which must outlive *out. */
sb_status sb_gate_got_parse(const unsigned char *bytes, size_t size, const char *file,
                            const sb_gate_case *c, sb_gate_gots *out, sb_error *err);
void sb_gate_got_close(sb_gate_gots *gots);

/* The digest of an output's bytes: of part `row` of `rows` equal parts, or of all of them (rows
 * 1). */
sb_status sb_gate_got_digest(const sb_gate_output *o, const sb_gate_got *got, uint64_t row,
                             uint64_t rows, sb_digest *out, sb_error *err);

#endif
