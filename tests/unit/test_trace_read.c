/* test_trace_read.c - a damaged trace is refused with the place of the damage; harmless differences
 * pass. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include "ref/container/file.h"
#include "ref/container/writer.h"
#include "tools/judge/trace/read.h"

/* Three rows of a prompt in step 0; a round with two drafts in step 1; the state in step 2. */
static const char list[] =
    "{\"format\":\"samebit-trace\",\"version\":1,\"spec\":2,\"engine\":\"mine\",\"profile\":\"hf\","
    "\"knobs\":{\"act\":\"bf16\"},\"arithmetic\":\"f32\",\"vocab_size\":4,\"level\":2,"
    "\"checkpoint\":\"0123456789abcdef0123456789abcdef\",\"note\":{\"any\":1},\"steps\":["
    "{\"step\":0,\"tensors\":9,\"logits_rows\":[2],\"rows\":["
    "{\"sequence\":0,\"slot\":0,\"position\":0,\"token\":1,\"kind\":\"prompt\"},"
    "{\"sequence\":0,\"slot\":0,\"position\":1,\"token\":2,\"kind\":\"prompt\"},"
    "{\"sequence\":0,\"slot\":0,\"position\":2,\"token\":3,\"kind\":\"prompt\"}],"
    "\"states\":[{\"sequence\":7,\"position\":5}]},"
    "{\"step\":1,\"rows\":["
    "{\"sequence\":0,\"slot\":0,\"position\":3,\"token\":0,\"kind\":\"verify\",\"round\":0},"
    "{\"sequence\":0,\"slot\":0,\"position\":4,\"token\":1,\"kind\":\"verify\",\"round\":0},"
    "{\"sequence\":0,\"slot\":0,\"position\":5,\"token\":2,\"kind\":\"verify\",\"round\":0}],"
    "\"rounds\":[{\"sequence\":0,\"round\":0,\"position\":3,\"drafts\":[1,2],\"accepted\":1,"
    "\"emitted\":[1,3]}]},"
    "{\"step\":2,\"tensors\":0,\"rows\":[],\"states\":[{\"sequence\":0,\"position\":5,"
    "\"target\":\"fedcba9876543210fedcba9876543210\"}]}]}";

static sb_status open_text(const char *dir, const char *text, sb_error *err)
{
    sb_trace *t = NULL;
    scratch_write_json(dir, "trace.json", text);
    sb_status status = sb_trace_open(dir, &t, err);
    sb_trace_close(t);
    return status;
}

/* `from` with the first `old` replaced. */
static char *changed(const char *from, const char *old, const char *new)
{
    const char *at = strstr(from, old);
    assert_non_null(at);
    size_t before = (size_t)(at - from), n = strlen(from) + strlen(new) + 1;
    char *text = malloc(n);
    assert_non_null(text);
    snprintf(text, n, "%.*s%s%s", (int)before, from, new, at + strlen(old));
    return text;
}

/* --- trace.json ------------------------------------------------------------------------------- */

/* A list with 0 tensors in the step's file, which does not exist. */
static char *without_file(void)
{
    return changed(list, "\"tensors\":9,", "");
}

TEST(test_list_is_read)
{
    scratch_path dir = scratch_new();
    char *text = without_file();
    sb_trace *t = NULL;
    sb_error err = {""};
    scratch_write_json(dir.text, "trace.json", text);
    check_status("the list", sb_trace_open(dir.text, &t, &err), &err, SB_OK, "");
    const sb_step *verify = sb_trace_outline(t, 1);
    assert_int_equal(sb_trace_rows(t), 6);
    assert_int_equal(sb_trace_info(t)->vocab_size, 4);
    assert_string_equal(sb_trace_info(t)->arithmetic, "f32");
    assert_int_equal(verify->rows[2].kind, SB_CALL_verify);
    assert_int_equal(verify->rounds[0].round.drafts[1], 2);
    assert_int_equal(verify->rounds[0].round.emitted, 2);
    assert_int_equal(sb_trace_outline(t, 0)->logits_rows[0], 2);
    assert_string_equal(sb_trace_outline(t, 2)->states[0].target.hex,
                        "fedcba9876543210fedcba9876543210");
    sb_trace_close(t);
    free(text);
    scratch_remove(dir.text);
}

