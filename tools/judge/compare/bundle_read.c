/* bundle_read.c - reads a bundle from any source. Inconsistent contents are refused before an op
 * reads them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/safetensors.h"
#include "ref/container/show.h"
#include "ref/ops/values.h"
#include "tools/judge/compare/bundle.h"
#include "tools/judge/compare/bundle_matrix.h"

/* The largest number in an argument struct. */
enum { BUNDLE_MOST = 1 << 26 };

typedef struct reader {
    sb_safetensors file;
    const char *path;
    sb_bundle *b;
    sb_error *err;
} reader;

static sb_status wrong(const reader *r, const char *what, const char *why)
{
    return sb_fail(r->err, SB_ERR_INPUT, "%s: %s %s", SB_SHOW(r->path), what, why);
}

/* Allocates memory that lives as long as the bundle. */
static void *keep(reader *r, size_t count, size_t size)
{
    sb_bundle *b = r->b;
    void **blocks = sb_realloc(b->blocks, b->block_count + 1, sizeof *blocks);
    if (!blocks)
        return NULL;
    b->blocks = blocks;
    void *block = sb_alloc(count, size);
    if (block)
        blocks[b->block_count++] = block;
    return block;
}

static const char *text_of(const reader *r, const char *key)
{
    char full[96];
    snprintf(full, sizeof full, "samebit.bundle%s%s", *key ? "." : "", key);
    const char *text = sb_metadata_get(&r->file.metadata, full);
    return text ? text : "";
}

/* Finds "name=number" among words separated by blanks. */
static int number_of(const char *text, const char *name, double *out)
{
    size_t n = strlen(name);
    for (const char *at = text; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, name, n) == 0 && at[n] == '=') {
            char *end = NULL;
            *out = strtod(at + n + 1, &end);
            return end != at + n + 1 && (*end == ' ' || *end == '\0');
        }
    }
    return 0;
}

static const sb_tensor *tensor_of(const reader *r, const char *group, const char *name,
                                  sb_dtype dtype)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", group, name);
    for (size_t i = 0; i < r->file.count; i++)
        if (strcmp(r->file.tensors[i].name, full) == 0)
            return r->file.tensors[i].dtype == dtype ? &r->file.tensors[i] : NULL;
    return NULL;
}

/* count values of 4 bytes; NULL if the tensor has another size. */
static void *words_of(reader *r, const char *group, const char *name, sb_dtype dtype, size_t count)
{
    const sb_tensor *t = tensor_of(r, group, name, dtype);
    if (!t || t->bytes != 4 * (uint64_t)count)
        return NULL;
    uint32_t *x = keep(r, count, sizeof *x);
    for (size_t i = 0; x && i < count; i++)
        x[i] = sb_load_u32(t->data + 4 * i);
    return x; /* the same bits as binary32 */
}

/* --- numbers and parameters ------------------------------------------------------------------- */

static sb_status read_number(const reader *r, const sb_arg *arg)
{
    void *member = sb_arg_at(&r->b->args, arg);
    double x;
    if (!number_of(text_of(r, "args"), arg->name, &x))
        return wrong(r, arg->name, "is missing in the arguments of the bundle");
    if (arg->kind == SB_ARG_float || arg->kind == SB_ARG_scalar)
        *(float *)member = (float)x;
    else if (arg->kind == SB_ARG_double)
        *(double *)member = x;
    else if (!(x >= 0 && x <= (double)BUNDLE_MOST) || x != (double)(size_t)x)
        return wrong(r, arg->name, "is not a whole number below 2^26");
    else if (arg->kind == SB_ARG_int)
        *(int *)member = (int)x;
    else
        *(size_t *)member = (size_t)x;
    return SB_OK;
}

static const unsigned char *bytes_of(const reader *r, const char *group, const char *name,
                                     uint64_t count)
{
    const sb_tensor *t = tensor_of(r, group, name, SB_DTYPE_U8);
    return t && t->bytes == count ? t->data : NULL;
}

