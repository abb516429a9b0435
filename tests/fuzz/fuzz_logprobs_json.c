/* fuzz_logprobs_json.c - any text as answers of servers: refused in one line, or consistent
 * steps. */
#include "tests/fuzz/fuzz_steps.h"

#include "tools/dump/answers.h"

const char fuzz_name[] = "logprobs_json";
unsigned long fuzz_accepted;

enum { VOCAB = 384 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t prompt[] = {3, 1, 4, 15, 9};
    const uint32_t *const ids[] = {prompt};
    const size_t count[] = {5};
    const sb_dump_options options = {
        .ids = ids, .id_count = count, .sequence_count = 1, .vocab_size = VOCAB, .layers = 8};
    sb_answers *answers = NULL;
    sb_error err = {{0}};
    fuzz_steps steps = {.vocabulary = VOCAB};
    sb_status status =
        sb_answers_parse((const char *)data, size, "input", &options, &answers, &err);
    if (status) {
        fuzz_check_refusal(status, &err);
        return 0;
    }
    fuzz_accepted++;
    FUZZ_CHECK(sb_answers_play(answers, fuzz_take_step, &steps, &err) == SB_OK);
    sb_answers_free(answers);
    return 0;
}
