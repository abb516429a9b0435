/* test_yarn.c - R-24: what a configuration with the rotation "yarn" gives, against the values of
 * transformers (tools/gen/hf_yarn.py) and against the formula in binary64. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/safetensors.h"
#include "ref/fast/fast.h"
#include "ref/model/config.h"
#include "ref/ops/rope.h"
#include "tools/judge/sim/sim.h"

enum { POSITIONS = 5, MOST = 128 };

static sb_safetensors file;

TEST_FIXTURE(open_values)
{
    const char *folder = getenv("SAMEBIT_HF");
    char path[512];
    sb_error err = {""};
    snprintf(path, sizeof path, "%s/yarn.safetensors", folder ? folder : "golden/hf");
    if (sb_safetensors_open(path, &file, &err)) {
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
}

TEST_FIXTURE(close_values)
{
    sb_safetensors_close(&file);
    return 0;
}

/* The bytes of a tensor of one case, or NULL. */
static const unsigned char *values(size_t number, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%zu.%s", number, what);
    for (size_t i = 0; i < file.count; i++)
        if (strcmp(file.tensors[i].name, name) == 0)
            return file.tensors[i].data;
    return NULL;
}

static float value(const unsigned char *at, size_t i)
{
    return sb_f32_from_bits(sb_load_u32(at + 4 * i));
}

/* theta, head_dim, factor, original_max_position_embeddings, attention_factor or 0 */
static sb_config read_case(const unsigned char *of)
{
    char text[1024], attention[64] = "";
    sb_config c;
    sb_error err = {""};
    if (value(of, 4) > 0)
        snprintf(attention, sizeof attention, ",\"attention_factor\":%.9g", (double)value(of, 4));
    snprintf(text, sizeof text,
             "{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\",\"head_dim\":%g,"
             "\"hidden_size\":256,\"intermediate_size\":256,\"num_hidden_layers\":1,"
             "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"vocab_size\":256,"
             "\"rms_norm_eps\":1e-6,\"tie_word_embeddings\":true,\"rope_theta\":%.9g,"
             "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":%.9g,"
             "\"original_max_position_embeddings\":%.0f%s}}",
             (double)value(of, 1), (double)value(of, 0), (double)value(of, 2), (double)value(of, 3),
             attention);
    if (sb_config_parse(text, strlen(text), "config.json", &c, &err))
        fail_msg("%s", err.text);
    return c;
}

static sb_rope_args rotation(const sb_config *c)
{
    return (sb_rope_args){.heads = 1,
                          .hd = c->head_dim,
                          .rd = c->rotary_dim,
                          .theta = c->rope_theta,
                          .yarn_factor = c->yarn.factor,
                          .yarn_attention = c->yarn.attention,
                          .yarn_low = c->yarn.low,
                          .yarn_high = c->yarn.high};
}

/* K-8 torch, and m. torch's power is not always the correctly rounded one (T-10): with theta 10^6
 * and 128 dimensions that of f = 37 is the number beside it, also without yarn (case 6). So one
 * frequency of a case may be one or, after the product and the sum, two numbers from the right one.
 */
TEST(test_frequencies_of_transformers)
{
    size_t number = 0, moved = 0;
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, "hf", NULL), SB_OK);
    for (; values(number, "case"); number++) {
        const sb_config c = read_case(values(number, "case"));
        const unsigned char *want = values(number, "inv_freq");
        sb_rope_args a = rotation(&c), plain = a;
        plain.yarn_factor = 0;
        assert_int_equal(sb_bits_f32(c.yarn.attention), sb_load_u32(values(number, "attention")));
        size_t beside = 0;
        for (size_t f = 0; f < a.rd / 2; f++) {
            float got = sb_rope_frequency(&knobs, &a, f);
            int32_t units = (int32_t)(sb_bits_f32(got) - sb_load_u32(want + 4 * f));
            beside += units != 0;
            if (units < -2 || units > 2 || beside > 1)
                fail_msg("case %zu: frequency %zu is %.9g, recorded %.9g", number, f, (double)got,
                         (double)value(want, f));
            moved += sb_bits_f32(got) != sb_bits_f32(sb_rope_frequency(&knobs, &plain, f));
        }
    }
    assert_int_equal(number, 7);
    assert_true(moved > 100);
}

