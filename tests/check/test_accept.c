/* test_accept.c - acceptance along a text: counts, intervals, rounds, and the faults in the files
 * of a head that it must show (docs/accept.md has the table). */
#include "tests/lib/cmocka.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "tests/lib/checkpoint.h"
#include "tools/accept/head.h"

enum { POSITIONS = 96 };

static const char *healthy_folder;
static sb_accept healthy;
static sb_accept_text *texts;
static size_t text_count;

/* The recipe `predictable` with one layer: the trunk is quick, the head is whole. */
static const sb_make_options vehicle = {
    .dir = "healthy", .preset = "T1", .recipe = "predictable", .layers = 1};

static void measure(const char *folder, const sb_accept_text *of, size_t count, size_t drafts,
                    sb_accept *out)
{
    sb_error err;
    sb_model *model = test_model_open(folder);
    sb_accept_options options = {.drafts = drafts};
    if (sb_accept_measure(model, of, count, &options, out, &err))
        fail_msg("%s: %s", folder, err.text);
    sb_model_close(model);
}

static void write_texts(const char *folder, uint64_t positions, sb_accept_text **out, size_t *count)
{
    sb_error err;
    sb_model *model = test_model_open(folder);
    if (sb_head_texts(model, positions, out, count, &err))
        fail_msg("%s", err.text);
    sb_model_close(model);
}

static int setup(void **state)
{
    (void)state;
    healthy_folder = test_checkpoint_with("test_accept", &vehicle);
    write_texts(healthy_folder, POSITIONS, &texts, &text_count);
    measure(healthy_folder, texts, text_count, 1, &healthy);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sb_accept_free(&healthy);
    sb_head_texts_free(texts, text_count);
    return 0;
}

/* --- faults -------------------------------------------------------------------------------------
 */

static float *values_of(const test_folder *f, const char *name, size_t *n)
{
    const test_tensor *t = test_folder_find(f, name);
    *n = (size_t)t->size / 2;
    float *x = malloc(*n * sizeof *x);
    assert_non_null(x);
    assert_int_equal(t->dtype, SB_DTYPE_BF16);
    for (size_t i = 0; i < *n; i++)
        x[i] = sb_f32_from_bits((uint32_t)sb_load_u16(t->bytes + 2 * i) << 16);
    return x;
}

static void store(const test_folder *f, const char *name, float *x)
{
    const test_tensor *t = test_folder_find(f, name);
    for (size_t i = 0; i < t->size / 2; i++) {
        uint32_t u = sb_bits_f32(x[i]);
        u += 0x7fff + (u >> 16 & 1);
        sb_store_u16(t->bytes + 2 * i, (uint16_t)(u >> 16));
    }
    free(x);
}

/* Every value x of a tensor becomes times x + plus. */
static void change(const test_folder *f, const char *name, float times, float plus)
{
    size_t n;
    float *x = values_of(f, name, &n);
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] * times + plus;
    store(f, name, x);
}

static void swap(const test_folder *f, const char *first, const char *second)
{
    test_tensor *a = test_folder_find(f, first), *b = test_folder_find(f, second);
    unsigned char *bytes = a->bytes;
    assert_int_equal(a->size, b->size);
    a->bytes = b->bytes;
    b->bytes = bytes;
}

/* Parts of a tensor in another order: part i comes from part (i + by) mod parts. */
static void rotate(const test_folder *f, const char *name, size_t parts, size_t by)
{
    test_tensor *t = test_folder_find(f, name);
    size_t each = (size_t)t->size / parts;
    unsigned char *bytes = malloc((size_t)t->size);
    assert_non_null(bytes);
    for (size_t i = 0; i < parts; i++)
        memcpy(bytes + i * each, t->bytes + (i + by) % parts * each, each);
    free(t->bytes);
    t->bytes = bytes;
}

#define L "mtp.layers.0."
static const char *const matrices[] = {"mtp.fc.weight",
                                       L "self_attn.q_proj.weight",
                                       L "self_attn.k_proj.weight",
                                       L "self_attn.v_proj.weight",
                                       L "self_attn.o_proj.weight",
                                       L "mlp.gate.weight",
                                       L "mlp.shared_expert_gate.weight",
                                       L "mlp.shared_expert.gate_proj.weight",
                                       L "mlp.shared_expert.up_proj.weight",
                                       L "mlp.shared_expert.down_proj.weight",
                                       L "mlp.experts.gate_up_proj",
                                       L "mlp.experts.down_proj"};
