/* test_container_bad.c - golden/bad: every damaged file or folder is refused with the exit status
 * and the words of golden/bad/EXPECTED. Run from the root of the repository. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include "ref/container/checkpoint.h"
#include "ref/container/file.h"
#include "ref/model/config.h"
#include "ref/model/declared.h"
#include "tests/fuzz/bad_bytes.h"

#define CORPUS "golden/bad"

/* The committed bytes are those of the generator, not edited by hand. */
TEST(test_the_corpus_is_what_its_generator_makes)
{
    for (size_t i = 0; i < BAD_FILES; i++) {
        unsigned char expected[BAD_MOST];
        unsigned char *bytes;
        size_t count;
        sb_error err;
        size_t n = bad_bytes(&bad_files[i], expected);
        scratch_path path = scratch_join(CORPUS, bad_files[i].path);
        check_status(path.text, sb_read_file(path.text, BAD_MOST, &bytes, &count, &err), &err,
                     SB_OK, "");
        if (count != n || memcmp(bytes, expected, n) != 0)
            fail_msg("%s: not the bytes that make_bad writes", path.text);
        free(bytes);
    }
    /* one entry for each case, and EXPECTED */
    assert_int_equal(scratch_entries(CORPUS), BAD_CASES + 1);
}

/* Reads a config.json: the configuration, then its declaration of quantization. */
static sb_status read_config(const char *path, sb_error *err)
{
    sb_config config;
    unsigned char *bytes;
    sb_declared *declared = NULL;
    sb_status status = sb_config_load(path, &config, err);
    sb_declared_file file = {.name = path};
    if (status == SB_OK)
        status = sb_read_file(path, BAD_MOST, &bytes, &file.count, err);
    if (status != SB_OK)
        return status;
    file.text = (const char *)bytes;
    status = sb_declared_parse(&file, NULL, NULL, &declared, err);
    sb_declared_free(declared);
    free(bytes);
    return status;
}

/* Opens one entry in the way that its name asks for, and checks status and message. */
static void check_entry(const char *name, int exit_status, const char *fragment)
{
    sb_error err = {{0}};
    sb_checkpoint *checkpoint = NULL;
    scratch_path path = scratch_join(CORPUS, name);
    size_t n = strlen(name);
    sb_status status;
    if (n > 5 && strcmp(name + n - 5, ".json") == 0)
        status = read_config(path.text, &err);
    else
        status = sb_checkpoint_open(path.text, &checkpoint, &err);
    sb_checkpoint_close(checkpoint);
    if (sb_exit_status(status) != exit_status)
        fail_msg("%s: exit status %d, expected %d; message: %s", name, sb_exit_status(status),
                 exit_status, err.text);
    check_status(name, status, &err, status, fragment);
    if (status != SB_OK && !strstr(err.text, path.text))
        fail_msg("%s: the message does not name the file: %s", name, err.text);
}

TEST(test_every_entry_is_refused_as_expected)
{
    char line[512];
    size_t cases = 0;
    size_t good = 0;
    FILE *list = fopen(CORPUS "/EXPECTED", "r");
    assert_non_null(list);
    while (fgets(line, sizeof line, list)) {
        char name[128];
        int exit_status;
        int at = 0;
        if (line[0] == '#')
            continue;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%127[^:]: %d: %n", name, &exit_status, &at) != 2 || at == 0)
            fail_msg("EXPECTED: not \"name: status: fragment\": %s", line);
        check_entry(name, exit_status, line + at);
        cases++;
        good += exit_status == 0;
    }
    fclose(list);
    assert_int_equal(cases, BAD_CASES);
    assert_true(good >= 3); /* so that a reader that refuses everything fails */
}
