/* test_decoding.c - check 48 sees a decoder that errs. No file can make the decoders of samebit
 * disagree, so the fault is planted in the program: the linker puts the function below in place of
 * the fast decoder (see the Makefile). */
#include "tests/lib/suite.h"

#include "ref/formats/wide.h"
#include "tests/check/folder.h"

void __real_sb_matrix_wide(const sb_matrix *matrix, uint32_t row, double *values);
void __wrap_sb_matrix_wide(const sb_matrix *matrix, uint32_t row, double *values);

static int wrong; /* if set, the decoder errs in the last column, by one ulp */

void __wrap_sb_matrix_wide(const sb_matrix *matrix, uint32_t row, double *values)
{
    __real_sb_matrix_wide(matrix, row, values);
    if (wrong > 0)
        values[matrix->cols - 1] = values[matrix->cols - 1] * (1 + 0x1p-52) + 0x1p-300;
}

static const struct {
    const char *vehicle, *layer;
} cases[] = {
    {"T4 nvfp4-ct recipe=plain", "model.layers.1.mlp.up_proj"},
    {"T4 nvfp4-modelopt recipe=plain", "model.layers.1.mlp.up_proj"},
    {"T4 mxfp4 recipe=plain", "model.layers.1.mlp.up_proj"},
    {"T4 mxfp8 recipe=plain", "model.layers.1.mlp.up_proj"},
    {"T4 fp8-block recipe=plain", "model.layers.1.mlp.up_proj"},
    {"T4 fp8-channel recipe=plain", "model.layers.1.mlp.up_proj"},
    {"T4 fp8-tensor recipe=plain", "model.layers.1.mlp.up_proj"},
    {"T4 int4-gptq recipe=plain", "model.layers.1.mlp.up_proj"},
    {"T4 int4-awq recipe=plain", "model.layers.1.mlp.up_proj"},
    {"T4 int4-ct recipe=plain", "model.layers.1.mlp.up_proj"},
    {"T4 int8-gptq recipe=plain", "model.layers.1.mlp.up_proj"},
};

static void every_case(void (*look)(const folder_result *, const char *layer))
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sb_check_options options = {.path = NULL};
        folder_only(&options, (const unsigned[]){48, 0});
        folder_result *r = folder_check_made(cases[i].vehicle, NULL, &options);
        look(r, cases[i].layer);
        folder_result_free(r);
    }
}

static void is_found(const folder_result *r, const char *layer)
{
    expect_finding(r, 48, SB_LEVEL_fatal, layer);
}

static void is_not(const folder_result *r, const char *layer)
{
    (void)layer;
    expect_none(r, 48);
}

TEST(test_right)
{
    every_case(is_not);
}

TEST(test_wrong)
{
    wrong = 1;
    every_case(is_found);
    wrong = 0;
}

int main(int argc, char **argv)
{
    return suite_main(argc, argv);
}
