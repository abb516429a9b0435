/* fiber.cc - the stacks of fibers, and the switch between fibers. */
#include "gpu/emu/fiber.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef SB_FIBER_UCONTEXT
#include <ucontext.h>
#endif

#ifdef SB_FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
enum { STACK_BYTES = 256 << 10 }; /* frames are larger under sanitizers */
#else
enum { STACK_BYTES = 128 << 10 };
#endif

static void announce(sb_fiber *from, const sb_fiber *to, bool last)
{
#ifdef SB_FIBER_ASAN
    __sanitizer_start_switch_fiber(last ? nullptr : &from->shadow, to->low, to->bytes);
#else
    (void)from, (void)to, (void)last;
#endif
}

static void returned(sb_fiber *fiber)
{
#ifdef SB_FIBER_ASAN
    __sanitizer_finish_switch_fiber(fiber->shadow, nullptr, nullptr);
#else
    (void)fiber;
#endif
}

void sb_fiber_arrived(sb_fiber_set *set)
{
#ifdef SB_FIBER_ASAN
    const void *low;
    size_t bytes;
    __sanitizer_finish_switch_fiber(nullptr, &low, &bytes);
    if (!set->home.low) { /* the first fiber was entered from home, so it learns home's stack */
        set->home.low = low;
        set->home.bytes = bytes;
    }
#else
    (void)set;
#endif
}

#ifdef SB_FIBER_UCONTEXT
static size_t context_bytes()
{
    return sizeof(ucontext_t);
}

static void jump(sb_fiber *from, sb_fiber *to)
{
    swapcontext(static_cast<ucontext_t *>(from->context), static_cast<ucontext_t *>(to->context));
}

static void prepare(sb_fiber *fiber, void (*entry)())
{
    ucontext_t *context = static_cast<ucontext_t *>(fiber->context);
    getcontext(context);
    context->uc_stack.ss_sp = const_cast<void *>(fiber->low);
    context->uc_stack.ss_size = fiber->bytes;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
}
#else
/* Saves the callee-saved registers (System V ABI of x86-64), switches stacks, and continues where
 * the other fiber stopped. */
extern "C" void sb_fiber_jump(void **save, void *load);
asm(".text\n"
    ".globl sb_fiber_jump\n"
    ".hidden sb_fiber_jump\n"
    ".type sb_fiber_jump, @function\n"
    "sb_fiber_jump:\n"
    " pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    " movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
    " popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
    " ret\n"
    ".size sb_fiber_jump, .-sb_fiber_jump\n");

static size_t context_bytes()
{
    return 0;
}

static void jump(sb_fiber *from, sb_fiber *to)
{
    sb_fiber_jump(&from->stack_pointer, to->stack_pointer);
}

/* Prepares a new stack like one that sb_fiber_jump has left: six registers, the return address, and
 * one word that aligns the stack as after a call. */
static void prepare(sb_fiber *fiber, void (*entry)())
{
    char *top = static_cast<char *>(const_cast<void *>(fiber->low)) + fiber->bytes;
    void *frame[8] = {};
    memcpy(&frame[6], &entry, sizeof entry);
    fiber->stack_pointer = memcpy(top - sizeof frame, frame, sizeof frame);
}
#endif

void sb_fiber_switch(sb_fiber *from, sb_fiber *to)
{
    announce(from, to, false);
    jump(from, to);
    returned(from);
}

void sb_fiber_leave(sb_fiber *from, sb_fiber *to)
{
    announce(from, to, true);
    jump(from, to);
    __builtin_trap();
}

void sb_fiber_begin(sb_fiber_set *set, uint32_t i, void (*entry)())
{
    sb_fiber *fiber = &set->fiber[i];
#ifdef SB_FIBER_ASAN
    __asan_unpoison_memory_region(fiber->low, fiber->bytes); /* poisoned in an earlier run */
#endif
    prepare(fiber, entry);
}

static sb_status out_of_memory(sb_fiber_set *set, sb_error *err)
{
    sb_fiber_close(set);
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for the stacks of an emulated block");
}

sb_status sb_fiber_open(sb_fiber_set *set, uint32_t count, sb_error *err)
{
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    *set = sb_fiber_set();
    set->stack_bytes = STACK_BYTES + page;
    set->area_bytes = count * set->stack_bytes;
    void *area = mmap(nullptr, set->area_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED)
        return out_of_memory(set, err);
    set->area = static_cast<char *>(area);
    set->fiber = static_cast<sb_fiber *>(sb_alloc(count, sizeof(sb_fiber)));
    set->home.context = sb_alloc(1, context_bytes());
    if (!set->fiber || !set->home.context)
        return out_of_memory(set, err);
    for (set->count = 0; set->count < count; set->count++) {
        sb_fiber *fiber = &set->fiber[set->count];
        char *low = set->area + set->count * set->stack_bytes;
        fiber->low = low + page;
        /* Stack tops are shifted within the page, since a cache holds only few lines with the same
         * page offset. */
        fiber->bytes = STACK_BYTES - set->count * 704 % page;
        fiber->context = sb_alloc(1, context_bytes());
        if (!fiber->context || mprotect(low, page, PROT_NONE) != 0) {
            free(fiber->context);
            return out_of_memory(set, err);
        }
    }
    return SB_OK;
}

void sb_fiber_close(sb_fiber_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        free(set->fiber[i].context);
    free(set->fiber);
    free(set->home.context);
    if (set->area)
        munmap(set->area, set->area_bytes);
    *set = sb_fiber_set();
}
