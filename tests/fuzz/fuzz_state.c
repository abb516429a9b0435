/* fuzz_state.c - any bytes as a state file: refused in one line, or a state that a file can hold,
 * with the digests that it claims. A damaged copy is refused because of its seal. Therefore every
 * input is read again with a fitting seal, and then with fitting digests. */
#include "tests/fuzz/fuzz.h"

#include "ref/base/bytes.h"
#include "ref/container/safetensors.h"
#include "ref/run/session.h"
#include "ref/run/state_file.h"
#include "ref/run/state_text.h"
#include "ref/state/compare.h"
#include "ref/state/drafter.h"

const char fuzz_name[] = "state";
unsigned long fuzz_accepted;

static void check_state(const sb_state_file *file)
{
    const sb_state *s = file->state;
    sb_state_difference d;
    sb_digest digest;
    sb_error err = {{0}};
    FUZZ_CHECK(s->config == &file->config && s->position <= SB_POSITION_LIMIT);
    FUZZ_CHECK(s->mtp_entries <= s->position && (s->has_mtp || s->mtp_entries == 0));
    for (size_t i = 0; i < sb_state_pieces(s); i++) {
        sb_piece p = sb_state_piece(s, i);
        for (uint64_t e = 0; e < sb_piece_elements(&p); e++)
            FUZZ_CHECK(sb_is_finite_f32(p.data[e]));
    }
    for (uint64_t i = 0; file->tokens && i < s->position; i++)
        FUZZ_CHECK(file->tokens[i] < file->config.vocab_size);
    FUZZ_CHECK(!sb_state_digest(s, &digest, &err) && !strcmp(digest.hex, file->target.hex));
    FUZZ_CHECK(!s->drafter == !file->drafter.hex[0]);
    FUZZ_CHECK(!s->drafter || s->drafter->entries + 1 == s->position);
    FUZZ_CHECK(!s->drafter || (!sb_drafter_state_digest(s->drafter, &digest, &err) &&
                               !strcmp(digest.hex, file->drafter.hex)));
    FUZZ_CHECK(!sb_state_compare(s, s, &d, &err) && !d.differs);
}

static int read_file(const uint8_t *data, size_t size, sb_error *err)
{
    sb_state_file *file = NULL;
    sb_status status = sb_state_file_parse(data, size, "input", &file, err);
    if (status != SB_OK) {
        fuzz_check_refusal(status, err);
        return 0;
    }
    fuzz_accepted++;
    check_state(file);
    sb_state_file_free(file);
    return 1;
}

/* Replaces the 32 digits after "key":" in the header. */
static void put_digits(uint8_t *data, size_t size, sb_state_key key, const char *digits)
{
    char text[64];
    int n = snprintf(text, sizeof text, "\"%s\":\"", sb_state_key_name(key));
    for (size_t i = 8; i + (size_t)n + 33 <= size; i++)
        if (memcmp(data + i, text, (size_t)n) == 0 && data[i + (size_t)n + 32] == '"') {
            memcpy(data + i + n, digits, 32);
            return;
        }
}

/* Writes the seal that fits these metadata. */
static void fit_seal(uint8_t *data, size_t size)
{
    sb_safetensors in;
    sb_digest seal;
    const char *values[SB_STATE_KEY_COUNT] = {NULL};
    if (sb_safetensors_parse(data, size, "input", &in, NULL))
        return;
    for (unsigned k = 0; k < SB_STATE_KEY_COUNT; k++)
        values[k] = sb_metadata_get(&in.metadata, sb_state_key_name((sb_state_key)k));
    FUZZ_CHECK(!sb_state_seal(values, &seal, NULL));
    sb_safetensors_close(&in);
    put_digits(data, size, SB_STATE_KEY_seal, seal.hex);
}

/* Reads the right digest from the message "... "samebit.state.target" is A, but the tensors give B:
 * one of them was changed". */
static int fit_digest(uint8_t *data, size_t size, const sb_error *err)
{
    static const sb_state_key keys[] = {SB_STATE_KEY_target, SB_STATE_KEY_mtp, SB_STATE_KEY_tokens,
                                        SB_STATE_KEY_drafter};
    const char *gives = strstr(err->text, "but the tensors give ");
    for (size_t i = 0; gives && i < sizeof keys / sizeof *keys; i++) {
        char quoted[64];
        snprintf(quoted, sizeof quoted, "\"%s\" is ", sb_state_key_name(keys[i]));
        if (!strstr(err->text, quoted))
            continue;
        put_digits(data, size, keys[i], strstr(gives, "give ") + 5);
        return 1;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sb_error err = {{0}};
    if (read_file(data, size, &err))
        return 0;
    uint8_t *fitted = malloc(size + 1);
    if (!fitted)
        return 0;
    memcpy(fitted, data, size);
    for (int tries = 0; tries < 5; tries++) {
        fit_seal(fitted, size);
        err = (sb_error){{0}};
        if (read_file(fitted, size, &err) || !fit_digest(fitted, size, &err))
            break;
    }
    free(fitted);
    return 0;
}
