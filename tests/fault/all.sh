#!/usr/bin/env bash
# The fault list: a part of it in every check, all of it and many tokens of correct engines with
# CHECK_ALL=1, 100000 of them unless FAULT_TOKENS says otherwise.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
SAMEBIT=${SAMEBIT:-${BUILD:-build}/samebit}
if [ "${CHECK_ALL-}" = 1 ]; then
    "$SAMEBIT" fault --all --quiet --tokens "${FAULT_TOKENS:-100000}" &&
        "$SAMEBIT" fault --sensitivity
else
    "$SAMEBIT" fault F24 F35 op.delta_rule.sign session.conv_forgotten --quiet --tokens 60 &&
        "$SAMEBIT" fault at.expert-down at.slot-early-head at.bonus-not-fed sound.pages --quiet --tokens 0 &&
        "$SAMEBIT" fault F17 F18 'kernel.linear_*' 'kernel.*_barrier' --quiet --tokens 0 &&
        "$SAMEBIT" fault 'kernel.none.w*' --quiet --tokens 0 &&
        "$SAMEBIT" fault draw.outside sound.draw.mt19937 --quiet --tokens 0
fi
status=$?
[ $status = 0 ] && echo "1 passed, 0 failed, 0 skipped" || echo "0 passed, 1 failed, 0 skipped"
exit $status
