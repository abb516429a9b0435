/* cmd_floor.c - samebit floor: bytes per token, and an upper bound of the rate of any program. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/container/stub.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/cli/remote.h"
#include "tools/report/part/document.h"
#include "tools/report/result/floor.h"

typedef struct request {
    const char *folder, *bandwidth, *accept, *claim, *kv, *state;
    uint64_t context, draft;
    int json;
    double claimed;
    sb_floor_options options;
} request;

/* --- options ---------------------------------------------------------------------------------- */

static sb_status choose(const char *option, const char *text, const char *first, const char *second,
                        int *is_second, sb_error *err)
{
    *is_second = strcmp(text, second) == 0;
    if (*is_second || strcmp(text, first) == 0)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "--%s is '%s', expected %s or %s", option, SB_SHOW(text),
                   first, second);
}

static sb_status read_numbers(request *r, sb_error *err)
{
    sb_floor_options *o = &r->options;
    if (!r->bandwidth)
        return sb_fail(
            err, SB_ERR_USAGE,
            "--bandwidth is missing: the read rate of the memory, in GB (10^9 bytes) per second");
    sb_status status = sb_opt_decimal("bandwidth", r->bandwidth, 0.001, 1e6, &o->bandwidth, err);
    o->bandwidth *= 1e9;
    if (!status && r->context > UINT32_MAX)
        status = sb_fail(err, SB_ERR_USAGE, "--context is %" PRIu64 ", expected less than 2^32",
                         r->context);
    if (!status && r->draft > 64)
        status =
            sb_fail(err, SB_ERR_USAGE, "--draft is %" PRIu64 ", expected at most 64", r->draft);
    if (!status && !r->draft != !r->accept)
        status =
            sb_fail(err, SB_ERR_USAGE, "--draft K, at least 1, and --accept a belong together");
    if (!status && r->accept)
        status = sb_opt_decimal("accept", r->accept, 0, 1, &o->accept, err);
    if (!status && r->claim)
        status = sb_opt_decimal("claim", r->claim, 0.001, 1e9, &r->claimed, err);
    o->context = r->context;
    o->draft = (uint32_t)r->draft;
    return status;
}

static sb_status read_options(request *r, sb_error *err)
{
    int other = 0;
    sb_status status = read_numbers(r, err);
    if (!status)
        status = choose("state", r->state, "f32", "bf16", &other, err);
    r->options.state_bytes = other ? 2 : 4;
    if (!status && r->kv)
        status = choose("kv", r->kv, "bf16", "fp8", &other, err);
    r->options.kv_bytes = other ? 1 : 2;
    return status;
}

/* --- the command ------------------------------------------------------------------------------ */

static sb_status judge_claim(const request *r, const sb_floor_document *d, sb_error *err)
{
    double needs = sb_floor_implied(d->floor, d->options, d->claimed);
    const char *word = sb_floor_verdict(d);
    if (!r->json)
        printf("%s: %s tokens per second are %.1f %% of the ceiling and need %.1f GB/s\n", word,
               d->claim, 100 * d->claimed / sb_floor_ceiling(d), needs / 1e9);
    if (*word == 'I')
        return sb_fail(err, SB_ERR_DIFF,
                       "%s: %s tokens per second are impossible: they need %.1f GB/s of %s",
                       SB_SHOW(r->folder), d->claim, needs / 1e9, d->bandwidth);
    if (*word == 'U')
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: weights are missing, so a claim below the ceiling proves nothing",
                       SB_SHOW(r->folder));
    return SB_OK;
}

static sb_status floor_of(request *r, sb_error *err)
{
    sb_ledger ledger;
    sb_floor floor;
    sb_status status = sb_ledger_read(r->folder, &ledger, err);
    if (!status && r->options.draft && !ledger.has_mtp)
        status = sb_fail(err, SB_ERR_INPUT, "%s: has no MTP head (mtp.*), which --draft needs",
                         SB_SHOW(r->folder));
    if (status)
        return status;
    if (!r->kv)
        r->options.kv_bytes = sb_floor_kv_bytes(ledger.kv);
    sb_floor_compute(&ledger, &r->options, &floor);
    const sb_floor_document d = {.bandwidth = r->bandwidth,
                                 .accept = r->accept,
                                 .claim = r->claim,
                                 .claimed = r->claimed,
                                 .ledger = &ledger,
                                 .options = &r->options,
                                 .floor = &floor};
    if (r->json)
        status = sb_print_document(sb_floor_json(&d), err);
    else
        sb_floor_print(&d);
    return status || !r->claim ? status : judge_claim(r, &d, err);
}

sb_status sb_cmd_floor(int argc, char **argv, sb_error *err)
{
    request r = {.state = "f32"};
    char *folder = NULL; /* after a lookup in the hub's cache, or on a server */
    sb_remote_wish wish = {0};
    const sb_opt opts[] = {
        {"bandwidth", 0, SB_OPT_STRING, &r.bandwidth, "GBs",
         "read rate of the memory, in 10^9 bytes per second"},
        {"context", 0, SB_OPT_NUMBER, &r.context, "N", "tokens in the cache (0)"},
        {"draft", 0, SB_OPT_NUMBER, &r.draft, "K", "the MTP head proposes K tokens per round"},
        {"accept", 0, SB_OPT_STRING, &r.accept, "a",
         "probability that a draft is accepted, 0 to 1"},
        {"claim", 0, SB_OPT_STRING, &r.claim, "T",
         "check a claim of T tokens per second; exit status 1 if it is impossible"},
        {"kv", 0, SB_OPT_STRING, &r.kv, "bf16|fp8",
         "type of keys and values, instead of the declared one"},
        {"state", 0, SB_OPT_STRING, &r.state, "f32|bf16", "type of the delta rule's state (f32)"},
        SB_OPT_REMOTE(&wish),
        SB_OPT_JSON(&r.json),
    };
    sb_command_line line = {
        .usage = "floor CKPT --bandwidth GBs [options]",
        .about =
            "Counts the bytes that memory must move to decode one token, class by class, from the\n"
            "headers of a checkpoint alone. Prints the number of tokens per second that no program can\n"
            "exceed with memory of this bandwidth. With --remote, CKPT may be a hub id or an address\n"
            "that is not here.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .min_operands = 1,
        .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    status = read_options(&r, err);
    sb_stubs_allow();
    if (!status)
        status = sb_place_of(line.operand[0], &wish, &folder, err);
    r.folder = folder;
    if (!status)
        status = floor_of(&r, err);
    free(folder);
    return status;
}
