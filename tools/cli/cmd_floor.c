/* cmd_floor.c - samebit floor: bytes per token, and an upper bound of the rate of any program. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/container/stub.h"
#include "tools/report/check/report.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/cli/remote.h"
#include "tools/check/floor/floor.h"
#include "tools/report/part/document.h"

typedef struct request {
    const char *folder, *bandwidth, *accept, *claim, *kv, *state;
    uint64_t context, draft;
    int json;
    double claimed;
    sb_floor_options options;
    sb_ledger ledger;
    sb_floor floor;
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

/* --- text ------------------------------------------------------------------------------------- */

/* "BF16 + F8_E4M3": the stored types of a class, the largest share first. */
static void print_dtypes(const sb_ledger_row *row)
{
    uint64_t left[SB_DTYPE_COUNT];
    memcpy(left, row->dtype, sizeof left);
    for (const char *between = "  ";; between = " + ") {
        unsigned best = 0;
        for (unsigned d = 1; d < SB_DTYPE_COUNT; d++)
            if (left[d] > left[best])
                best = d;
        if (!left[best])
            break;
        printf("%s%s", between, sb_dtype_name((sb_dtype)best));
        left[best] = 0;
    }
    printf("\n");
}

static void print_line(const char *title, double bytes, double total)
{
    printf("  %-24s %15.0f  %5.1f %%", title, bytes, 100 * bytes / total);
}

static const sb_ledger_row *row_of(const sb_ledger *l, int in_mtp, unsigned class)
{
    unsigned from = class == SB_FLOOR_head && l->config.tie_embeddings ? SB_FLOOR_embedding : class;
    const sb_ledger_row *row = in_mtp ? &l->mtp[from] : &l->trunk[from];
    return row->stored ? row : &l->trunk[from];
}

static void print_pass(const request *r, const sb_floor_pass *p, int in_mtp)
{
    for (unsigned i = 0; i < SB_FLOOR_CLASSES; i++)
        if (p->read[i] > 0) {
            print_line(sb_floor_class_title((sb_floor_class)i), p->read[i], p->total);
            print_dtypes(row_of(&r->ledger, in_mtp, i));
        }
    if (p->state > 0) {
        print_line("delta rule state", p->state, p->total);
        printf("  %s, read and written\n", r->options.state_bytes == 4 ? "F32" : "BF16");
        print_line("convolution state", p->conv, p->total);
        printf("  BF16\n");
    }
    print_line("keys and values, past", p->kv_read, p->total);
    printf("  %" PRIu64 " tokens\n", r->options.context);
    print_line("keys and values, new", p->kv_written, p->total);
    printf("\n  %-24s %15.0f\n", "total", p->total);
}

static void print_unread(const sb_ledger *l)
{
    for (unsigned i = SB_FLOOR_loader; i < SB_FLOOR_CLASSES; i++) {
        size_t tensors = l->trunk[i].tensors + l->mtp[i].tensors;
        if (tensors)
            printf("not read: %zu tensors %s%s, %" PRIu64 " bytes\n", tensors,
                   i == SB_FLOOR_vision ? "of the " : "", sb_floor_class_title((sb_floor_class)i),
                   l->trunk[i].stored + l->mtp[i].stored);
    }
}

static void print_lack(const char *what, const sb_ledger_lack *lack)
{
    if (lack->count)
        printf("MISSING: %zu %s\n", lack->count, what);
    for (size_t i = 0; i < lack->count && i < SB_LEDGER_FIRST; i++)
        printf("  %s\n", SB_SHOW(lack->first[i]));
    if (lack->count > SB_LEDGER_FIRST)
        printf("  and %zu more\n", lack->count - SB_LEDGER_FIRST);
}

