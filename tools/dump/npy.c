/* npy.c - a header, which is a Python literal with three keys, and the data after it. */
#include "tools/dump/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"

enum { NPY_MAX_HEADER = 65536 };

typedef struct parser {
    const char *at, *end;
    const char *file, *name;
    sb_error *err;
} parser;

static sb_status refuse(const parser *p, const char *what)
{
    return sb_fail(p->err, SB_ERR_INPUT, "%s: \"%s\": %s", SB_SHOW(p->file), SB_SHOW(p->name),
                   what);
}

/* --- the literal ------------------------------------------------------------------------------ */

static void skip_blanks(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t'))
        p->at++;
}

/* Skips blanks; consumes the next character and returns 1 if it is c. */
static int eat(parser *p, char c)
{
    skip_blanks(p);
    if (p->at == p->end || *p->at != c)
        return 0;
    p->at++;
    return 1;
}

static int eat_word(parser *p, const char *word)
{
    size_t n = strlen(word);
    skip_blanks(p);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0)
        return 0;
    p->at += n;
    return 1;
}

/* Reads a quoted text without escapes. */
static int read_text(parser *p, char *out, size_t room)
{
    size_t n = 0;
    skip_blanks(p);
    if (p->at == p->end || (*p->at != '\'' && *p->at != '"'))
        return 0;
    char quote = *p->at++;
    for (; p->at < p->end && *p->at != quote; p->at++) {
        if (n + 1 == room || *p->at == '\\' || *p->at < ' ')
            return 0;
        out[n++] = *p->at;
    }
    out[n] = '\0';
    return eat(p, quote);
}

static int read_number(parser *p, uint64_t *out)
{
    int digits = 0;
    *out = 0;
    skip_blanks(p);
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++, digits++) {
        if (digits == 18)
            return 0;
        *out = *out * 10 + (uint64_t)(*p->at - '0');
    }
    return digits > 0;
}

/* "(3, 4)", "(3,)", "()" */
static sb_status read_shape(parser *p, sb_dump_array *a)
{
    int more = 1;
    if (!eat(p, '('))
        return refuse(p, "its shape is not a tuple");
    while (!eat(p, ')')) {
        if (!more)
            return refuse(p, "its shape is not a tuple of numbers");
        if (a->rank == SB_MAX_RANK)
            return refuse(p, "it has more than 8 axes");
        if (!read_number(p, &a->shape[a->rank++]))
            return refuse(p, "its shape contains something other than whole numbers");
        more = eat(p, ',');
        if (a->rank == 1 && !more)
            return refuse(p, "its shape is a number in parentheses, expected a tuple");
    }
    return SB_OK;
}

/* --- the type --------------------------------------------------------------------------------- */

static sb_status find_dtype(const parser *p, const char *descr, sb_dtype *out)
{
    static const struct {
        const char *descr;
        sb_dtype dtype;
    } table[] = {{"f4", SB_DTYPE_F32}, {"f2", SB_DTYPE_F16}, {"f8", SB_DTYPE_F64},
                 {"i1", SB_DTYPE_I8},  {"i2", SB_DTYPE_I16}, {"i4", SB_DTYPE_I32},
                 {"i8", SB_DTYPE_I64}, {"u1", SB_DTYPE_U8},  {"u2", SB_DTYPE_U16},
                 {"u4", SB_DTYPE_U32}, {"u8", SB_DTYPE_U64}, {"b1", SB_DTYPE_BOOL},
                 {"V1", SB_DTYPE_U8},  {"V2", SB_DTYPE_U16}}; /* types without a NumPy name */
    char text[96];
    int one_byte = descr[0] && descr[1] && descr[2] == '1' && descr[3] == '\0';
    if (descr[0] == '<' || (descr[0] == '|' && (one_byte || descr[1] == 'V')))
        for (size_t i = 0; i < sizeof table / sizeof *table; i++)
            if (strcmp(descr + 1, table[i].descr) == 0) {
                *out = table[i].dtype;
                return SB_OK;
            }
    snprintf(text, sizeof text, "its type is '%.20s', %s", SB_SHOW(descr),
             descr[0] == '>'      ? "expected the other byte order: '<'"
             : strchr(descr, 'O') ? "Python objects, which are never loaded"
                                  : "expected numbers");
    return refuse(p, text);
}