static int indices_fit(const sb_matrix *m)
{
    for (uint32_t k = 0; m->quant.group_index && k < m->cols; k++)
        if (sb_load_u32(m->quant.group_index + 4 * (size_t)k) >= m->quant.groups)
            return 0;
    for (uint32_t i = 0; m->row_map && i < m->rows; i++)
        if (m->row_map[i] > BUNDLE_MOST)
            return 0;
    return 1;
}

static sb_status read_matrix(reader *r, const sb_arg *arg)
{
    double numbers[BUNDLE_MATRIX_NUMBERS];
    char key[64], group[64];
    bundle_parts parts;
    sb_matrix *m = &r->b->matrices[r->b->matrix_count++];
    snprintf(key, sizeof key, "param.%s", arg->name);
    snprintf(group, sizeof group, "param.%s.", arg->name);
    for (size_t i = 0; i < BUNDLE_MATRIX_NUMBERS; i++)
        if (!number_of(text_of(r, key), bundle_matrix_names[i], &numbers[i]))
            return wrong(r, key, "lacks one of its numbers");
    if (!bundle_matrix_of(numbers, m, &parts))
        return wrong(r, key, "has numbers that describe no valid matrix");
    if (parts.row_map && !(m->row_map = words_of(r, group, "row_map", SB_DTYPE_U32, m->rows)))
        return wrong(r, key, "lacks its row_map");
    if (!indices_fit(m))
        return wrong(r, key, "has a row_map entry above 2^26");
    uint64_t last = 0;
    for (uint32_t i = 0; i < m->rows; i++)
        last = sb_matrix_stored_row(m, i) > last ? sb_matrix_stored_row(m, i) : last;
    bundle_extent size = bundle_extent_of(m, last);
    m->data = bytes_of(r, group, "data", size.data);
    if (parts.scales)
        m->quant.scales = bytes_of(r, group, "scales", size.scales);
    if (parts.zero_points)
        m->quant.zero_points = bytes_of(r, group, "zero_points", size.zero_points);
    if (parts.group_index)
        m->quant.group_index = bytes_of(r, group, "group_index", size.group_index);
    if (!m->data || (parts.scales && !m->quant.scales) ||
        (parts.zero_points && !m->quant.zero_points) ||
        (parts.group_index && !m->quant.group_index) || !indices_fit(m))
        return wrong(r, key, "has tensors that contradict its numbers");
    *(const sb_matrix **)sb_arg_at(&r->b->args, arg) = m;
    return SB_OK;
}

/* --- consistency ------------------------------------------------------------------------------ */

static int vector_of(const sb_matrix *m, size_t n)
{
    return m->rows == 1 && m->cols == n && !sb_matrix_quantized(m);
}

static int delta_rule_fits(sb_delta_rule_args *a)
{
    a->v_stride = a->v_heads * a->dv;
    return a->k_heads && a->v_heads % a->k_heads == 0 && a->dk && a->dv;
}

static int gdn_fits(sb_op op, void *args)
{
    sb_conv_args *conv = args;
    sb_gates_args *gates = args;
    sb_l2norm_args *l2 = args;
    sb_gated_rmsnorm_args *norm = args;
    switch (op) {
    case SB_OP_conv:
        return conv->form <= SB_FORM_verify && !sb_matrix_quantized(conv->weight);
    case SB_OP_gates:
        return gates->form <= SB_FORM_verify && vector_of(gates->a_log, gates->heads) &&
               vector_of(gates->dt_bias, gates->heads);
    case SB_OP_l2norm:
        l2->stride = 2 * l2->heads * l2->dk;
        return l2->form <= SB_FORM_verify && l2->dk > 0;
    case SB_OP_gated_rmsnorm:
        return norm->n > 0 && vector_of(norm->weight, norm->n);
    case SB_OP_delta_rule:
    case SB_OP_delta_rule_chunk:
        return delta_rule_fits(args);
    default:
        return 1;
    }
}

