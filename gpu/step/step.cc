/* step.cc - the calls of a step: the checks of the host, and the launches of each part. */
#include "gpu/op/draw.h"
#include "gpu/op/graph.h"
#include "gpu/step/call.h"

#include <stdlib.h>

#include "ref/model/weights.h"
#include "ref/ops/knob.h"

/* --- launches --------------------------------------------------------------------------------- */
static sb_step_call call_of(sb_queued_step *step, const sb_step_part &part, sb_call_kind kind,
                            size_t rows, sb_error *err)
{
    sb_step_call c = sb_step_call();
    c.step = step;
    c.gpu = step->gpu;
    c.knobs = &step->knobs;
    c.config = &step->model->config;
    c.s = &step->s;
    c.kind = kind;
    c.rows = rows;
    c.reach = part.reach;
    c.chunks = sb_takes_chunks(c.knobs, kind, rows, part.first) != 0;
    c.trail = !c.chunks && rows <= step->options.slots;
    c.fused = step->options.fused && rows <= SB_FUSED_ROWS;
    c.layer = SB_NO_LAYER;
    c.err = err;
    return c;
}

/* The position of an MTP entry minus the position of its token: S-7. */
static int entry_ahead(const sb_knobs *knobs)
{
    return SB_IS(knobs, mtp_first, zeros) ? 0 : -1;
}

/* S-7: "The entry of h_i and x_{i+1} is made when x_{i+1} is fed". No vector precedes the first
 * token of a sequence, so it has no entry, unless K-27 provides a zero vector. */
static void prime(sb_step_call &c, bool first)
{
    const size_t H = c.config->hidden_size;
    const int ahead = entry_ahead(c.knobs);
    const size_t without = first && ahead < 0 ? 1 : 0;
    sb_step_call head = c;
    head.rows = c.rows - without;
    if (head.rows > 0)
        sb_step_prime(head, c.step->before + without * H, c.step->tokens + without,
                      ahead + static_cast<int>(without));
    c.status = head.status;
}

static sb_status run_rows(sb_queued_step *step, const sb_step_part &part, sb_error *err)
{
    const bool steps = part.kind == SB_STEP_rows;
    const sb_call_kind kind = part.rows == 1 && !part.first ? SB_CALL_decode
                              : steps                       ? SB_CALL_verify
                                                            : SB_CALL_prompt;
    const size_t logits = steps ? part.rows : 1;
    sb_step_call c = call_of(step, part, kind, part.rows, err);
    sb_step_trunk(c, logits);
    if (step->options.mtp) {
        SB_STEP(c, "vectors before tokens", sb_step_note(c));
        prime(c, part.first);
    }
    SB_STEP(c, "the end of a call", sb_step_end(c, logits));
    if (step->options.mtp)
        SB_STEP(c, "vectors before tokens", sb_step_turn(c));
    return c.status;
}

static sb_status run_keep(sb_queued_step *step, const sb_step_part &part, sb_error *err)
{
    sb_step_call c = call_of(step, part, SB_CALL_verify, part.rows, err);
    SB_STEP(c, "the rows that are kept", sb_step_cut(c, part.kind == SB_STEP_accept));
    if (step->options.mtp)
        SB_STEP(c, "vectors before tokens", sb_step_turn(c));
    return c.status;
}

/* S-8; K-29: "residual feeds its output before mtp.norm" */
static sb_status run_draft(sb_queued_step *step, const sb_step_part &part, sb_error *err)
{
    sb_step_call c = call_of(step, part, SB_CALL_draft, 1, err);
    const size_t at = part.rows;
    const float *own = SB_IS(c.knobs, mtp_recycled, residual) ? step->s.x : step->head_hidden;
    c.full = step->full - 1;
    sb_step_head(c, at == 0 ? step->before : own, step->tokens + at,
                 entry_ahead(c.knobs) + static_cast<int>(at));
    c.linear_of("mtp.logits", SB_LINEAR_head, step->model->weights->lm_head,
                {step->head_hidden, c.fused ? step->fused.norm.layers : nullptr}, 1, step->logits);
    sb_step_greedy(c, 1, step->tokens + at + 1);
    return c.status;
}

/* Between these two, ops are launches of the step. */
static void enter(const sb_queued_step *step)
{
    sb_gpu_use_pool(step->gpu, step->pool);
    sb_gpu_seal(step->gpu, step->sealed);
    sb_gpu_dependent(step->gpu, !step->options.independent);
}

static void leave(const sb_queued_step *step)
{
    sb_gpu_dependent(step->gpu, false);
    sb_gpu_seal(step->gpu, false);
    sb_gpu_use_pool(step->gpu, nullptr);
}

