/* protocol_kernels.h - plain kernels for protocol vectors, one for each way in which engines keep
 * states, written from the tensors of the file alone. Their faults are faults that real kernels
 * have had. */
#ifndef SB_TESTS_PROTOCOL_KERNELS_H
#define SB_TESTS_PROTOCOL_KERNELS_H

#include "tools/judge/gate/protocol.h"

typedef enum kernel_fault {
    KERNEL_RIGHT,
    KERNEL_FIRST_SLOT,       /* F08: continues from slot or column 0, whatever number was
                              * accepted */
    KERNEL_WINDOW_KEPT,      /* F09: the new window starts where the old history did */
    KERNEL_ACCEPTED_SWAPPED, /* F11: takes the count of the neighbouring entry */
    KERNEL_ZERO_WRAPS,       /* F12: accepted is 0, and accepted - 1 becomes the last slot */
    KERNEL_PAD_IS_ZERO,      /* F16: a negative index is slot 0 */
    KERNEL_STALE,            /* ignores has_initial_state */
    KERNEL_STRAY,            /* also writes the slot behind that of the entry */
    KERNEL_PAD_LEAKS,        /* the row behind those of the entry enters with weight 0 */
    KERNEL_TRANSPOSED,       /* the last two dimensions of the state are swapped */
    KERNEL_DRIFT,            /* states are too large: by 0.1% (delta rule) or 1% (conv) */
    KERNEL_OTHER_DECAY,      /* g is used as a factor where it is a logarithm, or vice versa */
    KERNEL_FAULTS
} kernel_fault;
const char *kernel_fault_name(kernel_fault fault);

typedef struct kernel_way {
    int reversed; /* sums from the last term to the first */
    int bf16;     /* outputs are rounded to BF16 */
    int wide;     /* computes in binary64 */
    int exact;    /* no kernel, but the values of profile exact */
    kernel_fault fault;
} kernel_way;

typedef struct kernel_run kernel_run;
kernel_run *kernel_start(const sb_protocol *p, kernel_way way);
const sb_safetensors *kernel_got(const kernel_run *k);
double kernel_apart(const kernel_run *k); /* the largest |got - real| / (1 + |real|) */
void kernel_end(kernel_run *k);

#endif