/* For every op: checks its divisors and indices. Strides are those of the file. */
static int args_fit(sb_op op, void *args)
{
    const sb_linear_args *linear = args;
    const sb_rmsnorm_args *norm = args;
    const sb_rope_args *rope = args;
    const sb_attention_args *at = args;
    const sb_router_args *router = args;
    const sb_swiglu_args *swiglu = args;
    switch (op) {
    case SB_OP_linear:
        return linear->kind <= SB_LINEAR_expert_in;
    case SB_OP_rmsnorm:
        return norm->n > 0 && vector_of(norm->weight, norm->n);
    case SB_OP_rope:
        return rope->rd <= rope->hd && rope->rd % 2 == 0 && rope->theta > 0.0 &&
               rope->theta <= 1e30;
    case SB_OP_attention:
        return at->kv_heads && at->heads % at->kv_heads == 0 && at->hd > 0;
    case SB_OP_router:
        return router->kept > 0 && router->kept <= router->experts;
    case SB_OP_swiglu:
        return swiglu->kind <= SB_MLP_dense;
    default:
        return gdn_fits(op, args);
    }
}

/* --- arrays ----------------------------------------------------------------------------------- */

static const sb_op_value *value_of(const sb_op_value *values, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(values[i].name, name) == 0)
            return &values[i];
    return NULL;
}

static int small(const sb_op_value *v)
{
    return v && (double)v->rows * (double)v->cols <= 0x1p30;
}

static sb_status read_ids(reader *r, const sb_arg *arg)
{
    sb_bundle *b = r->b;
    const size_t count = sb_arg_count(&b->args, arg);
    uint32_t *ids = words_of(r, "in.", arg->name, SB_DTYPE_U32, count);
    const uint32_t most = b->op == SB_OP_embed ? b->args.embed.table->rows : 0;
    if (!ids && most)
        return wrong(r, arg->name, "is missing or has the wrong size");
    for (size_t i = 0; most && i < count; i++)
        if (ids[i] >= most)
            return wrong(r, arg->name, "has an id outside the embedding table");
    *(const uint32_t **)sb_arg_at(&b->args, arg) = ids;
    return SB_OK;
}

static sb_status read_array(reader *r, const sb_arg *arg, const sb_op_values *v)
{
    int is_out = arg->kind == SB_ARG_output;
    const sb_op_value *value =
        is_out ? value_of(v->out, v->outputs, arg->name) : value_of(v->in, v->inputs, arg->name);
    if (!small(value))
        return wrong(r, arg->name, "is too large");
    size_t count = value->rows * value->cols;
    float *x =
        is_out ? keep(r, count, sizeof *x) : words_of(r, "in.", arg->name, SB_DTYPE_F32, count);
    if (!x)
        return wrong(r, arg->name, "is missing or has the wrong size");
    *(float **)sb_arg_at(&r->b->args, arg) = x;
    if (strcmp(arg->name, r->b->output) == 0 && arg->kind != SB_ARG_input) {
        r->b->out = x;
        r->b->rows = value->rows;
        r->b->cols = value->cols;
    }
    return SB_OK;
}

static sb_status read_positions(reader *r, const sb_arg *arg)
{
    static const char *const names[3] = {"time", "height", "width"};
    const uint32_t **position = sb_arg_at(&r->b->args, arg);
    for (size_t i = 0; i < 3; i++) {
        position[i] =
            words_of(r, "in.position.", names[i], SB_DTYPE_U32, sb_arg_count(&r->b->args, arg));
        if (!position[i])
            return wrong(r, "in.position", "is missing or has the wrong size");
    }
    return SB_OK;
}

/* The expert ids that a router writes. If they are the failed output, they are compared as numbers.
 */