static const char *const norms[] = {
    "mtp.norm.weight",
    "mtp.pre_fc_norm_embedding.weight",
    "mtp.pre_fc_norm_hidden.weight",
    L "input_layernorm.weight",
    L "post_attention_layernorm.weight",
    L "self_attn.q_norm.weight",
    L "self_attn.k_norm.weight",
};
enum { MATRICES = sizeof matrices / sizeof *matrices, NORMS = sizeof norms / sizeof *norms };

static void keep(const test_folder *f)
{
    (void)f;
}

/* The columns of mtp.fc are two halves: embedding, hidden. */
static void halves(const test_folder *f, int from_embedding, int from_hidden)
{
    size_t n, H = 128;
    float *x = values_of(f, "mtp.fc.weight", &n), *y = calloc(n, sizeof *y);
    assert_non_null(y);
    for (size_t row = 0; row < n / (2 * H); row++)
        for (size_t i = 0; i < H; i++) {
            size_t e = row * 2 * H + i;
            if (from_embedding >= 0)
                y[e] = x[e + (from_embedding ? H : 0)];
            if (from_hidden >= 0)
                y[e + H] = x[e + (from_hidden ? H : 0)];
        }
    free(x);
    store(f, "mtp.fc.weight", y);
}
static void fc_swapped(const test_folder *f)
{
    halves(f, 1, 0);
}
static void fc_no_hidden(const test_folder *f)
{
    halves(f, 0, -1);
}
static void fc_no_embedding(const test_folder *f)
{
    halves(f, -1, 1);
}
static void fc_hidden_twice(const test_folder *f)
{
    halves(f, 1, 1);
}
static void norms_shifted(const test_folder *f)
{
    for (size_t i = 0; i < NORMS; i++)
        change(f, norms[i], 1, 1);
}
static void norms_unshifted(const test_folder *f)
{
    for (size_t i = 0; i < NORMS; i++)
        change(f, norms[i], 1, -1);
}
static void final_norm_shifted(const test_folder *f)
{
    change(f, norms[0], 1, 1);
}
static void hidden_norm_shifted(const test_folder *f)
{
    change(f, norms[2], 1, 1);
}
static void final_norm_zero(const test_folder *f)
{
    change(f, norms[0], 0, 0);
}
static void final_norm_dead(const test_folder *f)
{
    change(f, norms[0], 0, -1);
}
static void pre_norms_swapped(const test_folder *f)
{
    swap(f, norms[1], norms[2]);
}
static void q_zero(const test_folder *f)
{
    change(f, matrices[1], 0, 0);
}
static void k_v_swapped(const test_folder *f)
{
    swap(f, matrices[2], matrices[3]);
}
static void v_zero(const test_folder *f)
{
    change(f, matrices[3], 0, 0);
}
static void o_zero(const test_folder *f)
{
    change(f, matrices[4], 0, 0);
}
static void shared_zero(const test_folder *f)
{
    change(f, matrices[9], 0, 0);
}
static void experts_rotated(const test_folder *f)
{
    rotate(f, matrices[10], 16, 1);
    rotate(f, matrices[11], 16, 1);
}
static void down_rotated(const test_folder *f)
{
    rotate(f, matrices[11], 16, 1);
}
static void gate_up_swapped(const test_folder *f)
{
    rotate(f, matrices[10], 32, 1);
}
static void experts_zero(const test_folder *f)
{
    change(f, matrices[11], 0, 0);
}
static void down_sign(const test_folder *f)
{
    change(f, matrices[11], -1, 0);
}

/* Sixteen levels per row, the coarsest that anybody calls four bits. */
static void four_bits(const test_folder *f)
{
    for (size_t m = 0; m < MATRICES; m++) {
        const test_tensor *t = test_folder_find(f, matrices[m]);
        size_t n, cols = (size_t)t->shape[t->rank - 1];
        float *x = values_of(f, matrices[m], &n);
        for (size_t row = 0; row < n; row += cols) {
            float most = 0;
            for (size_t i = 0; i < cols; i++)
                most = fmaxf(most, fabsf(x[row + i]));
            for (size_t i = 0; i < cols && most > 0; i++)
                x[row + i] = rintf(x[row + i] / most * 7) * (most / 7);
        }
        store(f, matrices[m], x);
    }
}

