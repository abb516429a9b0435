#include "tools/cli/bench_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/cli/bench_round.h"
#include "tools/report/part/document.h"

/* --- results from the times ------------------------------------------------------------------- */

typedef struct verdict {
    double rate, launch;       /* bytes per second; seconds of an empty launch: B-19 */
    double floor, model;       /* seconds: bytes / rate; the same plus phases x launch (B-13) */
    double step, implied;      /* seconds: measured; of a GB10 with the same efficiency */
    int timed;                 /* all of them are known */
    double of_rate, of_launch; /* for the ledger's rounds: measured, or as stated */
} verdict;

static verdict verdict_of(const sb_bench_measured *m)
{
    const sb_device_report *r = m->report;
    const double bytes = sb_moves_bytes(&m->step->total);
    verdict v = {.rate = sb_meter_rate(sb_meter_memory(&r->card)),
                 .step = r->step.median,
                 .of_rate = m->options->bandwidth,
                 .of_launch = m->latency};
    const double per_second =
        sb_meter_rate(m->is_graph ? &r->card.dependent_nodes : &r->card.dependent);
    if (v.rate <= 0 || per_second <= 0 || v.step <= 0)
        return v;
    v.timed = 1;
    v.of_rate = v.rate;
    v.of_launch = v.launch = 1 / per_second;
    v.floor = bytes / v.rate;
    v.model = sb_moves_seconds(m->step, v.rate, v.launch);
    v.implied = sb_moves_seconds(m->step, m->options->bandwidth, m->latency) * v.step / v.model;
    return v;
}

/* The measurements of the card, in the order of the output. */
enum { CARD_PASSES = 2 * SB_METER_SIZES + 7 };
typedef struct card_pass {
    const char *what;
    const sb_meter_pass *pass;
    double unit; /* unit of its work per second */
    const char *per;
} card_pass;

static void list_passes(const sb_meter_report *c, card_pass list[CARD_PASSES])
{
    const card_pass others[] = {
        {"bf16 products", &c->matrix, 1e12, "TFLOP/s"},
        {"bf16 layer", &c->linear, 1e12, "TFLOP/s"},
        {"launches", &c->launches, 1e6, "per us"},
        {"launches, dependent", &c->dependent, 1e6, "per us"},
        {"of a graph", &c->nodes, 1e6, "per us"},
        {"of a graph, dependent", &c->dependent_nodes, 1e6, "per us"},
        {"graphs of one launch", &c->graphs, 1e6, "per us"},
    };
    for (int i = 0; i < SB_METER_SIZES; i++) {
        list[i] = (card_pass){"read", &c->read[i], 1e9, "GB/s"};
        list[SB_METER_SIZES + i] = (card_pass){"copy", &c->copy[i], 1e9, "GB/s"};
    }
    memcpy(list + (size_t)(2 * SB_METER_SIZES), others, sizeof others);
}

int sb_bench_is_wrong(const sb_device_report *r)
{
    card_pass list[CARD_PASSES];
    int right = 1;
    list_passes(&r->card, list);
    for (int i = 0; i < CARD_PASSES; i++)
        right = right && list[i].pass->right;
    return !right;
}

/* The ledger's op of launches with this name; SB_MOVES_OPS: none. */
static sb_moves_op op_of(const sb_moves *step, const char *name)
{
    static const struct {
        const char *name;
        sb_moves_op op;
    } names[] = {
#define SB_DEVICE_OP(name, op) {name, SB_MOVES_##op},
#include "tools/bench/device.def"
#undef SB_DEVICE_OP
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) /* a dense MLP has no combination of experts */
            return names[i].op == SB_MOVES_combine && !step->row[SB_MOVES_combine].calls
                       ? SB_MOVES_dense_out
                       : names[i].op;
    return SB_MOVES_OPS;
}

/* Launches and seconds of each op; the last row is for launches of no op. */
typedef struct by_op {
    sb_device_part part[SB_MOVES_OPS + 1];
} by_op;

static by_op sum_ops(const sb_bench_measured *m)
{
    by_op out = {{{.launches = 0}}};
    for (size_t i = 0; i < m->report->ops; i++) {
        const sb_device_part *from = &m->report->op[i];
        sb_device_part *to = &out.part[op_of(m->step, from->name)];
        to->launches += from->launches;
        to->seconds += from->seconds;
    }
    return out;
}

sb_status sb_bench_backend(const char *name, const sb_backend **out, sb_error *why)
{
    *out = NULL;
    if (strcmp(name, "gpu") == 0)
        return sb_backend_gpu(out, why);
    if (strcmp(name, "emu") != 0)
        return sb_fail(why, SB_ERR_USAGE, "--backend is '%s', expected gpu or emu", SB_SHOW(name));
    *out = sb_backend_emu();
    if (!*out)
        return sb_fail(why, SB_ERR_SKIPPED,
                       "this program was built without a C++ compiler, so it has no emulator");
    sb_backend_emu_history(0);
    return SB_OK;
}

