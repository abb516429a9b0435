/* pickle_machine.h - inside of the machine; for pickle.c and pickle_stack.c.
 *
 * The functions execute opcodes: each changes the stack as its opcode requires, or fails. */
#ifndef SB_DUMP_PICKLE_MACHINE_H
#define SB_DUMP_PICKLE_MACHINE_H

#include "tools/dump/pickle.h"

typedef struct sb_pickle_machine {
    const unsigned char *bytes, *at, *end;
    const char *file;
    sb_pickle *out;
    uint32_t *stack, *memo; /* nodes; 0 on the stack is a mark */
    size_t depth, stack_room, memo_count, memo_room;
    sb_error *err;
} sb_pickle_machine;

sb_status sb_pickle_refuse(const sb_pickle_machine *m, const char *what);
sb_status sb_pickle_new(sb_pickle_machine *m, const sb_pickle_node *node, uint32_t *out);
sb_status sb_pickle_add(sb_pickle_machine *m, uint32_t list, uint32_t node);
sb_status sb_pickle_push(sb_pickle_machine *m, uint32_t node);
sb_status sb_pickle_push_new(sb_pickle_machine *m, const sb_pickle_node *node);
sb_status sb_pickle_push_kind(sb_pickle_machine *m, sb_pickle_kind kind);
sb_status sb_pickle_push_int(sb_pickle_machine *m, sb_pickle_kind kind, int64_t value);
sb_status sb_pickle_collect(sb_pickle_machine *m, sb_pickle_kind kind, size_t count, size_t marks);
sb_status sb_pickle_collect_marked(sb_pickle_machine *m, sb_pickle_kind kind);
sb_status sb_pickle_extend(sb_pickle_machine *m, sb_pickle_kind kind, size_t count, size_t marks);
sb_status sb_pickle_extend_marked(sb_pickle_machine *m, sb_pickle_kind kind);
sb_status sb_pickle_push_global(sb_pickle_machine *m, const unsigned char *module, size_t m_length,
                                const unsigned char *name, size_t n_length);
sb_status sb_pickle_stack_global(sb_pickle_machine *m);
sb_status sb_pickle_reduce(sb_pickle_machine *m);
sb_status sb_pickle_build(sb_pickle_machine *m);
sb_status sb_pickle_persistent(sb_pickle_machine *m);
sb_status sb_pickle_memo_put(sb_pickle_machine *m, size_t i);
sb_status sb_pickle_memo_get(sb_pickle_machine *m, size_t i);

#endif