/* A pair (1, 0) becomes (cos, sin). */
TEST(test_table_of_transformers)
{
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, "hf", NULL), SB_OK);
    assert_int_equal(sb_knobs_set(&knobs, "act=f32", NULL), SB_OK);
    static const uint32_t position[POSITIONS] = {0, 1, 77, 32767, 131071};
    for (size_t number = 0; values(number, "case"); number++) {
        const sb_config c = read_case(values(number, "case"));
        float x[POSITIONS * MOST] = {0};
        sb_rope_args a = rotation(&c);
        size_t half = a.rd / 2;
        a.x = x;
        a.rows = POSITIONS;
        a.position[0] = a.position[1] = a.position[2] = position;
        for (size_t t = 0; t < POSITIONS; t++)
            for (size_t f = 0; f < half; f++)
                x[t * a.hd + f] = 1.0f;
        assert_int_equal(sb_rope_ref(&knobs, &a), SB_OK);
        for (size_t i = 0; i < POSITIONS * half; i++) {
            const float *row = x + i / half * a.hd;
            double cosine = fabs((double)row[i % half] - (double)value(values(number, "cos"), i));
            double sine =
                fabs((double)row[half + i % half] - (double)value(values(number, "sin"), i));
            /* torch's sine and cosine err by a unit in the last place; m is at most 1.5 here. A
             * frequency beside the right one turns further with each position. */
            double most = 0x1p-22;
            if (sb_bits_f32(sb_rope_frequency(&knobs, &a, i % half)) !=
                sb_load_u32(values(number, "inv_freq") + 4 * (i % half)))
                most += 0x1p-22 * (double)position[i / half] *
                        (double)value(values(number, "inv_freq"), i % half);
            if (!(cosine <= most && sine <= most))
                fail_msg("case %zu, position %u, frequency %zu: cos differs by %g, sin by %g",
                         number, (unsigned)position[i / half], i % half, cosine, sine);
        }
    }
}

/* Profile exact: the real number of the formula, within the roundings that R-24 writes. */
TEST(test_formula)
{
    sb_knobs knobs;
    sb_knobs_exact(&knobs);
    for (size_t number = 0; values(number, "case"); number++) {
        const sb_config c = read_case(values(number, "case"));
        sb_rope_args a = rotation(&c);
        for (size_t f = 0; f < a.rd / 2; f++) {
            double low = (double)a.yarn_low, high = (double)a.yarn_high;
            double v = fmin(fmax(((double)f - low) / fmax(high - low, 0.001), 0.0), 1.0);
            double e = pow(a.theta, -2.0 * (double)f / (double)a.rd);
            double want = e / (double)a.yarn_factor * v + e * (1.0 - v);
            double got = (double)sb_rope_frequency(&knobs, &a, f);
            /* v has a rounding, so that its distance from 1 errs by as much */
            if (!(fabs(got - want) <= 4.0 * 0x1p-24 * want + 0x1p-24 * e))
                fail_msg("case %zu: frequency %zu is %.9g, expected %.9g", number, f, got, want);
        }
    }
}

/* The definition, its fast twin (the same bits), and an engine that was written apart. */
TEST(test_twin_and_engine)
{
    static const char *const profiles[] = {"exact", "hf", "llamacpp"};
    static const uint32_t position[POSITIONS] = {0, 1, 77, 5000, 131071};
    const sb_sim *sim = NULL;
    assert_int_equal(sb_sim_find("sequential", &sim, NULL), SB_OK);
    for (size_t p = 0; p < 3; p++)
        for (size_t number = 0; values(number, "case"); number++) {
            const sb_config c = read_case(values(number, "case"));
            float x[3][POSITIONS * MOST];
            sb_rope_args a = rotation(&c);
            sb_knobs knobs;
            assert_int_equal(sb_knobs_profile(&knobs, profiles[p], NULL), SB_OK);
            a.rows = POSITIONS;
            a.position[0] = a.position[1] = a.position[2] = position;
            for (size_t i = 0; i < 3 * POSITIONS * MOST; i++)
                x[i / (POSITIONS * MOST)][i % (POSITIONS * MOST)] =
                    (float)((i % (POSITIONS * MOST)) * 37 % 101) / 64.0f - 0.75f;
            a.x = x[0];
            assert_int_equal(sb_rope_ref(&knobs, &a), SB_OK);
            a.x = x[1];
            assert_int_equal(sb_rope_fast(&knobs, &a), SB_OK);
            a.x = x[2];
            assert_int_equal(sim->backend.ops.rope(&knobs, &a), SB_OK);
            assert_memory_equal(x[0], x[1], POSITIONS * a.hd * sizeof(float));
            /* the first rows: a unit of an angle of 10^5 is more than bfloat16 shows */
            for (size_t i = 0; i < 3 * a.hd; i++)
                if (!(fabs((double)x[0][i] - (double)x[2][i]) <= (p == 1 ? 0x1p-7 : 0x1p-14)))
                    fail_msg("%s, case %zu: element %zu is %.9g, the engine's %.9g", profiles[p],
                             number, i, (double)x[0][i], (double)x[2][i]);
        }
}

TEST_GROUP(open_values, close_values)
