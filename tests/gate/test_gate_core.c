/* test_gate_core.c - cases from requests, and their files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/map.h"
#include "ref/container/safetensors.h"
#include "ref/container/writer.h"
#include "ref/formats/format.h"
#include "ref/ops/knob.h"
#include "tests/gate/tiny_op.h"
#include "tests/lib/suite.h"
#include "tools/judge/gate/file.h"

static char path[64];

TEST_FIXTURE(make_path)
{
    snprintf(path, sizeof path, "/tmp/test_gate_core.%ld", (long)getpid());
    return 0;
}

TEST_FIXTURE(remove_path)
{
    remove(path);
    return 0;
}

static sb_gate_case *made(const char *format, const char *shape, const char *regime, sb_dtype input,
                          uint64_t seed)
{
    sb_gate_request r = {
        .format = format, .shape = shape, .regime = regime, .input = input, .seed = seed};
    sb_gate_case *c = NULL;
    sb_error err = {""};
    if (sb_gate_case_of(tiny_op(), &r, &c, &err))
        fail_msg("%s", err.text);
    return c;
}

static sb_gate_arith arith(const char *name)
{
    sb_gate_arith ar;
    assert_int_equal(sb_gate_arith_of(name, &ar, NULL), SB_OK);
    return ar;
}

/* --- requests --------------------------------------------------------------------------------- */

TEST(defaults_are_those_of_the_list)
{
    sb_gate_case *c = made(NULL, NULL, NULL, SB_DTYPE_BF16, 42);
    assert_string_equal(c->format, "plain");
    assert_string_equal(sb_gate_shape_of(c).text, "rows=3,k=20");
    assert_int_equal(c->regime, SB_GATE_REGIME_normal);
    assert_int_equal(c->arrays, 2);
    assert_int_equal(c->outputs, 2);
    assert_true(c->output[1].real[2].hi == (double)c->output[1].exact[2]);
    sb_gate_case_free(c);
    c = made("tiny4", "k=7,rows=2", "ties", SB_DTYPE_F16, 1);
    assert_string_equal(c->format, "tiny4");
    assert_string_equal(sb_gate_shape_of(c).text, "rows=2,k=7");
    assert_int_equal(sb_gate_input(c, "x")->dtype, SB_DTYPE_F16);
    sb_gate_case_free(c);
}

