/* test_pool.c - threads that share turns: every turn runs once, for any caller and any number of
 * threads; and the default number of threads. */
#include "tests/lib/suite.h"

#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ref/base/fp_mode.h"
#include "ref/base/pool.h"
#include "ref/base/processors.h"
#include "tests/lib/checkpoint.h"

#define PROGRAM "test_pool"

enum { TURNS = 5000, THREADS = 5 };

/* --- threads that cannot be started ----------------------------------------------------------- */
static atomic_int may_start = 1 << 20, tried, stacks_wrong;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *),
                          void *arg)
{
    size_t stack = 0;
    tried++;
    stacks_wrong += !how || pthread_attr_getstacksize(how, &stack) || stack < 1 << 20;
    if (may_start-- <= 0)
        return EAGAIN;
    return __real_pthread_create(thread, how, run, arg);
}

static int start_plain(pthread_t *thread, void *(*run)(void *), void *arg)
{
    return __real_pthread_create(thread, NULL, run, arg);
}

/* --- every turn once -------------------------------------------------------------------------- */
typedef struct count {
    atomic_uint turns[TURNS];
    atomic_uint of[THREADS + 1]; /* workers */
    atomic_uint in[THREADS + 1]; /* 1 while that worker is in a turn */
    atomic_uint wrong, together;
    unsigned naps; /* milliseconds of each turn */
} count;

static void nap(unsigned ms)
{
    const struct timespec t = {0, ms * 1000000L};
    if (ms)
        nanosleep(&t, NULL);
}

static void one_turn(void *ctx, size_t i, size_t worker)
{
    count *c = ctx;
    const size_t w = worker < THREADS ? worker : THREADS;
    c->wrong += worker >= THREADS || atomic_exchange(&c->in[w], 1);
    c->turns[i]++;
    c->of[w]++;
    nap(c->naps);
    c->in[w] = 0;
}

static void each_once(count *c, size_t turns)
{
    assert_int_equal(c->wrong, 0);
    for (size_t i = 0; i < TURNS; i++)
        assert_int_equal(c->turns[i], i < turns);
}

static size_t workers_of(const count *c)
{
    size_t some = 0;
    for (size_t w = 0; w < THREADS; w++)
        some += c->of[w] > 0;
    return some;
}

TEST(every_turn_once)
{
    static const size_t counts[] = {0, 1, 2, 3, 4, 5, 6, 64, TURNS};
    for (size_t threads = 1; threads <= THREADS; threads++)
        for (size_t i = 0; i < 4 * sizeof counts / sizeof *counts; i++) {
            count c = {.naps = 0};
            const size_t n = counts[i / 4];
            sb_threads_set(threads);
            (i & 1 ? sb_parallel_in_order : sb_parallel_for)(n, (i & 2) == 0, one_turn, &c);
            each_once(&c, n);
        }
    sb_threads_set(0);
}

/* Turns that sleep are shared: all threads take part, on a busy machine after some time. */
TEST(all_threads_come)
{
    sb_threads_set(THREADS);
    for (int in_order = 0; in_order < 2; in_order++) {
        size_t came = 0;
        for (unsigned naps = 5; came < THREADS && naps < 500; naps *= 2) {
            count c = {.naps = naps};
            (in_order ? sb_parallel_in_order : sb_parallel_for)(20, 1, one_turn, &c);
            each_once(&c, 20);
            came = workers_of(&c);
        }
        assert_int_equal(came, THREADS);
    }
    sb_threads_set(0);
}

/* Turn 0 takes longer than all others together: the other thread takes over the rest of the
 * share. */
static void slow_turn(void *ctx, size_t i, size_t worker)
{
    one_turn(ctx, i, worker);
    nap(i == 0 ? 300 : 2);
}

TEST(a_share_is_taken_over)
{
    sb_threads_set(2);
    count c = {.naps = 0};
    sb_parallel_for(100, 1, slow_turn, &c);
    each_once(&c, 100);
    assert_true(c.of[0] < 50); /* turn 0 is the caller's */
    sb_threads_set(0);
}

/* --- nested loops, and loops at the same time * ----------------------------------------------- */
typedef struct nest {
    count inner[THREADS];
    atomic_uint wrong;
} nest;

static void outer_turn(void *ctx, size_t i, size_t worker)
{
    nest *n = ctx;
    (void)worker;
    n->wrong += sb_threads_here() != 1;
    sb_parallel_for(100, 1, one_turn, &n->inner[i]);
}

