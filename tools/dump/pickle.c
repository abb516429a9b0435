/* pickle.c - the machine: opcodes and their operands, and access to the tree. */
#include "tools/dump/pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "tools/dump/pickle_machine.h"

/* --- operands --------------------------------------------------------------------------------- */

/* A little-endian number of `width` bytes. */
static sb_status operand(sb_pickle_machine *m, size_t width, uint64_t *out)
{
    *out = 0;
    if ((size_t)(m->end - m->at) < width)
        return sb_pickle_refuse(m, "is truncated");
    for (size_t i = 0; i < width; i++)
        *out |= (uint64_t)m->at[i] << 8 * i;
    m->at += width;
    return SB_OK;
}

static sb_status push_text(sb_pickle_machine *m, size_t width)
{
    uint64_t length = 0;
    sb_status status = operand(m, width, &length);
    if (status)
        return status;
    if (length > (uint64_t)(m->end - m->at))
        return sb_pickle_refuse(m, "is truncated");
    const unsigned char *text = m->at;
    m->at += length;
    return sb_pickle_push_new(
        m,
        &(sb_pickle_node){.kind = SB_PICKLE_TEXT, .count = (uint32_t)length, .as = {.text = text}});
}

/* A two's complement number of variable length. */
static sb_status push_long(sb_pickle_machine *m)
{
    uint64_t length = 0, value = 0;
    sb_status status = operand(m, 1, &length);
    if (!status && length > 8)
        return sb_pickle_refuse(m, "has an integer of more than 64 bits");
    if (!status)
        status = operand(m, (size_t)length, &value);
    if (status)
        return status;
    if (length > 0 && length < 8 && value >> (8 * length - 1))
        value |= UINT64_MAX << 8 * length;
    return sb_pickle_push_int(m, SB_PICKLE_INT, (int64_t)value);
}

/* The only big-endian number of the format. */
static sb_status push_real(sb_pickle_machine *m)
{
    uint64_t bits = 0;
    if (m->end - m->at < 8)
        return sb_pickle_refuse(m, "is truncated");
    for (size_t i = 0; i < 8; i++)
        bits = bits << 8 | m->at[i];
    m->at += 8;
    return sb_pickle_push_new(
        m, &(sb_pickle_node){.kind = SB_PICKLE_REAL, .as = {.real = sb_f64_from_bits(bits)}});
}

/* "module\nname\n" */
static sb_status read_global(sb_pickle_machine *m)
{
    const unsigned char *module = m->at;
    const unsigned char *first = memchr(m->at, '\n', (size_t)(m->end - m->at));
    const unsigned char *second =
        first ? memchr(first + 1, '\n', (size_t)(m->end - first - 1)) : NULL;
    if (!second)
        return sb_pickle_refuse(m, "is truncated");
    m->at = second + 1;
    return sb_pickle_push_global(m, module, (size_t)(first - module), first + 1,
                                 (size_t)(second - first - 1));
}

/* --- opcodes ---------------------------------------------------------------------------------- */

static sb_status memo_op(sb_pickle_machine *m, unsigned char op)
{
    uint64_t i = 0;
    sb_status status = op == 0x94 ? SB_OK : operand(m, op == 'h' || op == 'q' ? 1 : 4, &i);
    if (status)
        return status;
    if (op == 'h' || op == 'j')
        return sb_pickle_memo_get(m, (size_t)i);
    return sb_pickle_memo_put(m, op == 0x94 ? m->memo_count : (size_t)i);
}

static sb_status int_op(sb_pickle_machine *m, unsigned char op)
{
    uint64_t value = 0;
    sb_status status = operand(m, op == 'K' ? 1 : op == 'M' ? 2 : 4, &value);
    if (status)
        return status;
    return sb_pickle_push_int(m, SB_PICKLE_INT,
                              op == 'J' ? (int64_t)(int32_t)(uint32_t)value : (int64_t)value);
}

/* J-16: "Opcodes that make instances, or that belong to older protocols, are refused" */
static sb_status unknown_op(const sb_pickle_machine *m, unsigned char op)
{
    static const struct {
        unsigned char op;
        const char *name;
    } names[] = {{'i', "INST"},           {'o', "OBJ"},        {0x81, "NEWOBJ"},
                 {0x92, "NEWOBJ_EX"},     {0x82, "EXT1"},      {0x83, "EXT2"},
                 {0x84, "EXT4"},          {'P', "PERSID"},     {'I', "INT"},
                 {'L', "LONG"},           {'F', "FLOAT"},      {'S', "STRING"},
                 {'V', "UNICODE"},        {'B', "BINBYTES"},   {'U', "SHORT_BINSTRING"},
                 {'C', "SHORT_BINBYTES"}, {0x96, "BYTEARRAY8"}};
    char text[80];
    const char *name = "unknown in every version";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].op == op)
            name = names[i].name;
    snprintf(text, sizeof text, "has the opcode 0x%02x (%s)", op, name);
    return sb_pickle_refuse(m, text);
}

static sb_status protocol(sb_pickle_machine *m)
{
    uint64_t version = 0;
    sb_status status = operand(m, 1, &version);
    return status || (version >= 2 && version <= 5)
               ? status
               : sb_pickle_refuse(m, "has an unknown protocol, expected 2 to 5");
}