/* The message names the wrong part, with the value found and the value expected. */
TEST(wrong_requests_are_refused)
{
    static const struct {
        sb_gate_request request;
        const char *says[3];
    } wrong[] = {
        {{.shape = "k=0"}, {"k is '0'", "1 to 4096", "elements of a row"}},
        {{.shape = "rows=65"}, {"rows is '65'", "1 to 64", "rows"}},
        {{.shape = "rows=-1"}, {"rows is '-1'", "1 to 64", "rows"}},
        {{.shape = "rows=1e1"}, {"rows is '1e1'", "1 to 64", "rows"}},
        {{.shape = "rows= 1"}, {"rows is ' 1'", "1 to 64", "rows"}},
        {{.shape = "rows="}, {"rows is ''", "1 to 64", "rows"}},
        {{.shape = "rows"}, {"rows is ''", "1 to 64", "rows"}},
        {{.shape = "rows=18446744073709551617"}, {"rows is '1844", "1 to 64", "rows"}},
        {{.shape = "rows=1,"}, {"shape", "comma", ""}},
        {{.shape = ",rows=1"}, {"no parameter ''", "rows, k", ""}},
        {{.shape = "rows=1,rows=1"}, {"rows", "twice", ""}},
        {{.shape = "m=3"}, {"no parameter 'm'", "tiny", "rows, k"}},
        {{.shape = "a_name_that_is_longer_than_any_name_can_be_here=3"}, {"no parameter", "", ""}},
        {{.format = "nvfp4"}, {"'nvfp4'", "tiny", "plain, tiny4"}},
        {{.regime = "odd"}, {"'odd'", "normal, negative", "padding"}},
        {{.regime = "huge"}, {"'huge'", "tiny", "huge padding"}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sb_gate_request r = wrong[i].request;
        sb_gate_case *c = NULL;
        sb_error err = {""};
        r.input = SB_DTYPE_BF16;
        assert_int_equal(sb_gate_case_of(tiny_op(), &r, &c, &err), SB_ERR_USAGE);
        assert_null(c);
        for (size_t k = 0; k < 3; k++)
            if (!strstr(err.text, wrong[i].says[k]))
                fail_msg("'%s' does not say '%s'", err.text, wrong[i].says[k]);
    }
    sb_gate_request r = {.input = SB_DTYPE_F64};
    sb_gate_case *c = NULL;
    sb_error err = {""};
    assert_int_equal(sb_gate_case_of(tiny_op(), &r, &c, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "F64"));
    r = (sb_gate_request){.op = "nothing", .input = SB_DTYPE_BF16};
    assert_int_equal(sb_gate_case_make(&r, &c, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "'nothing'"));
}

TEST(contracts_exclude_whole_names)
{
    sb_gate_op op = {.not_regimes = "zeros hug"};
    assert_true(sb_gate_takes(&op, SB_GATE_REGIME_huge));
    assert_false(sb_gate_takes(&op, SB_GATE_REGIME_zeros));
    op.not_regimes = "zeross huge";
    assert_false(sb_gate_takes(&op, SB_GATE_REGIME_huge));
    assert_true(sb_gate_takes(&op, SB_GATE_REGIME_zeros));
    op.not_regimes = NULL;
    assert_true(sb_gate_takes(&op, SB_GATE_REGIME_zeros));
}

/* Every op of the list is found by its name, occurs once, and has all data that the list shows. */
TEST(the_list_is_whole)
{
    for (size_t i = 0; i < sb_gate_op_count(); i++) {
        const sb_gate_op *op = sb_gate_op_at(i);
        assert_ptr_equal(sb_gate_op_find(op->name), op);
        assert_true(op->param_count > 0 && op->param_count <= SB_GATE_PARAMS);
        assert_true(op->what && op->clause && op->list && op->exact && op->real && op->bound);
        for (size_t p = 0; p < op->param_count; p++)
            assert_true(strlen(op->params[p].name) < SB_GATE_NAME &&
                        op->params[p].least <= op->params[p].value &&
                        op->params[p].value <= op->params[p].most);
    }
    assert_null(sb_gate_op_find("nothing"));
}

/* --- bounds ----------------------------------------------------------------------------------- */

/* V-107: "Under exact it is |exact - real|" */
TEST(bounds_reach_from_real_to_the_end_of_the_ball)
{
    sb_gate_case *c = made(NULL, "rows=5,k=33", "normal", SB_DTYPE_F32, 42);
    const sb_gate_output *y = &c->output[0];
    double *bound = sb_alloc(y->count, sizeof *bound);
    size_t rounded = 0;
    assert_non_null(bound);
    for (size_t a = 0; a < sb_gate_arith_count(); a++) {
        sb_gate_arith ar;
        assert_int_equal(sb_gate_arith_at(a, &ar), SB_OK);
        assert_int_equal(sb_gate_bound(c, &ar, 0, bound, NULL), SB_OK);
        for (size_t i = 0; i < y->count; i++) {
            double error = (double)y->exact[i] - y->real[i].hi - y->real[i].lo;
            error = error < 0.0 ? -error : error;
            rounded += error > 0.0;
            if (ar.exact)
                assert_true(bound[i] == error);
            else if (ar.knobs.value[SB_KNOB_act] == SB_act_f32)
                assert_true(bound[i] >= 1.009 * error);
            assert_true(bound[i] <= 0.01 * (1.0 + error));
        }
        assert_int_equal(sb_gate_bound(c, &ar, 1, bound, NULL), SB_OK);
        for (size_t i = 0; i < c->output[1].count; i++)
            assert_true(bound[i] == 0.0);
    }
    assert_true(rounded > 0);
    free(bound);
    sb_gate_case_free(c);
}

/* --- files ------------------------------------------------------------------------------------ */

static void write_case(const sb_gate_case *c, const char *name)
{
    sb_gate_arith ar = arith(name);
    sb_error err = {""};
    if (sb_gate_write(c, &ar, path, &err))
        fail_msg("%s", err.text);
}

/* A copy of the bytes of the file, to be damaged. */
static unsigned char *bytes_of(size_t *size)
{
    sb_map map;
    assert_int_equal(sb_map_open(path, &map, NULL), SB_OK);
    unsigned char *bytes = sb_alloc(map.size, 1);
    assert_non_null(bytes);
    memcpy(bytes, map.data, map.size);
    *size = map.size;
    sb_map_close(&map);
    return bytes;
}

static sb_status parsed(const unsigned char *bytes, size_t size, sb_error *err)
{
    sb_gate_case *c = NULL;
    sb_gate_arith ar;
    sb_status status = sb_gate_parse(bytes, size, "F", tiny_find, &c, &ar, err);
    assert_true(!status == (c != NULL));
    sb_gate_case_free(c);
    return status;
}

TEST(a_file_gives_back_its_case)
{
    for (int regime = 0; regime < SB_GATE_REGIMES; regime++) {
        if (!sb_gate_takes(tiny_op(), (sb_gate_regime)regime))
            continue;
        sb_gate_case *c =
            made("tiny4", "k=17", sb_gate_regime_name((sb_gate_regime)regime), SB_DTYPE_F16, 9);
        sb_gate_case *again = NULL;
        sb_gate_arith ar;
        sb_error err = {""};
        size_t size;
        write_case(c, "fp32+bf16");
        unsigned char *bytes = bytes_of(&size);
        if (sb_gate_parse(bytes, size, path, tiny_find, &again, &ar, &err))
            fail_msg("%s", err.text);
        assert_string_equal(ar.name, "fp32+bf16");
        assert_int_equal(again->regime, regime);
        assert_int_equal(again->seed, 9);
        assert_string_equal(again->format, "tiny4");
        assert_memory_equal(again->size, c->size, sizeof c->size);
        assert_int_equal(again->arrays, c->arrays);
        for (size_t i = 0; i < c->arrays; i++) {
            const sb_gate_array *a = sb_gate_input(again, c->array[i].name);
            assert_non_null(a);
            assert_string_equal(a->axes, c->array[i].axes);
            assert_memory_equal(a->data, c->array[i].data, a->bytes);
        }
        assert_memory_equal(again->output[0].exact, c->output[0].exact,
                            c->output[0].count * sizeof(float));
        sb_gate_case_free(again);
        sb_gate_case_free(c);
        free(bytes);
    }
}

TEST(the_same_case_is_the_same_bytes)
{
    size_t size[2];
    unsigned char *bytes[2];
    for (int i = 0; i < 2; i++) {
        sb_gate_case *c = made(NULL, NULL, NULL, SB_DTYPE_BF16, 42);
        write_case(c, "bf16_mma");
        bytes[i] = bytes_of(&size[i]);
        sb_gate_case_free(c);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    free(bytes[0]);
    free(bytes[1]);
}

/* The bytes of a tensor. Its type must be dtype and its shape must be that of `like`. */
static const unsigned char *tensor(const sb_safetensors *file, const char *name, sb_dtype dtype,
                                   const sb_gate_output *like)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0) {
            assert_int_equal(file->tensors[i].dtype, dtype);
            assert_int_equal(file->tensors[i].rank, like->rank);
            assert_memory_equal(file->tensors[i].shape, like->shape, like->rank * sizeof(uint64_t));
            return file->tensors[i].data;
        }
    fail_msg("no tensor %s", name);
    return NULL;
}

