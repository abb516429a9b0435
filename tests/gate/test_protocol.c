/* test_protocol.c - protocol vectors: kernels that follow the engines' own conventions pass, in two
 * orders and also when they continue from their own states. Each planted fault of the protocol is
 * caught. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "tests/gate/protocol_kernels.h"
#include "tests/unit/scratch.h"

static const sb_op_table reference = {
#define SB_OP(name, clause) .name = sb_##name##_ref,
#include "ref/ops/ops.def"
#undef SB_OP
};

static sb_protocol *make(const char *layout, const char *op, int chained, uint64_t seed)
{
    const sb_protocol_request request = {
        .layout = layout, .op = op, .seed = seed, .chained = chained};
    sb_protocol *p;
    sb_error err;
    assert_int_equal(sb_protocol_make(&request, &reference, &p, &err), SB_OK);
    return p;
}

static sb_gate_arith arith(const char *name)
{
    sb_gate_arith ar;
    sb_error err;
    assert_int_equal(sb_gate_arith_of(name, &ar, &err), SB_OK);
    return ar;
}

/* Runs a kernel on a protocol and judges it. */
static sb_protocol_result run(sb_protocol *p, const char *ar_name, kernel_way way)
{
    sb_gate_arith ar = arith(ar_name);
    sb_protocol_result result;
    sb_error err;
    assert_int_equal(sb_protocol_expect(p, &ar, &err), SB_OK);
    kernel_run *k = kernel_start(p, way);
    sb_status status = sb_protocol_judge_got(p, &ar, kernel_got(k), &result, &err);
    if (status)
        fail_msg("%s", err.text);
    kernel_end(k);
    return result;
}

static const char *const ops[] = {"delta_rule", "conv"};

/* A layout for prompts has no convolution. */
static int ops_of(size_t layout)
{
    return sb_protocol_layout_at(layout)->prompts ? 1 : 2;
}

TEST(test_plain_kernels_pass)
{
    for (size_t i = 0; sb_protocol_layout_at(i); i++)
        for (int op = 0; op < ops_of(i); op++)
            for (int form = 0; form < 4; form++) {
                sb_protocol *p = make(sb_protocol_layout_at(i)->name, ops[op], 0, 42 + i);
                kernel_way way = {.reversed = form & 1, .bf16 = form >> 1};
                sb_protocol_result r = run(p, "fp32", way);
                if (r.fail)
                    fail_msg("%s %s: %s", p->layout->name, ops[op], r.words);
                assert_true(r.count > 1000 && (op || r.worst > 0.0 || way.bf16));
                if (!form)
                    printf("  %-9s %-10s %s\n", p->layout->name, ops[op], r.words);
                sb_protocol_free(p);
            }
}

/* The real values equal those of the same kernel in binary64, up to the accuracy of binary64. */
TEST(test_real_values)
{
    for (size_t i = 0; sb_protocol_layout_at(i); i++)
        for (int op = 0; op < ops_of(i); op++) {
            sb_protocol *p = make(sb_protocol_layout_at(i)->name, ops[op], 0, 7);
            sb_gate_arith ar = arith("exact");
            sb_error err;
            assert_int_equal(sb_protocol_expect(p, &ar, &err), SB_OK);
            kernel_run *k = kernel_start(p, (kernel_way){.wide = 1});
            assert_true(kernel_apart(k) < 1e-12);
            kernel_end(k);
            sb_protocol_free(p);
        }
}

/* Sums of the bounds and of the absolute values over the outputs and states of a protocol's last
 * round. */
typedef struct sums {
    double bound, real;
} sums;

