/* trace_file.h - file names and words of a trace folder, for its writer and reader (docs/trace.md).
 */
#ifndef SB_TRACE_TRACE_FILE_H
#define SB_TRACE_TRACE_FILE_H

#include <stdint.h>

#define SB_TRACE_FORMAT "samebit-trace"
#define SB_TRACE_LIST "trace.json"
#define SB_TRACE_STEP "step"     /* tensors that are no taps: the number of the step, */
#define SB_TRACE_TOKENS "tokens" /* and the token of every row */
#define SB_TRACE_DIGESTS "samebit.digests"

enum { SB_TRACE_MAX_STEPS = 1000000 }; /* six digits in a file name */

typedef struct sb_trace_name {
    char text[40];
} sb_trace_name;

sb_trace_name sb_trace_file_name(uint64_t step); /* "step-000007.safetensors" */

#endif