/* V-101: "real.hi, real.lo and bound are F64, exact is F32 and bf16 is BF16" */
TEST(tensors_hold_what_they_are_called)
{
    sb_gate_case *c = made(NULL, NULL, NULL, SB_DTYPE_F32, 42);
    const sb_gate_output *y = &c->output[0], *largest = &c->output[1];
    sb_gate_arith ar = arith("fp32");
    double *bound = sb_alloc(y->count, sizeof *bound);
    sb_safetensors file;
    write_case(c, "fp32");
    assert_non_null(bound);
    assert_int_equal(sb_gate_bound(c, &ar, 0, bound, NULL), SB_OK);
    assert_int_equal(sb_safetensors_open(path, &file, NULL), SB_OK);
    assert_int_equal(file.count, 2 + 5 + 4);
    const unsigned char *hi = tensor(&file, "real.hi", SB_DTYPE_F64, y),
                        *lo = tensor(&file, "real.lo", SB_DTYPE_F64, y),
                        *limit = tensor(&file, "bound", SB_DTYPE_F64, y),
                        *exact = tensor(&file, "exact", SB_DTYPE_F32, y),
                        *half = tensor(&file, "bf16", SB_DTYPE_BF16, y),
                        *place = tensor(&file, "exact.largest", SB_DTYPE_F32, largest);
    for (size_t i = 0; i < y->count; i++) {
        double sum = y->real[i].hi + y->real[i].lo;
        assert_int_equal(sb_load_u64(hi + 8 * i), sb_bits_f64(sum));
        assert_true(sb_f64_from_bits(sb_load_u64(lo + 8 * i)) == y->real[i].lo);
        assert_true(sb_f64_from_bits(sb_load_u64(limit + 8 * i)) == bound[i]);
        assert_true((float)sum == y->exact[i]);
        assert_int_equal(sb_load_u32(exact + 4 * i), sb_bits_f32((float)sum));
        assert_int_equal(sb_load_u16(half + 2 * i), sb_f32_to_bf16((float)sum));
    }
    for (size_t r = 0; r < largest->count; r++) {
        size_t at = (size_t)sb_f32_from_bits(sb_load_u32(place + 4 * r));
        for (size_t i = 0; i < 20; i++)
            assert_true(y->exact[20 * r + i] <= y->exact[20 * r + at]);
    }
    sb_safetensors_close(&file);
    free(bound);
    sb_gate_case_free(c);
}

