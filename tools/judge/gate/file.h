/* file.h - the tensors and the metadata of a file of vectors (V-101, V-102). */
#ifndef SB_GATE_FILE_H
#define SB_GATE_FILE_H

#include "tools/judge/gate/case.h"

/* A tensor of the file. */
typedef struct sb_gate_entry {
    char name[SB_GATE_NAME + 16];
    sb_dtype dtype;
    unsigned rank;
    const uint64_t *shape;
    const char *axes;
    const unsigned char *bytes;
    uint64_t count;       /* of bytes */
    unsigned char *owned; /* bytes, if the entry owns them; NULL: an input does */
} sb_gate_entry;

enum { SB_GATE_PER_OUTPUT = 5, SB_GATE_KEYS = 9 };

/* The whole content of a case's file. */
typedef struct sb_gate_file {
    sb_gate_entry entry[SB_GATE_ARRAYS + SB_GATE_PER_OUTPUT * SB_GATE_OUTPUTS];
    size_t entries, inputs; /* the inputs come first */
    struct {
        const char *key;
        char value[sizeof(sb_gate_shape)];
    } key[SB_GATE_KEYS];
    size_t keys;
} sb_gate_file;

/* The metadata key of a tensor's axes. */
typedef struct sb_gate_axes_key {
    char text[SB_GATE_NAME + 48];
} sb_gate_axes_key;
sb_gate_axes_key sb_gate_axes_key_of(const sb_gate_entry *e);

sb_status sb_gate_file_of(const sb_gate_case *c, const sb_gate_arith *ar, sb_gate_file *out,
                          sb_error *err);
void sb_gate_file_free(sb_gate_file *file);

/* sb_gate_read of a file in memory, for ops that `find` knows. */
typedef const sb_gate_op *(*sb_gate_find)(const char *name);
sb_status sb_gate_parse(const unsigned char *bytes, size_t size, const char *path,
                        sb_gate_find find, sb_gate_case **out, sb_gate_arith *ar, sb_error *err);

#endif