static void print_speculation(const request *r)
{
    const sb_floor *f = &r->floor;
    const sb_config *c = &r->ledger.config;
    printf("a verification of %u tokens: %.0f bytes", (unsigned)r->options.draft + 1,
           f->verify.total);
    if (c->experts)
        printf(", with %.1f of %u experts per layer where one token reads %u", f->experts,
               (unsigned)c->experts, (unsigned)c->experts_per_token);
    printf("\na step of the MTP head:\n");
    print_pass(r, &f->draft, 1);
    printf(
        "a round of %u such steps: %.0f bytes, %.2f per second, %.3f tokens each at acceptance %s\n",
        (unsigned)r->options.draft, f->round, f->rounds, f->emitted, r->accept);
    printf("speculating: at most %.2f tokens per second\n", f->spec_rate);
    if (f->break_even <= 1)
        printf("break-even: not slower if the acceptance is at least %.3f\n", f->break_even);
    else
        printf("break-even: slower at any acceptance\n");
}

static void print_text(const request *r)
{
    const sb_config *c = &r->ledger.config;
    const sb_floor *f = &r->floor;
    printf("%s, %u layers, from the headers of %zu file%s\n", sb_family_name(c->family),
           (unsigned)c->layers, r->ledger.shards, r->ledger.shards == 1 ? "" : "s");
    print_lack("files or tensors of an index", &r->ledger.files);
    print_lack("weights of the model: every figure counts only what is there", &r->ledger.tensors);
    printf("a token:\n");
    print_pass(r, &f->token, 0);
    printf("keys and values: %.0f bytes per token\n", f->kv_token);
    print_unread(&r->ledger);
    printf("at %s GB/s: at most %.2f tokens per second\n", r->bandwidth, f->rate);
    if (r->options.draft)
        print_speculation(r);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *bytes_json(double bytes)
{
    return json_integer((json_int_t)(bytes + 0.5));
}

static json_t *pass_json(const sb_floor_pass *p)
{
    json_t *out = json_object(), *read = json_object();
    for (unsigned i = 0; i < SB_FLOOR_loader; i++)
        SB_PUT(read, sb_floor_class_id((sb_floor_class)i), bytes_json(p->read[i]));
    SB_PUT(out, "weights", read);
    SB_PUT(out, "state", bytes_json(p->state));
    SB_PUT(out, "conv_state", bytes_json(p->conv));
    SB_PUT(out, "kv_past", bytes_json(p->kv_read));
    SB_PUT(out, "kv_new", bytes_json(p->kv_written));
    SB_PUT(out, "total", bytes_json(p->total));
    return out;
}

static json_t *rows_json(const sb_ledger_row rows[SB_FLOOR_CLASSES])
{
    json_t *out = json_object();
    for (unsigned i = 0; i < SB_FLOOR_CLASSES; i++) {
        json_t *dtypes = json_object();
        for (unsigned d = 0; d < SB_DTYPE_COUNT; d++)
            if (rows[i].dtype[d])
                SB_PUT(dtypes, sb_dtype_name((sb_dtype)d), rows[i].dtype[d]);
        SB_PUT(out, sb_floor_class_id((sb_floor_class)i),
               json_pack("{s:I,s:I,s:o}", "tensors", (json_int_t)rows[i].tensors, "bytes",
                         (json_int_t)rows[i].stored, "dtypes", dtypes));
    }
    return out;
}

static json_t *lack_json(const sb_ledger_lack *lack)
{
    json_t *first = json_array();
    for (size_t i = 0; i < lack->count && i < SB_LEDGER_FIRST; i++)
        SB_ADD(first, sb_report_string(SB_SHOW(lack->first[i])));
    json_t *out = json_object();
    SB_PUT(out, "count", lack->count);
    SB_PUT(out, "first", first);
    return out;
}

static json_t *speculation_json(const request *r)
{
    const sb_floor *f = &r->floor;
    if (!r->options.draft)
        return json_null();
    json_t *out = json_object();
    SB_PUT(out, "draft", r->options.draft);
    SB_PUT(out, "accept", r->options.accept);
    SB_PUT(out, "verify", pass_json(&f->verify));
    SB_PUT(out, "draft_step", pass_json(&f->draft));
    SB_PUT(out, "experts_per_layer", f->experts);
    SB_PUT(out, "tokens_per_round", f->emitted);
    SB_PUT(out, "bytes_per_round", bytes_json(f->round));
    SB_PUT(out, "rounds_per_s", f->rounds);
    SB_PUT(out, "tokens_per_s", f->spec_rate);
    SB_PUT(out, "break_even_accept", SB_KNOWN(f->break_even <= 1, f->break_even));
    return out;
}

static double ceiling(const request *r)
{
    return r->options.draft ? r->floor.spec_rate : r->floor.rate;
}

static int is_partial(const request *r)
{
    return r->ledger.files.count || r->ledger.tensors.count;
}

/* B-10: "IMPOSSIBLE if it exceeds the ceiling" */
static const char *verdict(const request *r)
{
    return r->claimed > ceiling(r) ? "IMPOSSIBLE" : is_partial(r) ? "UNKNOWN" : "POSSIBLE";
}

static json_t *claim_json(const request *r)
{
    if (!r->claim)
        return json_null();
    json_t *out = json_object();
    SB_PUT(out, "verdict", verdict(r));
    SB_PUT(out, "tokens_per_s", r->claimed);
    SB_PUT(out, "share", r->claimed / ceiling(r));
    SB_PUT(out, "implied_bandwidth", sb_floor_implied(&r->floor, &r->options, r->claimed));
    return out;
}

static sb_status print_json(const request *r, sb_error *err)
{
    json_t *document = sb_document("floor");
    SB_PUT(document, "bandwidth", r->options.bandwidth);
    SB_PUT(document, "context", r->options.context);
    SB_PUT(document, "kv_bytes_per_token", bytes_json(r->floor.kv_token));
    SB_PUT(document, "token", pass_json(&r->floor.token));
    SB_PUT(document, "tokens_per_s", r->floor.rate);
    SB_PUT(document, "speculation", speculation_json(r));
    SB_PUT(document, "claim", claim_json(r));
    SB_PUT(document, "stored", rows_json(r->ledger.trunk));
    SB_PUT(document, "stored_mtp", rows_json(r->ledger.mtp));
    SB_PUT(document, "missing_files", lack_json(&r->ledger.files));
    SB_PUT(document, "missing_weights", lack_json(&r->ledger.tensors));
    return sb_print_document(document, err);
}

/* --- the command ------------------------------------------------------------------------------ */

static sb_status judge(const request *r, sb_error *err)
{
    double needs = sb_floor_implied(&r->floor, &r->options, r->claimed);
    const char *word = verdict(r);
    if (!r->json)
        printf("%s: %s tokens per second are %.1f %% of the ceiling and need %.1f GB/s\n", word,
               r->claim, 100 * r->claimed / ceiling(r), needs / 1e9);
    if (*word == 'I')
        return sb_fail(err, SB_ERR_DIFF,
                       "%s: %s tokens per second are impossible: they need %.1f GB/s of %s",
                       SB_SHOW(r->folder), r->claim, needs / 1e9, r->bandwidth);
    if (*word == 'U')
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: weights are missing, so a claim below the ceiling proves nothing",
                       SB_SHOW(r->folder));
    return SB_OK;
}

static sb_status floor_of(request *r, sb_error *err)
{
    sb_status status = sb_ledger_read(r->folder, &r->ledger, err);
    if (!status && r->options.draft && !r->ledger.has_mtp)
        status = sb_fail(err, SB_ERR_INPUT, "%s: has no MTP head (mtp.*), which --draft needs",
                         SB_SHOW(r->folder));
    if (status)
        return status;
    if (!r->kv)
        r->options.kv_bytes = sb_floor_kv_bytes(r->ledger.kv);
    sb_floor_compute(&r->ledger, &r->options, &r->floor);
    if (r->json)
        status = print_json(r, err);
    else
        print_text(r);
    return status || !r->claim ? status : judge(r, err);
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