/* A file with one wrong bit is refused, for every bit but those of the container's own "format". */
TEST(every_wrong_bit_is_refused)
{
    static const char own[] = "\"format\":\"pt\"";
    sb_gate_case *c = made(NULL, "rows=2,k=3", NULL, SB_DTYPE_BF16, 42);
    size_t size, skip = 0;
    write_case(c, "fp32");
    unsigned char *bytes = bytes_of(&size);
    assert_int_equal(parsed(bytes, size, NULL), SB_OK);
    while (memcmp(bytes + skip, own, sizeof own - 1) != 0)
        skip++;
    for (size_t i = 0; i < size; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            if (i >= skip + sizeof own - 4 && i < skip + sizeof own - 2)
                continue; /* "pt" may have another value */
            bytes[i] ^= (unsigned char)(1u << bit);
            sb_error err = {""};
            sb_status status = parsed(bytes, size, &err);
            if (status != SB_ERR_INPUT)
                fail_msg("byte %zu of %zu, bit %u: status %d '%s'", i, size, bit, (int)status,
                         err.text);
            assert_true(strncmp(err.text, "F", 1) == 0);
            bytes[i] ^= (unsigned char)(1u << bit);
        }
    for (size_t n = 0; n < size; n++)
        assert_int_equal(parsed(bytes, n, NULL), SB_ERR_INPUT);
    free(bytes);
    sb_gate_case_free(c);
}

/* --- sound files that are no case ------------------------------------------------------------- */

/* Writes a file again with one change. */
typedef struct edit {
    const char *drop, *as_i32; /* tensors: one is left out; one has another type */
    const char *add;           /* a tensor to add */
    const char *key, *value;   /* a metadata key: its new value; NULL: left out */
    const char *says;
} edit;

static sb_status copy_bytes(void *ctx, const sb_tensor *tensor, uint64_t first, unsigned char *to,
                            size_t count, sb_error *err)
{
    const sb_safetensors *from = ctx;
    (void)err;
    memset(to, 0, count);
    for (size_t i = 0; i < from->count; i++)
        if (strcmp(from->tensors[i].name, tensor->name) == 0 &&
            from->tensors[i].bytes == tensor->bytes)
            memcpy(to, from->tensors[i].data + first, count);
    return SB_OK;
}

