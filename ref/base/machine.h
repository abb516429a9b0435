/* machine.h - memory figures of the machine. They differ from run to run, so they are used only in
 * output for people and in decisions about speed. */
#ifndef SB_BASE_MACHINE_H
#define SB_BASE_MACHINE_H

#include <stdint.h>

/* The peak resident bytes of this process, with mapped files; 0: unknown. */
uint64_t sb_peak_resident(void);

/* The bytes of memory of this machine; 0: unknown. */
uint64_t sb_machine_memory(void);

#endif