static sums sums_of(sb_protocol *p)
{
    sb_gate_arith ar = arith("fp32");
    sums s = {0.0, 0.0};
    sb_error err;
    assert_int_equal(sb_protocol_expect(p, &ar, &err), SB_OK);
    const sb_protocol_round *r = &p->round[p->rounds - 1];
    for (size_t i = 0; i < p->slots * p->size; i++)
        if (r->written[i] && !p->conv) {
            s.bound += r->bound_after[i];
            s.real += fabs(r->real_after[i].hi);
        }
    for (size_t i = 0, width = p->out_heads * p->out_width; i < r->rows * width; i++)
        if (r->real_row[i / width]) {
            s.bound += r->bound_out[i];
            s.real += fabs(r->real_out[i].hi);
        }
    return s;
}

/* Bounds are narrow enough to show faults. A chained kernel has wider ones, because its states
 * carry errors. */
TEST(test_width_of_bounds)
{
    for (int op = 0; op < 2; op++) {
        sb_protocol *p = make("vllm", ops[op], 0, 42), *q = make("vllm", ops[op], 1, 42);
        sums alone = sums_of(p), chained = sums_of(q);
        printf("  %-10s bounds are %.2g of the values, chained %.2g\n", ops[op],
               alone.bound / alone.real, chained.bound / chained.real);
        assert_true(alone.bound < 2e-5 * alone.real);
        assert_true(chained.bound < 2e-4 * chained.real);
        assert_true(op ? chained.bound == alone.bound : chained.bound > 1.5 * alone.bound);
        sb_protocol_free(p);
        sb_protocol_free(q);
    }
}

/* Profile exact is within its bound. Under "exact", every bit has to be right. */
TEST(test_exact)
{
    for (int op = 0; op < 2; op++) {
        sb_protocol *p = make("plain", ops[op], 0, 1);
        kernel_way way = {.exact = 1};
        sb_protocol_result r = run(p, "exact", way);
        assert_false(r.fail);
        assert_int_equal(r.identical, r.count);
        assert_false(run(p, "fp32", way).fail);
        way.bf16 = 1;
        assert_false(run(p, "exact", way).fail);
        way = (kernel_way){.reversed = 1};
        assert_true(run(p, "exact", way).fail); /* binary32 in another order is not exact */
        sb_protocol_free(p);
    }
}

TEST(test_regimes)
{
    static const char *const regimes[] = {"tiny", "huge"};
    for (int i = 0; i < 2; i++)
        for (int op = 0; op < 2; op++) {
            const sb_protocol_request request = {
                .layout = "vllm", .op = ops[op], .regime = regimes[i], .rounds = 5, .seed = 3};
            sb_protocol *p;
            sb_error err;
            assert_int_equal(sb_protocol_make(&request, &reference, &p, &err), SB_OK);
            sb_protocol_result r = run(p, "fp32", (kernel_way){0});
            if (r.fail)
                fail_msg("%s", r.words);
            sb_protocol_free(p);
        }
}

/* A kernel that continues from its own states: its errors may add up, but a state that is 0.1% off
 * is detected. */
TEST(test_chained)
{
    for (int form = 0; form < 2; form++) {
        sb_protocol *p = make(form ? "vllm" : "plain", "delta_rule", 1, 9);
        kernel_way way = {.reversed = form};
        sb_protocol_result r = run(p, "fp32", way);
        if (r.fail)
            fail_msg("%s", r.words);
        printf("  chained   %s\n", r.words);
        way.fault = KERNEL_DRIFT;
        assert_true(run(p, "fp32", way).fail);
        sb_protocol_free(p);
    }
    sb_protocol_request request = {.layout = "fla", .chained = 1};
    sb_protocol *p;
    sb_error err;
    assert_int_equal(sb_protocol_make(&request, &reference, &p, &err), SB_ERR_USAGE);
}

/* Whether a kernel of this layout and op can have the fault. */
static int can_have(const sb_protocol *p, kernel_fault fault)
{
    if (fault == KERNEL_OTHER_DECAY)
        return !p->conv;
    if (p->layout->prompts)
        return fault == KERNEL_STRAY || fault == KERNEL_TRANSPOSED || fault == KERNEL_DRIFT;
    if (!p->layout->pool)
        return fault == KERNEL_TRANSPOSED ? !p->conv && p->dk != p->dv : fault == KERNEL_DRIFT;
    if (p->conv)
        return fault != KERNEL_ZERO_WRAPS && fault != KERNEL_TRANSPOSED && fault != KERNEL_DRIFT;
    return fault != KERNEL_WINDOW_KEPT;
}

