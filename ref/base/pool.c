#include "ref/base/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "ref/base/bell.h"
#include "ref/base/fp_mode.h"
#include "ref/base/processors.h"

enum {
    LINE = 128,      /* bytes that processors exchange as a unit */
    SPIN = 20000,    /* nanoseconds of spinning before a thread sleeps */
    STACK = 8 << 20, /* bytes, regardless of ulimit and OMP_STACKSIZE */
    AGAIN = 256      /* loops before a failed start of a thread is retried */
};

/* The three fields of the gate: loops begun, threads that may enter (0: closed), and workers
 * inside. */
#define BEGUN(gate) ((uint32_t)((gate) >> 32))
#define WANTED(gate) ((uint32_t)((gate) >> 16) & 0xffffu)
#define INSIDE(gate) ((uint32_t)(gate)&0xffffu)

typedef struct worker {
    _Alignas(LINE) _Atomic uint64_t turns; /* its remaining turns: first | end << 32 */
    atomic_uint asleep;
    sb_bell bell;
} worker;

static struct {
    _Alignas(LINE) atomic_uint taken; /* 1: some thread uses the pool */
    _Alignas(LINE) _Atomic uint64_t gate;
    _Alignas(LINE) _Atomic uint64_t next; /* the next turn of a loop in order */
    _Alignas(LINE) atomic_uint waits;     /* 1: the caller sleeps until all workers are outside */
    sb_bell outside;
    /* the current loop; valid while the gate is open or a worker is inside */
    sb_turn *turn;
    void *ctx;
    size_t base;
    uint32_t count, threads;
    int in_order;
    /* used only by the thread that has taken the pool */
    uint32_t started, patience;
    worker workers[SB_THREADS_MOST]; /* [0] is the caller */
} pool;

static _Thread_local int in_loop;
static _Thread_local size_t asked;

/* --- waiting ---------------------------------------------------------------------------------- */

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static int64_t now(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_MONOTONIC, &t) ? 0 : (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Rings the bell if the other thread sleeps or is about to sleep. */
static void wake(atomic_uint *asleep, sb_bell *bell)
{
    if (atomic_load(asleep) && atomic_exchange(asleep, 0))
        sb_bell_ring(bell);
}

/* Waits until is_so(gate, id, seen) is true. The bell may also ring for another reason, so the
 * condition is checked again after each wake-up. */
static uint64_t wait_until(int (*is_so)(uint64_t gate, uint32_t id, uint32_t seen), uint32_t id,
                           uint32_t seen, atomic_uint *asleep, sb_bell *bell)
{
    for (;;) {
        uint64_t gate = atomic_load(&pool.gate);
        const int64_t begin = is_so(gate, id, seen) ? 0 : now();
        for (unsigned i = 1; !is_so(gate, id, seen); i++) {
            if (i % 16 == 0 && now() - begin > SPIN)
                break;
            relax();
            gate = atomic_load(&pool.gate);
        }
        if (is_so(gate, id, seen))
            return gate;
        atomic_store(asleep, 1);
        if (!is_so(atomic_load(&pool.gate), id, seen) || !atomic_exchange(asleep, 0))
            sb_bell_wait(bell);
    }
}

/* --- turns ------------------------------------------------------------------------------------ */

static uint64_t turns(uint32_t first, uint32_t end)
{
    return (uint64_t)end << 32 | first;
}

/* Takes the next of the worker's own turns. */
static int take_turn(worker *w, uint32_t *turn)
{
    uint64_t have = atomic_load_explicit(&w->turns, memory_order_relaxed);
    do {
        *turn = (uint32_t)have;
        if (*turn >= (uint32_t)(have >> 32))
            return 0;
    } while (!atomic_compare_exchange_weak(&w->turns, &have, have + 1));
    return 1;
}

/* Takes the later half of another worker's remaining turns. */
static int steal(uint32_t id)
{
    for (uint32_t k = 1; k < pool.threads; k++) {
        worker *from = &pool.workers[(id + k) % pool.threads];
        uint64_t have = atomic_load_explicit(&from->turns, memory_order_relaxed);
        for (;;) {
            const uint32_t first = (uint32_t)have, end = (uint32_t)(have >> 32);
            if (first >= end)
                break;
            const uint32_t middle = first + (end - first) / 2;
            if (!atomic_compare_exchange_weak(&from->turns, &have, turns(first, middle)))
                continue;
            atomic_store(&pool.workers[id].turns, turns(middle, end));
            return 1;
        }
    }
    return 0;
}

static void work(uint32_t id)
{
    if (pool.in_order) {
        for (uint64_t i; (i = atomic_fetch_add(&pool.next, 1)) < pool.count;)
            pool.turn(pool.ctx, pool.base + (size_t)i, id);
        return;
    }
    do
        for (uint32_t i; take_turn(&pool.workers[id], &i);)
            pool.turn(pool.ctx, pool.base + i, id);
    while (steal(id));
}

/* --- workers ---------------------------------------------------------------------------------- */

static int is_wanted(uint64_t gate, uint32_t id, uint32_t seen)
{
    return BEGUN(gate) != seen && WANTED(gate) > id;
}

static int nobody_inside(uint64_t gate, uint32_t id, uint32_t seen)
{
    (void)id;
    (void)seen;
    return INSIDE(gate) == 0;
}

static void *be_worker(void *arg)
{
    worker *w = arg;
    const uint32_t id = (uint32_t)(w - pool.workers);
    uint32_t seen = 0;
    in_loop = 1;
    for (;;) {
        uint64_t gate = wait_until(is_wanted, id, seen, &w->asleep, &w->bell);
        int in = 0;
        while (is_wanted(gate, id, seen) && !in)
            in = atomic_compare_exchange_weak(&pool.gate, &gate, gate + 1);
        if (!in)
            continue;
        seen = BEGUN(gate);
        sb_fp_mode_set(sb_fp_mode_default());
        work(id);
        gate = atomic_fetch_sub(&pool.gate, 1) - 1;
        if (INSIDE(gate) == 0 && WANTED(gate) == 0)
            wake(&pool.waits, &pool.outside);
    }
    return NULL;
}

/* Blocks signals in workers, so that threads of the host program receive them. Signals that the
 * worker's own code raises stay unblocked. */
static void block_signals(sigset_t *before)
{
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, before);
}

