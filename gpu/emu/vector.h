/* vector.h - the vector types of CUDA, with its alignment. */
#ifndef SB_GPU_EMU_VECTOR_H
#define SB_GPU_EMU_VECTOR_H

#define SB_EMU_VECTOR(type, name)                                                                  \
    struct alignas(2 * sizeof(type)) name##2                                                       \
    {                                                                                              \
        type x, y;                                                                                 \
    };                                                                                             \
    struct alignas(4 * sizeof(type)) name##4                                                       \
    {                                                                                              \
        type x, y, z, w;                                                                           \
    };                                                                                             \
    inline name##2 make_##name##2(type x, type y)                                                  \
    {                                                                                              \
        return {x, y};                                                                             \
    }                                                                                              \
    inline name##4 make_##name##4(type x, type y, type z, type w)                                  \
    {                                                                                              \
        return {x, y, z, w};                                                                       \
    }
SB_EMU_VECTOR(unsigned char, uchar)
SB_EMU_VECTOR(signed char, char)
SB_EMU_VECTOR(unsigned short, ushort)
SB_EMU_VECTOR(short, short)
SB_EMU_VECTOR(unsigned, uint)
SB_EMU_VECTOR(int, int)
SB_EMU_VECTOR(float, float)
#undef SB_EMU_VECTOR

#endif
