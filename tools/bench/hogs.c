#include "tools/bench/hogs.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"

/* --- the hogs --------------------------------------------------------------------------------- */

/* Runs until it is killed, or its parent has ended. */
static void be_hog(pid_t parent)
{
    for (volatile unsigned i = 0;; i++)
        if (i % (1u << 26) == 0 && getppid() != parent)
            _exit(0);
}

static void end_hogs(const pid_t *hogs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        kill(hogs[i], SIGKILL);
    for (size_t i = 0; i < count; i++)
        waitpid(hogs[i], NULL, 0);
}

static sb_status start_hogs(pid_t *hogs, size_t count, sb_error *err)
{
    const pid_t parent = getpid();
    for (size_t i = 0; i < count; i++) {
        hogs[i] = fork();
        if (hogs[i] == 0)
            be_hog(parent);
        if (hogs[i] < 0) {
            end_hogs(hogs, i);
            return sb_fail(err, SB_ERR_IO, "cannot start busy process %zu of %zu: %s", i + 1, count,
                           strerror(errno));
        }
    }
    return SB_OK;
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* Feeds `count` drawn tokens, one at a time. */
static sb_status feed(sb_session *session, uint32_t vocab, size_t count, float *logits,
                      sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const uint32_t token = sb_rng_below(sb_rng_key(42, "bench/token"), i, vocab);
        status = sb_session_feed(session, &token, 1, err);
        if (!status)
            status = sb_session_logits(session, 0, logits, err);
    }
    return status;
}

/* Seconds per token; the first token, which wakes threads, is not counted. */
static sb_status time_tokens(sb_session *session, const sb_model *model,
                             const sb_bench_options *options, size_t threads, float *logits,
                             double *seconds, sb_error *err)
{
    const uint32_t vocab = model->config.vocab_size;
    const size_t before = sb_threads_asked();
    sb_threads_set(threads);
    sb_session_reset(session);
    sb_status status = feed(session, vocab, 1 + options->context, logits, err);
    const double start = sb_bench_now();
    if (!status)
        status = feed(session, vocab, options->tokens, logits, err);
    *seconds = (sb_bench_now() - start) / (double)options->tokens;
    sb_threads_set(before);
    return status;
}

sb_status sb_bench_hogs(const sb_model *model, const sb_bench_options *options, size_t count,
                        sb_hogs_report *out, sb_error *err)
{
    double many[SB_BENCH_PASSES], one[SB_BENCH_PASSES], ratio[SB_BENCH_PASSES];
    pid_t hogs[SB_HOGS_MOST] = {0};
    sb_session *session = NULL;
    const sb_session_options of = {.knobs = options->knobs};
    float *logits = sb_alloc(model->config.vocab_size, sizeof *logits);
    *out = (sb_hogs_report){.hogs = count, .threads = sb_threads(), .passes = options->passes};
    sb_status status = logits ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
    if (!status)
        status = sb_session_new(model, &of, &session, err);
    if (!status)
        status = start_hogs(hogs, count, err);
    const int started = !status;
    for (size_t p = 0; p < options->passes && !status; p++) {
        status = time_tokens(session, model, options, 0, logits, &many[p], err);
        if (!status)
            status = time_tokens(session, model, options, 1, logits, &one[p], err);
        ratio[p] = many[p] / one[p];
        if (options->progress)
            options->progress(NULL, "pairs", p + 1, options->passes);
    }
    if (started)
        end_hogs(hogs, count);
    if (!status) {
        out->many = sb_bench_noise_of(many, options->passes);
        out->one = sb_bench_noise_of(one, options->passes);
        out->ratio = sb_bench_noise_of(ratio, options->passes);
    }
    sb_session_free(session);
    free(logits);
    return status;
}