/* --- text ------------------------------------------------------------------------------------- */

/* A number, or a dash if there is no timer. */
static const char *cell(char text[24], double value, int digits)
{
    if (value > 0)
        snprintf(text, 24, "%.*f", digits, value);
    else
        snprintf(text, 24, "-");
    return text;
}

static void print_pass(const char *title, const sb_meter_pass *p, double unit, const char *per)
{
    char ms[3][24], rate[24];
    printf("  %-22s %14" PRIu64 " %10s %10s %10s %12s %s%s\n", title, p->work,
           cell(ms[0], 1e3 * p->time.median, 4), cell(ms[1], 1e3 * p->time.least, 4),
           cell(ms[2], 1e3 * p->time.most, 4), cell(rate, sb_meter_rate(p) / unit, 1), per,
           p->right ? "" : "  WRONG");
}

static void print_card(const sb_meter_report *card)
{
    card_pass list[CARD_PASSES];
    list_passes(card, list);
    printf("measured in this run: %s, %" PRIu32 " multiprocessors, %" PRIu64
           " bytes of cache; medians of %" PRIu32 " passes\n",
           card->card.name, card->card.multiprocessors, card->card.cache, card->passes);
    printf("  %-22s %14s %10s %10s %10s %12s\n", "card", "work", "ms", "least", "most", "rate");
    for (int i = 0; i < CARD_PASSES; i++)
        print_pass(list[i].what, list[i].pass, list[i].unit, list[i].per);
}

/* bytes < 0: unknown. */
static void print_part(const char *title, const sb_device_part *part, double bytes, double all,
                       double rate)
{
    char moved[24] = "-", ms[24], share[24], gbs[24], of_rate[24];
    const double speed = part->seconds > 0 && bytes > 0 ? bytes / part->seconds : 0;
    if (bytes >= 0)
        snprintf(moved, sizeof moved, "%.0f", bytes);
    printf("  %-27s %8zu %14s %10s %8s %10s %8s\n", title, part->launches, moved,
           cell(ms, 1e3 * part->seconds, 4),
           cell(share, all > 0 ? 100 * part->seconds / all : 0, 2), cell(gbs, speed / 1e9, 1),
           cell(of_rate, rate > 0 ? 100 * speed / rate : 0, 1));
}

/* cost.def has the name "sb_tile_kernel<...>"; a launch has the name without "<...>". */
static int is_named(sb_cost_kernel kernel, const char *launch)
{
    const char *name = sb_cost_name(kernel);
    const size_t length = strcspn(name, "<");
    return strlen(launch) == length && memcmp(name, launch, length) == 0;
}

/* B-15: the bytes that all launches of a kernel must move; -1: these launches are not in the
 * ledger. */
static double kernel_bytes(const sb_bench_measured *m, const sb_device_part *part)
{
    double bytes = 0;
    size_t launches = 0;
    for (uint32_t i = 0; i < m->ledger->count; i++) {
        const sb_moves_kernel *k = &m->ledger->row[i];
        if (!is_named(k->kernel, part->name))
            continue;
        bytes += k->weights + k->kept + k->activations;
        launches += k->launches;
    }
    return launches == part->launches ? bytes : -1;
}

static void print_header(const char *what)
{
    printf("  %-27s %8s %14s %10s %8s %10s %8s\n", what, "launches", "bytes", "ms", "share", "GB/s",
           "of rate");
}

static void print_ops(const sb_bench_measured *m, const verdict *v)
{
    const by_op sums = sum_ops(m);
    const sb_device_part all = {.launches = m->report->launches, .seconds = m->report->seconds};
    print_header("op");
    for (unsigned i = 0; i < SB_MOVES_OPS; i++)
        if (sums.part[i].launches)
            print_part(sb_moves_op_title((sb_moves_op)i), &sums.part[i],
                       sb_moves_bytes(&m->step->row[i]), all.seconds, v->rate);
    print_part("not in the ledger", &sums.part[SB_MOVES_OPS], 0, all.seconds, 0);
    print_part("all launches, one by one", &all, sb_moves_bytes(&m->step->total), all.seconds,
               v->rate);
    print_header("kernel");
    for (size_t i = 0; i < m->report->kernels; i++) {
        const sb_device_part *k = &m->report->kernel[i];
        print_part(k->name, k, kernel_bytes(m, k), all.seconds, v->rate);
    }
}

static void print_verdict(const sb_bench_measured *m, const verdict *v)
{
    printf("floor, bytes / measured read rate: %.4f ms; the step reaches %.1f %% of it\n",
           1e3 * v->floor, 100 * v->floor / v->step);
    printf("floor and %" PRIu32
           " phases of %.2f us, the measured launch%s: %.4f ms; the step reaches %.1f %% of it\n",
           m->step->total.phases, 1e6 * v->launch, m->is_graph ? " of a graph" : "", 1e3 * v->model,
           100 * v->model / v->step);
    printf("implied for a GB10: %.3f ms, %.2f %s per second\n", 1e3 * v->implied,
           m->rows / v->implied, m->unit);
    printf("  assumed: memory is read at %.0f GB/s, a phase waits %.2f us, and the step reaches "
           "the same share of both together\n",
           m->options->bandwidth / 1e9, 1e6 * m->latency);
}

