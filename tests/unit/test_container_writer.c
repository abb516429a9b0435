/* test_container_writer.c - the published layout byte for byte, and no loss of existing files when
 * a run fails. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include <errno.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/container/checkpoint.h"
#include "ref/container/file.h"
#include "ref/container/writer.h"

/* What the callback does, and what it counts. */
typedef struct filling {
    uint64_t fail_at;     /* fails at this byte of tensor "z"; 0: never */
    const char *obstacle; /* a folder to make in the place of a file, or NULL */
    uint64_t next;        /* the first byte of the next piece */
    size_t pieces;
} filling;

/* Byte i of a tensor is a function of its name and i. */
static unsigned char byte_of(const char *name, uint64_t i)
{
    return (unsigned char)sb_rng_u64(sb_rng_key(1, name), i);
}

static sb_status fill(void *ctx, const sb_tensor *t, uint64_t first_byte, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    filling *f = ctx;
    assert_null(t->data);
    assert_true(count > 0 && count <= SB_WRITER_PIECE);
    assert_int_equal(first_byte % SB_WRITER_PIECE, 0);
    assert_int_equal(first_byte, f->next);
    f->next = first_byte + count < t->bytes ? first_byte + count : 0;
    f->pieces++;
    if (f->obstacle && t->shard == 1 && mkdir(f->obstacle, 0700) != 0)
        assert_int_equal(errno, EEXIST);
    if (f->fail_at && strcmp(t->name, "z") == 0 && f->fail_at < first_byte + count)
        return sb_fail(err, SB_ERR_NUMERIC, "told to fail");
    for (size_t i = 0; i < count; i++)
        bytes[i] = byte_of(t->name, first_byte + i);
    return SB_OK;
}

static void add(sb_writer *w, const char *name, sb_dtype dtype, uint64_t rows, uint64_t cols)
{
    sb_error err;
    const uint64_t shape[2] = {rows, cols};
    unsigned rank = rows ? 2 : cols ? 1 : 0;
    check_status(name, sb_writer_add(w, name, dtype, rank, rows ? shape : shape + 1, &err), &err,
                 SB_OK, "");
}

/* Five tensors, declared in this order. */
static sb_writer *five(const char *path, uint64_t max_shard, unsigned flags)
{
    sb_error err;
    sb_writer *w;
    assert_int_equal(sb_writer_new(path, max_shard, flags, &w, &err), SB_OK);
    add(w, "z", SB_DTYPE_U8, 0, 3);
    add(w, "b", SB_DTYPE_BF16, 2, 2);
    add(w, "a\"\\", SB_DTYPE_BF16, 0, 1);
    add(w, "s", SB_DTYPE_F32, 0, 0);
    add(w, "f", SB_DTYPE_F16, 0, 4);
    return w;
}

static void check_file(const char *dir, const char *name, const char *expected, size_t n)
{
    unsigned char *bytes;
    size_t count;
    sb_error err;
    assert_int_equal(sb_read_file(scratch_join(dir, name).text, 1 << 20, &bytes, &count, &err),
                     SB_OK);
    if (count < n || memcmp(bytes, expected, n) != 0)
        fail_msg("%s:\n%.*s\nexpected\n%.*s", name, (int)count, (char *)bytes, (int)n, expected);
    free(bytes);
}

static void run_ok(sb_writer *w)
{
    sb_error err = {{0}};
    filling f = {0};
    check_status("run", sb_writer_run(w, fill, &f, &err), &err, SB_OK, "");
    sb_writer_free(w);
}

