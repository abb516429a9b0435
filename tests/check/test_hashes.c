/* test_hashes.c - check 52: files against the hashes that the hub stored, in the two places where
 * huggingface_hub leaves them. */
#include "tests/lib/suite.h"

#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/container/file.h"
#include "tests/check/folder.h"
#include "tests/lib/checkpoint.h"
#include "tools/check/judge/file_hash.h"
#include "tools/report/check/report.h"

#define BF16 "T3 bf16 recipe=plain"
#define COMMIT_A "0123456789abcdef0123456789abcdef01234567"
#define COMMIT_B "89abcdef0123456789abcdef0123456789abcdef"

enum { PAGE = 4096 };

/* --- what a download leaves ------------------------------------------------------------------- */

typedef struct bytes {
    unsigned char *at;
    size_t count;
} bytes;

static bytes load(const char *dir, const char *name)
{
    bytes b;
    sb_error err;
    char *path = sb_path_join(dir, name);
    if (sb_read_file(path, 1 << 30, &b.at, &b.count, &err))
        fail_msg("%s", err.text);
    free(path);
    return b;
}

static void store(const char *dir, const char *name, const void *content, size_t count)
{
    char *path = sb_path_join(dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
    free(path);
}

static void make_folder(const char *path)
{
    (void)mkdir(path, 0777);
    assert_int_equal(access(path, W_OK), 0);
}

/* The hub's hash of a content: SHA-256 for LFS files, else git's. */
static void hub_name(bytes b, int lfs, char *hex)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n;
    char head[32];
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    assert_non_null(c);
    assert_int_equal(EVP_DigestInit_ex(c, lfs ? EVP_sha256() : EVP_sha1(), NULL), 1);
    int length = snprintf(head, sizeof head, "blob %zu", b.count);
    if (!lfs)
        assert_int_equal(EVP_DigestUpdate(c, head, (size_t)length + 1), 1);
    assert_int_equal(EVP_DigestUpdate(c, b.at, b.count), 1);
    assert_int_equal(EVP_DigestFinal_ex(c, digest, &n), 1);
    EVP_MD_CTX_free(c);
    for (unsigned i = 0; i < n; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static int is_lfs(const char *name)
{
    return strstr(name, ".safetensors") && !strstr(name, ".json");
}

static void witness(const char *dir, const char *name, const char *commit, const char *etag)
{
    char path[PATH_MAX], text[256], hex[65];
    if (!etag) {
        bytes b = load(dir, name);
        hub_name(b, is_lfs(name), hex);
        free(b.at);
        etag = hex;
    }
    snprintf(path, sizeof path, "%s/.cache", dir);
    make_folder(path);
    snprintf(path, sizeof path, "%s/.cache/huggingface", dir);
    make_folder(path);
    snprintf(path, sizeof path, "%s/.cache/huggingface/download", dir);
    make_folder(path);
    int n = snprintf(text, sizeof text, "%s\n%s\n1780000000.25\n", commit, etag);
    char file[300];
    snprintf(file, sizeof file, "%s.metadata", name);
    store(path, file, text, (size_t)n);
}

static const char *const names[] = {"model-00001-of-00003.safetensors",
                                    "model-00002-of-00003.safetensors",
                                    "model-00003-of-00003.safetensors",
                                    "model.safetensors.index.json",
                                    "config.json",
                                    "README.md"};
enum { NAMES = sizeof names / sizeof *names };

/* Writes a download into a folder `name` under the folder of test data. */
static const char *downloaded(const char *name)
{
    const char *path = test_path("test_hashes", name);
    folder *f = folder_of(BF16);
    const char *written = folder_write(f);
    make_folder(path);
    for (size_t i = 0; i + 1 < NAMES; i++) {
        bytes b = load(written, names[i]);
        store(path, names[i], b.at, b.count);
        free(b.at);
    }
    store(path, "README.md", "# a model\n", 10);
    for (size_t i = 0; i < NAMES; i++)
        witness(path, names[i], COMMIT_A, NULL);
    folder_free(f);
    return path;
}

/* Writes the same in the layout of the cache, with links to blobs. Returns the snapshot. */
static const char *cached(const char *name)
{
    char *root = strdup(test_path("test_hashes", name));
    folder *f = folder_of(BF16);
    const char *written = folder_write(f);
    char path[PATH_MAX], hex[65], target[128], link[PATH_MAX];
    make_folder(root);
    snprintf(path, sizeof path, "%s/blobs", root);
    make_folder(path);
    snprintf(link, sizeof link, "%s/snapshots", root);
    make_folder(link);
    char *snapshot = malloc(PATH_MAX);
    snprintf(snapshot, PATH_MAX, "%s/snapshots/%s", root, COMMIT_A);
    make_folder(snapshot);
    for (size_t i = 0; i + 1 < NAMES; i++) {
        bytes b = load(written, names[i]);
        hub_name(b, is_lfs(names[i]), hex);
        store(path, hex, b.at, b.count);
        snprintf(target, sizeof target, "../../blobs/%s", hex);
        char *from = sb_path_join(snapshot, names[i]);
        (void)unlink(from);
        assert_int_equal(symlink(target, from), 0);
        free(from);
        free(b.at);
    }
    folder_free(f);
    free(root);
    return snapshot; /* lives as long as the program */
}

/* --- results ---------------------------------------------------------------------------------- */

static sb_check_options only_hashes(void)
{
    static const unsigned list[] = {1, 2, 52, 0};
    sb_check_options options = {0};
    folder_only(&options, list);
    return options;
}

/* Expects `count` findings of check 52 above INFO, and one finding with this level and text. */
static void expect_hashes(const char *path, size_t count, sb_level level, const char *text)
{
    sb_check_options options = only_hashes();
    folder_result *r = folder_check_made(path, NULL, &options);
    size_t found = 0;
    int said = count == 0;
    for (size_t i = 0; i < r->check.findings.count; i++) {
        const sb_finding *f = &r->check.findings.rows[i];
        found += f->check == 52 && f->level > SB_LEVEL_info;
        said |= f->check == 52 && f->level == level && text && strstr(f->message, text) != NULL;
    }
    if (found != count || !said) {
        folder_print(r);
        fail_msg("%zu findings of hashes, expected %zu, one of them %s '%s'", found, count,
                 sb_level_name(level), text ? text : "");
    }
    folder_result_free(r);
}

static sb_check_state state_of(const char *path, const sb_check_options *options)
{
    folder_result *r = folder_check_made(path, NULL, options);
    sb_report report = {.check = &r->check, .path = path};
    sb_error err;
    assert_int_equal(sb_report_make(&report, &err), SB_OK);
    sb_check_state state = report.checks[52].state;
    sb_report_free(&report);
    folder_result_free(r);
    return state;
}

/* --- tests ------------------------------------------------------------------------------------ */

TEST(test_known)
{
    static const int all[SB_HASH_KINDS] = {1, 1, 1};
    const char *path = test_path("test_hashes", "known");
    sb_file_hashes h;
    sb_error err;
    make_folder(path);
    store(path, "abc", "abc", 3);
    char *file = sb_path_join(path, "abc");
    assert_int_equal(sb_file_hash(file, all, NULL, NULL, &h, &err), SB_OK);
    assert_string_equal(h.hex[SB_HASH_SHA256],
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(h.hex[SB_HASH_SHA1], "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_string_equal(h.hex[SB_HASH_GIT], "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
    free(file);
    assert_int_equal(sb_file_hash(path, all, NULL, NULL, &h, &err), SB_ERR_IO);
}

TEST(test_sound)
{
    sb_check_options options = only_hashes();
    const char *path = downloaded("sound");
    expect_hashes(path, 0, SB_LEVEL_info, NULL);
    assert_int_equal(state_of(path, &options), SB_STATE_passed);
    options.no_hashes = 1;
    assert_int_equal(state_of(path, &options), SB_STATE_skipped);
    options = only_hashes();
    options.headers_only = 1;
    assert_int_equal(state_of(path, &options), SB_STATE_skipped);
    options = only_hashes();
    path = cached("cache");
    expect_hashes(path, 0, SB_LEVEL_info, NULL);
    assert_int_equal(state_of(path, &options), SB_STATE_passed);
    assert_int_equal(state_of(folder_path(BF16), &options), SB_STATE_nothing);
}

/* Damage to the bytes of a shard, after the download. */
typedef enum damage { BIT, HOLE, SHIFT, CUT } damage;

static void do_damage(const char *path, const char *name, damage d)
{
    bytes b = load(path, name);
    size_t middle = b.count / 2 / PAGE * PAGE, count = b.count;
    assert_true(b.count > 3 * PAGE);
    if (d == BIT)
        b.at[b.count - 100] ^= 1;
    if (d == HOLE)
        memset(b.at + middle, 0, PAGE);
    if (d == SHIFT)
        memmove(b.at + middle, b.at + middle - PAGE, b.count - middle);
    if (d == CUT)
        count -= PAGE;
    store(path, name, b.at, count);
    free(b.at);
}

TEST(test_damaged)
{
    static const struct {
        damage damage;
        const char *says;
    } list[] = {{BIT, "bytes were changed after the download"},
                {HOLE, "bytes were changed after the download"},
                {SHIFT, "bytes were changed after the download"},
                {CUT, "the download is incomplete"}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const char *path = downloaded("damaged");
        do_damage(path, names[1], list[i].damage);
        expect_hashes(path, 1, SB_LEVEL_error, list[i].says);
        expect_hashes(path, 1, SB_LEVEL_error, names[1]);
        path = cached("damaged-cache");
        do_damage(path, names[2], list[i].damage);
        expect_hashes(path, 1, SB_LEVEL_error, list[i].says);
        expect_hashes(path, 1, SB_LEVEL_error, "the name of the blob");
    }
}

TEST(test_edited)
{
    const char *path = downloaded("edited");
    store(path, "README.md", "# my model\n", 11);
    expect_hashes(path, 1, SB_LEVEL_warn, "README.md: its git hash is ");
    bytes b = load(path, "config.json");
    b.at[b.count - 1] = ' ';
    store(path, "config.json", b.at, b.count);
    free(b.at);
    expect_hashes(path, 2, SB_LEVEL_warn, "config.json: its git hash is ");
}

TEST(test_commits)
{
    const char *path = downloaded("commits");
    witness(path, "README.md", COMMIT_B, NULL);
    expect_hashes(path, 1, SB_LEVEL_warn,
                  "files of two commits are in one folder: README.md is of");
    witness(path, names[2], COMMIT_B, NULL);
    expect_hashes(path, 1, SB_LEVEL_warn, "shards of two commits are in one folder: model-00001");
}

/* Text that is no hash is not compared, and a cache on the way may give the plain SHA-1. */
TEST(test_other_etags)
{
    const char *path = downloaded("etags");
    witness(path, names[0], COMMIT_A, "d41d8cd98f00b204e9800998ecf8427e");
    witness(path, names[1], "main", "\"0123456789\"");
    witness(path, "README.md", COMMIT_A, "a9993e364706816aba3e25717850c26c9cd0d89d");
    store(path, "README.md", "abc", 3);
    expect_hashes(path, 0, SB_LEVEL_info, NULL);
    sb_check_options options = only_hashes();
    folder_result *r = folder_check_made(path, NULL, &options);
    const sb_finding *f = folder_finding(r, 52, SB_LEVEL_info, NULL);
    assert_non_null(f);
    assert_non_null(strstr(f->message, "2 files of tensors have no hash of the hub"));
    folder_result_free(r);
}
