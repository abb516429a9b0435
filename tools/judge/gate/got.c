#include "tools/judge/gate/got.h"

#include <stdio.h>
#include <string.h>

#include "ref/base/text.h"
#include "ref/container/show.h"

static void output_names(const sb_gate_case *c, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "out");
    for (size_t i = 1; i < c->outputs && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, ", out.%s", c->output[i].name);
}

/* The number of the output with this tensor; -1: none. */
static int output_of(const sb_gate_case *c, const char *tensor)
{
    if (strcmp(tensor, "out") == 0)
        return c->outputs ? 0 : -1;
    for (size_t i = 1; i < c->outputs; i++)
        if (sb_starts(tensor, "out.") && strcmp(tensor + 4, c->output[i].name) == 0)
            return (int)i;
    return -1;
}

static sb_status take_output(const sb_gate_case *c, const sb_tensor *t, const char *file,
                             sb_gate_gots *out, sb_error *err)
{
    char names[160];
    int i = output_of(c, t->name);
    if (i < 0 && sb_starts(t->name, "out")) {
        output_names(c, names, sizeof names);
        return sb_fail(err, SB_ERR_INPUT, "%s: %s is not an output of %s, expected %s",
                       SB_SHOW(file), SB_SHOW(t->name), c->op->name, names);
    }
    if (i < 0) {
        size_t used = strlen(out->ignored);
        snprintf(out->ignored + used, sizeof out->ignored - used, "%s%.60s", used ? ", " : "",
                 t->name);
        return SB_OK;
    }
    if (t->rank > SB_GATE_RANK)
        return sb_fail(err, SB_ERR_INPUT, "%s: %s has %u axes, expected at most %d", SB_SHOW(file),
                       t->name, t->rank, SB_GATE_RANK);
    sb_gate_got *g = &out->got[i];
    g->dtype = t->dtype;
    g->rank = t->rank;
    memcpy(g->shape, t->shape, sizeof g->shape);
    g->data = t->data;
    return SB_OK;
}

/* An input with exactly the bytes of the first output. */
static const char *same_as(const sb_gate_case *c, const sb_safetensors *file, const sb_gate_got *g)
{
    uint64_t bytes = 0;
    for (size_t t = 0; t < file->count; t++)
        if (file->tensors[t].data == g->data)
            bytes = file->tensors[t].bytes;
    for (size_t i = 0; i < c->arrays && bytes; i++)
        if (c->array[i].dtype == g->dtype && c->array[i].bytes == bytes &&
            memcmp(c->array[i].data, g->data, (size_t)bytes) == 0)
            return c->array[i].name;
    return NULL;
}

static sb_status take_all(const sb_gate_case *c, const char *file, sb_gate_gots *out, sb_error *err)
{
    char names[160];
    sb_status status = SB_OK;
    for (size_t i = 0; i < out->file.count && !status; i++)
        status = take_output(c, &out->file.tensors[i], file, out, err);
    output_names(c, names, sizeof names);
    if (!status && !out->got[0].data)
        status = sb_fail(err, SB_ERR_INPUT,
                         "%s: there is no tensor `out`; expected the outputs of %s: %s",
                         SB_SHOW(file), c->op->name, names);
    if (status)
        sb_gate_got_close(out);
    else
        out->same_as = same_as(c, &out->file, &out->got[0]);
    return status;
}

sb_status sb_gate_got_open(const char *path, const sb_gate_case *c, sb_gate_gots *out,
                           sb_error *err)
{
    memset(out, 0, sizeof *out);
    sb_status status = sb_safetensors_open(path, &out->file, err);
    return status ? status : take_all(c, path, out, err);
}

sb_status sb_gate_got_parse(const unsigned char *bytes, size_t size, const char *file,
                            const sb_gate_case *c, sb_gate_gots *out, sb_error *err)
{
    memset(out, 0, sizeof *out);
    sb_status status = sb_safetensors_parse(bytes, size, file, &out->file, err);
    return status ? status : take_all(c, file, out, err);
}

void sb_gate_got_close(sb_gate_gots *gots)
{
    sb_safetensors_close(&gots->file);
    memset(gots, 0, sizeof *gots);
}

sb_status sb_gate_got_digest(const sb_gate_output *o, const sb_gate_got *got, uint64_t row,
                             uint64_t rows, sb_digest *out, sb_error *err)
{
    size_t part = o->count / (size_t)rows * (sb_dtype_bits(got->dtype) / 8);
    sb_hash *hash = sb_hash_new();
    if (!hash)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a digest");
    sb_hash_bytes(hash, got->data + row * part, part);
    *out = sb_hash_end(hash);
    sb_hash_free(hash);
    return SB_OK;
}