sb_status sb_step_show(sb_queued_step *step, size_t row, size_t count, sb_error *err)
{
    sb_step_call c = call_of(step, {SB_STEP_rows, count, 0, false}, SB_CALL_verify, count, err);
    enter(step);
    c.linear_of("logits", SB_LINEAR_head, step->model->weights->lm_head,
                step->s.hidden + row * c.config->hidden_size, count, step->logits);
    leave(step);
    return c.status;
}

sb_status sb_step_launch(sb_queued_step *step, const sb_step_part &part, sb_error *err)
{
    enter(step);
    const bool calls = part.kind == SB_STEP_prompt || part.kind == SB_STEP_rows;
    const sb_status status = calls                        ? run_rows(step, part, err)
                             : part.kind == SB_STEP_draft ? run_draft(step, part, err)
                                                          : run_keep(step, part, err);
    leave(step);
    return status;
}

/* --- checks and bookkeeping of the host ------------------------------------------------------- */
/* Rounds the reach up to one of a few sizes, so that few graphs serve all positions. */
static size_t bucket(const sb_queued_step *step, size_t reach)
{
    size_t size = 256;
    while (size < reach)
        size *= 2;
    return size < step->options.positions ? size : step->options.positions;
}

/* S-4: "After a call that failed, the session refuses every further call until it is reset" */
static sb_status play(sb_queued_step *step, sb_step_part part, size_t ahead, sb_error *err)
{
    part.reach = bucket(step, step->reach + ahead);
    part.first = step->reach == 0;
    step->failed = true;
    const sb_status status = sb_step_start(step, part, err);
    step->failed = status != SB_OK;
    return status;
}

static sb_status check(const sb_queued_step *step, size_t ahead, sb_error *err)
{
    if (step->failed)
        return sb_fail(err, SB_ERR_USAGE, "the step failed earlier and has not been reset");
    if (ahead > step->options.positions - step->reach)
        return sb_fail(err, SB_ERR_USAGE,
                       "%zu more positions after %zu, expected at most %zu in all", ahead,
                       step->reach, step->options.positions);
    return SB_OK;
}

static sb_status play_rows(sb_queued_step *step, sb_step_kind kind, size_t rows, sb_error *err)
{
    const sb_status status = play(step, {kind, rows, 0, false}, rows, err);
    if (status)
        return status;
    step->reach += rows;
    step->rows = rows;
    step->next = true;
    step->trail = kind == SB_STEP_rows && rows > 1;
    step->shown_rows = kind == SB_STEP_rows ? rows : 1;
    step->shown = rows - step->shown_rows;
    step->drafted = false;
    return SB_OK;
}

static sb_status check_tokens(const sb_queued_step *step, const uint32_t *tokens, size_t n,
                              sb_error *err)
{
    const uint32_t V = step->model->config.vocab_size;
    for (size_t i = 0; i < n; i++)
        if (tokens[i] >= V)
            return sb_fail(err, SB_ERR_USAGE, "token %zu is id %u; expected one below %u", i,
                           tokens[i], V);
    return SB_OK;
}

static sb_queued_step *of(sb_gpu_step *step)
{
    return reinterpret_cast<sb_queued_step *>(step);
}
static const sb_queued_step *of(const sb_gpu_step *step)
{
    return reinterpret_cast<const sb_queued_step *>(step);
}

static sb_status feed(sb_gpu_step *it, const uint32_t *tokens, size_t n, sb_error *err)
{
    sb_queued_step *step = of(it);
    sb_status status = check(step, n, err);
    if (!status)
        status = check_tokens(step, tokens, n, err);
    if (!status && (n == 0 || n > step->options.rows))
        status = sb_fail(err, SB_ERR_USAGE, "a call has %zu rows, expected 1 to %zu", n,
                         step->options.rows);
    if (!status)
        status = sb_step_write(step, step->tokens, tokens, n * sizeof *tokens, err);
    return status ? status : play_rows(step, SB_STEP_prompt, n, err);
}

static sb_status run(sb_gpu_step *it, size_t rows, sb_error *err)
{
    sb_queued_step *step = of(it);
    const sb_status status = check(step, rows, err);
    if (status)
        return status;
    if (!step->next)
        return sb_fail(err, SB_ERR_USAGE,
                       "there is no token yet that the step could continue from");
    if (rows == 0 || rows > step->options.slots)
        return sb_fail(err, SB_ERR_USAGE, "a step has %zu rows, expected 1 to %zu", rows,
                       step->options.slots);
    if (rows > 1 && !sb_knobs_have_row_states(&step->knobs))
        return sb_fail(
            err, SB_ERR_UNSUPPORTED, "delta_rule=%s has no state after each row",
            sb_knob_value_name(static_cast<sb_knob_value>(step->knobs.value[SB_KNOB_delta_rule])));
    return play_rows(step, SB_STEP_rows, rows, err);
}

