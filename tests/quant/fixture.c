#include "tests/quant/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/formats/format.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/cmocka.h"

#define SB_FIXTURE(name, container, law, narrow, settings)                                         \
    {name, SB_CONTAINER_##container, SB_LAW_##law, SB_LAW_##narrow, settings},
static const quant_row recorded[] = {
#include "tests/quant/fixtures.def"
};
static const quant_row written[] = {
#include "tests/quant/written.def"
};
#undef SB_FIXTURE

const quant_row *quant_row_at(size_t i)
{
    const char *ours = getenv("SAMEBIT_WRITTEN");
    size_t count = ours ? sizeof written / sizeof *written : sizeof recorded / sizeof *recorded;
    return i < count ? (ours ? written : recorded) + i : NULL;
}

/* SAMEBIT_QUANT is the folder of new recordings of `make crosscheck`; with SAMEBIT_WRITTEN they are
 * of folders that `samebit make` wrote. */
static const char *path_of(const char *name, const char *suffix, char *path, size_t size)
{
    const char *folder = getenv("SAMEBIT_QUANT");
    snprintf(path, size, "%s/%s%s", folder ? folder : "golden/quant", name, suffix);
    return path;
}

static void set(sb_knobs *knobs, const char *settings)
{
    char text[256], *next = NULL;
    sb_error err = {""};
    snprintf(text, sizeof text, "%s", settings);
    for (char *one = strtok_r(text, " ", &next); one; one = strtok_r(NULL, " ", &next))
        if (sb_knobs_set(knobs, one, &err))
            fail_msg("%s", err.text);
}

void quant_fixture_open(const quant_row *row, quant_fixture *f)
{
    char path[512];
    json_error_t where;
    sb_error err = {""};
    char law[64];
    *f = (quant_fixture){.row = row};
    f->model = test_model_open(path_of(row->name, "", path, sizeof path));
    if (sb_checkpoint_open(path_of(row->name, ".expect.safetensors", path, sizeof path), &f->expect,
                           &err))
        fail_msg("%s", err.text);
    f->digests = json_load_file(path_of(row->name, ".expect.json", path, sizeof path),
                                JSON_REJECT_DUPLICATES, &where);
    if (!f->digests)
        fail_msg("%s: %s", path, where.text);
    sb_knobs_exact(&f->exact);
    set(&f->exact, row->settings);
    f->theirs = f->exact;
    snprintf(law, sizeof law, "dequant=%s", sb_law_name(row->law));
    set(&f->theirs, law);
}

void quant_fixture_close(quant_fixture *f)
{
    json_decref(f->digests);
    sb_checkpoint_close(f->expect);
    sb_model_close(f->model);
}

sb_matrix quant_layer(const quant_fixture *f, const char *module)
{
    sb_found found;
    sb_error err = {""};
    if (sb_detect(f->model->checkpoint, module, 0, 0, 0, &found, &err))
        fail_msg("%s", err.text);
    /* ModelOpt writes a grid of one block as a scalar, like the scale of a tensor */
    int one_block = found.container == SB_CONTAINER_fp8_tensor && found.matrix.cols <= 128 &&
                    f->row->container == SB_CONTAINER_fp8_block_ct;
    if (found.container != f->row->container && !one_block)
        fail_msg("%s %s: stored as %s, expected %s", f->row->name, module,
                 found.container < SB_CONTAINER_COUNT ? sb_container_name(found.container)
                                                      : "nothing",
                 sb_container_name(f->row->container));
    return found.matrix;
}

float *quant_values(const quant_fixture *f, const char *name, size_t *count)
{
    const sb_tensor *t = sb_checkpoint_find(f->expect, name);
    if (!t)
        return NULL;
    assert_int_equal(t->dtype, SB_DTYPE_F32);
    *count = (size_t)t->bytes / 4;
    float *values = malloc(t->bytes);
    assert_non_null(values);
    sb_decode(SB_FORMAT_f32, t->data, *count, values);
    return values;
}
