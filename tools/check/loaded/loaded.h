/* loaded.h - compares what an engine holds in memory with the files: was a parameter dropped,
 * rounded, scaled or swapped on the way?
 *
 * The list is JSON, "samebit-loaded 1" (docs/check.md); tools/record/params.py writes it for a live
 * PyTorch model. */
#ifndef SB_CHECK_LOADED_H
#define SB_CHECK_LOADED_H

#include "ref/base/hash.h"
#include "ref/container/dtype.h"
#include "ref/container/json.h"
#include "tools/check/read/check.h"
#include "tools/check/read/waivers.h"

enum { SB_LOADED_MAX_RANK = 8, SB_LOADED_FIRST = 16 };

/* A module of the checkpoint, and its rows that a fused parameter holds. */
typedef struct sb_loaded_part {
    const char *module;
    int has_rows;
    uint64_t first, end; /* rows first .. end - 1 */
} sb_loaded_part;

typedef struct sb_loaded_param {
    const char *name;
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_LOADED_MAX_RANK];
    uint64_t elements;
    const char *digest;
    int is_buffer;
    int has_size; /* rms and max are given */
    double rms, max;
    double first[SB_LOADED_FIRST]; /* the first values */
    size_t first_count;
    const char **slices; /* digests along the first dimension, shape[0] of them, or NULL */
    sb_loaded_part *parts;
    size_t part_count;
} sb_loaded_param;

typedef struct sb_loaded_list {
    json_t *document; /* owns the strings */
    const char *program;
    sb_loaded_param *rows; /* sorted by name */
    size_t count;
} sb_loaded_list;

/* `file` is the name for messages. Call free in any case. */
sb_status sb_loaded_parse(const char *text, size_t n, const char *file, sb_loaded_list *out,
                          sb_error *err);
sb_status sb_loaded_load(const char *path, sb_loaded_list *out, sb_error *err);
void sb_loaded_free(sb_loaded_list *list);

typedef enum sb_loaded_verdict {
#define SB_LOADED(id, name, text) SB_LOADED_##id,
#include "tools/check/loaded/loaded.def"
#undef SB_LOADED
    SB_LOADED_COUNT
} sb_loaded_verdict;

const char *sb_loaded_name(sb_loaded_verdict verdict); /* "SWAPPED" */
const char *sb_loaded_text(sb_loaded_verdict verdict);

typedef struct sb_loaded_row {
    sb_loaded_verdict verdict;
    char *name;      /* name of the parameter; for DROPPED, of the module or tensor in the files */
    char *message;   /* one line; "" for most rows that are OK */
    const char *law; /* for a quantized layer that is OK: the law of dequantization; else NULL */
    int explained;   /* without effect on the verdict: a buffer that no file holds */
    int waived;      /* position + 1 of the waiver */
    int one_zero;    /* OK except for signs of zeros, as after ModelOpt's own dequantization */
} sb_loaded_row;

typedef struct sb_loaded {
    const char *path, *program; /* program belongs to the list, which must outlive this structure */
    sb_loaded_row *rows;        /* sorted by verdict, then name; OK first */
    size_t count, room;
    size_t parameters;              /* number of parameters of the list */
    size_t counts[SB_LOADED_COUNT]; /* rows that decide: neither explained nor waived */
    size_t explained, waived;
} sb_loaded;

/* Call it after sb_check_run. waivers may be NULL. Fails when memory runs out. */
sb_status sb_loaded_compare(const sb_check *check, const sb_loaded_list *list, const char *path,
                            sb_waivers *waivers, sb_loaded *out, sb_error *err);
void sb_loaded_result_free(sb_loaded *loaded);

/* 1 if some row counts against the engine. */
int sb_loaded_bad(const sb_loaded *loaded);

#endif
