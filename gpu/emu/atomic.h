/* atomic.h - atomic operations on integers. There are none on floats, because the order of atomic
 * operations is not fixed. */
#ifndef SB_GPU_EMU_ATOMIC_H
#define SB_GPU_EMU_ATOMIC_H

#include "gpu/emu/grid.h"
#include "gpu/emu/pointer.h"

/* Applies `change` to *p and returns the old value. Other threads may go first: the order is drawn.
 */
template <class T, sb_emu_space S, class F> T sb_emu_atomic(sb_emu_pointer<T, S> p, F change)
{
    static_assert(std::is_integral_v<T>, "atomic operations are for integers");
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "atomic operations are for 4 and 8 bytes");
    sb_emu_pause();
    void *at = sb_emu_reach(&p.spot, sizeof(T), sizeof(T), SB_EMU_ATOMIC);
    T old;
    memcpy(&old, at, sizeof old);
    const T now = change(old);
    memcpy(at, &now, sizeof now);
    sb_emu_progress(old != now);
    return old;
}

template <class T> struct sb_emu_same {
    using type = T;
};
template <class T> using sb_emu_as = typename sb_emu_same<T>::type; /* no deduction of T */

#define SB_EMU_ATOMIC(name, expression)                                                            \
    template <class T, sb_emu_space S> T name(sb_emu_pointer<T, S> p, sb_emu_as<T> value)          \
    {                                                                                              \
        return sb_emu_atomic(p, [=](T old) { return static_cast<T>(expression); });                \
    }
SB_EMU_ATOMIC(atomicAdd, static_cast<std::make_unsigned_t<T>>(old) +
                             static_cast<std::make_unsigned_t<T>>(value))
SB_EMU_ATOMIC(atomicMin, old < value ? old : value)
SB_EMU_ATOMIC(atomicMax, old > value ? old : value)
SB_EMU_ATOMIC(atomicAnd, old &value)
SB_EMU_ATOMIC(atomicOr, old | value)
SB_EMU_ATOMIC(atomicXor, old ^ value)
SB_EMU_ATOMIC(atomicExch, (static_cast<void>(old), value))
#undef SB_EMU_ATOMIC

template <class T, sb_emu_space S>
T atomicCAS(sb_emu_pointer<T, S> p, sb_emu_as<T> wanted, sb_emu_as<T> value)
{
    return sb_emu_atomic(p, [=](T old) { return old == wanted ? value : old; });
}

#endif