/* What an initialization leaves: normal numbers of deviation 0.02, and norms of 0. */
static void drawn_anew(const test_folder *f)
{
    for (size_t m = 0; m < MATRICES; m++) {
        size_t n;
        uint64_t key = sb_rng_key(1, matrices[m]);
        float *x = values_of(f, matrices[m], &n);
        for (size_t i = 0; i < n; i++)
            x[i] = 0.02f * sb_rng_normal(key, i);
        store(f, matrices[m], x);
    }
    for (size_t i = 0; i < NORMS; i++)
        change(f, norms[i], 0, 0);
}

static void other_seed(const test_folder *f)
{
    sb_make_options options = vehicle;
    options.dir = "other";
    options.seed = 43;
    test_folder other = test_folder_load(test_checkpoint_with("test_accept", &options));
    for (size_t i = 0; i < f->count; i++)
        if (strncmp(f->tensors[i].name, "mtp.", 4) == 0)
            memcpy(f->tensors[i].bytes, test_folder_find(&other, f->tensors[i].name)->bytes,
                   (size_t)f->tensors[i].size);
    test_folder_free(&other);
}

/* What a fault must change. */
typedef enum effect {
    NOTHING,
    IDS, /* drafts, and acceptance stays within the interval of the healthy head */
    RATE /* acceptance leaves it */
} effect;

static const struct {
    const char *name;
    void (*plant)(const test_folder *f);
    effect effect;
} faults[] = {
    {"none", keep, NOTHING},
    {"halves of mtp.fc swapped", fc_swapped, RATE},
    {"hidden half of mtp.fc zero", fc_no_hidden, RATE},
    {"embedding half of mtp.fc zero", fc_no_embedding, RATE},
    {"hidden half of mtp.fc twice", fc_hidden_twice, RATE},
    {"all norms one too large", norms_shifted, RATE},
    {"all norms one too small", norms_unshifted, RATE},
    {"mtp.norm one too large", final_norm_shifted, IDS},
    {"pre_fc_norm_hidden one too large", hidden_norm_shifted, IDS},
    {"mtp.norm zero", final_norm_zero, IDS},
    {"mtp.norm -1", final_norm_dead, RATE},
    {"pre_fc norms swapped", pre_norms_swapped, IDS},
    {"q_proj zero", q_zero, IDS},
    {"k_proj and v_proj swapped", k_v_swapped, IDS},
    {"v_proj zero", v_zero, IDS},
    {"o_proj zero", o_zero, IDS},
    {"shared expert zero", shared_zero, IDS},
    {"experts rotated", experts_rotated, IDS},
    {"down_proj of experts rotated", down_rotated, IDS},
    {"gate and up swapped", gate_up_swapped, IDS},
    {"experts zero", experts_zero, IDS},
    {"down_proj of experts negative", down_sign, IDS},
    {"four bits per weight", four_bits, IDS},
    {"drawn anew", drawn_anew, RATE},
    {"head of another seed", other_seed, IDS},
};

static size_t drafts_changed(const sb_accept *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->count; i++)
        n += a->rows[i].drafts[0] != healthy.rows[i].drafts[0];
    return n;
}

static void every_fault_moves_drafts_or_acceptance(void **state)
{
    static const char *const words[] = {"nothing", "drafts", "acceptance"};
    const sb_accept_depth *h = &healthy.depth[0];
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        sb_accept a;
        test_folder f = test_folder_load(healthy_folder);
        faults[i].plant(&f);
        measure(test_folder_save(&f, "test_accept", "faulty"), texts, text_count, 1, &a);
        const sb_accept_depth *d = &a.depth[0];
        size_t changed = drafts_changed(&a);
        effect seen = d->interval.rate < h->interval.low || d->interval.rate > h->interval.high
                          ? RATE
                      : changed ? IDS
                                : NOTHING;
        if (getenv("SAMEBIT_TABLE")) /* the table of docs/accept.md */
            printf("| %s | %zu | %llu | %.3f | %s |\n", faults[i].name, changed,
                   (unsigned long long)d->rate.accepted, d->interval.rate, words[seen]);
        if (seen != faults[i].effect) {
            print_error("%s: changed %s, expected %s\n", faults[i].name, words[seen],
                        words[faults[i].effect]);
            wrong = 1;
        }
        sb_accept_free(&a);
        test_folder_free(&f);
    }
    assert_false(wrong);
}

