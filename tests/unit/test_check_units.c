/* test_check_units.c - units cover a checkpoint, each tensor belongs to one unit, and all its bytes
 * are read. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include "ref/base/mem.h"
#include "tools/check/read/check.h"
#include "tools/check/hash/manifest.h"
#include "tools/make/make.h"

static scratch_path made(const char *preset, const char *format, const char *experts)
{
    scratch_path dir = scratch_new();
    sb_error err = {""};
    sb_make_options o = {.dir = dir.text,
                         .preset = preset,
                         .format = format,
                         .experts = experts,
                         .seed = 42,
                         .replace = 1};
    if (sb_make(&o, &err))
        fail_msg("%s", err.text);
    return dir;
}

static const char *digest_in(const sb_manifest *m, const char *name)
{
    for (size_t i = 0; i < m->tensor_count; i++)
        if (strcmp(m->tensors[i].name, name) == 0)
            return m->tensors[i].digest.hex;
    fail_msg("no tensor %s", name);
    return "";
}

/* The digests of units equal those of the manifest, and every tensor is in a unit. */
static void check_folder(const char *path)
{
    sb_error err = {""};
    sb_checkpoint *checkpoint = NULL;
    sb_manifest m = {0};
    sb_check check;
    sb_check_options options = {.path = path};
    size_t tensors = 0;
    assert_int_equal(sb_checkpoint_open(path, &checkpoint, &err), SB_OK);
    assert_int_equal(sb_manifest_make(checkpoint, 0, NULL, &m, &err), SB_OK);
    if (sb_check_run(&options, &check, &err))
        fail_msg("%s: %s", path, err.text);
    for (size_t i = 0; i < check.self.units.count; i++) {
        const sb_unit *u = &check.self.units.rows[i];
        assert_int_equal(u->status, SB_OK);
        if (u->tensor)
            assert_string_equal(u->digest[0].hex, digest_in(&m, u->tensor->name));
        tensors += u->tensor != NULL;
        for (unsigned p = 0; p < SB_PART_COUNT && !u->tensor; p++) {
            if (!u->found.part[p])
                continue;
            tensors++;
            assert_string_equal(u->digest[p].hex, digest_in(&m, u->found.part[p]->name));
        }
        for (size_t s = 0; s < u->seen_count && (u->tensor || u->found.part[0]); s++)
            assert_true(u->seen[s].done || (u->tensor && u->tensor->dtype == SB_DTYPE_I64));
        assert_true(u->expected || u->region == SB_REGION_vision || strstr(u->name, "_scale"));
    }
    assert_int_equal(tensors, sb_checkpoint_count(checkpoint));
    sb_check_free(&check);
    sb_manifest_free(&m);
    sb_checkpoint_close(checkpoint);
}

TEST(test_every_tensor_is_in_one_unit)
{
    static const char *const formats[] = {"bf16",      "nvfp4-ct", "mxfp8",   "fp8-block",
                                          "int4-gptq", "int4-awq", "int4-ct", "nvidia-mix"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (int stacked = 0; stacked < 2; stacked++) {
            if (stacked && i > 0)
                continue; /* tools/make does not write stacks of quantized experts */
            scratch_path dir = made(strncmp(formats[i], "int4", 4) ? "T6" : "T1", formats[i],
                                    stacked ? "fused" : "split");
            check_folder(dir.text);
            scratch_remove(dir.text);
        }
}

TEST(test_the_original_is_found_under_other_names)
{
    sb_error err = {""};
    scratch_path a = made("T1", "nvfp4-ct", NULL), b = made("T1", "bf16", "fused");
    sb_check check;
    sb_check_options options = {.path = a.text, .against = b.text};
    assert_int_equal(sb_check_run(&options, &check, &err), SB_OK);
    assert_true(check.self.units.member_count > 50);
    for (size_t i = 0; i < check.self.units.member_count; i++) {
        const sb_member *mine = &check.self.units.members[i];
        const sb_member *theirs = sb_member_plain(&check.master.units, mine->plain);
        assert_non_null(theirs);
        assert_int_equal(mine->matrix.rows, theirs->matrix.rows);
        assert_int_equal(mine->matrix.cols, theirs->matrix.cols);
    }
    for (size_t i = 0; i < check.self.units.count; i++)
        if (check.self.units.rows[i].tensor)
            assert_non_null(sb_master_unit(&check, &check.self.units.rows[i]));
    sb_check_free(&check);
    scratch_remove(a.text);
    scratch_remove(b.text);
}

TEST(test_memory_that_ends)
{
    scratch_path dir = made("T1", "bf16", NULL);
    sb_check_options options = {.path = dir.text};
    sb_status status = SB_ERR_MEMORY;
    for (unsigned long n = 1; status; n += 1 + n / 3) {
        sb_error err = {""};
        sb_check check;
        sb_alloc_fail_at(n);
        status = sb_check_run(&options, &check, &err);
        sb_alloc_fail_at(0);
        sb_check_free(&check);
        assert_true(status == SB_OK || status == SB_ERR_MEMORY);
    }
    scratch_remove(dir.text);
}