static sb_status make_ids(reader *r, const sb_arg *arg, const sb_op_values *v)
{
    sb_bundle *b = r->b;
    const sb_op_value *value = value_of(v->out, v->outputs, arg->name);
    if (!small(value))
        return wrong(r, arg->name, "is too large");
    const size_t count = value->rows * value->cols;
    uint32_t *ids = keep(r, count, sizeof *ids);
    *(uint32_t **)sb_arg_at(&b->args, arg) = ids;
    if (!ids || strcmp(b->output, arg->name) != 0)
        return ids ? SB_OK : SB_ERR_MEMORY;
    b->out = keep(r, count, sizeof *b->out);
    b->rows = value->rows;
    b->cols = value->cols;
    return b->out ? SB_OK : SB_ERR_MEMORY;
}

/* Reads the arrays. Their shapes follow from the numbers and parameters, which are read before. */
static sb_status read_rest(reader *r, const sb_arg *arg, const sb_op_values *v)
{
    switch (arg->kind) {
    case SB_ARG_input:
    case SB_ARG_inplace:
    case SB_ARG_state:
    case SB_ARG_output:
        return read_array(r, arg, v);
    case SB_ARG_ids:
        return read_ids(r, arg);
    case SB_ARG_choice:
        return make_ids(r, arg, v);
    case SB_ARG_positions:
        return read_positions(r, arg);
    case SB_ARG_section:
        *(const uint32_t **)sb_arg_at(&r->b->args, arg) =
            words_of(r, "in.", arg->name, SB_DTYPE_U32, 3);
        return SB_OK;
    default: /* optional arguments stay NULL */
        return SB_OK;
    }
}

static sb_status read_args(reader *r)
{
    sb_bundle *b = r->b;
    const sb_arg_list list = sb_args_of(b->op);
    sb_status status = SB_OK;
    for (size_t i = 0; i < list.count && !status; i++)
        if (sb_arg_is_number(&list.args[i]))
            status = read_number(r, &list.args[i]);
        else if (list.args[i].kind == SB_ARG_weight)
            status = read_matrix(r, &list.args[i]);
    if (!status && !args_fit(b->op, &b->args))
        status = wrong(r, "samebit.bundle.args", "has numbers that contradict each other");
    if (status)
        return status;
    const sb_op_values v = sb_op_values_of(b->op, &b->args);
    for (size_t i = 0; i < list.count && !status; i++)
        status = read_rest(r, &list.args[i], &v);
    return status;
}

/* --- results ---------------------------------------------------------------------------------- */

static sb_status read_results(reader *r)
{
    sb_bundle *b = r->b;
    const sb_tensor *bound = tensor_of(r, "", "bound", SB_DTYPE_F64);
    size_t count = b->rows * b->cols;
    if (!b->out)
        return wrong(r, "samebit.bundle.output", "names no output of the op");
    b->expected = words_of(r, "", "expected", SB_DTYPE_F32, count);
    b->recorded = words_of(r, "", "recorded", SB_DTYPE_F32, count);
    b->bound = keep(r, count, sizeof *b->bound);
    if (!b->expected || !b->recorded || !b->bound || !bound || bound->bytes != 8 * (uint64_t)count)
        return wrong(r, "expected, recorded or bound", "is missing or has the wrong size");
    for (size_t i = 0; i < count; i++)
        b->bound[i] = sb_f64_from_bits(sb_load_u64(bound->data + 8 * i));
    return SB_OK;
}

static sb_status read_knobs(const reader *r)
{
    char one[128];
    sb_status status = SB_OK;
    sb_knobs_exact(&r->b->knobs);
    for (const char *at = text_of(r, "knobs"); *at && !status;) {
        size_t n = strcspn(at, " ");
        if (n >= sizeof one)
            return wrong(r, "samebit.bundle.knobs", "has a word that is not a knob");
        memcpy(one, at, n);
        one[n] = '\0';
        status = n ? sb_knobs_set(&r->b->knobs, one, r->err) : SB_OK;
        at += n + (at[n] == ' ');
    }
    if (status && r->err)
        sb_clean_text(r->err->text); /* the text quotes a word of the file */
    return status ? sb_fail_in(r->err, SB_ERR_INPUT, SB_SHOW(r->path)) : SB_OK;
}

