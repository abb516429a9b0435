#!/usr/bin/env bash
# Compares whole models in the emulator with the reference, in parts: tests/gpu/models.c.
#
#   tests/models.sh PART    one part
#   tests/models.sh --list  their names. With CHECK_ALL=1 also every format x preset x length of a prompt, one
#                           part per checkpoint. Under sanitizers, which take ten times as long: the short list
#                           with CHECK_ALL=1, otherwise none.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
models=${BUILD:-build}/tests/gpu/models
if [ "${1-}" != --list ]; then
    exec "$models" "$@"
elif [[ ${BUILD-} = */asan ]]; then
    [ "${CHECK_ALL-}" = 1 ] || exit 0
elif [ "${CHECK_ALL-}" = 1 ]; then
    exec "$models" --list-all
fi
exec "$models" --list