static int is(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

static sb_status write_edited(const sb_safetensors *from, const edit *e)
{
    static const uint64_t one[1] = {1};
    sb_writer *writer = NULL;
    const char *first = NULL;
    int found = 0;
    assert_int_equal(sb_writer_new(path, 0, SB_WRITER_FILE | SB_WRITER_REPLACE, &writer, NULL),
                     SB_OK);
    for (size_t i = 0; i < from->count; i++) {
        const sb_tensor *t = &from->tensors[i];
        if (is(e->drop, t->name))
            continue;
        first = t->name;
        assert_int_equal(sb_writer_add(writer, t->name,
                                       is(e->as_i32, t->name) ? SB_DTYPE_I32 : t->dtype, t->rank,
                                       t->shape, NULL),
                         SB_OK);
    }
    if (e->add)
        assert_int_equal(sb_writer_add(writer, e->add, SB_DTYPE_F32, 1, one, NULL), SB_OK);
    for (size_t i = 0; i < from->metadata.count; i++) {
        const sb_metadata_pair *p = &from->metadata.pairs[i];
        const char *value = is(e->key, p->key) ? e->value : p->value;
        found |= is(e->key, p->key);
        if (value && strcmp(p->key, "format") != 0)
            assert_int_equal(sb_writer_metadata(writer, first, p->key, value, NULL), SB_OK);
    }
    if (e->key && !found)
        assert_int_equal(sb_writer_metadata(writer, first, e->key, e->value, NULL), SB_OK);
    sb_status status = sb_writer_run(writer, copy_bytes, (void *)(uintptr_t)from, NULL);
    sb_writer_free(writer);
    return status;
}

TEST(what_is_missing_or_too_much_or_of_another_case_is_refused)
{
    static const edit edits[] = {
        {.drop = "in.x", .says = "in.x is missing"},
        {.drop = "real.lo", .says = "real.lo is missing"},
        {.drop = "bound.largest", .says = "bound.largest is missing"},
        {.as_i32 = "in.x", .says = "in.x is I32 with 2 axes, expected BF16 with 2"},
        {.as_i32 = "bf16", .says = "bf16 does not have the type"},
        {.add = "in.y", .says = "in.y is not an input of tiny"},
        {.add = "in.a_name_that_no_input_of_any_op_can_have_here", .says = "is not an input"},
        {.add = "out", .says = "out is not a tensor of vectors for tiny"},
        {.add = "bf16.largest", .says = "bf16.largest is not a tensor"},
        {.key = "samebit.vectors", .value = "3", .says = "'3', expected 2"},
        {.key = "samebit.vectors", .value = "3", .drop = "in.x", .says = "'3', expected 2"},
        {.key = "samebit.vectors", .says = "not a file of samebit vectors"},
        {.key = "samebit.vectors.op", .value = "t", .says = "'t'"},
        {.key = "samebit.vectors.op", .says = "samebit.vectors.op"},
        {.key = "samebit.vectors.format", .value = "", .says = "samebit.vectors.format is ''"},
        {.key = "samebit.vectors.format", .value = "bf16", .says = "'bf16'"},
        {.key = "samebit.vectors.format", .says = "samebit.vectors.format"},
        {.key = "samebit.vectors.input", .value = "F32", .says = "expected F32"},
        {.key = "samebit.vectors.input", .value = "U8", .says = "U8"},
        {.key = "samebit.vectors.input", .value = "half", .says = "'half'"},
        {.key = "samebit.vectors.shape", .value = "rows=3", .says = "rows=3,k=20"},
        {.key = "samebit.vectors.shape", .value = "rows=3,k=21", .says = "in.x has the shape"},
        {.key = "samebit.vectors.shape", .value = "rows=3,k=0", .says = "k is '0'"},
        {.key = "samebit.vectors.regime", .value = "huge", .says = "huge"},
        {.key = "samebit.vectors.regime", .says = "samebit.vectors.regime"},
        {.key = "samebit.vectors.seed", .value = "042", .says = "'042'"},
        {.key = "samebit.vectors.seed", .value = "-1", .says = "'-1'"},
        {.key = "samebit.vectors.seed", .value = "18446744073709551616", .says = "64 bits"},
        {.key = "samebit.vectors.arith", .value = "half", .says = "'half'"},
        {.key = "samebit.vectors.arith", .value = "fp32+bf16", .says = "bound at row 0, column"},
        {.key = "samebit.vectors.axes.in.x", .value = "column,row", .says = "'column,row'"},
        {.key = "samebit.vectors.axes.exact", .says = "samebit.vectors.axes.exact"},
        {.key = "samebit.vectors.more", .value = "x", .says = "samebit.vectors.more is not known"},
        {.key = "author", .value = "x", .says = "author is not known"},
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        sb_gate_case *c = made(NULL, NULL, NULL, SB_DTYPE_BF16, 42);
        sb_safetensors file;
        sb_error err = {""};
        size_t size, edited;
        write_case(c, "fp32");
        unsigned char *bytes = bytes_of(&size);
        assert_int_equal(sb_safetensors_parse(bytes, size, "F", &file, NULL), SB_OK);
        assert_int_equal(write_edited(&file, &(edit){.says = ""}), SB_OK);
        unsigned char *changed = bytes_of(&edited);
        assert_int_equal(parsed(changed, edited, NULL), SB_OK);
        free(changed);
        assert_int_equal(write_edited(&file, &edits[i]), SB_OK);
        changed = bytes_of(&edited);
        assert_int_equal(parsed(changed, edited, &err), SB_ERR_INPUT);
        if (!strstr(err.text, edits[i].says))
            fail_msg("edit %zu: '%s' does not say '%s'", i, err.text, edits[i].says);
        free(changed);
        free(bytes);
        sb_safetensors_close(&file);
        sb_gate_case_free(c);
    }
}

/* The expectation fits the inputs, but the inputs are not those of the seed. */
TEST(other_inputs_than_those_of_the_seed_are_refused)
{
    sb_gate_case *c = made(NULL, NULL, NULL, SB_DTYPE_F32, 42);
    sb_error err = {""};
    size_t size;
    c->array[0].data[4 * 21 + 3] ^= 1;
    assert_int_equal(sb_gate_case_expected(c, NULL), SB_OK);
    write_case(c, "fp32");
    unsigned char *bytes = bytes_of(&size);
    assert_int_equal(parsed(bytes, size, &err), SB_ERR_INPUT);
    assert_non_null(strstr(err.text, "in.x at row 1, column 1 is "));
    free(bytes);
    sb_gate_case_free(c);
}

TEST(no_memory_is_said_wherever_it_runs_out)
{
    sb_gate_case *c = made(NULL, "rows=2,k=3", NULL, SB_DTYPE_BF16, 42);
    sb_gate_arith ar = arith("fp32");
    size_t size;
    write_case(c, "fp32");
    unsigned char *bytes = bytes_of(&size);
    sb_status status = SB_ERR_MEMORY;
    for (unsigned long n = 1; status == SB_ERR_MEMORY; n++) {
        sb_error err;
        memset(&err, '#', sizeof err); /* memory of the caller that was never written */
        sb_alloc_fail_at(n);
        status = parsed(bytes, size, &err);
        sb_alloc_fail_at(0);
        assert_true(n < 1000);
        if (status && (!memchr(err.text, 0, sizeof err.text) || strchr(err.text, '#') ||
                       !strstr(err.text, "memory")))
            fail_msg("allocation %lu: %.200s", n, err.text);
    }
    assert_int_equal(status, SB_OK);
    status = SB_ERR_MEMORY;
    for (unsigned long n = 1; status == SB_ERR_MEMORY; n++) {
        sb_alloc_fail_at(n);
        status = sb_gate_write(c, &ar, path, NULL);
        sb_alloc_fail_at(0);
        assert_true(n < 1000);
    }
    assert_int_equal(status, SB_OK);
    free(bytes);
    sb_gate_case_free(c);
}

TEST_GROUP(make_path, remove_path)