static int start_one(worker *w)
{
    pthread_t thread;
    pthread_attr_t how;
    sigset_t before;
    if (!sb_bell_new(&w->bell) || pthread_attr_init(&how) != 0)
        return 0;
    block_signals(&before);
    atomic_store(&w->asleep, 0);
    const int failed = pthread_attr_setstacksize(&how, STACK) ||
                       pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED) ||
                       pthread_create(&thread, &how, be_worker, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&how);
    return !failed;
}

/* After a fork, in the child: there are no workers, and no other thread has the pool. */
static void forked(void)
{
    atomic_store(&pool.gate, atomic_load(&pool.gate) >> 32 << 32);
    atomic_store(&pool.waits, 0);
    pool.started = pool.patience = 0;
    sb_bell_new(&pool.outside);
    atomic_store(&pool.taken, 0);
}

static void prepare(void)
{
    sb_bell_new(&pool.outside);
    pthread_atfork(NULL, NULL, forked);
}

/* Starts missing threads. Returns the number of available threads, at most `threads`, including the
 * calling thread. */
static uint32_t start(uint32_t threads)
{
    if (pool.patience)
        pool.patience--;
    while (pool.started + 1 < threads && !pool.patience) {
        if (start_one(&pool.workers[pool.started + 1]))
            pool.started++;
        else
            pool.patience = AGAIN;
    }
    return threads < pool.started + 1 ? threads : pool.started + 1;
}

/* --- loops ------------------------------------------------------------------------------------ */

static void open_gate(void)
{
    const uint32_t count = pool.count, threads = pool.threads;
    for (uint32_t i = 0; i < threads; i++) {
        const uint64_t first = (uint64_t)count * i / threads,
                       end = (uint64_t)count * (i + 1) / threads;
        atomic_store_explicit(&pool.workers[i].turns, turns((uint32_t)first, (uint32_t)end),
                              memory_order_relaxed);
    }
    atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
    const uint64_t begun = BEGUN(atomic_load(&pool.gate)) + 1;
    atomic_store(&pool.gate, begun << 32 | (uint64_t)threads << 16);
    for (uint32_t i = 1; i < threads; i++)
        wake(&pool.workers[i].asleep, &pool.workers[i].bell);
}

static void close_gate(void)
{
    atomic_fetch_and(&pool.gate, ~((uint64_t)0xffff << 16));
    wait_until(nobody_inside, 0, 0, &pool.waits, &pool.outside);
}

/* Runs at most 2^32 - 1 turns on the pool. Returns 0 if the pool is taken or has one thread
 * only. */
static int share(size_t base, uint32_t count, size_t threads, int in_order, sb_turn *turn,
                 void *ctx)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (atomic_exchange(&pool.taken, 1))
        return 0;
    pthread_once(&once, prepare);
    pool.threads = start((uint32_t)(threads < count ? threads : count));
    const int several = pool.threads > 1;
    if (several) {
        pool.turn = turn;
        pool.ctx = ctx;
        pool.base = base;
        pool.count = count;
        pool.in_order = in_order;
        in_loop = 1;
        open_gate();
        work(0);
        close_gate();
        in_loop = 0;
    }
    atomic_store(&pool.taken, 0);
    return several;
}

static void loop(size_t count, int many, int in_order, sb_turn *turn, void *ctx)
{
    const size_t threads = many && count > 1 ? sb_threads_here() : 1;
    for (size_t base = 0, some; base < count; base += some) {
        some = count - base < UINT32_MAX ? count - base : UINT32_MAX;
        if (threads > 1 && share(base, (uint32_t)some, threads, in_order, turn, ctx))
            continue;
        for (size_t i = 0; i < some; i++)
            turn(ctx, base + i, 0);
    }
}

void sb_parallel_for(size_t count, int many, sb_turn *turn, void *ctx)
{
    loop(count, many, 0, turn, ctx);
}

void sb_parallel_in_order(size_t count, int many, sb_turn *turn, void *ctx)
{
    loop(count, many, 1, turn, ctx);
}

/* --- number of threads ------------------------------------------------------------------------ */

static size_t processors;

static void count_processors(void)
{
    processors = sb_processors();
}

void sb_threads_set(size_t threads)
{
    asked = threads < SB_THREADS_MOST ? threads : SB_THREADS_MOST;
}

size_t sb_threads_asked(void)
{
    return asked;
}

size_t sb_threads(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (asked)
        return asked;
    pthread_once(&once, count_processors);
    return processors;
}

size_t sb_threads_here(void)
{
    return in_loop ? 1 : sb_threads();
}
