#!/usr/bin/env bash
# Tests the plug-ins of tools/record with stand-ins for their engines (plugins_test.py): their traces must be
# complete and, like the given numbers, within the bounds.
#
#   tools/record/plugins.sh WORK
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=${1:?usage: tools/record/plugins.sh WORK}
samebit=${BUILD:-build}/samebit
python=${PYTHON:-${BUILD:-build}/venv-hf/bin/python}

for file in tools/record/*.py; do "$python" -m py_compile "$file"; done
rm -rf "$work"
mkdir -p "$work"
"$samebit" make "$work/T1" --preset T1 --recipe predictable > /dev/null
run() { # NAME OPTION...
    "$samebit" run "$work/T1" --backend sim:sequential --trace "$work/$1" --taps 'all,state.*' "${@:2}" > /dev/null
}
run plain --tokens 1 -n 8
run rounds --tokens 1,2,3 -n 8 --draft 2 # 8: the last round is whole, as an engine computes it
"$python" tools/record/plugins_test.py "$work/plain" "$work/rounds" "$work/out"
for name in vllm vllm-plain sglang sglang-plain mlx; do
    "$samebit" trace "$work/out/$name" --checkpoint "$work/T1"
    "$samebit" diff "$work/T1" --engine "$work/out/$name" --free
done
