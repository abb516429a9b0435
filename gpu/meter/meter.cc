/* meter.cc - measures the card: memory, the bf16 unit and launches. */
#include "gpu/kernel/linear_rows.cuh"
#include "gpu/kernel/pack.h"
#include "gpu/meter/body.h"
#include "gpu/meter/units.cuh"
#include "gpu/op/graph.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"

enum : uint32_t { CHECKED = 64 }; /* the number of outputs of the layer that the host recomputes */

/* --- passes ----------------------------------------------------------------------------------- */
namespace
{
struct bench {
    sb_gpu *gpu;
    const sb_meter_options *o;
    sb_gpu_marks *marks;       /* (passes + 1) */
    double *seconds;           /* (passes) */
    uint32_t blocks, products; /* blocks of the memory kernels; blocks of sb_meter_matrix */
};
} // namespace

/* Warms up, then times all passes, without waiting between passes. */
template <class RUN>
static void time_passes(const bench &b, sb_gpu_work &work, sb_meter_time *out, RUN run)
{
    for (uint32_t i = 0; i < b.o->warm; i++)
        run();
    for (uint32_t i = 0; i <= b.o->passes && work.ok(); i++) {
        work.did(sb_gpu_mark(b.gpu, b.marks, i));
        if (i < b.o->passes)
            run();
    }
    for (uint32_t i = 0; i < b.o->passes && work.ok(); i++)
        work.did(sb_gpu_between(b.gpu, b.marks, i, i + 1, &b.seconds[i]));
    if (work.ok())
        *out = sb_meter_time_of(b.seconds, b.o->passes);
}

/* --- memory ----------------------------------------------------------------------------------- */
/* The sum that sb_meter_read must find in the words [first, last) of sb_meter_fill. */
static uint32_t sum_of(uint64_t key, uint64_t first, uint64_t last)
{
    uint32_t sum = 0;
    for (uint64_t i = 2 * first; i < 2 * last; i++) {
        const uint64_t two = sb_counter_bits(key, i);
        sum += static_cast<uint32_t>(two) + static_cast<uint32_t>(two >> 32);
    }
    return sum;
}

static uint32_t added(const uint32_t *sums, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += sums[i];
    return sum;
}

/* Checks the sums. `sums` has, for each size, the sums of all blocks over the buffer; then, for
 * each size, the sums over the copy. */
static void check_memory(const bench &b, const uint32_t *sums, sb_meter_report *report)
{
    uint32_t expected = 0;
    uint64_t words = 0;
    for (uint32_t i = 0; i < SB_METER_SIZES; i++) {
        const uint32_t *of_copy = sums + (SB_METER_SIZES + i) * b.blocks;
        expected += sum_of(b.o->seed, words, b.o->size[i] / 16);
        words = b.o->size[i] / 16;
        report->read[i].right = added(sums + i * b.blocks, b.blocks) == expected;
        report->copy[i].right = added(of_copy, b.blocks) == expected;
    }
}

static void run_memory(const bench &b, sb_gpu_work &work, uint32_t *sums, sb_meter_report *report)
{
    const size_t most = b.o->size[SB_METER_SIZES - 1] / 16;
    const auto from = work.scratch<uint4>("buffer", most), to = work.scratch<uint4>("copy", most);
    const auto sum = work.out("sums", sums, size_t(2) * SB_METER_SIZES * b.blocks);
    SB_GPU_RUN(work, sb_meter_fill, b.blocks, SB_METER_THREADS, 0, from, most, b.o->seed);
    for (uint32_t i = 0; i < SB_METER_SIZES; i++) {
        const size_t words = b.o->size[i] / 16;
        const auto own = sum + i * b.blocks, of_copy = sum + (SB_METER_SIZES + i) * b.blocks;
        report->size[i] = b.o->size[i];
        report->read[i].work = b.o->size[i];
        report->copy[i].work = 2 * b.o->size[i];
        time_passes(b, work, &report->read[i].time, [&]() {
            SB_GPU_RUN(work, sb_meter_read, b.blocks, SB_METER_THREADS, 0, from, words, own);
        });
        time_passes(b, work, &report->copy[i].time, [&]() {
            SB_GPU_RUN(work, sb_meter_copy, b.blocks, SB_METER_THREADS, 0, from, to, words);
        });
        SB_GPU_RUN(work, sb_meter_read, b.blocks, SB_METER_THREADS, 0, to, words, of_copy);
    }
}