TEST(test_faults_are_caught)
{
    size_t caught = 0;
    for (size_t i = 0; sb_protocol_layout_at(i); i++)
        for (int op = 0; op < ops_of(i); op++) {
            sb_protocol *p = make(sb_protocol_layout_at(i)->name, ops[op], 0, 42);
            for (int fault = 1; fault < KERNEL_FAULTS; fault++) {
                if (!can_have(p, (kernel_fault)fault))
                    continue;
                sb_protocol_result r =
                    run(p, "fp32+bf16", (kernel_way){.fault = (kernel_fault)fault});
                if (!r.fail)
                    fail_msg("%s %s: %s is not caught", p->layout->name, ops[op],
                             kernel_fault_name((kernel_fault)fault));
                if (i == 0)
                    printf("  %-32s %s\n", kernel_fault_name((kernel_fault)fault), r.words);
                caught++;
            }
            sb_protocol_free(p);
        }
    assert_true(caught > 30);
}

/* V-123: the contents of a protocol of default length. */
TEST(test_what_is_in_it)
{
    for (uint64_t seed = 0; seed < 8; seed++)
        for (size_t i = 0; i < 2; i++) {
            sb_protocol *p = make(i ? "vllm" : "plain", "delta_rule", 0, seed);
            unsigned accepted[SB_PROTOCOL_ROWS + 1] = {0}, restarts = 0, goes_on = 0, padding = 0;
            unsigned zero = 0, away = 0;
            for (size_t n = 0; n < p->rounds; n++) {
                const sb_protocol_round *r = &p->round[n];
                unsigned there = 0;
                for (size_t k = 0; k < r->entries; k++) {
                    const sb_protocol_entry *e = &r->entry[k];
                    padding += e->sequence < 0 && k > 0 && k + 1 < r->entries;
                    if (e->sequence < 0)
                        continue;
                    there++;
                    zero += e->slot[0] == 0;
                    if (r->verify)
                        accepted[e->accepted]++;
                    else if (n)
                        (*(e->started ? &goes_on : &restarts))++;
                }
                away += there < SB_PROTOCOL_SEQUENCES;
            }
            for (int a = 0; a <= SB_PROTOCOL_ROWS; a++)
                assert_true(accepted[a] > 0);
            assert_true(restarts && goes_on && padding && away);
            assert_int_equal(zero > 0, i == 0);
            sb_protocol_free(p);
        }
}

/* Slots and rows without an owner hold NaN in half of their elements, and other values in the rest.
 * A kernel that takes padding for the null slot writes NaN over NaN, which changes no bit, or only
 * a sign. */
TEST(test_hostile_memory)
{
    for (int op = 0; op < 2; op++) {
        sb_protocol *p = make("vllm", ops[op], 0, 42);
        const sb_protocol_round *r = &p->round[0];
        for (size_t slot = 0; slot < p->slots; slot++) {
            size_t nans = 0;
            for (size_t i = 0; i < p->size; i++)
                nans += isnan(r->before[slot * p->size + i]) != 0;
            assert_int_equal(nans, p->size / 2);
        }
        for (size_t w = 0, width; w < p->inputs; w++)
            for (size_t t = 0; t < r->rows; t++) {
                size_t nans = 0;
                width = p->heads[w] * p->width[w];
                for (size_t i = 0; i < width; i++)
                    nans += isnan(r->in[w][t * width + i]) != 0;
                assert_int_equal(nans, r->real_row[t] ? 0 : width / 2);
            }
        sb_protocol_free(p);
    }
}

