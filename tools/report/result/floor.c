#include "tools/report/result/floor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/report/part/document.h"

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

static void print_pass(const sb_floor_document *d, const sb_floor_pass *p, int in_mtp)
{
    for (unsigned i = 0; i < SB_FLOOR_CLASSES; i++)
        if (p->read[i] > 0) {
            print_line(sb_floor_class_title((sb_floor_class)i), p->read[i], p->total);
            print_dtypes(row_of(d->ledger, in_mtp, i));
        }
    if (p->state > 0) {
        print_line("delta rule state", p->state, p->total);
        printf("  %s, read and written\n", d->options->state_bytes == 4 ? "F32" : "BF16");
        print_line("convolution state", p->conv, p->total);
        printf("  BF16\n");
    }
    print_line("keys and values, past", p->kv_read, p->total);
    printf("  %" PRIu64 " tokens\n", d->options->context);
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

static void print_speculation(const sb_floor_document *d)
{
    const sb_floor *f = d->floor;
    const sb_config *c = &d->ledger->config;
    printf("a verification of %u tokens: %.0f bytes", (unsigned)d->options->draft + 1,
           f->verify.total);
    if (c->experts)
        printf(", with %.1f of %u experts per layer where one token reads %u", f->experts,
               (unsigned)c->experts, (unsigned)c->experts_per_token);
    printf("\na step of the MTP head:\n");
    print_pass(d, &f->draft, 1);
    printf(
        "a round of %u such steps: %.0f bytes, %.2f per second, %.3f tokens each at acceptance %s\n",
        (unsigned)d->options->draft, f->round, f->rounds, f->emitted, d->accept);
    printf("speculating: at most %.2f tokens per second\n", f->spec_rate);
    if (f->break_even <= 1)
        printf("break-even: not slower if the acceptance is at least %.3f\n", f->break_even);
    else
        printf("break-even: slower at any acceptance\n");
}

void sb_floor_print(const sb_floor_document *d)
{
    const sb_config *c = &d->ledger->config;
    const sb_floor *f = d->floor;
    printf("%s, %u layers, from the headers of %zu file%s\n", sb_family_name(c->family),
           (unsigned)c->layers, d->ledger->shards, d->ledger->shards == 1 ? "" : "s");
    print_lack("files or tensors of an index", &d->ledger->files);
    print_lack("weights of the model: every figure counts only what is there", &d->ledger->tensors);
    printf("a token:\n");
    print_pass(d, &f->token, 0);
    printf("keys and values: %.0f bytes per token\n", f->kv_token);
    print_unread(d->ledger);
    printf("at %s GB/s: at most %.2f tokens per second\n", d->bandwidth, f->rate);
    if (d->options->draft)
        print_speculation(d);
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
        SB_ADD(first, SB_SHOW(lack->first[i]));
    json_t *out = json_object();
    SB_PUT(out, "count", lack->count);
    SB_PUT(out, "first", first);
    return out;
}

static json_t *speculation_json(const sb_floor_document *d)
{
    const sb_floor *f = d->floor;
    if (!d->options->draft)
        return json_null();
    json_t *out = json_object();
    SB_PUT(out, "draft", d->options->draft);
    SB_PUT(out, "accept", d->options->accept);
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

double sb_floor_ceiling(const sb_floor_document *d)
{
    return d->options->draft ? d->floor->spec_rate : d->floor->rate;
}

static int is_partial(const sb_floor_document *d)
{
    return d->ledger->files.count || d->ledger->tensors.count;
}

/* B-10: "IMPOSSIBLE if it exceeds the ceiling" */
const char *sb_floor_verdict(const sb_floor_document *d)
{
    return d->claimed > sb_floor_ceiling(d) ? "IMPOSSIBLE" : is_partial(d) ? "UNKNOWN" : "POSSIBLE";
}

static json_t *claim_json(const sb_floor_document *d)
{
    if (!d->claim)
        return json_null();
    json_t *out = json_object();
    SB_PUT(out, "verdict", sb_floor_verdict(d));
    SB_PUT(out, "tokens_per_s", d->claimed);
    SB_PUT(out, "share", d->claimed / sb_floor_ceiling(d));
    SB_PUT(out, "implied_bandwidth", sb_floor_implied(d->floor, d->options, d->claimed));
    return out;
}

json_t *sb_floor_json(const sb_floor_document *d)
{
    json_t *document = sb_document("floor");
    SB_PUT(document, "bandwidth", d->options->bandwidth);
    SB_PUT(document, "context", d->options->context);
    SB_PUT(document, "kv_bytes_per_token", bytes_json(d->floor->kv_token));
    SB_PUT(document, "token", pass_json(&d->floor->token));
    SB_PUT(document, "tokens_per_s", d->floor->rate);
    SB_PUT(document, "speculation", speculation_json(d));
    SB_PUT(document, "claim", claim_json(d));
    SB_PUT(document, "stored", rows_json(d->ledger->trunk));
    SB_PUT(document, "stored_mtp", rows_json(d->ledger->mtp));
    SB_PUT(document, "missing_files", lack_json(&d->ledger->files));
    SB_PUT(document, "missing_weights", lack_json(&d->ledger->tensors));
    return document;
}
