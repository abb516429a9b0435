/* pointer.h - the pointers of emulated kernels. They know their bounds, and every access is
 * checked.
 *
 * On a device sb_global and sb_shared are plain pointers (gpu/native/cuda.h). A kernel may use only
 * operations that both support: p[i], *p, p + n, p - q, comparisons, sb_cast for another type, and
 * sb_part for a part. p[i] is a proxy of an element: read it into a variable of a named type, never
 * `auto`. */
#ifndef SB_GPU_EMU_POINTER_H
#define SB_GPU_EMU_POINTER_H

#include <string.h>
#include <type_traits>

#include "gpu/emu/memory.h"

enum sb_emu_space { SB_EMU_GLOBAL, SB_EMU_SHARED };

template <class T> struct sb_emu_element {
    using value = std::remove_const_t<T>;
    sb_emu_spot spot;

    char *reach(sb_emu_access access) const /* works on a copy, to keep `spot` in registers */
    {
        const sb_emu_spot here = {spot.region, spot.at, spot.low, spot.high};
        return static_cast<char *>(sb_emu_reach(&here, sizeof(value), alignof(value), access));
    }
    value get() const
    {
        value v;
        const bool simple = sb_emu_inside(spot, sizeof v, alignof(value)) && !sb_emu_early &&
                            (!spot.region->state || sb_emu_has_values<sizeof v>(spot));
        memcpy(&v, simple ? spot.region->base + spot.at : reach(SB_EMU_READ), sizeof v);
        return v;
    }
    void put(const value &v) const
    {
        static_assert(!std::is_const_v<T>, "a store through a pointer to const");
        if (sb_emu_inside(spot, sizeof v, alignof(value)) && !sb_emu_early &&
            sb_emu_may_change<sizeof v>(spot)) {
            memset(spot.region->state + spot.at, SB_EMU_SET, sizeof v);
            memcpy(spot.region->base + spot.at, &v, sizeof v);
        } else {
            memcpy(reach(SB_EMU_WRITE), &v, sizeof v);
        }
    }
    operator value() const
    {
        return get();
    }
    const sb_emu_element &operator=(const value &v) const
    {
        put(v);
        return *this;
    }
    sb_emu_element(const sb_emu_spot &where) : spot(where)
    {
    }
    sb_emu_element(const sb_emu_element &other) = default;
    const sb_emu_element &operator=(const sb_emu_element &other) const
    {
        put(other.get());
        return *this;
    }
    sb_emu_element &operator=(const sb_emu_element &other)
    {
        put(other.get());
        return *this;
    }
    template <class U> const sb_emu_element &operator+=(const U &v) const
    {
        put(static_cast<value>(get() + v));
        return *this;
    }
    template <class U> const sb_emu_element &operator-=(const U &v) const
    {
        put(static_cast<value>(get() - v));
        return *this;
    }
    template <class U> const sb_emu_element &operator|=(const U &v) const
    {
        put(static_cast<value>(get() | v));
        return *this;
    }
    template <class U> const sb_emu_element &operator^=(const U &v) const
    {
        put(static_cast<value>(get() ^ v));
        return *this;
    }
};

template <class T, sb_emu_space S> class sb_emu_pointer
{
  public:
    sb_emu_spot spot = {nullptr, 0, 0, 0};

    sb_emu_pointer() = default;
    sb_emu_pointer(decltype(nullptr))
    {
    }
    explicit sb_emu_pointer(const sb_emu_spot &where) : spot(where)
    {
    }
    /* A pointer to a whole registered buffer, as the host passes it to a kernel. */
    explicit sb_emu_pointer(sb_emu_region *region)
        : spot({region, 0, 0, static_cast<int64_t>(region->bytes)})
    {
    }
    operator sb_emu_pointer<const T, S>() const
    {
        return sb_emu_pointer<const T, S>(spot);
    }
    template <class I> sb_emu_element<T> operator[](I i) const
    {
        return sb_emu_element<T>((*this + i).spot);
    }
    sb_emu_element<T> operator*() const
    {
        return sb_emu_element<T>(spot);
    }
    template <class I> sb_emu_pointer operator+(I i) const
    {
        static_assert(std::is_integral_v<I>, "an index is an integer");
        sb_emu_pointer p = *this;
        p.spot.at += static_cast<int64_t>(i) * static_cast<int64_t>(sizeof(T));
        return p;
    }
    template <class I, class = std::enable_if_t<std::is_integral_v<I>>>
    sb_emu_pointer operator-(I i) const
    {
        return *this + -static_cast<int64_t>(i);
    }
    int64_t operator-(const sb_emu_pointer &other) const
    {
        return (spot.at - other.spot.at) / static_cast<int64_t>(sizeof(T));
    }
    template <class I> sb_emu_pointer &operator+=(I i)
    {
        return *this = *this + i;
    }
    template <class I> sb_emu_pointer &operator-=(I i)
    {
        return *this = *this - i;
    }
    sb_emu_pointer &operator++()
    {
        return *this += 1;
    }
    explicit operator bool() const
    {
        return spot.region != nullptr;
    }
    friend bool operator==(const sb_emu_pointer &p, const sb_emu_pointer &q)
    {
        return p.spot.region == q.spot.region && p.spot.at == q.spot.at;
    }
    friend bool operator!=(const sb_emu_pointer &p, const sb_emu_pointer &q)
    {
        return !(p == q);
    }
    friend bool operator<(const sb_emu_pointer &p, const sb_emu_pointer &q)
    {
        return p.spot.at < q.spot.at;
    }
};

template <class T> using sb_global = sb_emu_pointer<T, SB_EMU_GLOBAL>;
template <class T> using sb_shared = sb_emu_pointer<T, SB_EMU_SHARED>;

/* A pointer to the same bytes, as elements of another type. */
template <class U, class T, sb_emu_space S> sb_emu_pointer<U, S> sb_cast(sb_emu_pointer<T, S> p)
{
    static_assert(std::is_const_v<U> || !std::is_const_v<T>, "this would forget a const");
    return sb_emu_pointer<U, S>(p.spot);
}

/* A pointer that may access only the `count` elements from p on. */
template <class T, sb_emu_space S, class I>
sb_emu_pointer<T, S> sb_part(sb_emu_pointer<T, S> p, I count)
{
    const int64_t end = p.spot.at + static_cast<int64_t>(count) * static_cast<int64_t>(sizeof(T));
    p.spot.low = p.spot.low > p.spot.at ? p.spot.low : p.spot.at;
    p.spot.high = p.spot.high < end ? p.spot.high : end;
    return p;
}

template <class T> std::remove_const_t<T> __ldg(sb_global<T> p)
{
    sb_emu_read_only(&p.spot);
    return *p;
}
template <class T> std::remove_const_t<T> sb_load_if(bool there, sb_global<T> p)
{
    return there ? *p : std::remove_const_t<T>{};
}
template <class T> std::remove_const_t<T> sb_load_weight(sb_global<T> p)
{
    sb_emu_read_only(&p.spot);
    return *p;
}

#endif