static sb_status measure_memory(const bench &b, sb_meter_report *report)
{
    const size_t count = size_t(2) * SB_METER_SIZES * b.blocks;
    uint32_t *sums = static_cast<uint32_t *>(sb_alloc(count, sizeof *sums));
    if (!sums)
        return SB_ERR_MEMORY;
    sb_status status;
    {
        sb_gpu_work work(b.gpu);
        run_memory(b, work, sums, report);
        status = work.finish();
    }
    if (!status)
        check_memory(b, sums, report);
    free(sums);
    return status;
}

/* --- products --------------------------------------------------------------------------------- */
/* The value of an element of a matrix, an integer from -2 to 2, so that every sum is exact. */
static int value_at(uint64_t key, uint64_t at)
{
    return static_cast<int>(sb_counter_bits(key, at) % 5) - 2;
}

static uint32_t bf16_of(int value)
{
    return sb_bits_f32(static_cast<float>(value)) >> 16;
}

/* H-8: "register r of A has row g + 8 (r mod 2) and starts at k = W t + 4 W (r / 2)", and of B
 * "column g and starts at k = W t + 4 W r". The matrices are a (16, 16) and b (CHAINS, 8, 16), with
 * random elements. */
static void place_operands(uint64_t key, uint32_t *a, uint32_t *b)
{
    for (uint32_t lane = 0; lane < 32; lane++) {
        const uint32_t g = lane / 4, t = lane % 4;
        for (uint32_t r = 0; r < 4; r++) {
            const uint32_t at = (g + 8 * (r % 2)) * 16 + 2 * t + 8 * (r / 2);
            a[lane * 4 + r] = bf16_of(value_at(key, at)) | bf16_of(value_at(key, at + 1)) << 16;
        }
        for (uint32_t i = 0; i < SB_METER_CHAINS * 2; i++) {
            const uint32_t c = i / 2, at = (c * 8 + g) * 16 + 2 * t + 8 * (i % 2);
            b[(c * 32 + lane) * 2 + i % 2] =
                bf16_of(value_at(~key, at)) | bf16_of(value_at(~key, at + 1)) << 16;
        }
    }
}

/* H-8: "Element i of C and D has row g + 8 (i / 2) and column 2 t + i mod 2" */
static bool chains_right(const bench &b, const float *out, size_t warps)
{
    float expected[SB_METER_CHAINS * 128];
    for (uint32_t i = 0; i < SB_METER_CHAINS * 128; i++) {
        const uint32_t lane = i / 4 % 32, row = lane / 4 + 8 * (i % 4 / 2);
        const uint32_t column = i / 128 * 8 + lane % 4 * 2 + i % 2;
        int sum = 0;
        for (uint32_t k = 0; k < 16; k++)
            sum += value_at(b.o->seed, row * 16 + k) * value_at(~b.o->seed, column * 16 + k);
        expected[i] = static_cast<float>(sum) * static_cast<float>(b.o->rounds);
    }
    for (size_t warp = 0; warp < warps; warp++)
        if (memcmp(out + warp * SB_METER_CHAINS * 128, expected, sizeof expected) != 0)
            return false;
    return true;
}

static sb_status measure_matrix(const bench &b, sb_meter_report *report)
{
    const size_t warps = size_t(b.products) * SB_METER_THREADS / 32;
    const size_t count = warps * SB_METER_CHAINS * 128;
    uint32_t left[128], right[SB_METER_CHAINS * 64];
    float *sums = static_cast<float *>(sb_alloc(count, sizeof *sums));
    if (!sums)
        return SB_ERR_MEMORY;
    place_operands(b.o->seed, left, right);
    report->matrix.work = uint64_t(warps) * SB_METER_CHAINS * b.o->rounds * 2 * 16 * 8 * 16;
    sb_status status;
    {
        sb_gpu_work work(b.gpu);
        const auto x = work.in("a", left, 128), y = work.in("b", right, SB_METER_CHAINS * 64);
        const auto out = work.out("products", sums, count);
        time_passes(b, work, &report->matrix.time, [&]() {
            SB_GPU_RUN(work, sb_meter_matrix, b.products, SB_METER_THREADS, 0,
                       sb_cast<const uint4>(x), sb_cast<const uint2>(y), out, b.o->rounds);
        });
        status = work.finish();
    }
    if (!status)
        report->matrix.right = chains_right(b, sums, warps);
    free(sums);
    return status;
}

