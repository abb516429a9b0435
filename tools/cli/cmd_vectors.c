/* cmd_vectors.c - samebit vectors: inputs for one operation, the expected outputs, and their
 * bounds. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/base/hash.h"
#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/dtype.h"
#include "ref/container/map.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/cli/case_folder.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/cli/protocol.h"
#include "tools/judge/gate/case.h"
#include "tools/judge/gate/meta.h"
#include "tools/report/part/document.h"
#include "tools/report/result/vectors.h"

typedef struct request {
    const char *format, *shape, *regime, *input, *arith, *output;
    uint64_t seed;
    int list, metamorphic, as_json;
    sb_dtype dtype;
    sb_gate_arith ar;
} request;

static int is_all(const char *text)
{
    return text && strcmp(text, "all") == 0;
}

/* --- the cases to write ----------------------------------------------------------------------- */

/* One case of the command line. */
typedef struct item {
    const sb_gate_op *op;
    const char *format, *shape, *regime; /* format, shape: NULL is the default */
    char path[1400];
} item;

typedef struct plan {
    item *items;
    size_t count, room, excluded; /* excluded: cases that the contract of their op excludes */
} plan;

static sb_status add_item(plan *p, const item *one, sb_error *err)
{
    item *grown = sb_grow(p->items, p->count, &p->room, sizeof *p->items);
    if (!grown)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a list of cases");
    p->items = grown;
    p->items[p->count++] = *one;
    return SB_OK;
}

static sb_status plan_shapes(const request *r, item one, plan *p, sb_error *err)
{
    one.shape = is_all(r->shape) ? NULL : r->shape;
    sb_status status = add_item(p, &one, err);
    for (size_t i = 0; is_all(r->shape) && one.op->shapes && one.op->shapes[i] && !status; i++) {
        one.shape = one.op->shapes[i];
        status = add_item(p, &one, err);
    }
    return status;
}

static sb_status plan_regimes(const request *r, item one, plan *p, sb_error *err)
{
    sb_status status = SB_OK;
    one.regime = r->regime ? r->regime : sb_gate_regime_name(SB_GATE_REGIME_normal);
    if (!is_all(r->regime))
        return plan_shapes(r, one, p, err);
    for (int i = 0; i < SB_GATE_REGIMES && !status; i++) {
        one.regime = sb_gate_regime_name((sb_gate_regime)i);
        if (sb_gate_takes(one.op, (sb_gate_regime)i))
            status = plan_shapes(r, one, p, err);
        else
            p->excluded++;
    }
    return status;
}

static sb_status plan_op(const request *r, const sb_gate_op *op, plan *p, sb_error *err)
{
    item one = {.op = op, .format = r->format};
    sb_status status = SB_OK;
    if (!is_all(r->format))
        return plan_regimes(r, one, p, err);
    one.format = NULL;
    if (!op->formats)
        return plan_regimes(r, one, p, err);
    for (size_t i = 0; op->formats[i] && !status; i++) {
        one.format = op->formats[i];
        status = plan_regimes(r, one, p, err);
    }
    return status;
}

static sb_status find_op(const char *name, const sb_gate_op **out, sb_error *err)
{
    *out = sb_gate_op_find(name);
    if (*out)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE,
                   "there are no vectors for '%s'; 'samebit vectors --list' shows the ops",
                   SB_SHOW(name));
}

static sb_status make_plan(const request *r, const char *name, plan *p, sb_error *err)
{
    const sb_gate_op *op = NULL;
    sb_status status = SB_OK;
    if (!is_all(name)) {
        status = find_op(name, &op, err);
        return status ? status : plan_op(r, op, p, err);
    }
    for (size_t i = 0; i < sb_gate_op_count() && !status; i++)
        status = plan_op(r, sb_gate_op_at(i), p, err);
    return status;
}

/* DIR/OP.FORMAT.REGIME.SHAPE.safetensors */
static void name_file(const char *folder, item *one)
{
    const char *format = one->format ? one->format : one->op->formats ? one->op->formats[0] : "";
    snprintf(one->path, sizeof one->path, "%s%s%s%s.%s.%s.safetensors", folder, one->op->name,
             *format ? "." : "", format, one->regime, one->shape ? one->shape : "default");
}

