/* ledger.h - the tensors of a checkpoint by class of their use, from headers alone. */
#ifndef SB_FLOOR_LEDGER_H
#define SB_FLOOR_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/container/dtype.h"
#include "ref/model/config.h"
#include "ref/model/declared.h"

typedef enum sb_floor_class {
#define SB_FLOOR_CLASS(id, title) SB_FLOOR_##id,
#include "tools/check/floor/classes.def"
#undef SB_FLOOR_CLASS
    SB_FLOOR_CLASSES
} sb_floor_class;

const char *sb_floor_class_id(sb_floor_class c);    /* "experts" */
const char *sb_floor_class_title(sb_floor_class c); /* "routed experts" */

typedef struct sb_ledger_row {
    size_t tensors;
    uint64_t stored;                /* bytes */
    uint64_t routed;                /* the part of them in routed experts */
    uint64_t dtype[SB_DTYPE_COUNT]; /* bytes by stored type */
} sb_ledger_row;

/* A kind of missing items: their number, and the first ones. */
enum { SB_LEDGER_FIRST = 4 };
typedef struct sb_ledger_lack {
    size_t count;
    char first[SB_LEDGER_FIRST][320];
} sb_ledger_lack;

typedef struct sb_ledger {
    sb_config config;
    sb_declared_kv kv; /* as declared */
    size_t shards;
    int has_mtp;
    sb_ledger_row trunk[SB_FLOOR_CLASSES], mtp[SB_FLOOR_CLASSES];
    sb_ledger_lack files;   /* missing, damaged, or without a tensor of the index */
    sb_ledger_lack tensors; /* missing weights that the configuration requires */
} sb_ledger;

/* Reads config.json and the headers, never a byte of data. An error such as SB_ERR_INPUT if there
 * is no configuration or no readable file; *out lists what is missing. */
sb_status sb_ledger_read(const char *path, sb_ledger *out, sb_error *err);

#endif
