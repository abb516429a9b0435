/* fuzz_kld.c - any bytes as a KLD base file: refused in one line, or consistent steps. */
#include "tests/fuzz/fuzz_steps.h"

#include "tools/dump/kld.h"

const char fuzz_name[] = "kld";
unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const sb_dump_options options = {.as = NULL};
    sb_trace_head head = {.vocab_size = 0};
    sb_kld *kld = NULL;
    sb_error err = {{0}};
    fuzz_steps steps = {.vocabulary = 1 << 24};
    sb_status status = sb_kld_parse(data, size, "input", &options, &head, &kld, &err);
    if (status) {
        fuzz_check_refusal(status, &err);
        return 0;
    }
    fuzz_accepted++;
    FUZZ_CHECK(sb_kld_play(kld, fuzz_take_step, &steps, &err) == SB_OK && steps.count > 0);
    sb_kld_free(kld);
    return 0;
}