typedef struct text_fault {
    const char *old, *new, *words;
} text_fault;

TEST(test_list_faults)
{
    static const text_fault faults[] = {
        {"samebit-trace", "other", "format is \"other\", expected \"samebit-trace\""},
        {"\"version\":1", "\"version\":4", "version is 4, expected 1 to 3"},
        {"\"spec\":2", "\"spec\":9", "spec is 9, expected 2"},
        {"\"engine\":\"mine\"", "\"engine\":\"\"", "engine is absent or empty"},
        {"\"engine\"", "\"engin\"", "engin"},
        {"\"act\":\"bf16\"", "\"act\":\"bf17\"", "knobs: \"act\" is the string \"bf17\""},
        {"\"act\":\"bf16\"", "\"act\":3", "knobs: \"act\" is 3"},
        {"\"vocab_size\":4", "\"vocab_size\":0", "vocab_size is 0"},
        {"\"vocab_size\":4,", "", "vocab_size"},
        {"\"level\":2", "\"level\":5", "level is 5, expected at most 4"},
        {"0123456789abcdef0", "0123456789ABCDEF0", "checkpoint is"},
        {"\"step\":1", "\"step\":2", "steps[1].step is 2, expected 1"},
        {"\"sequence\":0", "\"sequence\":1048576", "steps[0].rows[0].sequence is 1048576"},
        {"\"slot\":0", "\"slot\":-1", "steps[0].rows[0].slot is -1"},
        {"\"position\":1", "\"position\":\"1\"", "steps[0].rows[1].position is the string"},
        {"\"position\":1", "\"position\":16777216", "steps[0].rows[1].position is 16777216"},
        {"\"token\":3", "\"token\":4", "steps[0].rows[2].token is 4, expected an id below"},
        {"\"token\":3,", "", "steps[0].rows[2].token"},
        {"\"kind\":\"verify\"", "\"kind\":\"vrfy\"", "steps[1].rows[0].kind is \"vrfy\""},
        {"\"round\":0}", "\"rund\":0}", "rund"},
        {"\"accepted\":1", "\"accepted\":3", "steps[1].rounds[0].accepted is 3, expected at most"},
        {"\"accepted\":1", "\"accepted\":0", "steps[1].rounds[0].emitted has 2 elements"},
        {"\"emitted\":[1,3]", "\"emitted\":[]", "steps[1].rounds[0].emitted has 0 elements"},
        {"\"emitted\":[1,3]", "\"emitted\":[1,4]", "emitted has id 4 at 1"},
        {"\"drafts\":[1,2]", "\"drafts\":[1,2,3,1,2,3,1,2,3]", "drafts has 9 elements"},
        {"\"drafts\":[1,2]", "\"drafts\":[1,-2]", "drafts has element 1"},
        {"\"logits_rows\":[2]", "\"logits_rows\":[3]", "logits_rows has 3 at 0"},
        {"\"logits_rows\":[2]", "\"logits_rows\":[2,2]", "logits_rows has 2 at 1"},
        {"\"position\":5,\"target\"", "\"position\":-5,\"target\"", "steps[2].states[0].position"},
        {"\"fedc", "\"xedc", "steps[2].states[0].target is"},
        {"\"rows\":[],", "\"rows\":{},", "steps[2].rows is an object, expected a list"},
        {"\"note\"", "\"remark\"", "remark"},
        {"]}]}", "]}]", "trace.json:"},
    };
    scratch_path dir = scratch_new();
    char *whole = without_file();
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        sb_error err = {""};
        char *text = changed(whole, faults[i].old, faults[i].new);
        sb_status status = open_text(dir.text, text, &err);
        if ((status != SB_ERR_INPUT && status != SB_ERR_UNSUPPORTED) ||
            !strstr(err.text, faults[i].words) || !strstr(err.text, "trace.json"))
            fail_msg("%s for %s: status %d: %s", faults[i].new, faults[i].old, (int)status,
                     err.text);
        free(text);
    }
    free(whole);
    scratch_remove(dir.text);
}

