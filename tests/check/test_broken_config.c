/* test_broken_config.c - a configuration that cannot be read: the run ends with findings, and the
 * audit of the MTP head says what it could not look at. */
#include "tests/lib/cmocka.h"

#include <stdio.h>
#include <string.h>

#include "tests/check/folder.h"
#include "tests/check/plant.h"
#include "tools/check/mtp.h"

static const char *const vehicles[] = {
    "T3 nvfp4-ct recipe=plain",      "T3 nvfp4-modelopt recipe=plain", "T3 fp8-block recipe=plain",
    "T3 mxfp4 recipe=plain",         "T3 mxfp8 recipe=plain",          "T3 int4-gptq recipe=plain",
    "T3 int4-autoround recipe=plain"};

static const char *const breaks[] = {
    "remove config.json",
    "cut-file config.json 60",
    "put config.json {}",
    "put config.json []",
    "config quantization_config.quant_method \"somebody\"",
    "config quantization_config.quant_method 7",
    "config quantization_config.fmt \"e5m2\"",
    "config quantization_config.bits 9223372036854775807; config quantization_config.group_size "
    "9223372036854775807",
    "replace config.json \"hidden_size\": \"hidden_size\": 9223372036854775808, \"h\":",
    "config quantization_config null",
    "config quantization_config []",
    "config hidden_size 0",
};

static sb_mtp_audit audit(const folder_result *r)
{
    sb_mtp_audit out;
    sb_error err = {""};
    assert_int_equal(sb_mtp_audit_make(&r->check, &out, &err), SB_OK);
    return out;
}

/* A head in the vehicle's format, not in BF16 as most formats leave it. */
static folder *with_quantized_head(const char *vehicle)
{
    folder *f = folder_of(vehicle);
    plant(f, "to-fp8 mtp.fc.weight");
    return f;
}

static void test_head_of_broken_configuration(void **state)
{
    (void)state;
    for (size_t v = 0; v < sizeof vehicles / sizeof *vehicles; v++)
        for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
            folder *f = with_quantized_head(vehicles[v]);
            plant(f, breaks[i]);
            folder_result *r = folder_check(f, NULL, NULL);
            sb_mtp_audit a = audit(r);
            if (!r->check.self.has_declared &&
                a.lines[SB_MTP_representation].state != SB_MTP_unknown)
                fail_msg("%s, %s: %s", vehicles[v], breaks[i], a.lines[SB_MTP_representation].text);
            folder_result_free(r);
            folder_free(f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_head_of_broken_configuration)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
