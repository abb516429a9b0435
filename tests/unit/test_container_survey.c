/* test_container_survey.c - surveys of damaged folders: the problems that are told, and the tensors
 * that remain. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include "ref/base/mem.h"
#include "ref/container/survey.h"
#include "ref/model/take.h"

#define U8(name, begin, end)                                                                       \
    "'" name "':{'dtype':'U8','shape':[1],'data_offsets':[" begin "," end "]}"
#define A "{" U8("a", "0", "1") "}"
#define BC "{" U8("c", "0", "1") "," U8("b", "1", "2") "}"
#define MAP "{'weight_map':{'a':'s1.safetensors','b':'s2.safetensors','c':'s2.safetensors'}}"
#define INDEX "model.safetensors.index.json"

typedef struct log {
    char text[2048];
} log;

static void tell(void *ctx, sb_problem problem, const char *file, const char *tensor,
                 const char *message)
{
    static const char *const names[] = {"file",      "unread", "index",      "no-file",     "stray",
                                        "unindexed", "lost",   "twin-equal", "twin-differs"};
    log *l = ctx;
    size_t used = strlen(l->text);
    snprintf(l->text + used, sizeof l->text - used, "%s %s %s: %s\n", names[problem], file,
             tensor ? tensor : "-", message);
}

/* Surveys a folder; the messages must be `told`, and the remaining tensors, in order, `left`. */
static void check_survey(const char *path, const char *told, const char *left)
{
    sb_checkpoint *c = NULL;
    sb_error err = {""};
    log l = {""};
    char names[256] = "";
    assert_int_equal(sb_checkpoint_survey(path, tell, &l, &c, &err), SB_OK);
    assert_string_equal(l.text, told);
    for (size_t i = 0; i < sb_checkpoint_count(c); i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        assert_ptr_equal(sb_checkpoint_find(c, t->name), t);
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s@%s", i ? " " : "",
                 t->name, sb_checkpoint_shard_name(c, t->shard));
    }
    assert_string_equal(names, left);
    sb_checkpoint_close(c);
}

static scratch_path folder(const char *index)
{
    scratch_path dir = scratch_new();
    scratch_write_safetensors(dir.text, "s1.safetensors", A, 1);
    scratch_write_safetensors(dir.text, "s2.safetensors", BC, 2);
    if (index)
        scratch_write_json(dir.text, INDEX, index);
    return dir;
}

#define ALL "a@s1.safetensors b@s2.safetensors c@s2.safetensors"

TEST(test_a_sound_folder_tells_nothing)
{
    scratch_path dir = folder(MAP);
    check_survey(dir.text, "", ALL);
    scratch_remove(dir.text);
    dir = scratch_new();
    scratch_write_safetensors(dir.text, "model.safetensors", BC, 2);
    check_survey(dir.text, "", "b@model.safetensors c@model.safetensors");
    check_survey(scratch_join(dir.text, "model.safetensors").text, "",
                 "b@model.safetensors c@model.safetensors");
    scratch_remove(dir.text);
}

TEST(test_a_damaged_file_is_left_out)
{
    scratch_path dir = folder(MAP);
    scratch_write_safetensors(dir.text, "s1.safetensors", A, 2);
    check_survey(
        dir.text,
        "file s1.safetensors -: 1 bytes at data offset 1 follow the last tensor, expected the end of the file\n",
        "b@s2.safetensors c@s2.safetensors");
    scratch_remove(dir.text);
}

