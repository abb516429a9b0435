/* pickle_stack.c - nodes, the stack, the memo, and the opcodes' operations on them. */
#include <stdio.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/dump/pickle_machine.h"

static const sb_pickle_global globals[] = {
#define SB_PICKLE_GLOBAL(module, name, what, dtype)                                                \
    {module, name, SB_PICKLE_##what, SB_DTYPE_##dtype},
#include "tools/dump/pickle_globals.def"
#undef SB_PICKLE_GLOBAL
};

sb_status sb_pickle_refuse(const sb_pickle_machine *m, const char *what)
{
    return sb_fail(m->err, SB_ERR_INPUT, "%s: its pickle %s, at byte %zu", SB_SHOW(m->file), what,
                   (size_t)(m->at - m->bytes));
}

static sb_status no_memory(const sb_pickle_machine *m)
{
    return sb_fail(m->err, SB_ERR_MEMORY, "%s: out of memory for its pickle", SB_SHOW(m->file));
}

/* --- nodes and cells -------------------------------------------------------------------------- */

sb_status sb_pickle_new(sb_pickle_machine *m, const sb_pickle_node *node, uint32_t *out)
{
    sb_pickle *p = m->out;
    size_t room = p->node_room;
    sb_pickle_node *more = sb_grow(p->nodes, p->node_count, &room, sizeof *more);
    if (!more)
        return no_memory(m);
    p->nodes = more;
    p->node_room = (uint32_t)room;
    p->nodes[p->node_count] = *node;
    *out = p->node_count++;
    return SB_OK;
}

/* Appends an item to a list. */
sb_status sb_pickle_add(sb_pickle_machine *m, uint32_t list, uint32_t node)
{
    sb_pickle *p = m->out;
    size_t room = p->cell_room;
    sb_pickle_cell *more = sb_grow(p->cells, p->cell_count, &room, sizeof *more);
    if (!more)
        return no_memory(m);
    p->cells = more;
    p->cell_room = (uint32_t)room;
    p->cells[p->cell_count] = (sb_pickle_cell){node, 0};
    sb_pickle_node *l = &p->nodes[list];
    if (l->count++ == 0)
        l->as.cells[0] = p->cell_count;
    else
        p->cells[l->as.cells[1]].next = p->cell_count;
    l->as.cells[1] = p->cell_count++;
    return SB_OK;
}

/* --- the stack -------------------------------------------------------------------------------- */

sb_status sb_pickle_push(sb_pickle_machine *m, uint32_t node)
{
    uint32_t *more = sb_grow(m->stack, m->depth, &m->stack_room, sizeof *more);
    if (!more)
        return no_memory(m);
    m->stack = more;
    m->stack[m->depth++] = node;
    return SB_OK;
}

sb_status sb_pickle_push_new(sb_pickle_machine *m, const sb_pickle_node *node)
{
    uint32_t number = 0;
    sb_status status = sb_pickle_new(m, node, &number);
    return status ? status : sb_pickle_push(m, number);
}

sb_status sb_pickle_push_kind(sb_pickle_machine *m, sb_pickle_kind kind)
{
    return sb_pickle_push_new(m, &(sb_pickle_node){.kind = kind});
}

sb_status sb_pickle_push_int(sb_pickle_machine *m, sb_pickle_kind kind, int64_t value)
{
    return sb_pickle_push_new(m, &(sb_pickle_node){.kind = kind, .as = {.integer = value}});
}

/* The i-th from the top, from 1; 0 if there is none, or a mark. */
static uint32_t top(const sb_pickle_machine *m, size_t i)
{
    return i <= m->depth ? m->stack[m->depth - i] : 0;
}

static int is_kind(const sb_pickle_machine *m, uint32_t node, sb_pickle_kind kind)
{
    return node && m->out->nodes[node].kind == kind;
}

/* The number of values above the last mark; -1 if there is no mark. */
static long long above_mark(const sb_pickle_machine *m)
{
    for (size_t i = m->depth; i-- > 0;)
        if (m->stack[i] == 0)
            return (long long)(m->depth - 1 - i);
    return -1;
}

/* --- operations of opcodes -------------------------------------------------------------------- */

/* Replaces the topmost `count` values and `marks` marks by one value with these items. */
sb_status sb_pickle_collect(sb_pickle_machine *m, sb_pickle_kind kind, size_t count, size_t marks)
{
    uint32_t list = 0;
    for (size_t i = 1; i <= count; i++)
        if (!top(m, i))
            return sb_pickle_refuse(m, "pops from an empty stack");
    sb_status status = sb_pickle_new(m, &(sb_pickle_node){.kind = kind}, &list);
    for (size_t i = count; i > 0 && !status; i--)
        status = sb_pickle_add(m, list, top(m, i));
    if (status)
        return status;
    m->depth -= count + marks;
    return sb_pickle_push(m, list);
}

sb_status sb_pickle_collect_marked(sb_pickle_machine *m, sb_pickle_kind kind)
{
    long long count = above_mark(m);
    return count < 0 ? sb_pickle_refuse(m, "pops to a missing mark")
                     : sb_pickle_collect(m, kind, (size_t)count, 1);
}

/* Moves the topmost `count` values to the list or dict below them and below `marks` marks. */
sb_status sb_pickle_extend(sb_pickle_machine *m, sb_pickle_kind kind, size_t count, size_t marks)
{
    sb_status status = SB_OK;
    uint32_t list = top(m, count + marks + 1);
    for (size_t i = 1; i <= count; i++)
        if (!top(m, i))
            return sb_pickle_refuse(m, "pops from an empty stack");
    if (!is_kind(m, list, kind) || (kind == SB_PICKLE_DICT && count % 2))
        return sb_pickle_refuse(m, "adds items to something other than a list or dictionary");
    for (size_t i = count; i > 0 && !status; i--)
        status = sb_pickle_add(m, list, top(m, i));
    m->depth -= count + marks;
    return status;
}

sb_status sb_pickle_extend_marked(sb_pickle_machine *m, sb_pickle_kind kind)
{
    long long count = above_mark(m);
    return count < 0 ? sb_pickle_refuse(m, "pops to a missing mark")
                     : sb_pickle_extend(m, kind, (size_t)count, 1);
}

/* J-16: "Any other is refused by its name" */
sb_status sb_pickle_push_global(sb_pickle_machine *m, const unsigned char *module, size_t m_length,
                                const unsigned char *name, size_t n_length)
{
    char found[200];
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (strlen(globals[i].module) == m_length && strlen(globals[i].name) == n_length &&
            memcmp(globals[i].module, module, m_length) == 0 &&
            memcmp(globals[i].name, name, n_length) == 0)
            return sb_pickle_push_new(
                m, &(sb_pickle_node){.kind = SB_PICKLE_GLOBAL, .as = {.global = &globals[i]}});
    snprintf(found, sizeof found, "%.*s.%.*s", (int)(m_length < 90 ? m_length : 90), module,
             (int)(n_length < 90 ? n_length : 90), name);
    return sb_fail(m->err, SB_ERR_INPUT,
                   "%s: its pickle names \"%s\", which is not a name that tensors need: reading "
                   "stopped, and nothing was executed",
                   SB_SHOW(m->file), SB_SHOW(found));
}

sb_status sb_pickle_stack_global(sb_pickle_machine *m)
{
    uint32_t name = top(m, 1), module = top(m, 2);
    if (!is_kind(m, name, SB_PICKLE_TEXT) || !is_kind(m, module, SB_PICKLE_TEXT))
        return sb_pickle_refuse(m, "makes a name from something other than text");
    const sb_pickle_node *a = &m->out->nodes[module], *b = &m->out->nodes[name];
    m->depth -= 2;
    return sb_pickle_push_global(m, a->as.text, a->count, b->as.text, b->count);
}

/* A call becomes a node of the name and the arguments; an OrderedDict without arguments becomes a
 * dictionary. */
sb_status sb_pickle_reduce(sb_pickle_machine *m)
{
    uint32_t args = top(m, 1), global = top(m, 2);
    if (!is_kind(m, args, SB_PICKLE_TUPLE) || !is_kind(m, global, SB_PICKLE_GLOBAL))
        return sb_pickle_refuse(m, "calls something other than a name");
    const sb_pickle_global *g = m->out->nodes[global].as.global;
    if (g->what == SB_PICKLE_dict) {
        if (m->out->nodes[args].count != 0)
            return sb_pickle_refuse(m, "makes an OrderedDict out of arguments");
        m->depth -= 2;
        return sb_pickle_push_kind(m, SB_PICKLE_DICT);
    }
    if (g->what == SB_PICKLE_storage || g->what == SB_PICKLE_dtype)
        return sb_pickle_refuse(m, "calls a type");
    return sb_pickle_collect(m, SB_PICKLE_CALL, 2, 0);
}

/* Drops the attributes of a dictionary, for example those of state_dict(). */
sb_status sb_pickle_build(sb_pickle_machine *m)
{
    if (!is_kind(m, top(m, 1), SB_PICKLE_DICT) || !is_kind(m, top(m, 2), SB_PICKLE_DICT))
        return sb_pickle_refuse(m, "sets the state of something other than a dictionary");
    m->depth--;
    return SB_OK;
}

sb_status sb_pickle_persistent(sb_pickle_machine *m)
{
    if (!is_kind(m, top(m, 1), SB_PICKLE_TUPLE))
        return sb_pickle_refuse(m, "refers to external storage by something other than a tuple");
    return sb_pickle_collect(m, SB_PICKLE_STORED, 1, 0);
}

/* --- the memo --------------------------------------------------------------------------------- */

/* Memo numbers must come in order, as all programs write them, so the memo is not longer than the
 * pickle. */
sb_status sb_pickle_memo_put(sb_pickle_machine *m, size_t i)
{
    uint32_t node = top(m, 1);
    if (!node || i > m->memo_count)
        return sb_pickle_refuse(m, "memoizes nothing, or under a number out of range");
    if (i < m->memo_count) {
        m->memo[i] = node;
        return SB_OK;
    }
    uint32_t *more = sb_grow(m->memo, m->memo_count, &m->memo_room, sizeof *more);
    if (!more)
        return no_memory(m);
    m->memo = more;
    m->memo[m->memo_count++] = node;
    return SB_OK;
}

sb_status sb_pickle_memo_get(sb_pickle_machine *m, size_t i)
{
    return i < m->memo_count ? sb_pickle_push(m, m->memo[i])
                             : sb_pickle_refuse(m, "recalls a memo entry that does not exist");
}
