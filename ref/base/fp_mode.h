/* fp_mode.h - the floating-point mode of a thread: its rounding, and its flushing of subnormals. On
 * processors without an implementation here, a thread inherits the mode of the thread that started
 * it. */
#ifndef SB_BASE_FP_MODE_H
#define SB_BASE_FP_MODE_H

#include <stdint.h>

typedef struct sb_fp_mode {
    uint64_t word; /* MXCSR, FPCR, fcsr or fpc */
    uint16_t x87;  /* x86: the control word */
} sb_fp_mode;

/* The mode of the calling thread. */
static inline sb_fp_mode sb_fp_mode_now(void)
{
    sb_fp_mode mode = {0, 0};
#if defined(__x86_64__)
    uint32_t mxcsr;
    __asm__ __volatile__("stmxcsr %0" : "=m"(mxcsr) : : "memory");
    __asm__ __volatile__("fnstcw %0" : "=m"(mode.x87) : : "memory");
    mode.word = mxcsr;
#elif defined(__aarch64__)
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(mode.word) : : "memory");
#elif defined(__riscv) && defined(__riscv_flen)
    __asm__ __volatile__("csrr %0, fcsr" : "=r"(mode.word) : : "memory");
#elif defined(__s390x__)
    uint32_t fpc;
    __asm__ __volatile__("efpc %0" : "=r"(fpc) : : "memory");
    mode.word = fpc;
#endif
    return mode;
}

/* The mode of a new process: rounding to nearest, subnormals kept, no traps. */
static inline sb_fp_mode sb_fp_mode_default(void)
{
    sb_fp_mode mode = {0, 0};
#if defined(__x86_64__)
    mode.word = 0x1f80;
    mode.x87 = 0x37f;
#endif
    return mode;
}

static inline void sb_fp_mode_set(sb_fp_mode mode)
{
#if defined(__x86_64__)
    const uint32_t mxcsr = (uint32_t)mode.word;
    __asm__ __volatile__("ldmxcsr %0" : : "m"(mxcsr) : "memory");
    __asm__ __volatile__("fldcw %0" : : "m"(mode.x87) : "memory");
#elif defined(__aarch64__)
    __asm__ __volatile__("msr fpcr, %0" : : "r"(mode.word) : "memory");
#elif defined(__riscv) && defined(__riscv_flen)
    __asm__ __volatile__("csrw fcsr, %0" : : "r"(mode.word) : "memory");
#elif defined(__s390x__)
    const uint32_t fpc = (uint32_t)mode.word;
    __asm__ __volatile__("sfpc %0" : : "r"(fpc) : "memory");
#else
    (void)mode;
#endif
}

#endif
