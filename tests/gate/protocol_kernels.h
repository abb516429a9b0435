/* protocol_kernels.h - plain kernels for protocol vectors, one per way in which engines keep
 * states, written from the tensors of the file alone; and the faults that such kernels have had. */
#ifndef SB_TESTS_PROTOCOL_KERNELS_H
#define SB_TESTS_PROTOCOL_KERNELS_H

#include "tools/gate/protocol.h"

typedef enum kernel_fault {
    KERNEL_RIGHT,
    KERNEL_FIRST_SLOT,       /* F08: goes on from slot or column 0 whatever was accepted */
    KERNEL_WINDOW_KEPT,      /* F09: the new window starts where the old history did */
    KERNEL_ACCEPTED_SWAPPED, /* F11: counts of neighbouring entries */
    KERNEL_ZERO_WRAPS,       /* F12: accepted - 1 of 0 is the last one */
    KERNEL_PAD_IS_ZERO,      /* F16: a negative index is slot 0 */
    KERNEL_STALE,            /* has_initial_state is not looked at */
    KERNEL_STRAY,            /* the slot behind an entry's is written, too */
    KERNEL_PAD_LEAKS,        /* the row behind an entry's enters with weight 0 */
    KERNEL_TRANSPOSED,       /* the state's last two dimensions change places */
    KERNEL_DRIFT,            /* states are a thousandth too large */
    KERNEL_OTHER_DECAY,      /* exp(g) is taken for g, or g for exp(g) */
    KERNEL_FAULTS
} kernel_fault;
const char *kernel_fault_name(kernel_fault fault);

typedef struct kernel_way {
    int reversed; /* sums from the last term to the first */
    int bf16;     /* outputs are rounded to BF16 */
    int wide;     /* everything in binary64 */
    int exact;    /* no kernel: the values of profile exact */
    kernel_fault fault;
} kernel_way;

typedef struct kernel_run kernel_run;
kernel_run *kernel_start(const sb_protocol *p, kernel_way way);
const sb_safetensors *kernel_got(const kernel_run *k);
double kernel_apart(const kernel_run *k); /* the largest |got - real| / (1 + |real|) */
void kernel_end(kernel_run *k);

#endif
