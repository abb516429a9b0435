/* lanes.h - shuffles, votes and reductions of a warp. */
#ifndef SB_GPU_EMU_LANES_H
#define SB_GPU_EMU_LANES_H

#include <stdint.h>

#include "gpu/emu/warp.h"

template <class T> struct sb_emu_sent {
    T value;
    int from; /* the lane to read */
};

/* Y-8: "reads no lane that the mask lacks" */
template <class T> void sb_emu_exchange(uint32_t mask, const sb_emu_sent<T> *in, T *out)
{
    for (int lane = 0; lane < SB_EMU_WARP; lane++) {
        if (!(mask >> lane & 1))
            continue;
        if (!(mask >> in[lane].from & 1))
            sb_emu_lane_fail(lane, "a shuffle reads lane %d, which is not in its mask 0x%08x",
                             in[lane].from, mask);
        out[lane] = in[in[lane].from].value;
    }
}

template <class T>
T sb_emu_shuffle(const char *name, unsigned mask, T value, int from, sb_emu_site site)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
    const sb_emu_sent<T> sent = {value, from};
    return sb_emu_warp<sb_emu_sent<T>, T>(name, mask, sent, sb_emu_exchange<T>, site);
}

/* `width` is a power of two; a lane that reads outside its group of `width` lanes gets its own
 * value. */
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = SB_EMU_WARP,
              sb_emu_site site = sb_emu_site::here())
{
    const int lane = static_cast<int>(sb_emu_lane());
    return sb_emu_shuffle("__shfl_sync", mask, value, (lane & -width) + (from & (width - 1)), site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with, int width = SB_EMU_WARP,
                  sb_emu_site site = sb_emu_site::here())
{
    const int lane = static_cast<int>(sb_emu_lane()), from = (lane ^ with) & 31;
    const bool inside = from < (lane & -width) + width;
    return sb_emu_shuffle("__shfl_xor_sync", mask, value, inside ? from : lane, site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = SB_EMU_WARP,
                   sb_emu_site site = sb_emu_site::here())
{
    const int lane = static_cast<int>(sb_emu_lane());
    const bool inside = by < static_cast<unsigned>(width - (lane & (width - 1)));
    return sb_emu_shuffle("__shfl_down_sync", mask, value,
                          inside ? lane + static_cast<int>(by) : lane, site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = SB_EMU_WARP,
                 sb_emu_site site = sb_emu_site::here())
{
    const int lane = static_cast<int>(sb_emu_lane());
    const bool inside = by <= static_cast<unsigned>(lane & (width - 1));
    return sb_emu_shuffle("__shfl_up_sync", mask, value,
                          inside ? lane - static_cast<int>(by) : lane, site);
}

/* Folds the values of the lanes in ascending order. */
template <class T, T (*FOLD)(T, T)> void sb_emu_fold(uint32_t mask, const T *in, T *out)
{
    const int first = __builtin_ctz(mask);
    T all = in[first];
    for (int lane = first + 1; lane < SB_EMU_WARP; lane++)
        if (mask >> lane & 1)
            all = FOLD(all, in[lane]);
    for (int lane = 0; lane < SB_EMU_WARP; lane++)
        out[lane] = all;
}
template <class T> T sb_emu_plus(T a, T b)
{
    return static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
}
template <class T> T sb_emu_less(T a, T b)
{
    return a < b ? a : b;
}
template <class T> T sb_emu_more(T a, T b)
{
    return a > b ? a : b;
}
template <class T> T sb_emu_and(T a, T b)
{
    return a & b;
}
template <class T> T sb_emu_or(T a, T b)
{
    return a | b;
}
template <class T> T sb_emu_xor(T a, T b)
{
    return a ^ b;
}

#define SB_EMU_REDUCE(name, type, fold)                                                            \
    inline type name(unsigned mask, type value, sb_emu_site site = sb_emu_site::here())            \
    {                                                                                              \
        return sb_emu_warp<type, type>(#name, mask, value, sb_emu_fold<type, fold<type>>, site);   \
    }
SB_EMU_REDUCE(__reduce_add_sync, unsigned, sb_emu_plus)
SB_EMU_REDUCE(__reduce_add_sync, int, sb_emu_plus)
SB_EMU_REDUCE(__reduce_min_sync, unsigned, sb_emu_less)
SB_EMU_REDUCE(__reduce_min_sync, int, sb_emu_less)
SB_EMU_REDUCE(__reduce_max_sync, unsigned, sb_emu_more)
SB_EMU_REDUCE(__reduce_max_sync, int, sb_emu_more)
SB_EMU_REDUCE(__reduce_and_sync, unsigned, sb_emu_and)
SB_EMU_REDUCE(__reduce_or_sync, unsigned, sb_emu_or)
SB_EMU_REDUCE(__reduce_xor_sync, unsigned, sb_emu_xor)
#undef SB_EMU_REDUCE

inline unsigned __ballot_sync(unsigned mask, int predicate, sb_emu_site site = sb_emu_site::here())
{
    const unsigned bit = predicate ? 1u << sb_emu_lane() : 0;
    return sb_emu_warp<unsigned, unsigned>("__ballot_sync", mask, bit,
                                           sb_emu_fold<unsigned, sb_emu_or<unsigned>>, site);
}
inline int __any_sync(unsigned mask, int predicate, sb_emu_site site = sb_emu_site::here())
{
    return sb_emu_warp<int, int>("__any_sync", mask, predicate != 0,
                                 sb_emu_fold<int, sb_emu_or<int>>, site);
}
inline int __all_sync(unsigned mask, int predicate, sb_emu_site site = sb_emu_site::here())
{
    return sb_emu_warp<int, int>("__all_sync", mask, predicate != 0,
                                 sb_emu_fold<int, sb_emu_and<int>>, site);
}

#endif
