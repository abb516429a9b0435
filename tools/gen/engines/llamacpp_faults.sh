#!/usr/bin/env bash
# Records llama.cpp as it is and with every mistake of tools/record/llamacpp/faults.def, in a mixture, a dense model and
# a Qwen3-Next, and judges the traces: tools/gen/engines/llamacpp_faults.sh OUT [RESULT.json]
#
# OUT/T1, OUT/T4 and OUT/T5 get the traces. Without RESULT.json the result is golden/engines/inside/llamacpp.json, for
# table.py. Needs build/llamacpp and build/venv-hf (make engines). Exit status 1 if a mistake is not found at its op.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
out=${1:?usage: tools/gen/engines/llamacpp_faults.sh OUT [RESULT.json]}
build=${BUILD:-build}
python=$build/venv-hf/bin/python
here=tools/gen/engines
pairs=() status=0
for preset in T1 T4 T5; do
    folder=$out/$preset-predictable
    [ -d "$folder" ] || "${SAMEBIT:-$build/samebit}" make "$folder" --preset $preset --recipe predictable --tokenizer > /dev/null
    drafts=2
    [ $preset != T5 ] || drafts=0 # llama.cpp cannot roll back the state of a Qwen3-Next
    "$python" $here/llamacpp_record.py "$folder" "$out/$preset" $drafts || status=1
    pairs+=("$out/$preset" "$folder")
done
"$python" $here/faults.py llamacpp "${pairs[@]}" ${2:+--out "$2"} || status=1
exit $status