/* The bytes are those that the Python library writes for these tensors. */
TEST(test_one_file_as_the_reference_writes_it)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
        "\"a\\\"\\\\\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[4,6]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[6,14]},"
        "\"f\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[14,22]},"
        "\"z\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[22,25]}}    ";
    char expected[8 + sizeof header - 1 + 25];
    assert_int_equal((sizeof header - 1) % 8, 0);
    sb_store_u64((unsigned char *)expected, sizeof header - 1);
    memcpy(expected + 8, header, sizeof header - 1);
    static const struct {
        const char *name;
        size_t bytes;
    } order[] = {{"s", 4}, {"a\"\\", 2}, {"b", 8}, {"f", 8}, {"z", 3}};
    size_t at = 8 + sizeof header - 1;
    for (size_t i = 0; i < 5; i++)
        for (uint64_t k = 0; k < order[i].bytes; k++)
            expected[at++] = (char)byte_of(order[i].name, k);
    scratch_path dir = scratch_new();
    run_ok(five(dir.text, 0, 0));
    assert_int_equal(scratch_entries(dir.text), 1);
    check_file(dir.text, "model.safetensors", expected, sizeof expected);
    scratch_path file = scratch_join(dir.text, "t.safetensors");
    run_ok(five(file.text, 1, SB_WRITER_FILE));
    check_file(dir.text, "t.safetensors", expected, sizeof expected);
    scratch_remove(dir.text);
}

TEST(test_shards_and_their_index)
{
    static const char index[] = "{\n  \"metadata\": {\n    \"total_size\": 25\n  },\n"
                                "  \"weight_map\": {\n"
                                "    \"a\\\"\\\\\": \"model-00002-of-00003.safetensors\",\n"
                                "    \"b\": \"model-00001-of-00003.safetensors\",\n"
                                "    \"f\": \"model-00003-of-00003.safetensors\",\n"
                                "    \"s\": \"model-00002-of-00003.safetensors\",\n"
                                "    \"z\": \"model-00001-of-00003.safetensors\"\n  }\n}\n";
    sb_error err;
    sb_checkpoint *c;
    scratch_path parent = scratch_new();
    scratch_path dir = scratch_join(parent.text, "new");
    run_ok(five(scratch_join(dir.text, "/").text, 11, 0)); /* z 3 + b 8 | a 2 + s 4 | f 8 */
    assert_int_equal(scratch_entries(dir.text), 4);
    check_file(dir.text, "model.safetensors.index.json", index, sizeof index - 1);
    check_status("open", sb_checkpoint_open(dir.text, &c, &err), &err, SB_OK, "");
    assert_int_equal(sb_checkpoint_count(c), 5);
    for (size_t i = 0; i < 5; i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        for (uint64_t k = 0; k < t->bytes; k++)
            assert_int_equal(t->data[k], byte_of(t->name, k));
    }
    sb_checkpoint_close(c);
    scratch_remove(dir.text);
    run_ok(five(dir.text, 1, 0)); /* every tensor is larger than a shard: each has its own */
    assert_int_equal(scratch_entries(dir.text), 6);
    scratch_remove(parent.text);
}

TEST(test_pieces_are_bounded)
{
    enum { BYTES = 2 * SB_WRITER_PIECE + 5 };
    sb_error err;
    sb_writer *w;
    sb_safetensors file;
    filling f = {0};
    scratch_path dir = scratch_new();
    assert_int_equal(sb_writer_new(dir.text, 0, 0, &w, &err), SB_OK);
    add(w, "large", SB_DTYPE_U8, 0, BYTES);
    add(w, "exact", SB_DTYPE_U8, 0, SB_WRITER_PIECE);
    assert_int_equal(sb_writer_run(w, fill, &f, &err), SB_OK);
    check_status("again", sb_writer_run(w, fill, &f, &err), &err, SB_ERR_USAGE, "runs only once");
    sb_writer_free(w);
    assert_int_equal(f.pieces, 4);
    scratch_path path = scratch_join(dir.text, "model.safetensors");
    assert_int_equal(sb_safetensors_open(path.text, &file, &err), SB_OK);
    assert_string_equal(file.tensors[1].name, "large");
    for (uint64_t i = 0; i < BYTES; i += 4093)
        assert_int_equal(file.tensors[1].data[i], byte_of("large", i));
    assert_int_equal(file.tensors[1].data[BYTES - 1], byte_of("large", BYTES - 1));
    sb_safetensors_close(&file);
    scratch_remove(dir.text);
}