TEST(inside_there_is_one_thread)
{
    static nest n;
    memset(&n, 0, sizeof n);
    sb_threads_set(THREADS);
    assert_int_equal(sb_threads_here(), THREADS);
    sb_parallel_for(THREADS, 1, outer_turn, &n);
    assert_int_equal(n.wrong, 0);
    for (size_t i = 0; i < THREADS; i++) {
        each_once(&n.inner[i], 100);
        assert_int_equal(workers_of(&n.inner[i]), 1);
    }
    assert_int_equal(sb_threads_here(), THREADS);
    sb_threads_set(0);
}

/* An outer loop without threads (many is 0) leaves them to the loops inside. */
static void not_so_outer_turn(void *ctx, size_t i, size_t worker)
{
    nest *n = ctx;
    n->wrong += sb_threads_here() != THREADS || worker != 0;
    n->inner[i].naps = 10;
    sb_parallel_for(50, 1, one_turn, &n->inner[i]);
}

TEST(inside_a_plain_loop_there_are_many)
{
    static nest n;
    memset(&n, 0, sizeof n);
    sb_threads_set(THREADS);
    sb_parallel_for(2, 0, not_so_outer_turn, &n);
    assert_int_equal(n.wrong, 0);
    for (size_t i = 0; i < 2; i++)
        assert_true(workers_of(&n.inner[i]) > 1);
    sb_threads_set(0);
}

static void *one_host(void *arg)
{
    count *c = arg;
    sb_threads_set(THREADS);
    for (unsigned round = 0; round < 200; round++) {
        memset(c, 0, sizeof *c);
        (round & 1 ? sb_parallel_in_order : sb_parallel_for)(round * 7, 1, one_turn, c);
        for (size_t i = 0; i < round * 7; i++)
            if (c->turns[i] != 1 || c->wrong)
                return "";
    }
    return NULL;
}