static sb_status cut(sb_queued_step *step, sb_step_kind kind, sb_error *err)
{
    const sb_status status = play(step, {kind, step->rows, 0, false}, 0, err);
    step->trail = false;
    return status;
}

static sb_status check_trail(const sb_queued_step *step, sb_error *err)
{
    const sb_status status = check(step, 0, err);
    return status || step->trail
               ? status
               : sb_fail(err, SB_ERR_USAGE, "the last call was not a verify, or was already cut");
}

static sb_status keep(sb_gpu_step *it, size_t kept, sb_error *err)
{
    sb_queued_step *step = of(it);
    const uint32_t number = static_cast<uint32_t>(kept);
    sb_status status = check_trail(step, err);
    if (!status && (kept == 0 || kept > step->rows))
        status = sb_fail(err, SB_ERR_USAGE, "cannot keep %zu rows, because the call has %zu", kept,
                         step->rows);
    if (!status)
        status = sb_step_write(step, step->kept, &number, sizeof number, err);
    if (!status)
        status = cut(step, SB_STEP_keep, err);
    step->reach -= status ? 0 : step->rows - kept;
    return status;
}

static sb_status accept(sb_gpu_step *it, sb_error *err)
{
    const sb_status status = check_trail(of(it), err);
    return status ? status : cut(of(it), SB_STEP_accept, err);
}

static sb_status kept(sb_gpu_step *it, size_t *out, sb_error *err)
{
    sb_queued_step *step = of(it);
    uint32_t rows = 0, position = 0;
    sb_status status = sb_step_read(step, &rows, step->kept, sizeof rows, err);
    if (!status)
        status = sb_step_read(step, &position, step->position, sizeof position, err);
    if (status)
        return status;
    *out = rows;
    step->reach = position;
    return SB_OK;
}

static sb_status draft(sb_gpu_step *it, size_t at, sb_error *err)
{
    sb_queued_step *step = of(it);
    const sb_status status = check(step, at + 1, err);
    if (status)
        return status;
    if (!step->options.mtp || !step->next || at + 1 >= SB_STEP_SLOTS)
        return sb_fail(err, SB_ERR_USAGE, "there is no draft %zu", at);
    step->shown_rows = 0;
    step->drafted = true;
    return play(step, {SB_STEP_draft, at, 0, false}, at + 1, err);
}

static sb_status put(sb_gpu_step *it, size_t at, const uint32_t *drafts, size_t n, sb_error *err)
{
    sb_queued_step *step = of(it);
    const sb_status status = check_tokens(step, drafts, n, err);
    if (status)
        return status;
    if (at + n >= SB_STEP_SLOTS)
        return sb_fail(err, SB_ERR_USAGE, "%zu drafts, expected at most %d", at + n,
                       SB_STEP_SLOTS - 1);
    return sb_step_write(step, step->tokens + 1 + at, drafts, n * sizeof *drafts, err);
}

static sb_status token(sb_gpu_step *it, uint32_t id, sb_error *err)
{
    sb_queued_step *step = of(it);
    sb_status status = check_tokens(step, &id, 1, err);
    if (!status)
        status = sb_step_write(step, step->tokens, &id, sizeof id, err);
    step->next = step->next || !status;
    return status;
}

static sb_status tokens(sb_gpu_step *it, uint32_t *out, size_t n, sb_error *err)
{
    return sb_step_read(of(it), out, of(it)->tokens, n * sizeof *out, err);
}
static sb_status picked(sb_gpu_step *it, uint32_t *out, size_t n, sb_error *err)
{
    return sb_step_read(of(it), out, of(it)->picked, n * sizeof *out, err);
}
static sb_status logits(sb_gpu_step *it, size_t row, float *out, sb_error *err)
{
    const size_t V = of(it)->model->config.vocab_size;
    return sb_step_read(of(it), out, of(it)->logits + row * V, V * sizeof *out, err);
}

static bool shows(const sb_queued_step *step, size_t row, size_t count)
{
    return row >= step->shown && count <= step->shown_rows &&
           row - step->shown <= step->shown_rows - count;
}

static sb_status logits_of(sb_gpu_step *it, size_t row, size_t count, float *out, sb_error *err)
{
    sb_queued_step *step = of(it);
    const size_t V = step->model->config.vocab_size;
    sb_status status = check(step, 0, err);
    if (!status && (row > step->rows || count > step->rows - row))
        status = sb_fail(err, SB_ERR_USAGE, "row %zu of a call of %zu rows has no logits",
                         row + count - 1, step->rows);
    for (size_t done = 0, n; done < count && !status; done += n) {
        n = count - done < step->slots ? count - done : step->slots;
        if (!shows(step, row + done, n)) {
            status = sb_step_show(step, row + done, n, err);
            step->shown = row + done;
            step->shown_rows = status ? 0 : n;
            step->drafted = false;
        }
        if (!status)
            status =
                sb_step_read(step, out + done * V, step->logits + (row + done - step->shown) * V,
                             n * V * sizeof *out, err);
    }
    return status;
}