/* Differences without a meaning. */
TEST(test_list_benign)
{
    static const text_fault benign[] = {
        {"\"spec\":2,", "", ""},
        {"\"profile\":\"hf\",\"knobs\":{\"act\":\"bf16\"},\"arithmetic\":\"f32\",", "", ""},
        {"\"checkpoint\":\"0123456789abcdef0123456789abcdef\",", "", ""},
        {"\"slot\":0,", "", ""},
        {"\"round\":0}", "\"round\":5}", ""}, /* left to the audit */
        {"\"emitted\":[1,3]", "\"emitted\":[1]", ""},
        {"{\"step\":1,", "{\"note\":[],\"step\":1,", ""},
        {"\"logits_rows\":[2],", "", ""},
        {"\"logits_rows\":[2]", "\"logits_rows\":[]", ""},
    };
    scratch_path dir = scratch_new();
    char *whole = without_file();
    for (size_t i = 0; i < sizeof benign / sizeof *benign; i++) {
        sb_error err = {""};
        char *text = changed(whole, benign[i].old, benign[i].new);
        check_status(benign[i].new, open_text(dir.text, text, &err), &err, SB_OK, "");
        free(text);
    }
    free(whole);
    scratch_remove(dir.text);
}

/* --- a step file ------------------------------------------------------------------------------ */

/* A tensor and its values. */
typedef struct array {
    const char *name;
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[3];
    uint32_t values[12]; /* the bits of F32, of a 16-bit format in the low half, or integers */
} array;

enum { F1 = 0x3f800000, NAN_BITS = 0x7fc00001, ARRAYS = 9 };

static const array sound[ARRAYS] = {
    {"embed", SB_DTYPE_F32, 2, {3, 2}, {F1, 0, F1, NAN_BITS, F1, 0x40000000}},
    {"layers.0.output", SB_DTYPE_BF16, 3, {3, 1, 2}, {0x3f80, 0x4000, 0, 0, 0, 0xbf80}},
    {"layers.0.mlp.gate", SB_DTYPE_F16, 2, {3, 1}, {0x3c00, 0x4000, 0x7e00}},
    {"layers.0.mlp.router_ids", SB_DTYPE_I32, 2, {3, 2}, {1, 0, 2, 3, 3, 1}},
    {"logits", SB_DTYPE_F32, 2, {1, 4}, {F1, F1, F1, 0}},
    {"mtp.embed", SB_DTYPE_F32, 2, {2, 1}, {F1, F1}},
    {"state.7.mtp.hidden", SB_DTYPE_F32, 1, {4}, {F1, 0, 0, 0}},
    {"step", SB_DTYPE_I64, 1, {1}, {0}},
    {"tokens", SB_DTYPE_U32, 1, {3}, {1, 2, 3}},
};

static size_t count_of(const array *a)
{
    size_t n = 1;
    for (unsigned i = 0; i < a->rank; i++)
        n *= (size_t)a->shape[i];
    return n;
}

static sb_status fill(void *ctx, const sb_tensor *t, uint64_t first, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    const array *arrays = ctx;
    size_t each = sb_dtype_bits(t->dtype) / 8;
    (void)first;
    (void)err;
    while (strcmp(arrays->name, t->name) != 0)
        arrays++;
    for (size_t i = 0; i < count / each; i++) {
        unsigned char whole[8];
        /* a 64-bit integer keeps its sign */
        sb_store_u64(whole, (uint64_t)(int64_t)(int32_t)arrays->values[i]);
        memcpy(bytes + i * each, whole, each);
    }
    return SB_OK;
}