/* --- counts -------------------------------------------------------------------------------------
 */

/* E-1, position by position and in another way: a session of its own for each. */
static void rows_are_those_of_rounds(void **state)
{
    enum { K = 3, COUNT = 14 };
    const sb_accept_text text = {texts[0].ids, COUNT, 0};
    sb_accept a;
    sb_error err;
    float *logits = malloc(384 * sizeof *logits);
    (void)state;
    assert_non_null(logits);
    measure(healthy_folder, &text, 1, K, &a);
    assert_int_equal(a.count, COUNT - 1);
    sb_model *model = test_model_open(healthy_folder);
    for (size_t i = 0; i < a.count; i++) {
        const sb_accept_row *r = &a.rows[i];
        sb_session *session = NULL;
        uint32_t token = text.ids[i + 1];
        size_t accepted = 0;
        assert_int_equal(r->position, i + 1);
        assert_int_equal(r->token, token);
        assert_int_equal(sb_session_new(model, &(sb_session_options){.mtp = 1}, &session, &err), 0);
        assert_int_equal(sb_session_feed(session, text.ids, i + 1, &err), 0);
        for (size_t j = 0; j < K; j++) {
            assert_int_equal(sb_session_draft(session, token, logits, &err), 0);
            token = sb_greedy(logits, 384);
            assert_int_equal(r->drafts[j], token);
        }
        for (size_t j = 0; j <= K; j++) {
            token = j ? r->drafts[j - 1] : text.ids[i + 1];
            assert_int_equal(sb_session_feed(session, &token, 1, &err), 0);
            assert_int_equal(sb_session_logits(session, 0, logits, &err), 0);
            assert_int_equal(r->target[j], sb_greedy(logits, 384));
            float best = logits[r->target[j]];
            logits[r->target[j]] = -INFINITY;
            assert_true(r->margin[j] == best - logits[sb_greedy(logits, 384)]);
        }
        while (accepted < K && r->drafts[accepted] == r->target[accepted])
            accepted++;
        assert_int_equal(r->accepted, accepted);
        sb_session_free(session);
    }
    sb_model_close(model);
    sb_accept_free(&a);
    free(logits);
}

/* E-2: sums by depth, of several texts. */
static void depths_are_counted(void **state)
{
    sb_accept a;
    uint64_t by_hand[3] = {0}, sum = 0;
    (void)state;
    measure(healthy_folder, texts, text_count, 3, &a);
    assert_int_equal(a.count, POSITIONS);
    assert_int_equal(a.texts, text_count);
    assert_int_equal(a.chosen, POSITIONS);
    for (size_t i = 0; i < a.count; i++)
        for (size_t j = 0; j < a.rows[i].accepted; j++)
            by_hand[j]++;
    for (size_t j = 0; j < 3; j++) {
        assert_int_equal(a.depth[j].rate.accepted, by_hand[j]);
        assert_int_equal(a.depth[j].rate.of, POSITIONS);
        assert_int_equal(a.depth[j].reached, j ? by_hand[j - 1] : POSITIONS);
        sum += by_hand[j];
    }
    assert_int_equal(a.accepted, sum);
    assert_int_equal(a.depth[0].rate.accepted, healthy.depth[0].rate.accepted);
    /* a text knows nothing of the one before it */
    sb_accept alone;
    measure(healthy_folder, &texts[1], 1, 3, &alone);
    for (size_t i = 0; i < alone.count; i++) {
        assert_int_equal(alone.rows[i].position, a.rows[a.ends[0] + i].position);
        assert_memory_equal(alone.rows[i].margin, a.rows[a.ends[0] + i].margin,
                            sizeof alone.rows[i].margin);
    }
    sb_accept_free(&alone);
    sb_accept_free(&a);
}

