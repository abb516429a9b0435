/* fuzz_bundle.c - replay bundles, alone and in packs, with changes in meaningful parts
 * (bundle_mutate.h). `samebit replay` ends with a verdict or a refusal in one line, in bounded time
 * and memory, and prints no control characters. A router that keeps more experts than exist gets no
 * verdict. Nothing is read behind the end of a file (guarded_map.h).
 *
 * The program itself makes the original bundles: one for each op in which a mistake can be planted,
 * and for linear layers in several formats. Input: any bytes, the key of the draws. */
#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <sys/resource.h>
#include <time.h>

#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/container/file.h"
#include "ref/fast/dot/dot.h"
#include "tests/fuzz/bundle_mutate.h"
#include "tests/fuzz/made_files.h"
#include "tests/fuzz/plain_text.h"
#include "tests/fuzz/program.h"
#include "tests/lib/checkpoint.h"
#include "tools/cli/cli.h"

const char fuzz_name[] = "bundle";
unsigned long fuzz_accepted; /* an op ran */

enum { MOST_SECONDS = 8, MOST_MEGABYTES = 1024 };

static struct seed {
    const char *mistake, *format, *taps;
    const char *set; /* "": no setting */
    int opened;
    sb_safetensors file;
} seeds[] = {
    {"embed_scaled", "bf16", "all", "", 0, {.size = 0}},
    {"last_column_lost", "bf16", "all", "", 0, {.size = 0}},
    {"last_column_lost", "nvfp4-ct", "*mlp*", "", 0, {.size = 0}},
    {"last_column_lost", "mxfp4", "all", "", 0, {.size = 0}},
    {"last_column_lost", "mxfp8", "all", "", 0, {.size = 0}},
    {"last_column_lost", "int4-ct", "all", "", 0, {.size = 0}},
    {"last_column_lost", "int4-awq", "*mlp*", "", 0, {.size = 0}},
    {"last_column_lost", "fp8-block", "all", "", 0, {.size = 0}},
    {"norm_plain_weight", "bf16", "all", "", 0, {.size = 0}},
    {"taps_reversed", "bf16", "all", "", 0, {.size = 0}},
    {"conv_state_stale", "bf16", "all", "", 0, {.size = 0}},
    {"no_dt_bias", "bf16", "all", "", 0, {.size = 0}},
    {"eps_on_mean", "bf16", "all", "", 0, {.size = 0}},
    {"neighbour_pairs", "bf16", "all", "", 0, {.size = 0}},
    {"decay_after_prediction", "bf16", "all", "", 0, {.size = 0}},
    {"chunk_head_map_mod", "bf16", "all", "delta_rule=by_call", 0, {.size = 0}},
    {"gate_before_norm", "bf16", "all", "", 0, {.size = 0}},
    {"kv_map_mod", "bf16", "all", "", 0, {.size = 0}},
    {"halves_swapped", "bf16", "all", "", 0, {.size = 0}},
    {"gate_is_silu", "bf16", "all", "", 0, {.size = 0}},
    {"no_renormalisation", "bf16", "all", "", 0, {.size = 0}},
    {"gate_up_swapped", "bf16", "all", "", 0, {.size = 0}},
    {"shared_gate_missing", "bf16", "all", "", 0, {.size = 0}},
    {"residual_lost", "bf16", "all", "", 0, {.size = 0}},
};

enum { SEEDS = sizeof seeds / sizeof *seeds, WORDS = 20 };

typedef sb_status (*command)(int argc, char **argv, sb_error *err);

/* Runs a command with words of a list that ends with NULL; *p gets its output. */
static sb_status run(command of, const char *const *words, sb_error *err, printed *p)
{
    char *argv[WORDS] = {NULL};
    int argc = 0;
    for (; words[argc]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc];
    printed_begin(p);
    sb_status status = of(argc, argv, err);
    printed_end(p);
    return status;
}

/* Makes a bundle by diff --bundle, with an engine that has one mistake. */
static const sb_safetensors *seed_at(size_t i)
{
    struct seed *s = &seeds[i];
    char engine[64], name[64];
    sb_error err = {""};
    printed p;
    if (s->opened)
        return &s->file;
    snprintf(engine, sizeof engine, "sim:sequential+%s", s->mistake);
    snprintf(name, sizeof name, "%s-%s.safetensors", s->mistake, s->format);
    const sb_make_options made = {
        .dir = s->format, .preset = "T1", .layers = 4, .format = s->format, .recipe = "mistakes"};
    const char *folder = test_checkpoint_with("fuzz_bundle", &made);
    const char *path = test_path("fuzz_bundle", name);
    const char *const words[] = {"diff",     folder,  "--engine", engine,  "--forced",
                                 "--tokens", "1,2,3", "-n",       "2",     "-q",
                                 "--bundle", path,    "--taps",   s->taps, *s->set ? "--set" : NULL,
                                 s->set,     NULL};
    sb_status status = run(sb_cmd_diff, words, &err, &p);
    printed_free(&p);
    if (status != SB_ERR_DIFF)
        fprintf(stderr, "%s of %s: %s\n", s->mistake, s->format, err.text);
    FUZZ_CHECK(status == SB_ERR_DIFF);
    FUZZ_CHECK(sb_safetensors_open(path, &s->file, &err) == SB_OK);
    s->opened = 1;
    return &s->file;
}

