/* cpu.h - the reference on one checkpoint: seconds of every kind of op per token, relative to the
 * memory bandwidth in the same run.
 *
 * Before any timing, outputs of every linear layer of a first token are recomputed by the
 * definition and must be equal. */
#ifndef SB_BENCH_CPU_H
#define SB_BENCH_CPU_H

#include "tools/bench/f32_kernels.h"
#include "tools/bench/meter.h"

enum { SB_BENCH_THREADS = 4, SB_BENCH_PASSES = 64 };

typedef struct sb_bench_options {
    const sb_knobs *knobs; /* NULL: profile exact */
    size_t tokens;         /* timed tokens; at most SB_BENCH_TOKENS */
    size_t context;        /* tokens fed before */
    size_t prefill;        /* tokens of a prompt that is also timed; 0: no prompt */
    unsigned threads[SB_BENCH_THREADS];
    size_t thread_count;
    size_t stream_mib; /* size of the array that is read; 0: large enough */
    unsigned layers;   /* layers to which a token is extrapolated */
    size_t passes;     /* of the comparison of kernels; at most SB_BENCH_PASSES */
    int plant;         /* spoils an output: the comparison must fail */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
} sb_bench_options;

typedef struct sb_bench_line {
    sb_bench_kind kind;
    const char *format;
    uint64_t calls, bytes; /* per token */
    sb_bench_noise seconds;
    double share_of_stream; /* bytes per second relative to the stream's; 0 without weights */
    uint64_t tried, sent, exact, integers; /* as in sb_bench_row */
} sb_bench_line;

/* With one number of threads. */
typedef struct sb_bench_decode {
    unsigned threads;
    sb_bench_noise stream;  /* bytes per second */
    sb_bench_noise token;   /* seconds */
    sb_bench_noise whole;   /* seconds of a token with options->layers layers */
    sb_bench_noise prefill; /* tokens per second */
    uint64_t bytes;         /* of weights, per token */
    sb_bench_line lines[SB_BENCH_ROWS];
    size_t count;
} sb_bench_decode;

/* The same matrices by the reference and by binary32 rows. */
typedef struct sb_bench_versus {
    sb_f32_kind kind;
    int quantized_input; /* the reference quantizes the input (W4A4, W8A8) */
    unsigned threads;
    uint64_t bytes;
    sb_bench_noise exact, plain;     /* seconds */
    sb_bench_noise ratio;            /* plain seconds over exact seconds, pass by pass */
    sb_bench_noise cpu_ratio;        /* the same for seconds of processors */
    sb_bench_noise stream;           /* bytes per second, between those passes */
    double exact_share, plain_share; /* relative to the stream */
} sb_bench_versus;

/* Dequantized weights in a BLAS. */
typedef struct sb_bench_blas {
    unsigned threads;
    sb_bench_noise sgemv, dgemv; /* bytes per second */
    sb_bench_noise sgemm;        /* seconds of all linear layers of the prompt except the head */
} sb_bench_blas;

enum { SB_BENCH_VERSUS = 2 * SB_F32_KINDS * SB_BENCH_THREADS };

typedef struct sb_bench_report {
    uint64_t compared; /* outputs found equal to the definition's */
    unsigned layers;   /* of the checkpoint */
    int has_full;      /* 1: at least one has full attention */
    sb_bench_decode decode[SB_BENCH_THREADS];
    size_t decode_count;
    const char *f32_kernels;
    sb_bench_versus versus[SB_BENCH_VERSUS];
    size_t versus_count;
    sb_bench_blas blas[SB_BENCH_THREADS];
    size_t blas_count;
    /* peak_bytes: the peak of memory up to the last token and prompt, including mapped files.
     * weight_bytes and stream_bytes: the parts of the peak for weights and for the array that is
     * read. */
    uint64_t peak_bytes, weight_bytes, stream_bytes;
} sb_bench_report;

sb_status sb_bench_cpu(const sb_model *model, const sb_bench_options *options,
                       sb_bench_report *report, sb_error *err);

/* Adds to report->versus, for the numbers of threads in report->decode. */
sb_status sb_bench_against_f32(const sb_model *model, const sb_bench_options *options,
                               sb_bench_report *report, sb_error *err);

/* Adds to report->blas. library NULL: the usual name. SB_ERR_SKIPPED if the library is missing. */
sb_status sb_bench_against_blas(const sb_model *model, const sb_bench_options *options,
                                const char *library, sb_bench_report *report, sb_error *err);

#endif