static sb_status name_files(const request *r, plan *p, sb_error *err)
{
    if (strlen(r->output) > 1000)
        return sb_fail(err, SB_ERR_USAGE, "-o is too long a path");
    if (!sb_ends(r->output, "/")) {
        if (p->count != 1)
            return sb_fail(err, SB_ERR_USAGE,
                           "-o is '%s', a file, for %zu cases; expected a folder, DIR/",
                           SB_SHOW(r->output), p->count);
        snprintf(p->items[0].path, sizeof p->items[0].path, "%s", r->output);
        return SB_OK;
    }
    for (size_t i = 0; i < p->count; i++)
        name_file(r->output, &p->items[i]);
    if (p->count == 1 && mkdir(r->output, 0777) && errno != EEXIST)
        return sb_fail(err, SB_ERR_IO, "%s: %s", SB_SHOW(r->output), strerror(errno));
    return SB_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

static sb_status digest_of(const char *path, sb_digest *digest, uint64_t *bytes, sb_error *err)
{
    sb_map map;
    sb_hash *hash = sb_hash_new();
    if (!hash)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a digest");
    sb_status status = sb_map_open(path, &map, err);
    if (!status) {
        sb_hash_bytes(hash, map.data, map.size);
        *digest = sb_hash_end(hash);
        *bytes = map.size;
        sb_map_close(&map);
    }
    sb_hash_free(hash);
    return status;
}

static sb_status make_case(const request *r, const item *one, sb_gate_case **out, sb_error *err)
{
    const sb_gate_request want = {.op = one->op->name,
                                  .format = one->format,
                                  .shape = one->shape,
                                  .regime = one->regime,
                                  .input = r->dtype,
                                  .seed = r->seed};
    return sb_gate_case_make(&want, out, err);
}

/* Writes the batches of the metamorphic gate for one case. */
static sb_status write_batches(const request *r, const plan *p, sb_error *err)
{
    sb_gate_case *c = NULL;
    size_t files = 0;
    if (p->count != 1)
        return sb_fail(err, SB_ERR_USAGE, "--metamorphic takes one case, found %zu", p->count);
    sb_status status = make_case(r, &p->items[0], &c, err);
    if (!status)
        status = sb_gate_meta_write(c, r->output, &files, err);
    sb_gate_case_free(c);
    if (status)
        return status;
    if (r->as_json) {
        json_t *d = sb_document("vectors");
        SB_PUT(d, "folder", SB_SHOW(r->output));
        SB_PUT(d, "batches", files);
        return sb_print_document(d, err);
    }
    printf("%zu files in %s\n", files, SB_SHOW(r->output));
    return SB_OK;
}

/* Reports a case that is in `written` now and will be at `path`. files: NULL for text. */
static sb_status say_written(const sb_gate_case *c, const char *written, const char *path,
                             json_t *files, sb_error *err)
{
    sb_digest digest;
    uint64_t bytes = 0;
    sb_status status = digest_of(written, &digest, &bytes, err);
    if (status)
        return status;
    if (!files) {
        printf("%s  %s  %" PRIu64 " bytes\n", digest.hex, SB_SHOW(path), bytes);
        return SB_OK;
    }
    json_t *one = json_object();
    SB_PUT(one, "path", path);
    SB_PUT(one, "op", c->op->name);
    SB_PUT(one, "format", c->format);
    SB_PUT(one, "regime", sb_gate_regime_name(c->regime));
    SB_PUT(one, "shape", sb_gate_shape_of(c).text);
    SB_PUT(one, "digest", digest.hex);
    SB_PUT(one, "bytes", bytes);
    SB_ADD(files, one);
    return SB_OK;
}

/* folder: the folder for several cases, or NULL. */
static sb_status write_item(const request *r, const item *one, const char *folder, json_t *files,
                            sb_error *err)
{
    sb_gate_case *c = NULL;
    char *path = folder ? sb_path_join(folder, sb_path_last(one->path)) : sb_strdup(one->path);
    if (!path)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    sb_status status = make_case(r, one, &c, err);
    if (status && folder)
        sb_fail_in(err, status, SB_SHOW(one->path));
    if (!status)
        status = sb_gate_write(c, &r->ar, path, err);
    if (!status)
        status = say_written(c, path, one->path, files, err);
    sb_gate_case_free(c);
    free(path);
    return status;
}

static sb_status write_all(const request *r, const plan *p, json_t *files, sb_error *err)
{
    sb_target target = {.fd = -1};
    if (p->count == 1)
        return write_item(r, &p->items[0], NULL, files, err);
    sb_status status = sb_case_folder_begin(r->output, &target, err);
    for (size_t i = 0; i < p->count && !status; i++) {
        status = write_item(r, &p->items[i], target.partial, files, err);
        sb_progress(NULL, "case", i + 1, p->count);
    }
    if (!status)
        status = sb_case_folder_commit(&target, err);
    sb_target_close(&target);
    return status;
}

static sb_status write_plan(const request *r, const plan *p, sb_error *err)
{
    json_t *d = r->as_json ? sb_document("vectors") : NULL;
    json_t *files = r->as_json ? json_array() : NULL;
    sb_status status = write_all(r, p, files, err);
    if (!r->as_json) {
        if (!status && p->excluded)
            printf("%zu regime%s %s not written: outside the contract of the op\n", p->excluded,
                   sb_s(p->excluded), p->excluded == 1 ? "is" : "are");
        return status;
    }
    SB_PUT(d, "input", sb_dtype_name(r->dtype));
    SB_PUT(d, "arith", r->ar.name);
    SB_PUT(d, "seed", json_sprintf("%" PRIu64, r->seed));
    SB_PUT(d, "excluded_regimes", p->excluded);
    SB_PUT(d, "files", files);
    if (!status)
        return sb_print_document(d, err);
    json_decref(d);
    return status;
}

/* --- the command ------------------------------------------------------------------------------ */

static sb_status read_input(request *r, sb_error *err)
{
    static const struct {
        const char *name;
        sb_dtype dtype;
    } types[] = {{"bf16", SB_DTYPE_BF16}, {"f32", SB_DTYPE_F32}, {"f16", SB_DTYPE_F16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, r->input) == 0) {
            r->dtype = types[i].dtype;
            return SB_OK;
        }
    return sb_fail(err, SB_ERR_USAGE, "--input is '%s', expected bf16, f32 or f16",
                   SB_SHOW(r->input));
}

/* A case of one op: what --format, --shape and --input say, else the default. */
static sb_status case_of(request *r, const char *name, sb_gate_case **out, sb_error *err)
{
    const sb_gate_op *op;
    sb_status status = find_op(name, &op, err);
    if (!status)
        status = read_input(r, err);
    if (status)
        return status;
    const sb_gate_request wanted = {.op = op->name,
                                    .format = is_all(r->format) ? NULL : r->format,
                                    .shape = is_all(r->shape) ? NULL : r->shape,
                                    .input = r->dtype,
                                    .seed = r->seed};
    return sb_gate_case_make(&wanted, out, err);
}

static sb_status list(request *r, const char *name, sb_error *err)
{
    sb_gate_case *c = NULL;
    sb_status status = name && !is_all(name) ? case_of(r, name, &c, err) : SB_OK;
    if (!status && r->as_json)
        status = sb_print_document(sb_vectors_list_json(c), err);
    else if (!status)
        sb_vectors_list_print(c);
    sb_gate_case_free(c);
    return status;
}

static sb_status vectors(request *r, const char *name, sb_error *err)
{
    plan p = {.items = NULL};
    if (r->list)
        return list(r, name, err);
    if (!name)
        return sb_fail(err, SB_ERR_USAGE, "OP is missing; 'samebit vectors --list' shows the ops");
    if (!r->output)
        return sb_fail(err, SB_ERR_USAGE, "-o is missing: the file to write, or a folder, DIR/");
    sb_status status = read_input(r, err);
    if (!status)
        status = sb_gate_arith_of(r->arith, &r->ar, err);
    if (!status)
        status = make_plan(r, name, &p, err);
    if (!status && r->metamorphic) {
        status = write_batches(r, &p, err);
        free(p.items);
        return status;
    }
    if (!status)
        status = name_files(r, &p, err);
    if (!status)
        status = write_plan(r, &p, err);
    free(p.items);
    return status;
}

sb_status sb_cmd_vectors(int argc, char **argv, sb_error *err)
{
    if (argc > 1 && strcmp(argv[1], "protocol") == 0)
        return sb_protocol_vectors(argc, argv, err);
    request r = {.input = "bf16", .arith = "bf16_mma", .seed = 42};
    const sb_opt opts[] = {
        {"format", 0, SB_OPT_STRING, &r.format, "F",
         "format of quantized weights; all: every format"},
        {"shape", 0, SB_OPT_STRING, &r.shape, "S",
         "rows=4,k=256; all: the default and the shapes at limits of kernels"},
        {"regime", 0, SB_OPT_STRING, &r.regime, "R",
         "regime of the inputs (normal); all: every regime"},
        {"input", 0, SB_OPT_STRING, &r.input, "T", "type of activations: bf16 (default), f32, f16"},
        {"arith", 0, SB_OPT_STRING, &r.arith, "A",
         "arithmetic whose bounds are written (bf16_mma)"},
        {"seed", 0, SB_OPT_NUMBER, &r.seed, "N", "seed (42)"},
        {"output", 'o', SB_OPT_OUTPUT, &r.output, "FILE", "the file to write; DIR/ for several"},
        {"list", 0, SB_OPT_FLAG, &r.list, NULL,
         "list ops, regimes and arithmetics; with OP also names, types and shapes of its arrays"},
        {"metamorphic", 0, SB_OPT_FLAG, &r.metamorphic, NULL,
         "write batches of the same rows to the folder -o, for samebit judge --metamorphic"},
        SB_OPT_JSON(&r.as_json),
    };
    sb_command_line line = {
        .usage = "vectors OP|all|protocol [options] -o FILE.safetensors|DIR/",
        .about =
            "Writes test vectors of one operation in the layouts that kernels take: the inputs, the\n"
            "exact outputs without any rounding, the outputs of profile exact, and for each element\n"
            "the largest error of a correct kernel. 'samebit judge' compares the output of a kernel\n"
            "with the file. Several cases are written to one file each,\n"
            "DIR/OP.FORMAT.REGIME.SHAPE.safetensors: all of them or none; other files in DIR are\n"
            "kept. docs/gates.md explains the details.\n"
            "For kernels with a state see 'samebit vectors protocol --help'.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .max_operands = 1,
        .names = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    return vectors(&r, line.operands ? line.operand[0] : NULL, err);
}