static const char *write_bundle(const bundle_text *text)
{
    static const char *path;
    if (!path)
        path = test_path("fuzz_bundle", "input");
    files_write("", path, text->bytes, text->size);
    return path;
}

static double seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static void check_printed(sb_status status, const printed *p, int as_json)
{
    FUZZ_CHECK(text_is_plain(p->out_text, p->out_size) && p->err_size == 0);
    if (status != SB_OK && status != SB_ERR_DIFF) {
        FUZZ_CHECK(p->out_size == 0);
        return;
    }
    FUZZ_CHECK(p->out_size > 0);
    if (!as_json)
        return;
    json_t *document = json_loadb(p->out_text, p->out_size, 0, NULL);
    FUZZ_CHECK(document && json_is_string(json_object_get(document, "verdict")));
    json_decref(document);
}

/* A bundle of a call that no model makes, although the op would accept it and compute some
 * result. */
static int is_nonsense(const bundle_text *text)
{
    sb_safetensors file;
    unsigned long long experts = 0, kept = 0;
    if (sb_safetensors_parse(text->bytes, text->size, "input", &file, NULL))
        return 0;
    const char *op = sb_metadata_get(&file.metadata, "samebit.bundle.op");
    const char *args = sb_metadata_get(&file.metadata, "samebit.bundle.args");
    int is = op && args && strcmp(op, "router") == 0 &&
             sscanf(args, "rows=%*u experts=%llu kept=%llu", &experts, &kept) == 2 &&
             kept > experts;
    sb_safetensors_close(&file);
    return is;
}

/* Returns 1 if there was a verdict. */
static int replay(const char *path, json_draws *d)
{
    static const char *const engines[] = {"sim:pairwise", "ref", "sim:sequential+neighbour_pairs",
                                          "sim:sequential+last_column_lost"};
    const char *words[WORDS] = {"replay", path};
    size_t n = 2;
    sb_error err = {""};
    struct rusage used;
    printed p;
    int as_json = json_draw(d, 2) != 0;
    if (as_json)
        words[n++] = "--json";
    if (json_draw(d, 4) == 0) {
        words[n++] = "--backend";
        words[n++] = engines[json_draw(d, sizeof engines / sizeof *engines)];
    }
    double begin = seconds();
    sb_status status = run(sb_cmd_replay, words, &err, &p);
    FUZZ_CHECK(seconds() - begin < MOST_SECONDS);
    FUZZ_CHECK(getrusage(RUSAGE_SELF, &used) == 0 && used.ru_maxrss < MOST_MEGABYTES * 1024L);
    FUZZ_CHECK(status != SB_ERR_USAGE && status != SB_ERR_SKIPPED && status != SB_ERR_IO);
    int told =
        !status || (strncmp(err.text, path, strlen(path)) == 0 && !strpbrk(err.text, "\n\r"));
    if (!told)
        fprintf(stderr, "%s\n", err.text);
    FUZZ_CHECK(told);
    check_printed(status, &p, as_json);
    printed_free(&p);
    return status == SB_OK || status == SB_ERR_DIFF;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int started;
    sb_error err = {""};
    json_draws d = {fuzz_key(data, size), 0};
    if (!started) {
        FUZZ_CHECK(sb_math_start(NULL, &err) == SB_OK);
        sb_threads_set(1);
        started = 1;
    }
    const sb_safetensors *from = seed_at(json_draw(&d, SEEDS));
    bundle_text text = bundle_mutate(from, (unsigned)json_draw(&d, 5), &d);
    int nonsense = is_nonsense(&text);
    if (json_draw(&d, 3) == 0) {
        bundle_text pack = bundle_pack(&text, &d);
        free(text.bytes);
        text = pack;
    }
    int judged = replay(write_bundle(&text), &d);
    FUZZ_CHECK(!judged || !nonsense);
    fuzz_accepted += (unsigned long)judged;
    free(text.bytes);
    return 0;
}
