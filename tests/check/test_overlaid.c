/* test_overlaid.c - a folder with modules of another folder laid over it: each module is judged by
 * the rules of its own folder. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "tests/check/folder.h"

#define GPTQ "T3 int4-gptq recipe=plain"

/* Writes zero points that fit v1 and v2: only the declaration tells which they are. */
static const char *written(const char *as)
{
    folder *f = folder_of(GPTQ);
    for (size_t i = 0; i < f->count; i++) {
        folder_tensor *t = f->tensors[i];
        if (strstr(t->name, ".qzeros"))
            memset(t->bytes, 0x66, (size_t)t->size);
    }
    folder_json(f, "config.json", "quantization_config.checkpoint_format", as);
    const char *path = folder_write(f);
    folder_free(f);
    return path;
}

/* W-8: "read by the declaration of their own folder" */
TEST(test_zero_points)
{
    char overlay[1400];
    const char *const overlays[] = {overlay};
    const char *base = written("\"gptq_v2\"");
    size_t own = 0, laid = 0;
    sb_check check;
    sb_error err = {""};
    snprintf(overlay, sizeof overlay, "layers.1.*=%s", written("\"gptq\""));
    sb_check_options options = {
        .path = base, .overlays = overlays, .overlay_count = 1, .headers_only = 0};
    if (sb_check_run(&options, &check, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < check.self.units.count; i++) {
        const sb_unit *u = &check.self.units.rows[i];
        if (!u->found.zeros_open)
            continue;
        int is_laid = strncmp(u->plain, "layers.1.", 9) == 0;
        assert_int_equal(u->found.matrix.quant.zeros,
                         is_laid ? SB_ZEROS_gptq_v1 : SB_ZEROS_gptq_v2);
        laid += is_laid != 0;
        own += is_laid == 0;
    }
    assert_true(own > 0 && laid > 0);
    sb_check_free(&check);
}