static const char no_time[] =
    "SKIPPED: all times, and what follows from them: this backend does not measure time";

void sb_bench_print_measured(const sb_bench_measured *m)
{
    const sb_device_report *r = m->report;
    const verdict v = verdict_of(m);
    print_card(&r->card);
    printf("weights: %" PRIu64 " bytes, drawn where kernels run; profile %s\n", r->weights,
           m->profile);
    print_ops(m, &v);
    sb_bench_print_rounds(m, v.of_rate, v.of_launch);
    if (!v.timed) {
        printf("%s%s\n", no_time, m->emulated ? ", on the emulator" : "");
        return;
    }
    printf("the step, %s: %.4f ms (%.4f to %.4f), %.2f %s per second\n",
           m->is_graph ? "a graph" : "launch by launch", 1e3 * v.step, 1e3 * r->step.least,
           1e3 * r->step.most, m->rows / v.step, m->unit);
    if (r->keep.median > 0 && m->rows > 1)
        printf("rolling back all rows but one: %.4f ms\n", 1e3 * r->keep.median);
    print_verdict(m, &v);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *seconds_json(double seconds)
{
    return seconds > 0 ? json_real(seconds) : json_null();
}

static json_t *time_json(const sb_meter_time *t)
{
    json_t *out = json_object();
    SB_PUT(out, "median", seconds_json(t->median));
    SB_PUT(out, "least", seconds_json(t->least));
    SB_PUT(out, "most", seconds_json(t->most));
    return out;
}

static json_t *pass_json(const char *what, const sb_meter_pass *p)
{
    json_t *out = json_object();
    SB_PUT(out, "what", what);
    SB_PUT(out, "work", p->work);
    SB_PUT(out, "seconds", time_json(&p->time));
    SB_PUT(out, "per_second", seconds_json(sb_meter_rate(p)));
    SB_PUT(out, "right", json_boolean(p->right));
    return out;
}

static json_t *card_json(const sb_meter_report *c)
{
    json_t *passes = json_array();
    card_pass list[CARD_PASSES];
    list_passes(c, list);
    for (int i = 0; i < CARD_PASSES; i++)
        SB_ADD(passes, pass_json(list[i].what, list[i].pass));
    json_t *out = json_object();
    SB_PUT(out, "name", c->card.name);
    SB_PUT(out, "multiprocessors", c->card.multiprocessors);
    SB_PUT(out, "cache", c->card.cache);
    SB_PUT(out, "passes", c->passes);
    SB_PUT(out, "measured", passes);
    return out;
}

static json_t *part_json(const char *key, const char *name, const sb_device_part *p)
{
    json_t *out = json_object();
    SB_PUT(out, key, name);
    SB_PUT(out, "launches", p->launches);
    SB_PUT(out, "seconds", seconds_json(p->seconds));
    return out;
}

json_t *sb_bench_json_measured(const sb_bench_measured *m)
{
    const sb_device_report *r = m->report;
    const verdict v = verdict_of(m);
    const by_op sums = sum_ops(m);
    json_t *ops = json_array(), *kernels = json_array();
    for (unsigned i = 0; i <= SB_MOVES_OPS; i++)
        if (sums.part[i].launches)
            SB_ADD(ops, part_json("op", i < SB_MOVES_OPS ? sb_moves_op_id((sb_moves_op)i) : "none",
                                  &sums.part[i]));
    for (size_t i = 0; i < r->kernels; i++) {
        const double bytes = kernel_bytes(m, &r->kernel[i]);
        json_t *part = part_json("kernel", r->kernel[i].name, &r->kernel[i]);
        SB_PUT(part, "bytes", bytes < 0 ? json_null() : json_real(bytes));
        SB_ADD(kernels, part);
    }
    json_t *out = json_object();
    SB_PUT(out, "card", card_json(&r->card));
    SB_PUT(out, "profile", m->profile);
    SB_PUT(out, "weights", r->weights);
    SB_PUT(out, "launches", r->launches);
    SB_PUT(out, "ops", ops);
    SB_PUT(out, "kernels", kernels);
    SB_PUT(out, "step_s", time_json(&r->step));
    SB_PUT(out, "keep_s", time_json(&r->keep));
    SB_PUT(out, "floor_s", seconds_json(v.floor));
    SB_PUT(out, "floor_and_phases_s", seconds_json(v.model));
    SB_PUT(out, "implied_s", seconds_json(v.implied));
    if (r->rounds) {
        SB_PUT(out, "plain_s", time_json(&r->plain));
        SB_PUT(out, "rounds", sb_bench_json_rounds(m, v.of_rate, v.of_launch));
    }
    return out;
}