static sb_status read_descr(parser *p, sb_dtype *out)
{
    char descr[32];
    skip_blanks(p);
    if (p->at < p->end && (*p->at == '[' || *p->at == '('))
        return refuse(p, "its type is a record of several fields, expected numbers");
    if (!read_text(p, descr, sizeof descr))
        return refuse(p, "its type is not a text, or too long");
    return find_dtype(p, descr, out);
}

/* --- the header ------------------------------------------------------------------------------- */

static sb_status read_pair(parser *p, sb_dump_array *a, int *fortran, unsigned *seen)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[32];
    unsigned which = 0;
    if (!read_text(p, key, sizeof key) || !eat(p, ':'))
        return refuse(p, "its header is not a dictionary with text keys");
    while (which < 3 && strcmp(key, keys[which]) != 0)
        which++;
    if (which == 3 || (*seen & 1u << which))
        return refuse(p,
                      "its header has keys other than descr, fortran_order and shape, each once");
    *seen |= 1u << which;
    if (which == 0)
        return read_descr(p, &a->dtype);
    if (which == 2)
        return read_shape(p, a);
    *fortran = eat_word(p, "True");
    return *fortran || eat_word(p, "False") ? SB_OK
                                            : refuse(p, "fortran_order is neither True nor False");
}

static sb_status read_header(parser *p, sb_dump_array *a, int *fortran)
{
    unsigned seen = 0;
    if (!eat(p, '{'))
        return refuse(p, "its header is not a dictionary");
    while (!eat(p, '}')) {
        sb_status status = read_pair(p, a, fortran, &seen);
        if (status)
            return status;
        if (!eat(p, ',')) {
            if (!eat(p, '}'))
                return refuse(p, "its header is not a dictionary");
            break;
        }
    }
    skip_blanks(p);
    if (p->at != p->end)
        return refuse(p, "unexpected text follows its header");
    return seen == 7 ? SB_OK : refuse(p, "its header lacks descr, fortran_order or shape");
}

/* Finds the header after magic, version and a length of two or four bytes. */
static sb_status find_header(parser *p, const unsigned char *bytes, size_t size, size_t *data)
{
    size_t start = size > 6 && bytes[6] == 1 ? 10 : 12;
    if (size < 6 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return refuse(p, "does not begin like a NumPy file");
    if (size < start)
        return refuse(p, "is truncated");
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return refuse(p, "has an unknown version, expected 1.0, 2.0 or 3.0");
    size_t length = start == 10 ? sb_load_u16(bytes + 8) : sb_load_u32(bytes + 8);
    if (length > NPY_MAX_HEADER || length > size - start)
        return refuse(
            p, "its header reaches beyond the end of the file, or is longer than 65536 bytes");
    p->at = (const char *)bytes + start;
    p->end = p->at + length;
    *data = start + length;
    return SB_OK;
}

/* Strides with the first axis fastest. */
static void fortran_strides(const sb_dump_array *a, uint64_t stride[SB_MAX_RANK])
{
    uint64_t step = 1;
    for (unsigned k = 0; k < a->rank; k++) {
        stride[k] = step;
        step *= a->shape[k]; /* the check of the bounds refuses an overflow */
    }
}

sb_status sb_npy_parse(const unsigned char *bytes, size_t size, const char *file, const char *name,
                       sb_dump_arrays *list, sb_error *err)
{
    parser p = {NULL, NULL, file, name, err};
    sb_dump_array a = {.file = file};
    uint64_t stride[SB_MAX_RANK];
    size_t data = 0;
    int fortran = 0;
    sb_status status = find_header(&p, bytes, size, &data);
    if (!status)
        status = read_header(&p, &a, &fortran);
    if (status)
        return status;
    a.data = bytes + data;
    fortran_strides(&a, stride);
    status = sb_dump_arrays_add(list, &a, name, fortran ? stride : NULL, size - data, err);
    if (!status && size - data != sb_dump_array_elements(&a) * (sb_dtype_bits(a.dtype) / 8))
        status = sb_fail(err, SB_ERR_INPUT, "%s: \"%s\": has %zu bytes of data, expected %" PRIu64,
                         SB_SHOW(file), SB_SHOW(name), size - data,
                         sb_dump_array_elements(&a) * (sb_dtype_bits(a.dtype) / 8));
    return status;
}