TEST(test_what_cannot_be_declared)
{
    sb_error err;
    sb_writer *w;
    filling f = {0};
    static const uint64_t one[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const uint64_t zero = 0;
    static const uint64_t huge = 1ull << 60;
    char name[SB_MAX_TENSOR_NAME + 2];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    scratch_path dir = scratch_new();
    assert_int_equal(sb_writer_new(dir.text, 0, 0, &w, &err), SB_OK);
    check_status("none", sb_writer_run(w, fill, &f, &err), &err, SB_ERR_USAGE,
                 "needs at least one tensor");
    check_status("empty", sb_writer_add(w, "", SB_DTYPE_U8, 1, one, &err), &err, SB_ERR_USAGE,
                 "expected a name of 1 to 1024 bytes");
    check_status("long", sb_writer_add(w, name, SB_DTYPE_U8, 1, one, &err), &err, SB_ERR_USAGE,
                 "expected a name");
    check_status("reserved", sb_writer_add(w, "__metadata__", SB_DTYPE_U8, 1, one, &err), &err,
                 SB_ERR_USAGE, "not __metadata__");
    check_status("control", sb_writer_add(w, "a\n", SB_DTYPE_U8, 1, one, &err), &err, SB_ERR_USAGE,
                 "byte 1 of its name is 0x0a, expected printable ASCII");
    check_status("rank", sb_writer_add(w, "a", SB_DTYPE_U8, 9, one, &err), &err, SB_ERR_USAGE,
                 "rank 9, expected at most 8");
    check_status("zero", sb_writer_add(w, "a", SB_DTYPE_U8, 1, &zero, &err), &err, SB_ERR_USAGE,
                 "dimension 0 of shape is 0");
    check_status("half", sb_writer_add(w, "a", SB_DTYPE_F4, 1, one, &err), &err, SB_ERR_USAGE,
                 "do not end at a byte");
    for (size_t i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "t%zu", i);
        assert_int_equal(sb_writer_add(w, name, SB_DTYPE_U8, 1, &huge, &err), SB_OK);
    }
    check_status("total", sb_writer_run(w, fill, &f, &err), &err, SB_ERR_USAGE, "overflows 63");
    sb_writer_free(w);
    w = five(dir.text, 0, 0);
    add(w, "b", SB_DTYPE_U8, 0, 1);
    check_status("twice", sb_writer_run(w, fill, &f, &err), &err, SB_ERR_USAGE,
                 "tensor \"b\" is declared twice");
    sb_writer_free(w);
    assert_int_equal(scratch_entries(dir.text), 0);
    scratch_remove(dir.text);
}

/* Runs into a failure and checks the message. */
static void run_bad(sb_writer *w, uint64_t fail_at, sb_status expected, const char *fragment)
{
    sb_error err;
    filling f = {.fail_at = fail_at};
    check_status("run", sb_writer_run(w, fill, &f, &err), &err, expected, fragment);
    sb_writer_free(w);
}

TEST(test_what_exists_is_not_lost)
{
    scratch_path parent = scratch_new();
    scratch_path dir = scratch_join(parent.text, "ckpt");
    run_bad(five(dir.text, 3, 0), 1, SB_ERR_NUMERIC, "told to fail");
    assert_int_equal(scratch_entries(parent.text), 0); /* the writer removed its folder */
    run_bad(five(scratch_join(dir.text, "deep").text, 0, 0), 0, SB_ERR_IO, "cannot create");
    assert_int_equal(mkdir(dir.text, 0700), 0);
    scratch_write_json(dir.text, "config.json", "{}");
    run_bad(five(dir.text, 0, 0), 0, SB_ERR_USAGE, "the folder is not empty (config.json)");
    run_ok(five(dir.text, 11, SB_WRITER_REPLACE));
    assert_int_equal(scratch_entries(dir.text), 5);
    /* the last piece fails: three shards, index and config.json remain as before */
    run_bad(five(dir.text, 0, SB_WRITER_REPLACE), 1, SB_ERR_NUMERIC, "told to fail");
    assert_int_equal(scratch_entries(dir.text), 5);
    check_file(dir.text, "config.json", "{}", 2);
    /* success removes all files of the old set */
    run_ok(five(dir.text, 0, SB_WRITER_REPLACE));
    assert_int_equal(scratch_entries(dir.text), 2);
    run_ok(five(dir.text, 11, SB_WRITER_REPLACE));
    assert_int_equal(scratch_entries(dir.text), 5);
    scratch_write_json(dir.text, "extra.safetensors", "x");
    run_bad(five(dir.text, 0, SB_WRITER_REPLACE), 0, SB_ERR_USAGE,
            "extra.safetensors is not one of the new files");
    assert_int_equal(scratch_entries(dir.text), 6);
    scratch_path file = scratch_join(dir.text, "config.json");
    run_bad(five(file.text, 0, 0), 0, SB_ERR_IO, "config.json: cannot create or list");
    run_bad(five(file.text, 0, SB_WRITER_FILE), 0, SB_ERR_USAGE, "exists, and replacement was");
    check_file(dir.text, "config.json", "{}", 2);
    run_bad(five(file.text, 0, SB_WRITER_FILE | SB_WRITER_REPLACE), 1, SB_ERR_NUMERIC, "told to");
    check_file(dir.text, "config.json", "{}", 2);
    assert_int_equal(scratch_entries(dir.text), 6);
    scratch_remove(parent.text);
}

