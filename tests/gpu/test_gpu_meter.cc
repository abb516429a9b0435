/* test_gpu_meter.cc - the kernels that measure a card: their results are right, they make each
 * access once, and without a clock nothing is reported. */
#include "tests/lib/suite.h"

#include "gpu/emu/count.h"
#include "gpu/meter/memory.cuh"
#include "gpu/meter/meter.h"
#include "gpu/op/gpu.h"
#include "tests/gpu/emu_bench.h"

static void pass_is(const sb_meter_pass *pass, uint64_t work)
{
    assert_true(pass->right);
    assert_int_equal(pass->work, work);
    assert_true(pass->time.median == 0 && pass->time.least == 0 && pass->time.most == 0);
    assert_true(sb_meter_rate(pass) == 0);
}

static void launches_are(const sb_meter_report *report, uint64_t launches)
{
    pass_is(&report->launches, launches);
    pass_is(&report->dependent, launches);
    pass_is(&report->nodes, launches);
    pass_is(&report->dependent_nodes, launches);
    pass_is(&report->graphs, launches);
}

static void measure(const sb_meter_options *o, sb_meter_report *report)
{
    sb_error err = sb_error();
    if (sb_meter(sb_backend_emu(), o, report, &err))
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < SB_METER_SIZES; i++) {
        assert_true(o->passes == 0 || report->size[i] == o->size[i]);
        pass_is(&report->read[i], report->size[i]);
        pass_is(&report->copy[i], 2 * report->size[i]);
    }
}

/* B-17: "the emulator shows that the kernels give what the host computes; it measures no time" */
TEST(test_meter)
{
    static const sb_meter_options none = sb_meter_options();
    static const sb_meter_options odd = {7, {16, 16, 32784, 131088}, 0, 1, 5, 9, 48, 3};
    const uint64_t warps = 4 * SB_METER_THREADS / 32;
    static sb_meter_report report;
    measure(&none, &report);
    assert_string_equal(report.card.name, "emulator");
    assert_true(report.passes > 0 && report.launches.work > 0);
    pass_is(&report.matrix, report.matrix.work);
    pass_is(&report.linear, report.linear.work);
    launches_are(&report, report.launches.work);
    measure(&odd, &report);
    pass_is(&report.matrix, warps * 8 * 5 * 4096);
    pass_is(&report.linear, 2 * 9 * 48 * 48);
    launches_are(&report, 3);
    assert_ptr_equal(sb_meter_memory(&report), &report.read[SB_METER_SIZES - 1]);
    sb_error err = sb_error();
    assert_int_equal(sb_meter(nullptr, &none, &report, &err), SB_ERR_UNSUPPORTED);
}

/* The rate of the memory is that of the size which no cache can hold. */
TEST(test_memory)
{
    sb_meter_report report = sb_meter_report();
    for (uint32_t i = 0; i < SB_METER_SIZES; i++) {
        report.size[i] = report.read[i].work = UINT64_C(1) << (20 + i);
        report.read[i].time.median = 1;
    }
    report.read[0].time.median = 1e-9; /* in the cache */
    report.read[2].time.median = 0.01;
    report.card.cache = 1 << 20;
    assert_ptr_equal(sb_meter_memory(&report), &report.read[2]);
    report.card.cache = UINT64_C(1) << 30;
    assert_ptr_equal(sb_meter_memory(&report), &report.read[3]);
}

static sb_emu_counts counts;
static sb_emu_region open_counted(emu_bench *e, const char *name, void *host, size_t bytes,
                                  sb_emu_use use)
{
    sb_emu_region region;
    assert_int_equal(sb_emu_region_counted(&region, name, host, bytes, use, &e->err), SB_OK);
    return region;
}

/* B-17: "Each kernel reads each byte once" - whether the words fill the last round of loads or not.
 */
