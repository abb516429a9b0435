/* cpu.h - the reference at work on one checkpoint: seconds of every kind of op, token by token, in
 * terms of what memory gives in the same run.
 *
 * Nothing is timed before outputs of every linear layer of a first token have been computed anew by
 * the definition and found equal. */
#ifndef SB_BENCH_CPU_H
#define SB_BENCH_CPU_H

#include "tools/bench/f32_kernels.h"
#include "tools/bench/meter.h"

enum { SB_BENCH_THREADS = 4, SB_BENCH_PASSES = 64 };

typedef struct sb_bench_options {
    const sb_knobs *knobs; /* NULL: profile exact */
    size_t tokens;         /* to be timed; at most SB_BENCH_TOKENS */
    size_t context;        /* tokens fed before */
    size_t prefill;        /* also: a prompt of so many tokens; 0: not */
    unsigned threads[SB_BENCH_THREADS];
    size_t thread_count;
    size_t stream_mib; /* of the array that is read; 0: large enough */
    unsigned layers;   /* a token is extrapolated to */
    size_t passes;     /* of kernels against each other; at most SB_BENCH_PASSES */
    int plant;         /* an output is spoiled: the comparison must fail */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
} sb_bench_options;

typedef struct sb_bench_line {
    sb_bench_kind kind;
    const char *format;
    uint64_t calls, bytes; /* per token */
    sb_bench_noise seconds;
    double share_of_stream; /* bytes per second against the stream's; 0 without weights */
    uint64_t tried, sent, exact, integers; /* as in sb_bench_row */
} sb_bench_line;

/* With one number of threads. */
typedef struct sb_bench_decode {
    unsigned threads;
    sb_bench_noise stream;  /* bytes per second */
    sb_bench_noise token;   /* seconds */
    sb_bench_noise whole;   /* seconds of a token of options->layers layers */
    sb_bench_noise prefill; /* tokens per second */
    uint64_t bytes;         /* of weights, per token */
    sb_bench_line lines[SB_BENCH_ROWS];
    size_t count;
} sb_bench_decode;

/* The same matrices by the reference and by binary32 rows. */
typedef struct sb_bench_versus {
    sb_f32_kind kind;
    int quantized_input; /* the reference quantizes its input (W4A4, W8A8) */
    unsigned threads;
    uint64_t bytes;
    sb_bench_noise exact, plain;     /* seconds */
    sb_bench_noise ratio;            /* plain seconds over exact seconds, pass by pass */
    sb_bench_noise cpu_ratio;        /* the same of seconds of processors */
    sb_bench_noise stream;           /* bytes per second, between those passes */
    double exact_share, plain_share; /* of it */
} sb_bench_versus;

/* Dequantized weights in a BLAS. */
typedef struct sb_bench_blas {
    unsigned threads;
    sb_bench_noise sgemv, dgemv; /* bytes per second */
    sb_bench_noise sgemm;        /* seconds of all linear layers of the prompt but the head */
} sb_bench_blas;

enum { SB_BENCH_VERSUS = 2 * SB_F32_KINDS * SB_BENCH_THREADS };

typedef struct sb_bench_report {
    uint64_t compared; /* outputs that were found equal to the definition's */
    unsigned layers;   /* of the checkpoint */
    int has_full;      /* and one of them is full attention */
    sb_bench_decode decode[SB_BENCH_THREADS];
    size_t decode_count;
    const char *f32_kernels;
    sb_bench_versus versus[SB_BENCH_VERSUS];
    size_t versus_count;
    sb_bench_blas blas[SB_BENCH_THREADS];
    size_t blas_count;
    /* The most bytes that the process had in memory up to the last token and prompt, mapped files
     * included; what of them the weights take, and the array that is read. */
    uint64_t peak_bytes, weight_bytes, stream_bytes;
} sb_bench_report;

sb_status sb_bench_cpu(const sb_model *model, const sb_bench_options *options,
                       sb_bench_report *report, sb_error *err);

/* Adds to report->versus, of the numbers of threads that report->decode has. */
sb_status sb_bench_against_f32(const sb_model *model, const sb_bench_options *options,
                               sb_bench_report *report, sb_error *err);

/* Adds to report->blas. SB_ERR_SKIPPED if the library is not there; NULL is the usual name. */
sb_status sb_bench_against_blas(const sb_model *model, const sb_bench_options *options,
                                const char *library, sb_bench_report *report, sb_error *err);

#endif