/* The second of three renames fails, in a folder that the writer made: all of its files are
 * removed. */
TEST(test_a_rename_that_fails)
{
    sb_error err;
    scratch_path parent = scratch_new();
    scratch_path dir = scratch_join(parent.text, "ckpt");
    scratch_path obstacle = scratch_join(dir.text, "model-00002-of-00003.safetensors");
    filling f = {.obstacle = obstacle.text};
    sb_writer *w = five(dir.text, 11, 0);
    check_status("run", sb_writer_run(w, fill, &f, &err), &err, SB_ERR_IO,
                 "model-00002-of-00003.safetensors: cannot rename the finished file");
    sb_writer_free(w);
    assert_int_equal(scratch_entries(dir.text), 1); /* the obstacle itself */
    scratch_remove(parent.text);
}

TEST(test_memory_that_ends)
{
    scratch_path parent = scratch_new();
    scratch_path dir = scratch_join(parent.text, "ckpt");
    unsigned long n = 1;
    for (sb_status status = SB_ERR_MEMORY; status != SB_OK; n++) {
        sb_error err;
        filling f = {0};
        sb_writer *w = five(dir.text, 11, 0);
        sb_alloc_fail_at(n);
        status = sb_writer_run(w, fill, &f, &err);
        sb_alloc_fail_at(0);
        sb_writer_free(w);
        if (status != SB_OK)
            check_status("memory", status, &err, SB_ERR_MEMORY, "out of memory");
        /* a new folder is complete, or does not exist */
        assert_int_equal(scratch_entries(parent.text), status == SB_OK);
        assert_true(n < 1000);
    }
    assert_true(n > 8);
    scratch_remove(parent.text);
}

TEST(test_whole_files)
{
    sb_error err;
    unsigned char *bytes;
    size_t n;
    scratch_path dir = scratch_new();
    scratch_path path = scratch_join(dir.text, "f");
    check_status("new", sb_write_file(path.text, "abc", 3, &err), &err, SB_OK, "");
    check_status("over", sb_write_file(path.text, "defg", 4, &err), &err, SB_OK, "");
    check_file(dir.text, "f", "defg", 4);
    check_status("limit", sb_read_file(path.text, 3, &bytes, &n, &err), &err, SB_ERR_INPUT,
                 "/f: has 4 bytes, expected at most 3");
    assert_int_equal(sb_read_file(path.text, 4, &bytes, &n, &err), SB_OK);
    assert_int_equal(n, 4);
    assert_int_equal(bytes[4], 0);
    free(bytes);
    check_status("empty", sb_write_file(path.text, "", 0, &err), &err, SB_OK, "");
    assert_int_equal(sb_read_file(path.text, 4, &bytes, &n, &err), SB_OK);
    assert_int_equal(n, 0);
    free(bytes);
    check_status("no folder", sb_write_file(scratch_join(path.text, "g").text, "x", 1, &err), &err,
                 SB_ERR_IO, "cannot create: Not a directory");
    check_status("a folder", sb_write_file(dir.text, "x", 1, &err), &err, SB_ERR_IO,
                 "is a folder, expected the name of a file");
    check_status("read it", sb_read_file(dir.text, 9, &bytes, &n, &err), &err, SB_ERR_IO,
                 "is a folder, expected a regular file");
    assert_int_equal(scratch_entries(dir.text), 1);
    scratch_remove(dir.text);
}