/* --- a linear layer --------------------------------------------------------------------------- */
namespace
{
struct layer {
    unsigned char *plain; /* the data of `weight`, (N, K) */
    sb_matrix weight;
    float *in, *out;
    sb_linear_shape shape;
};
} // namespace

static void free_layer(layer *l)
{
    free(l->plain);
    free(l->in);
    free(l->out);
}

static sb_status make_layer(const sb_meter_options *o, layer *l)
{
    const size_t weights = size_t(o->width) * o->width, inputs = size_t(o->rows) * o->width;
    *l = layer();
    l->weight.format = SB_FORMAT_bf16;
    l->weight.rows = l->weight.cols = o->width;
    const sb_status status = sb_pack_shape(&l->weight, &l->shape);
    l->plain = static_cast<unsigned char *>(sb_alloc(weights, 2));
    l->in = static_cast<float *>(sb_alloc(inputs, sizeof(float)));
    l->out = static_cast<float *>(sb_alloc(inputs, sizeof(float)));
    if (!l->plain || !l->in || !l->out)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < weights; i++) {
        const uint32_t bits = bf16_of(value_at(o->seed, i));
        l->plain[2 * i] = static_cast<unsigned char>(bits);
        l->plain[2 * i + 1] = static_cast<unsigned char>(bits >> 8);
    }
    for (size_t i = 0; i < inputs; i++)
        l->in[i] = static_cast<float>(value_at(~o->seed, i));
    l->weight.data = l->plain;
    return status;
}

static bool layer_right(const sb_meter_options *o, const layer *l)
{
    const uint32_t n = o->width;
    for (uint32_t i = 0; i < CHECKED; i++) {
        const uint64_t at = sb_counter_bits(o->seed, i) % (uint64_t(o->rows) * n);
        float sum = 0;
        for (uint64_t k = 0; k < n; k++)
            sum += l->in[at / n * n + k] * static_cast<float>(value_at(o->seed, at % n * n + k));
        if (l->out[at] != sum)
            return false;
    }
    return true;
}

static sb_status measure_layer(const bench &b, const layer *l, sb_meter_pass *out)
{
    const uint32_t rows = b.o->rows;
    const size_t values = size_t(rows) * b.o->width, staged = sb_linear_staged(l->shape, rows);
    sb_gpu_work work(b.gpu);
    const auto weights =
        work.kept<uint4>("weights", &l->weight, sb_pack_linear,
                         sb_pack_tiles(l->shape) * l->shape.tile_bytes, l->shape.tile_bytes);
    const auto in = work.in("in", l->in, values);
    const auto x = work.scratch<uint2>("staged", staged);
    const auto to = work.out("out", l->out, values);
    sb_linear_list<float> list = {};
    list.of[0] = {weights, to, l->shape, 1, 0};
    list.count = 1;
    const sb_global<const uint32_t> none = nullptr;
    time_passes(b, work, &out->time, [&]() {
        SB_GPU_RUN(work, sb_linear_stage<float>, sb_gpu_blocks(staged, 256), 256, 0, in, none, x,
                   l->shape, rows);
        if (work.ok())
            work.did(sb_linear_rows<SB_CODES_bf16, false>(work.queue(), list, x, rows, false));
    });
    return work.finish();
}

static sb_status measure_linear(const bench &b, sb_meter_report *report)
{
    layer l;
    sb_status status = make_layer(b.o, &l);
    report->linear.work = uint64_t(2) * b.o->rows * b.o->width * b.o->width;
    if (!status)
        status = measure_layer(b, &l, &report->linear);
    if (!status)
        report->linear.right = layer_right(b.o, &l);
    sb_gpu_forget_weights(b.gpu); /* the table of weights identifies this matrix by its address */
    free_layer(&l);
    return status;
}

/* --- launches --------------------------------------------------------------------------------- */
namespace
{
/* A chain of kernels, each of which waits for its predecessor. */
struct chain {
    bool dependent; /* Y-16: each starts after the begin, not after the end, of its predecessor */
    uint32_t nodes; /* the number of launches in one graph; 0: the host makes each launch */
};
} // namespace