static void write_step(const char *dir, const array arrays[ARRAYS], const char *digests)
{
    scratch_path path = scratch_join(dir, "step-000000.safetensors");
    sb_writer *w = NULL;
    sb_error err = {""};
    assert_int_equal(sb_writer_new(path.text, 0, SB_WRITER_FILE | SB_WRITER_REPLACE, &w, &err),
                     SB_OK);
    for (size_t i = 0; i < ARRAYS; i++) {
        assert_true(count_of(&arrays[i]) <= 12);
        assert_int_equal(sb_writer_add(w, arrays[i].name, arrays[i].dtype, arrays[i].rank,
                                       arrays[i].shape, &err),
                         SB_OK);
    }
    if (digests)
        assert_int_equal(sb_writer_metadata(w, arrays[0].name, "samebit.digests", digests, &err),
                         SB_OK);
    check_status("writing", sb_writer_run(w, fill, (void *)(uintptr_t)arrays, &err), &err, SB_OK,
                 "");
    sb_writer_free(w);
}

static sb_status read_step(const char *dir, const array arrays[ARRAYS], const char *digests,
                           sb_step *out, sb_error *err)
{
    sb_trace *t = NULL;
    write_step(dir, arrays, digests);
    scratch_write_json(dir, "trace.json", list);
    check_status("the list", sb_trace_open(dir, &t, err), err, SB_OK, "");
    sb_status status = sb_trace_step(t, 0, out, err);
    sb_trace_close(t);
    return status;
}

static float value_of(const sb_step *step, const char *name, size_t i)
{
    const sb_step_value *v = sb_step_find(&step->taps, name);
    if (!v || !v->data || i >= v->rows * v->cols)
        fail_msg("no %s", name);
    return v->data[i];
}

TEST(test_arrays_are_read)
{
    scratch_path dir = scratch_new();
    sb_step step;
    sb_error err = {""};
    check_status("a sound step", read_step(dir.text, sound, NULL, &step, &err), &err, SB_OK, "");
    assert_int_equal(sb_bits_f32(value_of(&step, "embed", 3)), NAN_BITS);
    assert_true(value_of(&step, "layers.0.output", 1) == 2.0f);
    assert_true(value_of(&step, "layers.0.output", 5) == -1.0f);
    assert_true(value_of(&step, "layers.0.mlp.gate", 1) == 2.0f);
    assert_true(value_of(&step, "layers.0.mlp.router_ids", 4) == 3.0f);
    assert_int_equal(sb_step_find(&step.taps, "layers.0.output")->cols, 2);
    assert_int_equal(sb_step_find(&step.taps, "mtp.embed")->rows, 2);
    assert_int_equal(step.states[0].pieces.items[0].rows, 1);
    assert_string_equal(step.states[0].pieces.items[0].name, "mtp.hidden");
    assert_int_equal(step.unknown, 0);
    const sb_step_value *logits = sb_step_find(&step.taps, "logits");
    assert_int_equal(sb_step_logits_row(&step, logits, 2), 0);
    assert_int_equal(sb_step_logits_row(&step, logits, 0), -1);
    sb_step_clear(&step);
    scratch_remove(dir.text);
}

typedef struct array_fault {
    size_t at; /* the index of the array it replaces */
    array with;
    const char *words; /* in the refusal; NULL: harmless, no refusal */
} array_fault;

