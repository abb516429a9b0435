#include "tools/check/scan/nibble_spreads.h"

static const int twice[8] = {0, 1, 2, 3, 4, 6, 8, 12};

/* With x as twice the value of a code: 16 times the sum of x^2, minus the square of the sum of
 * x, is 16^2 times the variance of x. */
void sb_spreads_plain(const uint64_t codes[SB_FIT_WINDOW], unsigned n, sb_fit_keys keys)
{
    for (unsigned i = 0; i < n; i++) {
        int sum = 0, squares = 0;
        for (uint64_t left = codes[i]; left; left >>= 4) {
            int x = twice[left & 7];
            sum += left & 8 ? -x : x;
            squares += x * x;
        }
        keys[i] = (int16_t)(16 * squares - sum * sum - (1 << 15));
    }
}

sb_spreads_fn *sb_spreads(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2"))
        return sb_spreads_avx2;
#endif
    return sb_spreads_plain;
}
