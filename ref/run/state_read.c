/* state_read.c - reads a state file and checks that its parts are consistent. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/spec.h"
#include "ref/container/digest.h"
#include "ref/container/show.h"
#include "ref/run/session.h"
#include "ref/run/state_file.h"
#include "ref/run/state_reader.h"

#define FAIL(r, ...) sb_fail((r)->err, SB_ERR_INPUT, __VA_ARGS__)

/* --- metadata --------------------------------------------------------------------------------- */

static sb_status take_pair(sb_state_reader *r, const sb_metadata_pair *pair)
{
    if (strcmp(pair->key, "format") == 0 && strcmp(pair->value, "pt") == 0)
        return SB_OK;
    for (unsigned k = 0; k < SB_STATE_KEY_COUNT; k++)
        if (strcmp(pair->key, sb_state_key_name((sb_state_key)k)) == 0) {
            r->values[k] = pair->value;
            return SB_OK;
        }
    return FAIL(r, "%s: metadata \"%s\" does not belong in a state file", SB_SHOW(r->path),
                SB_SHOW(pair->key));
}

/* D-12: "A file with another seal is refused" */
static sb_status read_metadata(sb_state_reader *r)
{
    static const char is_optional[SB_STATE_KEY_COUNT] = {[SB_STATE_KEY_engine] = 1,
                                                         [SB_STATE_KEY_drafter] = 1,
                                                         [SB_STATE_KEY_drafter_checkpoint] = 1,
                                                         [SB_STATE_KEY_drafter_config] = 1,
                                                         [SB_STATE_KEY_drafter_entries] = 1,
                                                         [SB_STATE_KEY_mtp] = 1,
                                                         [SB_STATE_KEY_mtp_entries] = 1,
                                                         [SB_STATE_KEY_tokens] = 1};
    sb_status status = SB_OK;
    sb_digest seal;
    for (size_t i = 0; i < r->in->metadata.count && !status; i++)
        status = take_pair(r, &r->in->metadata.pairs[i]);
    for (unsigned k = 0; k < SB_STATE_KEY_COUNT && !status; k++)
        if (!r->values[k] && !is_optional[k])
            status = FAIL(r, "%s: is not a state file: its metadata lack \"%s\"", SB_SHOW(r->path),
                          sb_state_key_name((sb_state_key)k));
    if (!status)
        status = sb_state_seal(r->values, &seal, r->err);
    if (!status && strcmp(seal.hex, r->values[SB_STATE_KEY_seal]) != 0)
        status = FAIL(r, "%s: the seal of its metadata is %s, but the metadata give %s",
                      SB_SHOW(r->path), SB_SHOW(r->values[SB_STATE_KEY_seal]), seal.hex);
    return status;
}

/* Reads a decimal number up to `most`, without leading zeros. */
static sb_status read_number(sb_state_reader *r, sb_state_key key, uint64_t most, uint64_t *out)
{
    const char *text = r->values[key];
    uint64_t value = 0;
    size_t digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9' && digits < 12; digits++)
        value = value * 10 + (uint64_t)(text[digits] - '0');
    if (digits == 0 || text[digits] || (digits > 1 && text[0] == '0') || value > most)
        return FAIL(r, "%s: \"%s\" is \"%s\", expected a number up to %" PRIu64, SB_SHOW(r->path),
                    sb_state_key_name(key), SB_SHOW(text), most);
    *out = value;
    return SB_OK;
}

static sb_status read_digest(sb_state_reader *r, sb_state_key key, sb_digest *out)
{
    const char *text = r->values[key];
    if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
        return FAIL(r, "%s: \"%s\" is \"%s\", expected 32 hexadecimal digits", SB_SHOW(r->path),
                    sb_state_key_name(key), SB_SHOW(text));
    memcpy(out->hex, text, sizeof out->hex);
    return SB_OK;
}

static sb_status check_spec(sb_state_reader *r)
{
    uint64_t spec = 0;
    sb_status status = read_number(r, SB_STATE_KEY_spec, 1000000, &spec);
    if (!status && spec != SB_SPEC_VERSION)
        status = sb_fail(r->err, SB_ERR_UNSUPPORTED,
                         "%s: was made under version %" PRIu64
                         " of the specification, but this program implements version %d",
                         SB_SHOW(r->path), spec, SB_SPEC_VERSION);
    return status;
}