static const float *logits_place(const sb_gpu_step *it, size_t row)
{
    const sb_queued_step *step = of(it);
    const size_t V = step->model->config.vocab_size;
    return shows(step, row, 1) ? step->logits + (row - step->shown) * V : nullptr;
}

static const float *draft_place(const sb_gpu_step *it)
{
    return of(it)->drafted ? of(it)->logits : nullptr;
}

static sb_status hidden(sb_gpu_step *it, size_t row, float *out, sb_error *err)
{
    const size_t H = of(it)->model->config.hidden_size;
    return sb_step_read(of(it), out, of(it)->s.hidden + row * H, H * sizeof *out, err);
}
static sb_status state(sb_gpu_step *it, sb_state **out, sb_error *err)
{
    return sb_step_copy_state(of(it), out, err);
}
static sb_status reset(sb_gpu_step *it, sb_error *err)
{
    return sb_step_empty(of(it), err);
}
static sb_status set_state(sb_gpu_step *it, const sb_state *from, sb_error *err)
{
    return sb_step_write_state(of(it), from, err);
}
static int has_mtp(const sb_gpu_step *it)
{
    return of(it)->options.mtp;
}
static void seal(sb_gpu_step *it, int sealed)
{
    of(it)->sealed = sealed != 0;
}

static void eager(sb_gpu_step *it, int on)
{
    of(it)->options.eager = on;
}

/* --- opening and closing ---------------------------------------------------------------------- */
static void close(sb_gpu_step *it)
{
    sb_step_forget_graphs(of(it));
    sb_step_leave(of(it));
    free(it);
}

static sb_status refusal(const sb_model *model, const sb_knobs *knobs, const sb_gpu_step_options *o,
                         sb_error *err)
{
    if (!sb_gpu_computes(SB_OP_linear, knobs))
        return sb_fail(err, SB_ERR_UNSUPPORTED, "no kernel computes under these knobs");
    if (o->slots == 0 || o->slots > SB_STEP_SLOTS || o->rows < o->slots || o->positions < o->rows ||
        o->positions > SB_POSITION_LIMIT)
        return sb_fail(err, SB_ERR_USAGE,
                       "a step with %zu slots, %zu rows and %zu positions is not possible",
                       o->slots, o->rows, o->positions);
    if (o->mtp && !sb_model_has_mtp(model))
        return sb_fail(err, SB_ERR_USAGE, "the checkpoint has no MTP head");
    if (model->config.plain_norms)
        return sb_fail(err, SB_ERR_UNSUPPORTED, "a step has no kernels for models of %s",
                       sb_family_name(model->config.family));
    return SB_OK;
}

#ifdef __CUDACC__
#define BODY_OF sb_device_body
#define CALLS_OF sb_gpu_step_calls_gpu
#else
#define BODY_OF sb_emu_body
#define CALLS_OF sb_gpu_step_calls_emu
#endif

static sb_status open(const sb_backend *backend, const sb_model *model, const sb_knobs *knobs,
                      const sb_gpu_step_options *options, sb_gpu_step **out, sb_error *err)
{
    sb_status status = refusal(model, knobs, options, err);
    *out = nullptr;
    if (status)
        return status;
    sb_queued_step *step = static_cast<sb_queued_step *>(sb_alloc(1, sizeof(sb_queued_step)));
    if (!step)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a step");
    step->base.calls = CALLS_OF(backend);
    step->gpu = BODY_OF(backend);
    step->model = model;
    step->knobs = *knobs;
    step->options = *options;
    step->pool = sb_gpu_pool_new(step->gpu);
    status = step->pool ? sb_step_settle(step, err)
                        : sb_fail(err, SB_ERR_MEMORY, "out of memory for a step");
    if (status) {
        close(&step->base);
        return status;
    }
    *out = &step->base;
    return SB_OK;
}

const sb_gpu_step_calls *CALLS_OF(const sb_backend *backend)
{
    static const sb_gpu_step_calls calls = {
        open,      close,        reset,       feed,      run,     keep,   accept, kept,
        draft,     put,          tokens,      picked,    logits,  hidden, state,  token,
        logits_of, logits_place, draft_place, set_state, has_mtp, seal,   eager};
    return BODY_OF(backend) ? &calls : nullptr;
}
