/* test_gpu_step_fused.cc - a step with fused kernels has the bits of a step op by op: tokens,
 * logits, hidden vectors and states, for all formats and profiles. Prints the number of launches of
 * each. */
#include "tests/gpu/gpu_op.h"

#include <stdio.h>

#include "gpu/emu/count.h"
#include "gpu/op/gpu.h"
#include "gpu/step/step.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/suite.h"

enum { ROWS = 12, SLOTS = 9, POSITIONS = 300 };

/* words: p5 a prompt of 5 tokens, v3 a call of 3 rows (v1: a step), k2 keeps 2 of them, m2 drafts
 * of the head. Only `make check-all` plays the words after a bar. */
struct script {
    const char *preset, *format, *profile, *set, *words;
    unsigned layers;
};

struct side {
    sb_gpu_step *step;
    uint64_t launches; /* of the last word */
};
struct both {
    const sb_model *model;
    sb_knobs knobs;
    side sides[2]; /* op by op, fused */
    uint32_t drawn;
    size_t rows; /* of the last call */
    sb_error err;
};

static void must(both *b, sb_status status)
{
    if (status)
        fail_msg("%s", b->err.text);
}

static void open_both(both *b, const script *s)
{
    sb_make_options make = sb_make_options();
    make.dir = "model";
    make.preset = s->preset;
    make.format = s->format;
    make.layers = s->layers;
    make.group_size = strcmp(s->format, "int8-gptq") == 0 ? 32 : 0;
    make.replace = 1;
    *b = both();
    b->model = test_model_open(test_checkpoint_with("test_gpu_step_fused", &make));
    must(b, sb_knobs_profile(&b->knobs, s->profile, &b->err));
    if (s->set)
        must(b, sb_knobs_set(&b->knobs, s->set, &b->err));
    for (int fused = 0; fused < 2; fused++) {
        const sb_gpu_step_options options = {ROWS, SLOTS, POSITIONS, sb_model_has_mtp(b->model),
                                             0,    fused, 0};
        must(b, sb_gpu_step_open(sb_backend_emu(), b->model, &b->knobs, &options,
                                 &b->sides[fused].step, &b->err));
    }
}

static void close_both(both *b)
{
    for (const side &s : b->sides)
        sb_gpu_step_close(s.step);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(const_cast<sb_model *>(b->model));
}

/* Runs a call on both sides and counts its launches. */
template <class F> static void both_do(both *b, F call)
{
    static sb_emu_counts counts;
    sb_emu *emulator = sb_gpu_emulator(sb_emu_body(sb_backend_emu()));
    for (side &s : b->sides) {
        counts = sb_emu_counts();
        sb_emu_count(emulator, &counts);
        const sb_status status = call(s.step);
        sb_emu_count(emulator, nullptr);
        must(b, status);
        s.launches = sb_emu_counted(&counts, nullptr, nullptr).times;
    }
}

static bool same_vectors(both *b, size_t logits)
{
    const size_t V = b->model->config.vocab_size, H = b->model->config.hidden_size;
    float *x[2] = {test_output(V + H), test_output(V + H)};
    bool same = true;
    for (size_t row = 0; row < b->rows && same; row++) {
        for (int i = 0; i < 2; i++) {
            must(b, sb_gpu_step_hidden(b->sides[i].step, row, x[i], &b->err));
            if (row < logits)
                must(b, sb_gpu_step_logits(b->sides[i].step, row, x[i] + H, &b->err));
        }
        same = same_bits(x[0], x[1], row < logits ? H + V : H);
    }
    return same;
}

static bool same_state(both *b)
{
    sb_digest digest[2], head[2];
    for (int i = 0; i < 2; i++) {
        sb_state *state = nullptr;
        must(b, sb_gpu_step_state(b->sides[i].step, &state, &b->err));
        assert_int_equal(sb_state_digest(state, &digest[i], nullptr), SB_OK);
        head[i] = digest[i];
        if (state->has_mtp)
            assert_int_equal(sb_state_mtp_digest(state, &head[i], nullptr), SB_OK);
        sb_state_free(state);
    }
    return strcmp(digest[0].hex, digest[1].hex) == 0 && strcmp(head[0].hex, head[1].hex) == 0;
}

static bool same_tokens(both *b, size_t n)
{
    uint32_t tokens[2][SLOTS];
    for (int i = 0; i < 2; i++)
        must(b, sb_gpu_step_tokens(b->sides[i].step, tokens[i], n, &b->err));
    return memcmp(tokens[0], tokens[1], n * sizeof **tokens) == 0;
}

static bool feed(both *b, size_t n)
{
    uint32_t ids[ROWS];
    for (size_t i = 0; i < n; i++)
        ids[i] = (b->drawn++ * 7919 + 13) % b->model->config.vocab_size;
    both_do(b, [&](sb_gpu_step *s) { return sb_gpu_step_feed(s, ids, n, &b->err); });
    b->rows = n;
    return same_vectors(b, 1) && same_tokens(b, 1) && same_state(b);
}

static bool call(both *b, size_t n)
{
    uint32_t ids[SLOTS];
    for (size_t i = 0; i < n; i++)
        ids[i] = (b->drawn++ * 31 + 5) % b->model->config.vocab_size;
    both_do(b, [&](sb_gpu_step *s) {
        const sb_status status = n > 1 ? sb_gpu_step_put(s, 0, ids, n - 1, &b->err) : SB_OK;
        return status ? status : sb_gpu_step_run(s, n, &b->err);
    });
    b->rows = n;
    return same_vectors(b, n) && same_tokens(b, 1) && same_state(b);
}