static const array_fault array_faults[] = {
    {0,
     {"embed", SB_DTYPE_F32, 2, {2, 2}, {0}},
     "\"embed\" has 2 rows, expected 3: the number of rows of step 0"},
    {0, {"embed", SB_DTYPE_F64, 2, {3, 1}, {0}}, "\"embed\" is F64, expected F32, BF16 or F16"},
    {0, {"embed", SB_DTYPE_I32, 2, {3, 1}, {0}}, "\"embed\" is I32, expected F32"},
    {0, {"embed", SB_DTYPE_F32, 0, {0}, {0}}, "\"embed\" is a scalar"},
    {3, {"layers.0.mlp.router_ids", SB_DTYPE_F32, 2, {3, 2}, {0}}, "is F32, expected I32, U32"},
    {3,
     {"layers.0.mlp.router_ids", SB_DTYPE_I32, 2, {3, 2}, {0, 0, 0, ~0u}},
     "row 1, column 1 is -1, expected an id"},
    {3, {"layers.0.mlp.router_ids", SB_DTYPE_I64, 2, {3, 2}, {0, 0, ~0u}}, "row 1, column 0 is -1"},
    {4,
     {"logits", SB_DTYPE_F32, 2, {3, 4}, {0}},
     "\"logits\" has 3 rows, expected 1: the number of rows of step 0 "
     "listed in logits_rows"},
    {4, {"logits", SB_DTYPE_F32, 2, {1, 3}, {0}}, "has 3 columns, expected vocab_size 4"},
    {5, {"mtp.embed", SB_DTYPE_F32, 2, {4, 1}, {0}}, "\"mtp.embed\" has 4 rows, expected 3"},
    {6, {"state.3.mtp.hidden", SB_DTYPE_F32, 1, {4}, {0}}, "step 0 lists no state of sequence 3"},
    {7, {"step", SB_DTYPE_I32, 1, {1}, {1}}, "\"step\" has 1 at 0, expected 0"},
    {7, {"step", SB_DTYPE_I32, 1, {2}, {0}}, "\"step\" has another shape"},
    {8, {"tokens", SB_DTYPE_I32, 1, {3}, {1, 2, 2}}, "\"tokens\" has 2 at 2, expected 3"},
    {8, {"tokens", SB_DTYPE_F32, 1, {3}, {1, 2, 3}}, "\"tokens\" is F32"},
    /* harmless */
    {0, {"embed", SB_DTYPE_F16, 1, {3}, {0}}, NULL},
    {3, {"layers.0.mlp.router_ids", SB_DTYPE_I64, 2, {3, 1}, {1, 2, 3}}, NULL},
    {4, {"top_ids", SB_DTYPE_I64, 2, {1, 2}, {3, 1}}, NULL},
    {5, {"mtp.embed", SB_DTYPE_F32, 2, {3, 1}, {0}}, NULL},
    {6, {"state.7.mtp.hidden", SB_DTYPE_BF16, 2, {1, 4}, {0}}, NULL},
    {8, {"mine", SB_DTYPE_U8, 1, {9}, {0}}, NULL},
    {8, {"layers.0.linear_attn.gg", SB_DTYPE_F64, 1, {1}, {0}}, NULL},
};

TEST(test_array_faults)
{
    scratch_path dir = scratch_new();
    for (size_t i = 0; i < sizeof array_faults / sizeof *array_faults; i++) {
        const array_fault *f = &array_faults[i];
        array arrays[ARRAYS];
        sb_step step;
        sb_error err = {""};
        memcpy(arrays, sound, sizeof arrays);
        arrays[f->at] = f->with;
        sb_status status = read_step(dir.text, arrays, NULL, &step, &err);
        int as_should = f->words ? status == SB_ERR_INPUT && strstr(err.text, f->words) &&
                                       strstr(err.text, "step-000000.safetensors")
                                 : !status;
        if (!as_should)
            fail_msg("%s (case %zu): status %d: %s", f->with.name, i, (int)status, err.text);
        if (!status && !sb_step_find(&step.taps, "embed"))
            fail_msg("nothing was read");
        sb_step_clear(&step);
    }
    scratch_remove(dir.text);
}

TEST(test_digests)
{
    static const struct {
        const char *digests, *words;
    } cases[] = {
        {"{\"layers.0.mlp.out\":[3,2,\"0123456789abcdef0123456789abcdef\"]}", NULL},
        {"{\"mine\":1}", NULL},
        {"{\"embed\":[3,2,\"0123456789abcdef0123456789abcdef\"]}", "one of the two was changed"},
        {"{\"embed\":[3,1,\"0123456789abcdef0123456789abcdef\"]}",
         "its digest is of 3 rows and 1 columns"},
        {"{\"layers.0.mlp.out\":[2,2,\"0123456789abcdef0123456789abcdef\"]}", "has 2 rows"},
        {"{\"layers.0.mlp.out\":[3,2]}", "is not a list of rows, columns and 32"},
        {"{\"layers.0.mlp.out\":[3,0,\"0123456789abcdef0123456789abcdef\"]}",
         "is not a list of rows"},
        {"{\"state.1.mtp.hidden\":[1,4,\"0123456789abcdef0123456789abcdef\"]}", "no state of"},
        {"[]", "is not an object"},
        {"{", "step-000000"},
    };
    scratch_path dir = scratch_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sb_step step;
        sb_error err = {""};
        sb_status status = read_step(dir.text, sound, cases[i].digests, &step, &err);
        if (cases[i].words ? status != SB_ERR_INPUT || !strstr(err.text, cases[i].words)
                           : status != SB_OK)
            fail_msg("%s: status %d: %s", cases[i].digests, (int)status, err.text);
        if (i == 0) {
            assert_string_equal(step.taps.items[0].name, "layers.0.mlp.out");
            assert_null(step.taps.items[0].data);
        }
        sb_step_clear(&step);
    }
    scratch_remove(dir.text);
}