TEST(hosts_do_not_meet)
{
    enum { HOSTS = 4 };
    static count counts[HOSTS];
    pthread_t threads[HOSTS];
    for (size_t i = 0; i < HOSTS; i++)
        assert_int_equal(start_plain(&threads[i], one_host, &counts[i]), 0);
    for (size_t i = 0; i < HOSTS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

/* --- fork ------------------------------------------------------------------------------------- */
static int child_is_well(void)
{
    count c = {.naps = 10};
    sb_threads_set(THREADS);
    sb_parallel_for(40, 1, one_turn, &c);
    for (size_t i = 0; i < 40; i++)
        if (c.turns[i] != 1)
            return 0;
    return workers_of(&c) > 1 && !c.wrong;
}

static void look_at_a_child(void)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(!child_is_well());
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(a_child_has_threads_of_its_own)
{
    assert_true(child_is_well());
    look_at_a_child();
    /* also while another thread uses the pool */
    static count c;
    pthread_t other;
    assert_int_equal(start_plain(&other, one_host, &c), 0);
    for (int i = 0; i < 5; i++)
        look_at_a_child();
    void *wrong;
    pthread_join(other, &wrong);
    assert_null(wrong);
    sb_threads_set(0);
}

/* --- the mode --------------------------------------------------------------------------------- */
static void spoil(void *ctx, size_t i, size_t worker)
{
    (void)ctx;
    (void)i;
    (void)worker;
    fesetround(FE_UPWARD);
    nap(2);
}

static void look_at_the_mode(void *ctx, size_t i, size_t worker)
{
    atomic_uint *wrong = ctx;
    const sb_fp_mode now = sb_fp_mode_now(), usual = sb_fp_mode_default();
    (void)i;
    /* the low six bits of MXCSR are status flags */
    if (worker > 0 &&
        (fegetround() != FE_TONEAREST || now.word >> 6 != usual.word >> 6 || now.x87 != usual.x87))
        ++*wrong;
    nap(2);
}

TEST(workers_set_their_mode)
{
    atomic_uint wrong = 0;
    sb_threads_set(THREADS);
    sb_parallel_for(20, 1, spoil, NULL);
    assert_int_equal(fegetround(), FE_UPWARD); /* the caller keeps its own mode */
    sb_parallel_for(20, 1, look_at_the_mode, &wrong);
    fesetround(FE_TONEAREST);
    assert_int_equal(wrong, 0);
    sb_threads_set(0);
}

/* --- threads that cannot be created: each test in a child, which has none yet * --------------- */
static void in_a_child(int (*well)(void))
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(!well());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The third thread cannot be created, and creating it is not tried again in every loop. */
static int two_only(void)
{
    may_start = 2;
    tried = 0;
    sb_threads_set(THREADS);
    for (int i = 0; i < 20; i++) {
        count c = {.naps = 1};
        sb_parallel_for(30, 1, one_turn, &c);
        for (size_t t = 0; t < 30; t++)
            if (c.turns[t] != 1)
                return 0;
        if (workers_of(&c) > 3)
            return 0;
    }
    return tried == 3;
}

static int none_at_all(void)
{
    count c = {.naps = 0};
    may_start = 0;
    sb_threads_set(THREADS);
    sb_parallel_for(TURNS, 1, one_turn, &c);
    return c.of[0] == TURNS;
}

/* The kernel refuses to create threads. Root has no limit and becomes another user first. */
static int no_more_processes(void)
{
    const struct rlimit none = {0, 0};
    if (getuid() == 0 && setuid(65534) != 0)
        return 1;
    return setrlimit(RLIMIT_NPROC, &none) == 0 && none_at_all();
}

TEST(fewer_threads_do)
{
    in_a_child(two_only);
    in_a_child(none_at_all);
    in_a_child(no_more_processes);
    assert_int_equal(stacks_wrong, 0);
}

/* --- the default number * --------------------------------------------------------------------- */
static void put(const char *folder, const char *name, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void folders(const char *root, const char *const *names)
{
    char path[1024];
    for (; *names; names++) {
        snprintf(path, sizeof path, "%s/%s", root, *names);
        assert_true(mkdir(path, 0777) == 0 || errno == EEXIST);
    }
}

static size_t quota(const char *root, const char *groups)
{
    char path[1024];
    put(root, "groups", groups);
    snprintf(path, sizeof path, "%s/groups", root);
    return sb_quota_threads(path, root);
}

TEST(quotas_are_read)
{
    static const char *const made[] = {"", "a", "a/b", "cpu", "cpu/c", NULL};
    static const char *const old[] = {"a/b/cpu.max", "a/cpu.max", "cpu.max",
                                      "cpu/c/cpu.cfs_quota_us"};
    const char *root = test_path(PROGRAM, "cgroup");
    folders(root, made);
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) { /* left by an earlier run */
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", root, old[i]);
        assert_true(unlink(path) == 0 || errno == ENOENT);
    }
    assert_int_equal(quota(root, "0::/a/b\n"), 0);
    put(root, "a/b/cpu.max", "max 100000\n");
    assert_int_equal(quota(root, "0::/a/b\n"), 0);
    put(root, "a/b/cpu.max", "250000 100000\n");
    assert_int_equal(quota(root, "0::/a/b\n"), 3);
    put(root, "a/cpu.max", "50000 100000\n"); /* the parent group has a smaller quota */
    assert_int_equal(quota(root, "0::/a/b\n"), 1);
    put(root, "cpu.max", "200000 100000\n");
    assert_int_equal(quota(root, "0::/\n"), 2);
    assert_int_equal(quota(root, "0::/not/mounted/here\n"), 2); /* as in a container */
    put(root, "cpu/c/cpu.cfs_quota_us", "-1\n");
    put(root, "cpu/c/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota(root, "3:cpuset:/\n4:cpu,cpuacct:/c\n"), 0);
    put(root, "cpu/c/cpu.cfs_quota_us", "400000\n");
    assert_int_equal(quota(root, "3:cpuset:/\n4:cpu,cpuacct:/c\n"), 4);
    assert_int_equal(quota(root, "3:cpuset:/c\n"), 0);
    assert_int_equal(quota(root, "nonsense\n\n:\n"), 0);
    assert_int_equal(sb_quota_threads("/nowhere/at/all", root), 0);
}

TEST(the_environment_decides)
{
    assert_int_equal(setenv("OMP_NUM_THREADS", "7,2", 1), 0);
    assert_int_equal(sb_processors(), 7);
    assert_int_equal(setenv("OMP_NUM_THREADS", "100000", 1), 0);
    assert_int_equal(sb_processors(), SB_THREADS_MOST);
    assert_int_equal(setenv("OMP_NUM_THREADS", "none", 1), 0);
    const size_t usual = sb_processors();
    assert_int_equal(unsetenv("OMP_NUM_THREADS"), 0);
    assert_int_equal(sb_processors(), usual);
    assert_true(usual >= 1);
}

int main(int argc, char **argv)
{
    return suite_main(argc, argv);
}