/* E-6: what rounds along the text would count is what rounds do count. */
static void chain_is_what_an_engine_counts(void **state)
{
    enum { K = 3 };
    sb_accept a;
    sb_error err;
    sb_session *session = NULL;
    sb_rounds *rounds = NULL;
    uint64_t count = 0, accepted = 0;
    size_t first = 0; /* where the second round begins */
    (void)state;
    assert_true(text_count > 1); /* E-14: "random prompts", each another */
    assert_memory_not_equal(texts[0].ids, texts[1].ids, 4 * sizeof *texts[0].ids);
    measure(healthy_folder, texts, 1, K, &a);
    sb_model *model = test_model_open(healthy_folder);
    assert_int_equal(sb_session_new(model, &(sb_session_options){.mtp = 1}, &session, &err), 0);
    assert_int_equal(sb_rounds_new(session, NULL, &rounds, &err), 0);
    assert_int_equal(sb_session_feed(session, texts[0].ids, 4, &err), 0);
    for (size_t at = 4;;) {
        sb_round round;
        assert_int_equal(
            sb_rounds_next(rounds,
                           &(sb_round_ask){.token = texts[0].ids[at], .drafts = K, .forced = -1},
                           &round, &err),
            0);
        at += round.emitted;
        first = first ? first : at;
        if (at >= texts[0].count)
            break;
        count++;
        accepted += round.accepted;
    }
    assert_int_equal(a.chain.texts, 1);
    assert_int_equal(a.chain.from, 4);
    assert_int_equal(a.chain.rounds, count);
    assert_int_equal(a.chain.drafted, count * K);
    assert_int_equal(a.chain.accepted, accepted);
    sb_accept_free(&a);
    /* E-6: "the last round that ends within the text": the first one alone, and cut by a token */
    for (size_t more = 0; more < 2; more++) {
        measure(healthy_folder, &(sb_accept_text){texts[0].ids, first + more, 4}, 1, K, &a);
        assert_int_equal(a.chain.rounds, more);
        sb_accept_free(&a);
    }
    /* a token that the target would not choose: rounds only behind it */
    uint32_t ids[40];
    memcpy(ids, texts[0].ids, sizeof ids);
    ids[20] = ids[20] ? 0 : 1;
    measure(healthy_folder, &(sb_accept_text){ids, 21, 4}, 1, K, &a);
    assert_int_equal(a.chain.rounds, 0);
    sb_accept_free(&a);
    sb_rounds_free(rounds);
    sb_session_free(session);
    sb_model_close(model);
}

/* Presets at their full depth: what recipe `predictable` promises. */
static void predictable_lies_between(void **state)
{
    static const char *const presets[] = {"T1", "T2", "T3", "T4", "T5", "T6"};
    (void)state;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        sb_accept a;
        sb_accept_text *own;
        size_t count;
        const char *folder =
            test_checkpoint("test_accept", presets[i], "predictable", "bf16", "text");
        write_texts(folder, 32, &own, &count);
        measure(folder, own, count, 1, &a);
        double rate = a.depth[0].interval.rate;
        if (getenv("SAMEBIT_TABLE"))
            printf("%s %.3f\n", presets[i], rate);
        if (!(rate >= 0.5 && rate <= 0.9))
            fail_msg("%s: acceptance %.3f", presets[i], rate);
        sb_accept_free(&a);
        sb_head_texts_free(own, count);
    }
}

static void refusals(void **state)
{
    sb_accept a;
    sb_error err;
    uint32_t id = 5, bad[2] = {5, 4000};
    sb_model *model = test_model_open(healthy_folder);
    sb_accept_options options = {.drafts = 1};
    (void)state;
    assert_int_equal(sb_accept_measure(model, &(sb_accept_text){&id, 1, 0}, 1, &options, &a, &err),
                     SB_ERR_INPUT);
    sb_accept_free(&a);
    assert_int_equal(sb_accept_measure(model, &(sb_accept_text){bad, 2, 0}, 1, &options, &a, &err),
                     SB_ERR_INPUT);
    sb_accept_free(&a);
    options.drafts = 9;
    assert_int_equal(sb_accept_measure(model, texts, 1, &options, &a, &err), SB_ERR_USAGE);
    sb_accept_free(&a);
    sb_model_close(model);
    sb_make_options headless = vehicle;
    headless.dir = "headless";
    headless.no_mtp = 1;
    model = test_model_open(test_checkpoint_with("test_accept", &headless));
    options.drafts = 1;
    assert_int_equal(sb_accept_measure(model, texts, 1, &options, &a, &err), SB_ERR_USAGE);
    sb_accept_free(&a);
    sb_model_close(model);
}

