/* normal_avx512.c - sb_rng_normal of eight indices at once; integer arithmetic, so the numbers are
 * the same. */
#include "tools/make/normal.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512dq")))
#define INLINE AVX512 static inline __attribute__((always_inline))

/* mix of ref/base/rng.c */
INLINE __m512i mix(__m512i z)
{
    const __m512i first = _mm512_set1_epi64((long long)0xbf58476d1ce4e5b9u);
    const __m512i second = _mm512_set1_epi64((long long)0x94d049bb133111ebu);
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 30)), first);
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 27)), second);
    return _mm512_xor_si512(z, _mm512_srli_epi64(z, 31));
}

/* The three numbers of 21 bits in a word. */
INLINE __m512i thirds(__m512i bits)
{
    const __m512i low = _mm512_set1_epi64(0x1fffff);
    __m512i sum = _mm512_add_epi64(_mm512_srli_epi64(bits, 43), _mm512_and_si512(bits, low));
    return _mm512_add_epi64(sum, _mm512_and_si512(_mm512_srli_epi64(bits, 22), low));
}

AVX512 static size_t normals(uint64_t key, uint64_t first, size_t n, float *out)
{
    const uint64_t step = 0x9e3779b97f4a7c15u;
    const __m512i keys = _mm512_set1_epi64((long long)key);
    const __m512i lanes = _mm512_mullo_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0),
                                             _mm512_set1_epi64((long long)(4 * step)));
    __m512i from = _mm512_add_epi64(_mm512_set1_epi64((long long)(key + 4 * first * step)), lanes);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m512i sum = _mm512_set1_epi64(-6 * (1ll << 21));
        for (uint64_t j = 0; j < 4; j++) {
            __m512i at = _mm512_add_epi64(from, _mm512_set1_epi64((long long)(j * step)));
            sum = _mm512_add_epi64(sum, thirds(mix(_mm512_add_epi64(mix(at), keys))));
        }
        __m512d value = _mm512_mul_pd(_mm512_cvtepi64_pd(sum), _mm512_set1_pd(0x1p-21));
        _mm256_storeu_ps(out + i, _mm512_cvtpd_ps(value));
        from = _mm512_add_epi64(from, _mm512_set1_epi64((long long)(32 * step)));
    }
    return i;
}

static int supported(void)
{
    static int answer = -1; /* under a hypervisor CPUID takes microseconds */
    if (answer < 0) {
        __builtin_cpu_init();
        answer = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
    }
    return answer;
}

size_t sb_normals_avx512(uint64_t key, uint64_t first, size_t n, float *out)
{
    return supported() ? normals(key, first, n, out) : 0;
}

#else

size_t sb_normals_avx512(uint64_t key, uint64_t first, size_t n, float *out)
{
    (void)key;
    (void)first;
    (void)n;
    (void)out;
    return 0;
}

#endif
