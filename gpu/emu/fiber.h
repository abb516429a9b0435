/* fiber.h - a thread of control with its own stack and explicit switches: one per CUDA thread.
 *
 * All fibers of a set belong to the thread of the operating system that made the set. Every switch
 * is announced to the address sanitizer, if there is one. */
#ifndef SB_GPU_EMU_FIBER_H
#define SB_GPU_EMU_FIBER_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/base.h"

#if defined(__SANITIZE_ADDRESS__)
#define SB_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SB_FIBER_ASAN 1
#endif
#endif
/* The switch in assembly is for x86-64 only. Sanitizers only understand ucontext of the C library.
 */
#if !defined(SB_FIBER_UCONTEXT) && (!defined(__x86_64__) || defined(SB_FIBER_ASAN))
#define SB_FIBER_UCONTEXT 1
#endif

struct sb_fiber {
    void *stack_pointer; /* where the fiber stopped, for the assembly switch */
    void *context;       /* where the fiber stopped, for ucontext */
    const void *low;     /* the lowest byte of the stack, which has `bytes` bytes */
    size_t bytes;
    void *shadow; /* data of the address sanitizer */
};

/* Fibers with their stacks, each below it with a guard page; and the context that runs them. */
struct sb_fiber_set {
    char *area;
    size_t area_bytes, stack_bytes;
    uint32_t count;
    sb_fiber *fiber; /* (count) */
    sb_fiber home;   /* the caller of sb_fiber_enter */
};

sb_status sb_fiber_open(sb_fiber_set *set, uint32_t count, sb_error *err);
void sb_fiber_close(sb_fiber_set *set);

/* Restarts fiber i: the next switch to it calls entry, which never returns. */
void sb_fiber_begin(sb_fiber_set *set, uint32_t i, void (*entry)());

/* Every entry function calls this first; `set` is the set of the running fiber. */
void sb_fiber_arrived(sb_fiber_set *set);

/* Stops the running fiber `from` and continues `to`. Returns after a later switch to `from`. */
void sb_fiber_switch(sb_fiber *from, sb_fiber *to);

/* Like sb_fiber_switch, for a fiber that never runs again. */
[[noreturn]] void sb_fiber_leave(sb_fiber *from, sb_fiber *to);

#endif
