#include "tools/judge/fault/peers.h"

const char *sb_peer_name(sb_peer peer)
{
    static const char *const names[] = {"assert_close", "nmse_1e-2", "cosine_0.99", "top-1"};
    return names[peer];
}

static double magnitude(double x)
{
    return x < 0 ? -x : x;
}

/* |found - expected| <= atol + rtol |expected|; false if a value is not finite. */
static int is_close(double expected, double found, int narrow)
{
    double rtol = narrow ? 1.6e-2 : 1.3e-6, atol = 1e-5;
    return magnitude(found - expected) <= atol + rtol * magnitude(expected);
}

void sb_peers_row(sb_peers *peers, const float *expected, const float *found, size_t n, int narrow)
{
    double error = 0, square = 0, other = 0, product = 0;
    for (size_t i = 0; i < n; i++) {
        double x = (double)expected[i], y = (double)found[i];
        peers->caught[SB_PEER_close] |= !is_close(x, y, narrow);
        error += (x - y) * (x - y);
        square += x * x;
        other += y * y;
        product += x * y;
    }
    /* cosine < 0.99 without a square root: compares signs, then squares */
    double cosine2 = square > 0 && other > 0 ? product * product / (square * other) : 0;
    if (product < 0 || !(cosine2 >= 0.99 * 0.99))
        peers->caught[SB_PEER_cosine] = 1;
    if (sb_greedy(expected, n) != sb_greedy(found, n))
        peers->caught[SB_PEER_top1] = 1;
    peers->nmse = square > 0 ? error / square : 1;
    peers->rows++;
}

void sb_peers_end(sb_peers *peers)
{
    peers->caught[SB_PEER_nmse] = peers->rows > 0 && !(peers->nmse <= 1e-2);
}