/* The files of a folder against the list. */
TEST(test_files)
{
    scratch_path dir = scratch_new();
    sb_trace *t = NULL;
    sb_step step = {.number = 0};
    sb_error err = {""};
    scratch_write_json(dir.text, "trace.json", list);
    check_status("opening", sb_trace_open(dir.text, &t, &err), &err, SB_OK, "");
    check_status("a lost file", sb_trace_step(t, 0, &step, &err), &err, SB_ERR_IO, "step-000000");
    sb_trace_close(t);
    write_step(dir.text, sound, NULL);
    char *text = changed(list, "\"tensors\":9", "\"tensors\":8");
    scratch_write_json(dir.text, "trace.json", text);
    check_status("opening", sb_trace_open(dir.text, &t, &err), &err, SB_OK, "");
    check_status("fewer", sb_trace_step(t, 0, &step, &err), &err, SB_ERR_INPUT,
                 "has 9 tensors, expected 8");
    sb_trace_close(t);
    free(text);
    text = without_file();
    check_status("a file too many", open_text(dir.text, text, &err), &err, SB_ERR_INPUT,
                 "has the file step-000000.safetensors");
    free(text);
    scratch_path other = scratch_join(dir.text, "step-7.safetensors");
    scratch_write(other.text, "x", 1);
    check_status("another name", open_text(dir.text, list, &err), &err, SB_ERR_INPUT, "step-7");
    scratch_remove(dir.text);
    check_status("no folder", sb_trace_open(dir.text, &t, &err), &err, SB_ERR_IO,
                 "no such file or folder");
    dir = scratch_new();
    check_status("an empty one", sb_trace_open(dir.text, &t, &err), &err, SB_ERR_INPUT,
                 "is not a trace");
    scratch_remove(dir.text);
}

/* --- seeds ------------------------------------------------------------------------------------ */

/* A file of golden/trace is trace.json, a NUL, and the file of step 0, byte for byte. WRITE_SEEDS=1
 * writes it. */
static void check_seed(const char *path, const char *digests)
{
    scratch_path dir = scratch_new(), file = scratch_join(dir.text, "step-000000.safetensors");
    unsigned char *step = NULL, *there = NULL;
    size_t size = 0, found = 0, n = sizeof list;
    write_step(dir.text, sound, digests);
    assert_int_equal(sb_read_file(file.text, 1 << 20, &step, &size, NULL), SB_OK);
    unsigned char *seed = malloc(n + size);
    assert_non_null(seed);
    memcpy(seed, list, n); /* with its NUL */
    memcpy(seed + n, step, size);
    if (getenv("WRITE_SEEDS"))
        scratch_write(path, seed, n + size);
    assert_int_equal(sb_read_file(path, 1 << 20, &there, &found, NULL), SB_OK);
    assert_int_equal(found, n + size);
    assert_memory_equal(there, seed, found);
    free(seed);
    free(there);
    free(step);
    scratch_remove(dir.text);
}

TEST(test_seeds)
{
    check_seed("golden/trace/seed-arrays.trace", NULL);
    check_seed(
        "golden/trace/seed-digests.trace",
        "{\"layers.0.mlp.out\":[3,2,\"0123456789abcdef0123456789abcdef\"],"
        "\"state.7.mtp.layers.0.self_attn.keys\":[4,2,\"0123456789abcdef0123456789abcdef\"]}");
}