/* --- the table of head and trunk ----------------------------------------------------------------
 */

static sb_head_run run_head(const char *path, const char *original)
{
    sb_head_run run;
    sb_error err;
    sb_head_options options = {.path = path, .original = original, .positions = POSITIONS};
    if (sb_head_measure(&options, &run, &err))
        fail_msg("%s", err.text);
    return run;
}

static const char *planted(void (*plant)(const test_folder *f), const char *name)
{
    test_folder f = test_folder_load(healthy_folder);
    plant(&f);
    const char *path = test_folder_save(&f, "test_accept", name);
    test_folder_free(&f);
    return path;
}

static void trunk_damaged(const test_folder *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (strstr(f->tensors[i].name, "layers.0.linear_attn.out_proj"))
            change(f, f->tensors[i].name, 60, 0);
}

static void a_weak_head_is_told_from_a_bad_trunk(void **state)
{
    (void)state;
    sb_head_run r = run_head(healthy_folder, NULL);
    assert_int_equal(r.verdict, SB_HEAD_UNKNOWN);
    assert_non_null(strstr(r.why, "--against"));
    assert_false(r.failed);
    r = run_head(healthy_folder, healthy_folder);
    assert_int_equal(r.verdict, SB_HEAD_OK);
    for (int c = 0; c < 4; c++)
        assert_int_equal(r.cell[c & 1][c >> 1].accepted, healthy.depth[0].rate.accepted);

    const char *weak = planted(fc_no_hidden, "weak");
    r = run_head(weak, healthy_folder);
    assert_int_equal(r.verdict, SB_HEAD_WEAK);
    assert_false(r.trunk_bad);
    assert_true(r.cell[0][0].accepted < r.cell[1][0].accepted);
    assert_int_equal(r.cell[0][0].accepted, r.cell[0][1].accepted);
    assert_int_equal(r.cell[1][0].accepted, r.cell[1][1].accepted);
    assert_int_equal(run_head(weak, NULL).verdict, SB_HEAD_UNKNOWN);
    assert_int_equal(run_head(planted(fc_swapped, "swapped"), NULL).verdict, SB_HEAD_WEAK);
    assert_int_equal(run_head(planted(drawn_anew, "drawn"), NULL).verdict, SB_HEAD_WEAK);

    r = run_head(planted(trunk_damaged, "trunk"), healthy_folder);
    assert_int_equal(r.verdict, SB_HEAD_OK);
    assert_true(r.trunk_bad);
    assert_true(r.cell[1][0].rate < r.cell[1][1].low);

    assert_int_equal(run_head(planted(four_bits, "four"), healthy_folder).verdict, SB_HEAD_OK);
    r = run_head(test_path("test_accept", "no-such"), NULL);
    assert_int_equal(r.verdict, SB_HEAD_UNKNOWN);
    assert_true(r.failed);
    r = run_head(healthy_folder, test_path("test_accept", "no-such"));
    assert_int_equal(r.verdict, SB_HEAD_UNKNOWN);
    assert_false(r.failed);
    assert_non_null(strstr(r.why, "no-such"));
}

static sb_head_run cells(uint64_t common, uint64_t own, uint64_t other, uint64_t there,
                         uint64_t best)
{
    const uint64_t accepted[SB_HEAD_SIDES][SB_HEAD_SIDES] = {{own, there}, {other, best}};
    sb_head_run run = {.verdict = SB_HEAD_UNKNOWN, .common = common};
    for (int h = 0; h < SB_HEAD_SIDES; h++)
        for (int t = 0; t < SB_HEAD_SIDES; t++) {
            sb_rate rate = {accepted[h][t], 200, 1};
            sb_interval i = sb_rate_interval(&rate, SB_Z_SHOWN);
            run.cell[h][t] =
                (sb_head_cell){accepted[h][t] <= 200, accepted[h][t], 200, i.rate, i.low, i.high};
        }
    sb_head_judge(&run);
    return run;
}