/* Opcodes that push a value. */
static sb_status value_op(sb_pickle_machine *m, unsigned char op)
{
    switch (op) {
    case '}':
        return sb_pickle_push_kind(m, SB_PICKLE_DICT);
    case ']':
        return sb_pickle_push_kind(m, SB_PICKLE_LIST);
    case ')':
        return sb_pickle_push_kind(m, SB_PICKLE_TUPLE);
    case 'N':
        return sb_pickle_push_kind(m, SB_PICKLE_NONE);
    case 0x88:
    case 0x89:
        return sb_pickle_push_int(m, SB_PICKLE_BOOL, op == 0x88);
    case 'X':
    case 0x8c:
        return push_text(m, op == 'X' ? 4 : 1);
    case 'J':
    case 'K':
    case 'M':
        return int_op(m, op);
    case 0x8a:
        return push_long(m);
    case 'G':
        return push_real(m);
    case 'c':
        return read_global(m);
    default:
        return unknown_op(m, op);
    }
}

/* Opcodes that work on the stack; the others push a value. */
static sb_status step(sb_pickle_machine *m, unsigned char op)
{
    uint64_t ignored;
    switch (op) {
    case 0x80:
        return protocol(m);
    case 0x95: /* FRAME: a length for readers of streams */
        return operand(m, 8, &ignored);
    case '(':
        return sb_pickle_push(m, 0);
    case 0x85:
    case 0x86:
    case 0x87:
        return sb_pickle_collect(m, SB_PICKLE_TUPLE, op - 0x84u, 0);
    case 't':
        return sb_pickle_collect_marked(m, SB_PICKLE_TUPLE);
    case 'h':
    case 'j':
    case 'q':
    case 'r':
    case 0x94:
        return memo_op(m, op);
    case 0x93:
        return sb_pickle_stack_global(m);
    case 'Q':
        return sb_pickle_persistent(m);
    case 'R':
        return sb_pickle_reduce(m);
    case 'b':
        return sb_pickle_build(m);
    case 's':
        return sb_pickle_extend(m, SB_PICKLE_DICT, 2, 0);
    case 'u':
        return sb_pickle_extend_marked(m, SB_PICKLE_DICT);
    case 'a':
        return sb_pickle_extend(m, SB_PICKLE_LIST, 1, 0);
    case 'e':
        return sb_pickle_extend_marked(m, SB_PICKLE_LIST);
    default:
        return value_op(m, op);
    }
}

static sb_status run(sb_pickle_machine *m)
{
    sb_status status = SB_OK;
    /* node 0 and cell 0 are unused: 0 means none */
    uint32_t none = 0;
    status = sb_pickle_new(m, &(sb_pickle_node){.kind = SB_PICKLE_NONE}, &none);
    if (!status)
        status = sb_pickle_add(m, none, 0);
    for (unsigned char op = 0; !status && op != '.';) {
        if (m->at == m->end)
            return sb_pickle_refuse(m, "is truncated");
        op = *m->at++;
        status = op == '.' ? SB_OK : step(m, op);
    }
    if (!status && (m->depth != 1 || !m->stack[0] || m->at != m->end))
        return sb_pickle_refuse(m, "does not end with one value");
    if (!status)
        m->out->root = m->stack[0];
    return status;
}

sb_status sb_pickle_parse(const unsigned char *bytes, size_t size, const char *file, sb_pickle *out,
                          sb_error *err)
{
    sb_pickle_machine m = {
        .bytes = bytes, .at = bytes, .end = bytes + size, .file = file, .out = out, .err = err};
    *out = (sb_pickle){.root = 0};
    sb_status status =
        size > SB_PICKLE_MAX_BYTES ? sb_pickle_refuse(&m, "has more than 16 MiB") : run(&m);
    free(m.stack);
    free(m.memo);
    if (status)
        sb_pickle_clear(out);
    return status;
}

void sb_pickle_clear(sb_pickle *pickle)
{
    free(pickle->nodes);
    free(pickle->cells);
    *pickle = (sb_pickle){.root = 0};
}

/* --- reading it ------------------------------------------------------------------------------- */

const sb_pickle_node *sb_pickle_item(const sb_pickle *p, const sb_pickle_node *list, uint32_t i)
{
    if (i >= list->count)
        return NULL;
    uint32_t cell = list->as.cells[0];
    while (i-- > 0)
        cell = p->cells[cell].next;
    return &p->nodes[p->cells[cell].node];
}

int sb_pickle_is(const sb_pickle_node *text, const char *what)
{
    return text && text->kind == SB_PICKLE_TEXT && text->count == strlen(what) &&
           memcmp(text->as.text, what, text->count) == 0;
}

const sb_pickle_node *sb_pickle_get(const sb_pickle *p, const sb_pickle_node *dict, const char *key)
{
    const sb_pickle_node *found = NULL;
    uint32_t cell = dict->count ? dict->as.cells[0] : 0;
    while (cell) {
        uint32_t value = p->cells[cell].next;
        if (sb_pickle_is(&p->nodes[p->cells[cell].node], key))
            found = &p->nodes[p->cells[value].node];
        cell = p->cells[value].next;
    }
    return found;
}
