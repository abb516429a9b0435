/* test_container_checkpoint.c - folders: one file, shards and their index, links, failing
 * allocations. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include <time.h>

#include "ref/base/mem.h"
#include "ref/container/checkpoint.h"
#include "ref/container/index.h"
#include "ref/container/json.h"
#include "ref/container/writer.h"

#define U8(name, begin, end)                                                                       \
    "'" name "':{'dtype':'U8','shape':[1],'data_offsets':[" begin "," end "]}"
#define A "{" U8("a", "0", "1") "}"
#define BC "{" U8("c", "0", "1") "," U8("b", "1", "2") "}"
#define MAP "'weight_map':{'a':'s1.safetensors','b':'s2.safetensors','c':'s2.safetensors'}"

/* A folder of two shards with this index (' for "). */
static scratch_path two_shards(const char *index)
{
    scratch_path dir = scratch_new();
    scratch_write_safetensors(dir.text, "s1.safetensors", A, 1);
    scratch_write_safetensors(dir.text, "s2.safetensors", BC, 2);
    scratch_write_json(dir.text, "model.safetensors.index.json", index);
    scratch_write_json(dir.text, "config.json", "{}");
    return dir;
}

static void check_open(const char *path, sb_status expected, const char *fragment)
{
    sb_error err;
    sb_checkpoint *c = NULL;
    sb_status status = sb_checkpoint_open(path, &c, &err);
    check_status(path, status, &err, expected, fragment);
    if (status == SB_OK)
        sb_checkpoint_close(c);
}

TEST(test_two_shards_are_one_set)
{
    sb_error err;
    sb_checkpoint *c;
    uint64_t declared = 7;
    scratch_path dir = two_shards("{'metadata':{'total_size':0}," MAP "}");
    scratch_path slashes = scratch_join(dir.text, "/");
    assert_int_equal(sb_checkpoint_open(slashes.text, &c, &err), SB_OK);
    assert_string_equal(sb_checkpoint_path(c), dir.text);
    assert_string_equal(sb_checkpoint_folder(c), dir.text);
    assert_int_equal(sb_checkpoint_count(c), 3);
    assert_int_equal(sb_checkpoint_shards(c), 2);
    assert_string_equal(sb_checkpoint_at(c, 0)->name, "a");
    assert_string_equal(sb_checkpoint_at(c, 1)->name, "b");
    assert_string_equal(sb_checkpoint_at(c, 2)->name, "c");
    const sb_tensor *b = sb_checkpoint_find(c, "b");
    assert_ptr_equal(b, sb_checkpoint_at(c, 1));
    assert_string_equal(sb_checkpoint_shard_name(c, b->shard), "s2.safetensors");
    assert_int_equal(b->data[0], 37 + 11);
    assert_int_equal(sb_checkpoint_offset(c, b), 8 + strlen(BC) + 1);
    assert_null(sb_checkpoint_find(c, "ab"));
    assert_null(sb_checkpoint_find(c, ""));
    assert_int_equal(sb_checkpoint_bytes(c), 3);
    assert_true(sb_checkpoint_declared_bytes(c, &declared)); /* a wrong value, which is allowed */
    assert_int_equal(declared, 0);
    sb_checkpoint_close(c);
    scratch_remove(dir.text);
}