static void judgement(void **state)
{
    enum { NOT = 999 };
    (void)state;
    assert_int_equal(cells(3, 140, 141, 140, 141).verdict, SB_HEAD_OK);
    assert_int_equal(cells(3, 120, 141, 121, 141).verdict, SB_HEAD_WEAK);
    assert_int_equal(cells(3, 120, 141, 141, 141).verdict, SB_HEAD_WEAK);
    assert_int_equal(cells(3, 120, 141, NOT, NOT).verdict, SB_HEAD_WEAK);
    assert_int_equal(cells(3, 60, 60, 90, 141).verdict, SB_HEAD_WEAK); /* on the better trunk */
    assert_true(cells(3, 60, 60, 90, 141).trunk_bad);
    assert_int_equal(cells(3, 60, 60, 141, 141).verdict, SB_HEAD_OK);
    assert_true(cells(3, 60, 60, 141, 141).trunk_bad);
    assert_int_equal(cells(3, 2, 2, 2, 2).verdict, SB_HEAD_UNKNOWN); /* a text that tells nothing */
    assert_int_equal(cells(3, 2, NOT, NOT, NOT).verdict, SB_HEAD_WEAK);
    assert_int_equal(cells(3, 30, NOT, NOT, NOT).verdict, SB_HEAD_UNKNOWN);
    assert_int_equal(cells(40, 40, NOT, NOT, NOT).verdict, SB_HEAD_WEAK); /* as good as it */
    /* above, though not surely: a sound head on a hard text is like that */
    assert_int_equal(cells(40, 41, NOT, NOT, NOT).verdict, SB_HEAD_UNKNOWN);
    assert_non_null(strstr(cells(40, 48, NOT, NOT, NOT).why, "not surely"));
    assert_int_equal(cells(51, 51, NOT, NOT, NOT).verdict, SB_HEAD_UNKNOWN);
    assert_int_equal(cells(3, 140, 141, NOT, NOT).verdict, SB_HEAD_OK);
}

/* How often E-15 calls one of two heads weak that are equally good and err independently. */
static size_t weak_by_chance(uint64_t of, float rate, size_t runs)
{
    size_t weak = 0;
    uint64_t key = sb_rng_key(of, "two heads"), at = 0;
    for (size_t i = 0; i < runs; i++) {
        sb_head_run run = {.verdict = SB_HEAD_UNKNOWN, .common = 1};
        for (int head = 0; head < SB_HEAD_SIDES; head++) {
            sb_rate r = {0, of, 1};
            for (uint64_t k = 0; k < of; k++)
                r.accepted += sb_rng_uniform(key, at++) < rate;
            sb_interval in = sb_rate_interval(&r, SB_Z_SHOWN);
            run.cell[head][SB_HEAD_OWN] =
                (sb_head_cell){1, r.accepted, of, in.rate, in.low, in.high};
        }
        sb_head_judge(&run);
        weak += run.verdict == SB_HEAD_WEAK;
    }
    return weak;
}

/* What docs/accept.md says of it. */
static void equal_heads(void **state)
{
    static const float rates[] = {0.5f, 0.7f, 0.9f};
    enum { RUNS = 4000 };
    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        for (uint64_t of = 64; of <= 256; of *= 4) {
            size_t weak = weak_by_chance(of, rates[i], RUNS);
            if (getenv("SAMEBIT_TABLE"))
                printf("%d %.1f: %zu of %d weak\n", (int)of, (double)rates[i], weak, RUNS);
            if (weak < RUNS / 25 || weak > RUNS / 10)
                fail_msg("%d positions, rate %.1f: %zu of %d weak", (int)of, (double)rates[i], weak,
                         RUNS);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_rounds),
        cmocka_unit_test(depths_are_counted),
        cmocka_unit_test(chain_is_what_an_engine_counts),
        cmocka_unit_test(refusals),
        cmocka_unit_test(every_fault_moves_drafts_or_acceptance),
        cmocka_unit_test(a_weak_head_is_told_from_a_bad_trunk),
        cmocka_unit_test(judgement),
        cmocka_unit_test(equal_heads),
        cmocka_unit_test(predictable_lies_between),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
