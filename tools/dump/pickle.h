/* pickle.h - reads a pickle as a tree of values and can do nothing else: J-16.
 *
 * The machine cannot import, call or create objects. It looks up names in the list of
 * pickle_globals.def, and represents calls as nodes. */
#ifndef SB_DUMP_PICKLE_H
#define SB_DUMP_PICKLE_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/container/dtype.h"

enum { SB_PICKLE_MAX_BYTES = 1 << 24 };

typedef enum sb_pickle_kind {
    SB_PICKLE_NONE,
    SB_PICKLE_BOOL,
    SB_PICKLE_INT,
    SB_PICKLE_REAL,
    SB_PICKLE_TEXT,
    SB_PICKLE_TUPLE,
    SB_PICKLE_LIST,
    SB_PICKLE_DICT,   /* items: key, value, key, value, ... */
    SB_PICKLE_GLOBAL, /* a name of the list */
    SB_PICKLE_CALL,   /* items: the global, and the tuple of its arguments */
    SB_PICKLE_STORED  /* items: the tuple that identifies data stored elsewhere */
} sb_pickle_kind;

typedef enum sb_pickle_what {
    SB_PICKLE_dict,
    SB_PICKLE_tensor,
    SB_PICKLE_typed,
    SB_PICKLE_parameter,
    SB_PICKLE_storage,
    SB_PICKLE_dtype,
    SB_PICKLE_other
} sb_pickle_what;

typedef struct sb_pickle_global {
    const char *module, *name;
    sb_pickle_what what;
    sb_dtype dtype; /* SB_DTYPE_COUNT: none */
} sb_pickle_global;

/* Nodes are referred to by number. Items are a linked list of cells, also by number; 0 ends it. */
typedef struct sb_pickle_node {
    sb_pickle_kind kind;
    uint32_t count; /* items, or the bytes of a text */
    union {
        int64_t integer; /* also for a truth value */
        double real;
        const unsigned char *text; /* in the bytes of the pickle, not NUL-terminated */
        const sb_pickle_global *global;
        uint32_t cells[2]; /* the first and the last cell */
    } as;
} sb_pickle_node;

typedef struct sb_pickle_cell {
    uint32_t node, next;
} sb_pickle_cell;

typedef struct sb_pickle {
    sb_pickle_node *nodes; /* number 0 is unused */
    sb_pickle_cell *cells;
    uint32_t node_count, cell_count, node_room, cell_room;
    uint32_t root;
} sb_pickle;

/* `bytes` must outlive *out; `file` is for messages. */
sb_status sb_pickle_parse(const unsigned char *bytes, size_t size, const char *file, sb_pickle *out,
                          sb_error *err);
void sb_pickle_clear(sb_pickle *pickle);

/* The node of the i-th item; NULL: there is none. Counts along the list, so for short lists
 * only. */
const sb_pickle_node *sb_pickle_item(const sb_pickle *pickle, const sb_pickle_node *list,
                                     uint32_t i);

/* The value of a text key in a dict, the last one if the key repeats. NULL: there is none. */
const sb_pickle_node *sb_pickle_get(const sb_pickle *pickle, const sb_pickle_node *dict,
                                    const char *key);

int sb_pickle_is(const sb_pickle_node *text, const char *what);

#endif
