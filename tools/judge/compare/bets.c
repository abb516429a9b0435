#include "tools/judge/compare/bets.h"

#include "tools/judge/bound/wide_fn.h"

double sb_bet_on_event(double logs[SB_STAKES], int happened, double chance)
{
    static const double stakes[SB_STAKES] = {0.5, 0.1};
    double most = -0x1p1000;
    for (int i = 0; i < SB_STAKES; i++) {
        logs[i] +=
            happened ? sb_wide_log1p(stakes[i] * (1 - chance) / chance) : sb_wide_log1p(-stakes[i]);
        most = sb_wide_max(most, logs[i]);
    }
    return most;
}
