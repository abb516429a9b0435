/* machine.h - what the machine says of memory: only for what a person reads, and for what may be
 * slower or faster, as it differs from run to run. */
#ifndef SB_BASE_MACHINE_H
#define SB_BASE_MACHINE_H

#include <stdint.h>

/* The most bytes that this process has had in memory at once, mapped files included; 0: unknown. */
uint64_t sb_peak_resident(void);

/* The bytes of memory of this machine; 0: unknown. */
uint64_t sb_machine_memory(void);

#endif