static bool draft(both *b, size_t n)
{
    bool same = true;
    for (size_t i = 0; i < n && same; i++) {
        both_do(b, [&](sb_gpu_step *s) { return sb_gpu_step_draft(s, i, &b->err); });
        same = same_tokens(b, i + 2);
    }
    return same;
}

static bool keep(both *b, size_t n)
{
    both_do(b, [&](sb_gpu_step *s) { return sb_gpu_step_keep(s, n, &b->err); });
    return same_state(b);
}

/* Whether all words had the same bits. Names the first that did not. */
static bool play(both *b, const char *words)
{
    for (const char *at = words; *at; at += strcspn(at, " "), at += *at == ' ') {
        const size_t n = strtoul(at + 1, nullptr, 10);
        if (*at == '|' && !check_all())
            break;
        if (*at == '|')
            continue;
        const bool same = *at == 'p'   ? feed(b, n)
                          : *at == 'v' ? call(b, n)
                          : *at == 'm' ? draft(b, n)
                                       : keep(b, n);
        if (!same) {
            print_message("other bits at \"%s\"\n", at);
            return false;
        }
    }
    return true;
}

/* --- the same bits ---------------------------------------------------------------------------- */
TEST_WITH(test_bits, NULL, test_release)
{
    static const char all[] = "p3 v1 v1 v4 k2 m2 v3 k3 p12 v9 k5 v1";
    static const char few[] = "p3 v1 v4 k2 m2 v3 k3 | v1 p12 v9 k5 v1";
    static const char some[] = "p3 v1 v3 k1 v1";
    const script scripts[] = {
        {"T1", "bf16", "sm121", nullptr, few, 4},
        {"T1", "nvidia-mix", "sm121-w8a8", "kv_cache=fp8", few, 4},
        {"T2", "nvfp4-ct", "sm121-w4a4", nullptr, "p3 v2 k1 v1 | v3 k1 v1", 4},
        {"T2", "mxfp4", "sm121", "kv_cache=fp8", "| p3 v1 v3 k1 v1", 4},
        {"T3", "int4-gptq", "sm121", "mtp_hidden=residual", "p3 v1 m1 v2 k1 v1", 4},
        {"T4", "nvfp4-modelopt", "sm121-w4a4", nullptr, all, 0},
        {"T4", "bf16", "sm121", nullptr, all, 0},
        {"T4", "mxfp4", "sm121", "kv_cache=fp8", some, 0},
        {"T4", "int8-gptq", "sm121", "delta_rule=chunk_fla", "p3 v1 p5 v1", 0},
        {"T5", "fp8-channel", "sm121-w8a8", "l2norm_round=act", some, 4},
        {"T6", "fp8-block", "sm121", "delta_rule=prompt_fla", "p3 v1 | v3 k1 p12 v1",
         check_all() ? 4u : 1u},
        {"T6", "int8-gptq", "sm121", "delta_rule=chunk_fla", "| p3 v1 p5 v1", 4},
    };
    for (const script &s : scripts) {
        both b;
        if (*s.words == '|' && !check_all())
            continue;
        open_both(&b, &s);
        if (!play(&b, s.words))
            fail_msg("%s %s %s", s.preset, s.format, s.profile);
        close_both(&b);
        test_release(nullptr);
    }
}

/* --- how many launches ------------------------------------------------------------------------ */
/* Of 40 layers, which are ten periods of four layers: one with everything else, and nine times the
 * difference between two periods and one. */
static void count_launches(const char *format, const char *profile)
{
    uint64_t count[2][3][2]; /* periods, words, sides */
    for (unsigned periods = 1; periods <= 2; periods++) {
        const script s = {"T1", format, profile, nullptr, "", 4 * periods};
        const char *const words[] = {"p2 v1", "v4", "k4 m1"};
        both b;
        open_both(&b, &s);
        for (int i = 0; i < 3; i++) {
            assert_true(play(&b, words[i]));
            for (int fused = 0; fused < 2; fused++)
                count[periods - 1][i][fused] = b.sides[fused].launches;
        }
        close_both(&b);
        test_release(nullptr);
    }
    const char *const names[] = {"a step", "a verify of 4 rows", "a draft"};
    for (int i = 0; i < 3; i++) {
        uint64_t all[2];
        for (int fused = 0; fused < 2; fused++)
            all[fused] = count[0][i][fused] + 9 * (count[1][i][fused] - count[0][i][fused]);
        print_message("%s %s, 40 layers, %s: %llu launches op by op, %llu fused\n", format, profile,
                      names[i], static_cast<unsigned long long>(all[0]),
                      static_cast<unsigned long long>(all[1]));
        assert_true(all[1] < all[0]);
    }
}

TEST_WITH(test_launches, NULL, test_release)
{
    count_launches("bf16", "sm121");
    if (check_all())
        count_launches("nvidia-mix", "sm121-w8a8");
}

TEST_FIXTURE(setup)
{
    sb_backend_emu_history(0);
    return 0;
}

/* With the search for races. */
TEST_WITH(test_history, NULL, test_release)
{
    const script s = {"T4", "bf16", "sm121", nullptr, "p3 v1 v3 k1 v1", 0};
    sb_backend_emu_history(1);
    for (uint64_t seed = 1; seed <= 2; seed++) {
        both b;
        sb_backend_emu_seed(seed);
        open_both(&b, &s);
        assert_true(play(&b, s.words));
        close_both(&b);
        test_release(nullptr);
    }
    sb_backend_emu_seed(0);
    sb_backend_emu_history(0);
}

TEST_GROUP(setup, NULL)
