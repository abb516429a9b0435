#include "tests/lib/atom_vectors.h"

#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"

enum { MOST = 64, GROUP = 16 };

static const sb_tensor *find(const sb_safetensors *file, const char *kind, const char *name)
{
    char whole[160];
    snprintf(whole, sizeof whole, "%s/%s", kind, name);
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, whole) == 0)
            return &file->tensors[i];
    return NULL;
}

static uint32_t number(const sb_tensor *t, size_t i)
{
    return t->dtype == SB_DTYPE_U8    ? t->data[i]
           : t->dtype == SB_DTYPE_U16 ? (uint32_t)sb_load_u16(t->data + 2 * i)
                                      : sb_load_u32(t->data + 4 * i);
}

static int fits(const sb_tensor *t, size_t count, size_t width)
{
    return t && t->shape[0] == count && (t->rank == 1 ? 1 : t->shape[1]) == width &&
           (t->dtype == SB_DTYPE_U8 || t->dtype == SB_DTYPE_U16 || t->dtype == SB_DTYPE_U32);
}

static int format_of(const char *type, sb_format *out)
{
    static const struct {
        const char *name;
        sb_format format;
    } formats[] = {{"bf16", SB_FORMAT_bf16},
                   {"f16", SB_FORMAT_f16},
                   {"e4m3", SB_FORMAT_e4m3},
                   {"e5m2", SB_FORMAT_e5m2},
                   {"e2m1", SB_FORMAT_e2m1}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, type) == 0) {
            *out = formats[i].format;
            return 1;
        }
    return 0;
}

int atom_vectors_at(const sb_safetensors *file, size_t tensor, atom_vectors *out)
{
    char row[32], of_c = 0, name[64];
    const sb_tensor *d = &file->tensors[tensor];
    memset(out, 0, sizeof *out);
    if (strncmp(d->name, "d/", 2) != 0)
        return 0;
    if (sscanf(d->name, "d/%31[^/]/%31[^/]/%15[^/]/%63[^/]/%c", row, out->source, out->type,
               out->key, &of_c) != 5)
        return -1;
    out->d = d;
    out->row = sb_atom_find(row);
    out->a = find(file, "a", out->key);
    out->b = find(file, "b", out->key);
    out->sa = find(file, "sa", out->key);
    out->sb = find(file, "sb", out->key);
    snprintf(name, sizeof name, "%s/%s", out->source, out->type);
    out->c = of_c == 'z' ? NULL : find(file, "c", of_c == 'k' ? out->key : name);
    if (!out->row || !out->a || out->a->rank != 2 || !format_of(out->type, &out->format))
        return -1;
    out->count = (size_t)out->a->shape[0];
    out->width = (size_t)out->a->shape[1];
    const size_t scales = out->row->group > 1 ? out->width / GROUP : 1;
    const int scaled = out->sa || out->sb || out->row->group > 1;
    return out->width <= out->row->terms && fits(out->b, out->count, out->width) &&
                   fits(d, out->count, 1) && (of_c == 'z' || fits(out->c, out->count, 1)) &&
                   (!scaled ||
                    (fits(out->sa, out->count, scales) && fits(out->sb, out->count, scales)))
               ? 1
               : -1;
}

uint32_t atom_vectors_want(const atom_vectors *v, size_t i)
{
    return number(v->d, i);
}

static float nan_of_hardware(void)
{
    return sb_f32_from_bits(0x7fffffffu);
}

static float dot(const atom_vectors *v, const sb_atom *row, size_t i, float c)
{
    sb_atom_term terms[MOST];
    int power = 0;
    if (v->sa) {
        const uint32_t x = number(v->sa, i), y = number(v->sb, i);
        if (x == 0xff || y == 0xff)
            return nan_of_hardware();
        power = (int)x + (int)y - 254; /* E8M0 */
    }
    for (size_t k = 0; k < row->terms; k++) {
        const size_t at = i * v->width + k;
        float x = 0.0f, y = 0.0f;
        if (k < v->width) {
            x = sb_code_to_f32(v->format, number(v->a, at));
            y = sb_code_to_f32(v->format, number(v->b, at));
        }
        terms[k] = sb_atom_scaled(sb_atom_product(v->format, x, y), power);
    }
    return sb_atom_run(row, terms, c);
}

static float grouped(const atom_vectors *v, const sb_atom *row, size_t i, float c)
{
    sb_atom_term terms[MOST / GROUP];
    for (size_t g = 0; g < MOST / GROUP; g++) {
        int8_t a[GROUP], b[GROUP];
        const float x = sb_ue4m3_to_f32((uint8_t)number(v->sa, i * v->width / GROUP + g));
        const float y = sb_ue4m3_to_f32((uint8_t)number(v->sb, i * v->width / GROUP + g));
        if (x != x || y != y)
            return nan_of_hardware();
        for (size_t k = 0; k < GROUP; k++) {
            const size_t at = i * v->width + GROUP * g + k;
            a[k] = (int8_t)(2.0f * sb_e2m1_to_f32((uint8_t)number(v->a, at)));
            b[k] = (int8_t)(2.0f * sb_e2m1_to_f32((uint8_t)number(v->b, at)));
        }
        terms[g] = sb_atom_group(row, a, b, x, y);
    }
    return sb_atom_run(row, terms, c);
}

uint32_t atom_vectors_got(const atom_vectors *v, const sb_atom *row, size_t i)
{
    const int halves = row->sums == SB_ATOM_F16;
    float c = v->c ? sb_f32_from_bits(number(v->c, i)) : 0.0f;
    c = halves ? sb_round_to(SB_FORMAT_f16, c) : c;
    const float d = row->group > 1 ? grouped(v, row, i, c) : dot(v, row, i, c);
    if (halves)
        return d == d ? sb_f32_to_code(SB_FORMAT_f16, d) : 0x7fffu;
    return sb_bits_f32(d);
}
