#include "tools/cli/closest.h"

#include <string.h>

#include "ref/base/text.h"

enum { MOST = 2, LONGEST = 32 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The restricted Damerau-Levenshtein distance of two short words. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = least(d[i][j], least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

void sb_closest_try(sb_closest *closest, const char *name)
{
    const size_t n = strlen(closest->word), m = strlen(name);
    size_t apart;
    if (n == 0 || m == 0 || n > LONGEST || m > LONGEST)
        return;
    if (sb_starts(name, closest->word) || (m >= 3 && sb_starts(closest->word, name)))
        apart = 0;
    else
        apart = distance(closest->word, n, name, m);
    if (apart > least(MOST, n / 3) || (closest->name && apart >= closest->distance))
        return;
    closest->name = name;
    closest->distance = apart;
}
