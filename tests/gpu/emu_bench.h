/* emu_bench.h - buffers and a queue for tests that launch kernels in the emulator directly. */
#ifndef SB_TESTS_GPU_EMU_BENCH_H
#define SB_TESTS_GPU_EMU_BENCH_H

#include <string.h>

#include "gpu/cuda.h"
#include "tests/gpu/plant.h"

/* Opens a region for each array of a test, and closes all of them at the end. All tests share one
 * emulator. `counts`: where to count the work of the kernels; may be NULL. */
class emu_bench
{
  public:
    sb_error err = sb_error();
    sb_queue queue = {emulator(), &err};

    explicit emu_bench(uint64_t seed, sb_emu_counts *counts = nullptr) : counted(counts != nullptr)
    {
        sb_emu_seed(emulator(), seed);
        sb_emu_count(emulator(), counts);
    }
    ~emu_bench()
    {
        sb_emu_count(emulator(), nullptr);
        for (int i = 0; i < count; i++)
            sb_emu_region_close(&regions[i]);
    }
    emu_bench(const emu_bench &) = delete;
    emu_bench &operator=(const emu_bench &) = delete;

    template <class T> sb_global<const T> in(const char *name, const T *host, size_t n)
    {
        return sb_global<const T>(open(name, const_cast<T *>(host), n * sizeof(T), SB_EMU_INPUT));
    }
    template <class T> sb_global<T> out(const char *name, T *host, size_t n)
    {
        return sb_global<T>(open(name, host, n * sizeof(T), SB_EMU_OUTPUT));
    }
    template <class T> sb_global<T> inout(const char *name, T *host, size_t n)
    {
        return sb_global<T>(open(name, host, n * sizeof(T), SB_EMU_INOUT));
    }
    /* Whether a launch succeeded. Only a planted fault may stop it. */
    bool ran(sb_status status, const char *of = "") const
    {
        if (status != SB_OK && !*planted)
            fail_msg("%s %s", of, err.text);
        return status == SB_OK;
    }
    /* Whether every output buffer has been written completely. */
    bool complete() const
    {
        for (int i = 0; i < count; i++)
            if (regions[i].state && sb_emu_unset(&regions[i], 0) < regions[i].bytes)
                return false;
        return true;
    }

  private:
    enum { MOST = 32 };
    sb_emu_region regions[MOST];
    int count = 0;
    const bool counted;

    static sb_emu *emulator()
    {
        static sb_emu *const one = sb_emu_new(0);
        return one;
    }
    sb_emu_region *open(const char *name, void *host, size_t bytes, sb_emu_use use)
    {
        assert_true(count < MOST);
        const auto begin = counted ? sb_emu_region_counted : sb_emu_region_open;
        assert_int_equal(begin(&regions[count], name, host, bytes, use, &err), SB_OK);
        return &regions[count++];
    }
};

/* Zeroed memory for a test. */
inline void *room_for(size_t count, size_t size)
{
    void *room = sb_alloc(count ? count : 1, size);
    assert_non_null(room);
    return room;
}

/* Whether the bits are the same. All NaNs count as equal. */
inline bool same_or_nan(float x, float y)
{
    return (x != x && y != y) || memcmp(&x, &y, sizeof x) == 0;
}

/* A launch that must succeed. */
#define EMU_RUN(bench, kernel, grid, block, shared, ...)                                           \
    do {                                                                                           \
        if (SB_LAUNCH(&(bench).queue, kernel, grid, block, shared, __VA_ARGS__) != SB_OK)          \
            fail_msg("%s", (bench).err.text);                                                      \
    } while (0)

#endif