/* D-11: "the number of entries is that of S-7 and K-27" */
static sb_status read_head(sb_state_reader *r, sb_state *sizes)
{
    uint64_t expected = sb_session_mtp_entries(&r->out->knobs, sizes->position);
    int has_mtp = r->values[SB_STATE_KEY_mtp] != NULL;
    if (has_mtp != (r->values[SB_STATE_KEY_mtp_entries] != NULL))
        return FAIL(r, "%s: has only one of \"%s\" and \"%s\"", SB_SHOW(r->path),
                    sb_state_key_name(SB_STATE_KEY_mtp),
                    sb_state_key_name(SB_STATE_KEY_mtp_entries));
    sizes->has_mtp = has_mtp;
    if (!has_mtp)
        return SB_OK;
    sb_status status = read_digest(r, SB_STATE_KEY_mtp, &r->out->mtp);
    if (!status)
        status = read_number(r, SB_STATE_KEY_mtp_entries, SB_POSITION_LIMIT, &sizes->mtp_entries);
    if (!status && sizes->mtp_entries != expected)
        status = FAIL(r,
                      "%s: has %" PRIu64 " entries of the MTP head at position %" PRIu64
                      ", expected %" PRIu64,
                      SB_SHOW(r->path), sizes->mtp_entries, sizes->position, expected);
    return status;
}

/* S-15: "an entry for each token but the first" */
static sb_status read_drafter(sb_state_reader *r, sb_state *sizes, sb_drafter_state *drafter)
{
    unsigned have = 0;
    sb_error why = {{0}};
    sb_eagle3_identity *of = &r->out->drafts_of;
    for (unsigned k = SB_STATE_KEY_drafter; k <= SB_STATE_KEY_drafter_entries; k++)
        have += r->values[k] != NULL;
    if (have == 0)
        return SB_OK;
    if (have != 4)
        return FAIL(r, "%s: has only some of \"%s\" and the other three keys of a drafter",
                    SB_SHOW(r->path), sb_state_key_name(SB_STATE_KEY_drafter));
    sb_status status =
        sb_state_drafter_parse(r->values[SB_STATE_KEY_drafter_config], drafter, &why);
    if (status)
        return sb_fail(r->err, status, "%s: %s", SB_SHOW(r->path), why.text);
    snprintf(of->text, sizeof of->text, "%s", r->values[SB_STATE_KEY_drafter_config]);
    status = read_digest(r, SB_STATE_KEY_drafter_checkpoint, &of->checkpoint);
    if (!status)
        status = read_digest(r, SB_STATE_KEY_drafter, &r->out->drafter);
    if (!status)
        status = read_number(r, SB_STATE_KEY_drafter_entries, SB_POSITION_LIMIT, &drafter->entries);
    if (!status && drafter->entries + 1 != sizes->position)
        status = FAIL(r,
                      "%s: has %" PRIu64 " entries of the drafter at position %" PRIu64
                      ", expected one for each token but the first",
                      SB_SHOW(r->path), drafter->entries, sizes->position);
    sizes->drafter = drafter;
    return status;
}

static sb_status read_words(sb_state_reader *r, sb_state *sizes)
{
    sb_state_file *out = r->out;
    const char *config = r->values[SB_STATE_KEY_config];
    sb_error why = {{0}};
    sb_status status = check_spec(r);
    if (status)
        return status;
    status = sb_state_config_parse(config, r->values[SB_STATE_KEY_layers], &out->config, &why);
    if (!status)
        status = sb_state_knobs_parse(r->values[SB_STATE_KEY_knobs], &out->knobs, &why);
    if (status)
        return sb_fail(r->err, status, "%s: %s", SB_SHOW(r->path), why.text);
    snprintf(out->config_text, sizeof out->config_text, "%s", config);
    if (strlen(r->values[SB_STATE_KEY_profile]) >= sizeof out->profile)
        return FAIL(r, "%s: the name of its profile has more than %zu bytes", SB_SHOW(r->path),
                    sizeof out->profile - 1);
    snprintf(out->profile, sizeof out->profile, "%s", r->values[SB_STATE_KEY_profile]);
    out->kernels = r->values[SB_STATE_KEY_engine] != NULL;
    if (out->kernels && strcmp(r->values[SB_STATE_KEY_engine], sb_state_kernels) != 0)
        return FAIL(r, "%s: was computed by '%s', expected %s or, for the reference, nothing",
                    SB_SHOW(r->path), SB_SHOW(r->values[SB_STATE_KEY_engine]), sb_state_kernels);
    sizes->config = &out->config;
    /* S-5: a state at 2^24 can exist, but cannot be continued */
    status = read_number(r, SB_STATE_KEY_position, SB_POSITION_LIMIT, &sizes->position);
    if (!status)
        status = read_digest(r, SB_STATE_KEY_checkpoint, &out->checkpoint);
    if (!status)
        status = read_digest(r, SB_STATE_KEY_target, &out->target);
    return status ? status : read_head(r, sizes);
}