TEST(test_index_and_files_apart)
{
    scratch_path dir = folder("{'weight_map':{'a':'s1.safetensors','b':'s3.safetensors'}}");
    check_survey(dir.text,
                 "no-file s3.safetensors -: is missing: " INDEX " puts 1 tensors into it\n"
                 "stray s2.safetensors -: holds 2 tensors, but " INDEX " does not name it\n",
                 ALL);
    scratch_write_json(dir.text, INDEX,
                       "{'weight_map':{'a':'s1.safetensors','b':'s1.safetensors',"
                       "'d':'s2.safetensors'}}");
    check_survey(dir.text,
                 "unindexed s2.safetensors c: is in the file, but not in " INDEX "\n"
                 "lost s1.safetensors b: is not in this file, where " INDEX
                 " puts it, but in s2.safetensors\n"
                 "lost s2.safetensors d: is not in this file, where " INDEX " puts it\n",
                 ALL);
    scratch_write_json(dir.text, INDEX, "{'weight_map':7}");
    check_survey(dir.text, "index " INDEX " -: weight_map is 7, expected an object\n", ALL);
    scratch_remove(dir.text);
    dir = folder(NULL);
    check_survey(dir.text,
                 "stray s1.safetensors -: holds 1 tensors, but there is no index that names it\n"
                 "stray s2.safetensors -: holds 2 tensors, but there is no index that names it\n",
                 ALL);
    scratch_remove(dir.text);
}

TEST(test_of_twins_the_indexed_one_stays)
{
    scratch_path dir = folder("{'weight_map':{'a':'s3.safetensors','b':'s2.safetensors',"
                              "'c':'s2.safetensors'}}");
    scratch_write_safetensors(dir.text, "s3.safetensors",
                              "{" U8("a", "0", "1") "," //
                              U8("b", "1", "2") "}",
                              2);
    check_survey(dir.text,
                 "stray s1.safetensors -: holds 1 tensors, but " INDEX " does not name it\n"
                 "twin-equal s1.safetensors a: is also in s3.safetensors, with the same bytes\n"
                 "twin-equal s2.safetensors b: is also in s3.safetensors, with the same bytes\n",
                 "a@s3.safetensors b@s2.safetensors c@s2.safetensors");
    scratch_remove(dir.text);
}

TEST(test_nothing_to_look_at)
{
    sb_checkpoint *c = NULL;
    sb_error err = {""};
    log l = {""};
    scratch_path dir = scratch_new();
    assert_int_equal(sb_checkpoint_survey(dir.text, tell, &l, &c, &err), SB_ERR_INPUT);
    scratch_write_json(dir.text, "x.safetensors", "{}");
    assert_int_equal(sb_checkpoint_survey(dir.text, tell, &l, &c, &err), SB_ERR_INPUT);
    assert_int_equal(sb_checkpoint_survey(scratch_join(dir.text, "none").text, tell, &l, &c, &err),
                     SB_ERR_IO);
    scratch_remove(dir.text);
}

/* One misnamed tensor that sorts first does not decide the prefix. */
TEST(test_the_prefix_is_that_of_most_names)
{
    sb_checkpoint *c = NULL;
    sb_error err = {""};
    log l = {""};
    scratch_path dir = scratch_new();
    scratch_write_safetensors(dir.text, "model.safetensors",
                              "{" U8("language_model.model.norm.weight", "0", "1") "," //
                              U8("model.language_model.a", "1", "2") ","               //
                              U8("model.language_model.b", "2", "3") ","               //
                              U8("model.visual.a", "3", "4") ","                       //
                              U8("model.visual.b", "4", "5") ","                       //
                              U8("model.visual.c", "5", "6") "}",
                              6);
    assert_int_equal(sb_checkpoint_survey(dir.text, tell, &l, &c, &err), SB_OK);
    assert_string_equal(sb_text_prefix(c), "model.language_model.");
    sb_checkpoint_close(c);
    scratch_remove(dir.text);
}

TEST(test_memory_that_ends)
{
    scratch_path dir = folder(MAP);
    for (unsigned long n = 1;; n++) {
        sb_checkpoint *c = NULL;
        sb_error err = {""};
        log l = {""};
        sb_alloc_fail_at(n);
        sb_status status = sb_checkpoint_survey(dir.text, tell, &l, &c, &err);
        sb_alloc_fail_at(0);
        assert_string_equal(l.text, "");
        if (status == SB_OK) {
            assert_true(n > 5);
            sb_checkpoint_close(c);
            break;
        }
        assert_int_equal(status, SB_ERR_MEMORY);
    }
    scratch_remove(dir.text);
}