static sb_graph *record_ticks(const bench &b, sb_gpu_work &work, sb_global<uint32_t> count,
                              uint32_t nodes)
{
    sb_graph *graph = nullptr;
    if (work.ok())
        work.did(sb_graph_begin(b.gpu));
    if (!work.ok())
        return nullptr;
    for (uint32_t i = 0; i < nodes; i++)
        SB_GPU_RUN(work, sb_meter_tick, 1, 1, 0, count);
    work.did(sb_graph_end(b.gpu, &graph));
    return graph;
}

static void run_ticks(const bench &b, sb_gpu_work &work, sb_global<uint32_t> count, chain of,
                      sb_meter_time *out)
{
    const uint32_t starts = of.nodes ? b.o->launches / of.nodes : b.o->launches;
    sb_graph *const graph = of.nodes ? record_ticks(b, work, count, of.nodes) : nullptr;
    time_passes(b, work, out, [&]() {
        for (uint32_t i = 0; i < starts; i++)
            if (!of.nodes)
                SB_GPU_RUN(work, sb_meter_tick, 1, 1, 0, count);
            else if (work.ok())
                work.did(sb_graph_run(b.gpu, graph));
    });
    work.did(sb_gpu_wait(b.gpu));
    sb_graph_free(graph);
}

static sb_status measure_chain(const bench &b, chain of, sb_meter_pass *out)
{
    const bool before = b.gpu->queue.dependent;
    uint32_t count = 0;
    sb_status status;
    out->work = b.o->launches;
    b.gpu->queue.dependent = of.dependent;
    {
        sb_gpu_work work(b.gpu);
        run_ticks(b, work, work.inout("count", &count, 1), of, &out->time);
        status = work.finish();
    }
    b.gpu->queue.dependent = before;
    out->right = count == b.o->launches * (b.o->warm + b.o->passes);
    return status;
}

static sb_status measure_launches(const bench &b, sb_meter_report *report)
{
    const uint32_t all = b.o->launches;
    sb_status status = measure_chain(b, {false, 0}, &report->launches);
    if (!status)
        status = measure_chain(b, {true, 0}, &report->dependent);
    if (!status)
        status = measure_chain(b, {false, all}, &report->nodes);
    if (!status)
        status = measure_chain(b, {true, all}, &report->dependent_nodes);
    return status ? status : measure_chain(b, {true, 1}, &report->graphs);
}

/* --- the whole measurement -------------------------------------------------------------------- */
#ifdef __CUDACC__
static const sb_meter_options usual = {
    42, {16u << 20, 64u << 20, 256u << 20, 1u << 30}, 3, 15, 4096, 4096, 2048, 1000};
#else
static const sb_meter_options usual = {42, {4096, 20480, 36880, 65536}, 1, 2, 3, 72, 80, 5};
#endif

static sb_status measure_card(const bench &b, sb_meter_report *report)
{
    sb_status status = measure_memory(b, report);
    if (!status)
        status = measure_matrix(b, report);
    if (!status)
        status = measure_linear(b, report);
    return status ? status : measure_launches(b, report);
}

sb_status sb_gpu_meter(sb_gpu *gpu, const sb_meter_options *options, sb_meter_report *report)
{
    bench b = {gpu, options->passes ? options : &usual, nullptr, nullptr, 0, 0};
    *report = sb_meter_report();
    sb_status status = sb_gpu_card(gpu, &report->card);
    report->passes = b.o->passes;
    const uint32_t places = report->card.multiprocessors ? report->card.multiprocessors : 1;
    b.blocks = places * (report->card.threads / SB_METER_THREADS + !report->card.threads);
    b.products = places * SB_METER_BLOCKS;
    if (!status)
        status = sb_gpu_marks_open(gpu, size_t(b.o->passes) + 1, &b.marks);
    b.seconds = static_cast<double *>(sb_alloc(b.o->passes, sizeof(double)));
    if (!status && !b.seconds)
        status = SB_ERR_MEMORY;
    if (!status)
        status = measure_card(b, report);
    sb_gpu_trim(gpu); /* frees 2 GiB, so that weights can use them */
    sb_gpu_marks_close(gpu, b.marks);
    free(b.seconds);
    return status;
}