/* --- tensors ---------------------------------------------------------------------------------- */

static sb_status check_digest(sb_state_reader *r, sb_state_key key, const sb_digest *is)
{
    const char *was = r->values[key];
    if (strcmp(is->hex, was) == 0)
        return SB_OK;
    return FAIL(r, "%s: \"%s\" is %s, but the tensors give %s: one of the two was changed",
                SB_SHOW(r->path), sb_state_key_name(key), SB_SHOW(was), is->hex);
}

static sb_status check_digests(sb_state_reader *r)
{
    sb_digest target, mtp, drafter;
    const sb_state *state = r->out->state;
    sb_status status = sb_state_digest(state, &target, r->err);
    if (!status)
        status = check_digest(r, SB_STATE_KEY_target, &target);
    if (!status && state->has_mtp)
        status = sb_state_mtp_digest(state, &mtp, r->err);
    if (!status && state->has_mtp)
        status = check_digest(r, SB_STATE_KEY_mtp, &mtp);
    if (!status && state->drafter)
        status = sb_drafter_state_digest(state->drafter, &drafter, r->err);
    if (!status && state->drafter)
        status = check_digest(r, SB_STATE_KEY_drafter, &drafter);
    return status;
}

static sb_status read_tokens(sb_state_reader *r, uint64_t count)
{
    const sb_tensor *t = sb_state_find_tensor(r, "tokens");
    sb_digest digest;
    sb_status status = sb_tensor_digest(t, &digest, r->err);
    if (!status)
        status = check_digest(r, SB_STATE_KEY_tokens, &digest);
    if (status)
        return status;
    r->out->tokens = sb_alloc((size_t)count, sizeof *r->out->tokens);
    if (!r->out->tokens)
        return sb_fail(r->err, SB_ERR_MEMORY, "%s: out of memory for its tokens", SB_SHOW(r->path));
    for (uint64_t i = 0; i < count; i++) {
        r->out->tokens[i] = sb_load_u32(t->data + 4 * i);
        if (r->out->tokens[i] >= r->out->config.vocab_size)
            return FAIL(r, "%s: token %" PRIu64 " is id %u, expected one below %u",
                        SB_SHOW(r->path), i, (unsigned)r->out->tokens[i],
                        (unsigned)r->out->config.vocab_size);
    }
    return SB_OK;
}

static sb_status read_all(const char *path, const sb_safetensors *in, sb_state_file *out,
                          sb_error *err)
{
    sb_state_reader r = {.path = path, .in = in, .out = out, .err = err};
    sb_state sizes = {.config = NULL};
    sb_drafter_state drafter;
    sb_status status = read_metadata(&r);
    if (!status)
        status = read_words(&r, &sizes);
    if (!status)
        status = read_drafter(&r, &sizes, &drafter);
    if (!status)
        status = sb_state_check_tensors(&r, &sizes);
    if (!status)
        status = sb_state_fill(&r, &sizes);
    if (!status)
        status = check_digests(&r);
    if (!status && r.values[SB_STATE_KEY_tokens])
        status = read_tokens(&r, sizes.position);
    return status;
}

static sb_status read_file(const char *path, const sb_safetensors *in, sb_state_file **out,
                           sb_error *err)
{
    sb_state_file *file = sb_alloc(1, sizeof *file);
    if (!file)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    sb_status status = read_all(path, in, file, err);
    if (status)
        sb_state_file_free(file);
    else
        *out = file;
    return status;
}

sb_status sb_state_file_open(const char *path, sb_state_file **out, sb_error *err)
{
    sb_safetensors in;
    sb_status status = sb_safetensors_open(path, &in, err);
    if (status)
        return status;
    status = read_file(path, &in, out, err);
    sb_safetensors_close(&in);
    return status;
}

sb_status sb_state_file_parse(const unsigned char *bytes, size_t size, const char *name,
                              sb_state_file **out, sb_error *err)
{
    sb_safetensors in;
    sb_status status = sb_safetensors_parse(bytes, size, name, &in, err);
    if (status)
        return status;
    status = read_file(name, &in, out, err);
    sb_safetensors_close(&in);
    return status;
}

void sb_state_file_free(sb_state_file *file)
{
    if (!file)
        return;
    sb_state_free(file->state);
    sb_drafter_state_free(file->entries);
    free(file->tokens);
    free(file);
}