static void copy_text(char *to, size_t room, const char *from)
{
    snprintf(to, room, "%s", SB_SHOW(from));
}

static sb_status read_keys(reader *r)
{
    sb_bundle *b = r->b;
    if (!*text_of(r, ""))
        return wrong(r, "is not a replay bundle:", "its metadata lack samebit.bundle");
    copy_text(b->op_name, sizeof b->op_name, text_of(r, "op"));
    copy_text(b->name, sizeof b->name, text_of(r, "name"));
    copy_text(b->words, sizeof b->words, text_of(r, "words"));
    copy_text(b->output, sizeof b->output, text_of(r, "output"));
    copy_text(b->arithmetic, sizeof b->arithmetic, text_of(r, "arithmetic"));
    b->token = strtoull(text_of(r, "token"), NULL, 10);
    b->sequence = strtoull(text_of(r, "sequence"), NULL, 10);
    b->layer = (uint32_t)strtoul(text_of(r, "layer"), NULL, 10);
    b->op = SB_OP_COUNT;
    for (size_t op = 0; op < SB_OP_COUNT; op++)
        if (strcmp(sb_op_name(op), b->op_name) == 0)
            b->op = (sb_op)op;
    if (b->op == SB_OP_COUNT)
        return wrong(r, "samebit.bundle.op", "is not the name of an op");
    return read_knobs(r);
}

/* Takes ownership of `file`. */
static sb_status read_bundle(sb_safetensors *file, const char *path, sb_bundle **out, sb_error *err)
{
    reader r = {.file = *file, .path = path, .err = err, .b = sb_alloc(1, sizeof(sb_bundle))};
    if (!r.b) {
        sb_safetensors_close(file);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a bundle");
    }
    r.b->file = sb_alloc(1, sizeof r.file);
    sb_status status = r.b->file ? read_keys(&r) : SB_ERR_MEMORY;
    if (!status)
        status = read_args(&r);
    if (!status)
        status = read_results(&r);
    if (r.b->file)
        *r.b->file = r.file;
    else
        sb_safetensors_close(&r.file);
    if (status == SB_ERR_MEMORY)
        sb_fail(err, status, "%s: out of memory", SB_SHOW(path));
    if (status)
        sb_bundle_free(r.b);
    else
        *out = r.b;
    return status;
}

sb_status sb_bundle_open(const char *path, sb_bundle **out, sb_error *err)
{
    sb_safetensors file;
    sb_status status = sb_safetensors_open(path, &file, err);
    return status ? status : read_bundle(&file, path, out, err);
}

sb_status sb_bundle_parse(const unsigned char *bytes, size_t size, const char *path,
                          sb_bundle **out, sb_error *err)
{
    sb_safetensors file;
    sb_status status = sb_safetensors_parse(bytes, size, path, &file, err);
    return status ? status : read_bundle(&file, path, out, err);
}

void sb_bundle_free(sb_bundle *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->block_count; i++)
        free(b->blocks[i]);
    free(b->blocks);
    if (b->file)
        sb_safetensors_close(b->file);
    free(b->file);
    free(b);
}

sb_status sb_bundle_run(sb_bundle *b, const sb_op_table *table, sb_op_hook hook, void *hook_ctx)
{
    const sb_op_call call = {.op = b->op,
                             .name = b->name,
                             .layer = b->layer,
                             .rows = b->rows,
                             .args = &b->args,
                             .knobs = &b->knobs,
                             .table = table};
    sb_status status = hook ? hook(hook_ctx, &call) : sb_op_run(&call);
    const sb_router_args *router = &b->args.router;
    for (size_t i = 0; b->op == SB_OP_router && b->out != router->weights && i < b->rows * b->cols;
         i++)
        b->out[i] = (float)router->ids[i];
    return status;
}