TEST(test_files)
{
    const scratch_path folder = scratch_new(), v = scratch_join(folder.text, "v.safetensors"),
                       w = scratch_join(folder.text, "w.safetensors");
    const char *path = v.text, *other = w.text;
    sb_protocol *p = make("vllm", "conv", 0, 42), *q;
    sb_gate_arith ar = arith("fp32"), read;
    sb_error err;
    assert_int_equal(sb_protocol_write(p, &ar, path, &err), SB_OK);
    assert_int_equal(sb_protocol_read(path, NULL, &q, &read, &err), SB_OK);
    assert_string_equal(read.name, "fp32");
    sb_protocol_free(q);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    unsigned char *bytes = malloc((size_t)size);
    assert_non_null(bytes);
    rewind(f);
    assert_int_equal(fread(bytes, 1, (size_t)size, f), size);
    fclose(f);
    for (long at = size - 1; at > size / 2; at -= size / 9) { /* one bit anywhere in its data */
        bytes[at] ^= 1;
        f = fopen(other, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, (size_t)size, f), size);
        fclose(f);
        bytes[at] ^= 1;
        assert_int_equal(sb_protocol_read(other, NULL, &q, &read, &err), SB_ERR_INPUT);
        assert_null(q);
    }
    free(bytes);
    scratch_remove(folder.text);
    sb_protocol_free(p);
}

/* Tensors that are missing, or have another shape or type, are refused. */
TEST(test_incomplete)
{
    sb_protocol *p = make("plain", "delta_rule", 0, 42);
    sb_gate_arith ar = arith("fp32");
    sb_protocol_result result;
    sb_error err;
    assert_int_equal(sb_protocol_expect(p, &ar, &err), SB_OK);
    kernel_run *k = kernel_start(p, (kernel_way){0});
    sb_safetensors got = *kernel_got(k);
    got.count--;
    assert_int_equal(sb_protocol_judge_got(p, &ar, &got, &result, &err), SB_ERR_INPUT);
    assert_non_null(strstr(err.text, " is missing"));
    got.count++;
    got.tensors[0].shape[1]++;
    assert_int_equal(sb_protocol_judge_got(p, &ar, &got, &result, &err), SB_ERR_INPUT);
    assert_non_null(strstr(err.text, " has the shape ["));
    assert_non_null(strstr(err.text, ", expected ["));
    got.tensors[0].shape[1]--;
    got.tensors[1].dtype = SB_DTYPE_I32;
    assert_int_equal(sb_protocol_judge_got(p, &ar, &got, &result, &err), SB_ERR_INPUT);
    assert_non_null(strstr(err.text, " is I32, expected F32, the type of the pool"));
    got.tensors[1].dtype = SB_DTYPE_F32;
    assert_int_equal(sb_protocol_judge_got(p, &ar, &got, &result, &err), SB_OK);
    assert_false(result.fail);
    kernel_end(k);
    sb_protocol_free(p);
}

/* Running out of memory anywhere is reported, and all memory is freed (the sanitizers check
 * that). */
TEST(test_out_of_memory)
{
    const scratch_path folder = scratch_new(), v = scratch_join(folder.text, "v.safetensors");
    const char *path = v.text;
    sb_gate_arith ar = arith("fp32");
    sb_status status = SB_ERR_MEMORY;
    unsigned long failures = 0;
    for (unsigned long n = 1; status; n += 1 + n / 6) {
        const sb_protocol_request request = {.op = ops[n & 1], .rounds = 2, .chained = 1};
        sb_protocol *p;
        sb_error err;
        sb_alloc_fail_at(n);
        status = sb_protocol_make(&request, &reference, &p, &err);
        if (!status)
            status = sb_protocol_write(p, &ar, path, &err);
        sb_alloc_fail_at(0);
        sb_protocol_free(p);
        assert_true(!status || status == SB_ERR_MEMORY);
        failures += status != SB_OK;
    }
    assert_true(failures > 15);
    scratch_remove(folder.text);
}
