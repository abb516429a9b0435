#include "tools/check/scan/content.h"

#include <string.h>

int sb_is_periodic(const unsigned char *bytes, size_t count, size_t most)
{
    for (size_t period = 1; period <= most && period < count; period++)
        if (memcmp(bytes, bytes + period, count - period) == 0)
            return 1;
    return 0;
}

/* Two bytes drawn with these frequencies are equal with probability p, and all `count` pairs of
 * bytes with p^count. log2 p is computed in sixteenths, from p^16. */
unsigned sb_bits_said(const unsigned char *bytes, size_t count)
{
    size_t seen[256] = {0};
    double p = 0;
    unsigned sixteenths = 0;
    for (size_t i = 0; i < count; i++)
        seen[bytes[i]]++;
    for (unsigned i = 0; i < 256; i++) {
        double share = (double)seen[i] / (double)(count ? count : 1);
        p += share * share;
    }
    for (unsigned i = 0; i < 4; i++)
        p *= p;
    while (p > 0 && p <= 0.5) {
        p *= 2;
        sixteenths++;
    }
    return (unsigned)((double)sixteenths * (double)count / 16);
}