TEST(test_index_rules)
{
    static const struct {
        const char *index;
        sb_status status;
        const char *fragment;
    } cases[] = {
        {"{" MAP "}", SB_OK, ""},
        {"{" MAP ",'metadata':{}}", SB_OK, ""},
        {"{" MAP ",'metadata':null,'other':[1]}", SB_OK, ""},
        {"{" MAP ",'metadata':{'total_size':3.5e9,'total_parameters':1}}", SB_OK, ""},
        {"{" MAP ",'metadata':{'total_size':'3'}}", SB_ERR_INPUT,
         "metadata.total_size is the string \"3\", expected a number"},
        {"{" MAP ",'metadata':[]}", SB_ERR_INPUT, "metadata is an array of 0"},
        {"[]", SB_ERR_INPUT, "the document is an array of 0, expected an object"},
        {"{}", SB_ERR_INPUT, "weight_map is absent, expected an object"},
        {"{'weight_map':{}}", SB_ERR_INPUT, "weight_map lists 0 tensors, expected 1 to 1000000"},
        {"{" MAP "," MAP "}", SB_ERR_INPUT, "duplicate object key"},
        {"{'weight_map':{'a':'s1.safetensors','a':'s2.safetensors'}}", SB_ERR_INPUT,
         "duplicate object key"},
        {"{'weight_map':{'a':1}}", SB_ERR_INPUT, "weight_map.a is 1, expected the name of a shard"},
        {"{'weight_map':{'':'s1.safetensors'}}", SB_ERR_INPUT, "its name has 0 bytes"},
        {"{'weight_map':{'a':'../s1.safetensors'}}", SB_ERR_INPUT,
         "puts tensor \"a\" into \"../s1.safetensors\", expected a plain file name"},
        {"{'weight_map':{'a':'/s1.safetensors'}}", SB_ERR_INPUT, "expected a plain file name"},
        {"{'weight_map':{'a':'..'}}", SB_ERR_INPUT, "expected a file name that ends in"},
        {"{'weight_map':{'a':''}}", SB_ERR_INPUT, "expected a file name that ends in"},
        {"{'weight_map':{'a':'.safetensors'}}", SB_ERR_INPUT, "expected a file name that ends in"},
        {"{'weight_map':{'a':'s1.bin'}}", SB_ERR_INPUT, "expected a file name that ends in"},
        {"{'weight_map':{'a':'s1.safetensors','b':'s2.safetensors','c':'s3.safetensors'}}",
         SB_ERR_INPUT, "shard s3.safetensors is missing: model.safetensors.index.json puts 1"},
        {"{'weight_map':{'a':'s1.safetensors','b':'s2.safetensors'}}", SB_ERR_INPUT,
         "tensor \"c\" of s2.safetensors is not in model.safetensors.index.json"},
        {"{'weight_map':{'a':'s1.safetensors','b':'s2.safetensors','c':'s2.safetensors',"
         "'d':'s1.safetensors'}}",
         SB_ERR_INPUT, "tensor \"d\" is not in s1.safetensors, where model.safetensors.index.json"},
        {"{'weight_map':{'a':'s1.safetensors','b':'s1.safetensors','c':'s2.safetensors'}}",
         SB_ERR_INPUT,
         "tensor \"b\" stands in s2.safetensors, but model.safetensors.index.json "
         "puts it into s1.safetensors"},
        {"{'weight_map':{'a':'s1.safetensors'}}", SB_ERR_INPUT,
         "s2.safetensors stands in the folder, but model.safetensors.index.json does not name it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scratch_path dir = two_shards(cases[i].index);
        check_open(dir.text, cases[i].status, cases[i].fragment);
        scratch_remove(dir.text);
    }
}

TEST(test_a_tensor_in_two_shards)
{
    scratch_path dir = two_shards("{" MAP "}");
    scratch_write_safetensors(dir.text, "s1.safetensors",
                              "{" U8("a", "0", "1") "," U8("b", "1", "2") "}", 2);
    check_open(dir.text, SB_ERR_INPUT,
               "tensor \"b\" stands in both s1.safetensors and s2.safetensors");
    scratch_remove(dir.text);
}

TEST(test_a_single_file)
{
    sb_error err;
    sb_checkpoint *c;
    uint64_t declared;
    scratch_path dir = scratch_new();
    check_open(dir.text, SB_ERR_INPUT, "there is neither model.safetensors.index.json nor");
    scratch_write_safetensors(dir.text, "other.safetensors", A, 1);
    check_open(dir.text, SB_ERR_INPUT, "there is neither");
    scratch_path other = scratch_join(dir.text, "other.safetensors");
    assert_int_equal(sb_checkpoint_open(other.text, &c, &err), SB_OK);
    assert_string_equal(sb_checkpoint_path(c), other.text);
    assert_string_equal(sb_checkpoint_folder(c), dir.text);
    assert_string_equal(sb_checkpoint_shard_name(c, 0), "other.safetensors");
    assert_false(sb_checkpoint_declared_bytes(c, &declared));
    sb_checkpoint_close(c);
    scratch_write_safetensors(dir.text, "model.safetensors", BC, 2);
    check_open(dir.text, SB_ERR_INPUT, "other.safetensors stands in the folder, but beside");
    assert_int_equal(unlink(other.text), 0);
    check_open(dir.text, SB_OK, "");
    scratch_write_safetensors(dir.text, "model.safetensors", "{}", 0);
    check_open(dir.text, SB_ERR_INPUT, "holds 0 tensors");
    scratch_remove(dir.text);
}

TEST(test_what_is_not_a_checkpoint)
{
    scratch_path dir = scratch_new();
    scratch_path path = scratch_join(dir.text, "absent");
    check_open(path.text, SB_ERR_IO, "absent: cannot open: No such file");
    check_open("", SB_ERR_IO, "cannot open");
    path = scratch_join(dir.text, "empty.safetensors");
    scratch_write(path.text, "", 0);
    check_open(path.text, SB_ERR_INPUT, "empty.safetensors: the file has 0 bytes");
    path = scratch_join(dir.text, "pipe.safetensors");
    assert_int_equal(mkfifo(path.text, 0600), 0);
    check_open(path.text, SB_ERR_IO,
               "expected a regular file"); /* and does not wait for a writer of the FIFO */
    scratch_remove(dir.text);
    dir = two_shards("{" MAP "}");
    path = scratch_join(dir.text, "s2.safetensors");
    assert_int_equal(unlink(path.text), 0);
    check_open(dir.text, SB_ERR_INPUT,
               "shard s2.safetensors is missing: model.safetensors.index.json puts 2 ");
    assert_int_equal(mkdir(path.text, 0700), 0);
    check_open(dir.text, SB_ERR_IO, "s2.safetensors: is a folder, expected a regular file");
    scratch_remove(dir.text);
}

/* snapshots/<revision>/<name> -> ../../blobs/<hash>, for every file of the checkpoint */
TEST(test_links_of_the_hub_cache)
{
    static const char *const names[] = {"s1.safetensors", "s2.safetensors",
                                        "model.safetensors.index.json", "config.json"};
    scratch_path blobs = two_shards("{" MAP "}");
    scratch_path snapshot = scratch_join(blobs.text, "snapshot");
    assert_int_equal(mkdir(snapshot.text, 0700), 0);
    for (size_t i = 0; i < 4; i++) {
        char hashed[32];
        snprintf(hashed, sizeof hashed, "../blob%zu", i);
        assert_int_equal(symlink(hashed, scratch_join(snapshot.text, names[i]).text), 0);
        assert_int_equal(rename(scratch_join(blobs.text, names[i]).text,
                                scratch_join(blobs.text, hashed + 3).text),
                         0);
    }
    check_open(snapshot.text, SB_OK, "");
    scratch_path link = scratch_join(blobs.text, "link");
    assert_int_equal(symlink("snapshot", link.text), 0);
    check_open(link.text, SB_OK, "");
    assert_int_equal(unlink(scratch_join(blobs.text, "blob1").text), 0);
    check_open(snapshot.text, SB_ERR_INPUT, "shard s2.safetensors is a broken link: model.s");
    assert_int_equal(unlink(scratch_join(blobs.text, "blob2").text), 0);
    check_open(snapshot.text, SB_ERR_IO, "model.safetensors.index.json: cannot open");
    scratch_remove(blobs.text);
}

static void *counted_malloc(size_t bytes)
{
    return sb_alloc(bytes, 1);
}

/* The n-th allocation fails, for every n: the result is always SB_ERR_MEMORY; the sanitizer build
 * detects leaks. */
TEST(test_memory_that_ends)
{
    scratch_path dir = two_shards("{'metadata':{'total_size':3}," MAP "}");
    scratch_path file = scratch_join(dir.text, "s2.safetensors");
    json_set_alloc_funcs(counted_malloc, free);
    for (size_t which = 0; which < 2; which++) {
        unsigned long n = 1;
        for (sb_status status = SB_ERR_MEMORY; status != SB_OK; n++) {
            sb_error err;
            sb_checkpoint *c;
            sb_alloc_fail_at(n);
            status = sb_checkpoint_open(which ? file.text : dir.text, &c, &err);
            sb_alloc_fail_at(0);
            if (status == SB_OK)
                sb_checkpoint_close(c);
            else
                check_status("memory", status, &err, SB_ERR_MEMORY, "out of memory");
            assert_true(n < 10000);
        }
        assert_true(n > 20); /* also counts the allocations of jansson */
    }
    json_set_alloc_funcs(malloc, free);
    scratch_remove(dir.text);
}

static sb_status fill_zero(void *ctx, const sb_tensor *tensor, uint64_t first_byte,
                           unsigned char *bytes, size_t count, sb_error *err)
{
    (void)ctx;
    (void)tensor;
    (void)first_byte;
    (void)err;
    memset(bytes, 0, count);
    return SB_OK;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

TEST(test_a_large_index)
{
    enum { TENSORS = 100000, SHARDS = 16 };
    static const uint64_t shape[2] = {2, 2};
    sb_error err;
    sb_writer *w;
    sb_checkpoint *c;
    scratch_path dir = scratch_new();
    assert_int_equal(sb_writer_new(dir.text, 8ull * TENSORS / SHARDS, 0, &w, &err), SB_OK);
    for (unsigned i = 0; i < TENSORS; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.language_model.layers.%u.mlp.experts.%u.up_proj.weight",
                 i / 512, i % 512);
        assert_int_equal(sb_writer_add(w, name, SB_DTYPE_BF16, 2, shape, &err), SB_OK);
    }
    assert_int_equal(sb_writer_run(w, fill_zero, NULL, &err), SB_OK);
    sb_writer_free(w);
    double begin = seconds();
    assert_int_equal(sb_checkpoint_open(dir.text, &c, &err), SB_OK);
    double opened = seconds();
    for (size_t i = 0; i < sb_checkpoint_count(c); i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        assert_ptr_equal(sb_checkpoint_find(c, t->name), t);
    }
    double found = seconds();
    print_message("%zu tensors in %zu shards: opened in %.3f s, all found in %.3f s\n",
                  sb_checkpoint_count(c), sb_checkpoint_shards(c), opened - begin, found - opened);
    assert_int_equal(sb_checkpoint_count(c), TENSORS);
    assert_int_equal(sb_checkpoint_shards(c), SHARDS);
    sb_checkpoint_close(c);
    scratch_remove(dir.text);
}