TEST(test_once)
{
    enum { BLOCKS = 2, MOST = 2 * BLOCKS * SB_METER_THREADS * SB_METER_LOADS + 5 };
    static const size_t sizes[] = {1, 511, 4095, 4096, 4097, MOST};
    static uint4 from[MOST], to[MOST];
    uint32_t sums[BLOCKS];
    for (const size_t words : sizes) {
        emu_bench e(words);
        EMU_RUN(e, sb_meter_fill, BLOCKS, SB_METER_THREADS, 0, e.out("fill", from, words), words,
                uint64_t(9));
        sb_emu_region in = open_counted(&e, "from", from, words * 16, SB_EMU_INPUT);
        sb_emu_region out = open_counted(&e, "to", to, words * 16, SB_EMU_OUTPUT);
        const sb_global<const uint4> x(&in);
        const sb_global<uint4> y(&out);
        counts = sb_emu_counts();
        sb_emu_count(e.queue.emu, &counts);
        EMU_RUN(e, sb_meter_read, BLOCKS, SB_METER_THREADS, 0, x, words,
                e.out("sums", sums, BLOCKS));
        EMU_RUN(e, sb_meter_copy, BLOCKS, SB_METER_THREADS, 0, x, y, words);
        sb_emu_count(e.queue.emu, nullptr);
        uint32_t sum = 0;
        for (size_t i = 0; i < words; i++)
            sum += from[i].x + from[i].y + from[i].z + from[i].w;
        assert_int_equal(sums[0] + sums[1], sum);
        assert_memory_equal(from, to, words * 16);
        assert_int_equal(sb_emu_counted(&counts, "sb_meter_read", "from").read, words * 16);
        assert_int_equal(sb_emu_counted(&counts, "sb_meter_copy", "from").read, words * 16);
        assert_int_equal(sb_emu_counted(&counts, "sb_meter_copy", "to").written, words * 16);
        assert_int_equal(sb_emu_counted(&counts, "sb_meter_read", "from").times, words);
        sb_emu_region_close(&in);
        sb_emu_region_close(&out);
    }
}

/* The published numbers of SplitMix64. */
TEST(test_bits)
{
    static const uint64_t of_42[] = {UINT64_C(0xbdd732262feb6e95), UINT64_C(0x28efe333b266f103)};
    for (uint64_t i = 0; i < 2; i++)
        assert_true(sb_counter_bits(42, i) == of_42[i]);
}

static void add_once(float *out)
{
    static const float one[4] = {1, 2, 3, 4};
    const sb_add_args args = {one, one, 4, out, nullptr};
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, "sm121", nullptr), SB_OK);
    assert_int_equal(sb_backend_emu()->ops.add(&knobs, &args), SB_OK);
}

/* While launches are watched, they are noted with the names of their ops, up to the available room
 * and not beyond. */
TEST(test_watch)
{
    const sb_backend *emu = sb_backend_emu();
    sb_meter_launch launches[4] = {};
    sb_error err = sb_error();
    size_t count = 9;
    float out[4];
    assert_int_equal(sb_meter_watch(emu, launches, 4, &err), SB_OK);
    add_once(out);
    add_once(out);
    sb_gpu_named(sb_emu_body(emu), "two sums");
    add_once(out);
    assert_int_equal(sb_meter_watched(emu, &count, &err), SB_OK);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_non_null(strstr(launches[i].kernel, "sb_add_kernel"));
        assert_string_equal(launches[i].op, i < 2 ? "two sums" : "");
        assert_true(launches[i].seconds == 0);
    }
    assert_int_equal(sb_meter_watched(emu, &count, &err), SB_ERR_USAGE);
    add_once(out);
    assert_int_equal(sb_meter_watch(emu, launches, 1, &err), SB_OK);
    add_once(out);
    add_once(out);
    assert_int_equal(sb_meter_watched(emu, &count, &err), SB_OK);
    assert_int_equal(count, 1);
    assert_true(out[3] == 8);
}
