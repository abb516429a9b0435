/* meter.h - a hook that times the ops of a session, after a check of the linear layers.
 *
 * Only one meter can be active: a backend's functions for experts have no context argument. */
#ifndef SB_BENCH_METER_H
#define SB_BENCH_METER_H

#include <stdint.h>

#include "ref/run/session.h"
#include "tools/bench/measure.h"

enum { SB_BENCH_ROWS = 32, SB_BENCH_TOKENS = 256 };

/* The lines of a report. */
typedef enum sb_bench_kind {
    SB_BENCH_experts,
    SB_BENCH_shared,
    SB_BENCH_router,
    SB_BENCH_attention_linear,
    SB_BENCH_delta_linear,
    SB_BENCH_dense,
    SB_BENCH_head,
    SB_BENCH_attention,
    SB_BENCH_delta_rule,
    SB_BENCH_conv,
    SB_BENCH_norms,
    SB_BENCH_rest,
    SB_BENCH_KINDS
} sb_bench_kind;

const char *sb_bench_kind_name(sb_bench_kind kind); /* "experts" */

typedef struct sb_bench_row {
    sb_bench_kind kind;
    const char *format; /* of the weights; "" without weights */
    uint64_t calls;     /* of the last token */
    uint64_t bytes;     /* of weights, of the last token */
    double seconds[SB_BENCH_TOKENS];
    /* Counts of outputs: tried: with a rounding test; sent: the first test was uncertain; exact:
     * computed by exact.h; integers: sums of integers, which need no test. */
    uint64_t tried, sent, exact, integers;
} sb_bench_row;

typedef struct sb_meter {
    const sb_backend *ref;
    sb_backend backend; /* ref, timed */
    sb_bench_row rows[SB_BENCH_ROWS];
    size_t count, token;
    uint32_t layer;          /* of the last op */
    const sb_config *config; /* for the layers with full attention */
    double in_layers[2];     /* seconds of this token in linear and in full layers */
    int checking;            /* outputs are compared with exact.h instead of being timed */
    int plant;               /* spoils the first compared output */
    uint64_t compared;
    sb_status status; /* of a comparison */
    sb_error err;
} sb_meter;

/* Session options for a metered session. The meter must outlive it. */
void sb_meter_start(sb_meter *meter, const sb_model *model, int plant, sb_session_options *options);

/* Begins the next token with counts of zero. */
void sb_meter_token(sb_meter *meter, size_t token);

/* Bytes of codes, scales and zero points. */
uint64_t sb_bench_matrix_bytes(const sb_matrix *matrix);

/* The stored form of a matrix: its container, or the format of a plain one. */
const char *sb_bench_matrix_format(const sb_matrix *matrix);

#endif
