#!/usr/bin/env bash
# Records to OUT the folders of the real quantizers, and the values that these read back.
#
#   tools/gen/quant_record.sh OUT           record (network at the first call: three environments)
#   tools/gen/quant_record.sh --check DIR   compare golden/quant with the recording in DIR
#
# OUT receives codecs, activations, act-ct and act-modelopt.safetensors, and for each fixture the
# folder NAME, NAME.expect.json and NAME.expect.safetensors, and in/KIND, the quantizers' inputs;
# the tensors of kind moe are also in moe-mtp. golden/quant is made this way.
#
# Each quantizer has its own environment, build/venv-NAME, with the packages pinned in
# tools/gen/quant/requirements-NAME.txt; the three take 6 GB. Each has its own torch: llmcompressor
# needs another version than the others, and sharing between the other two would save 1.5 GB but
# make one environment depend on the path of the other.
set -euo pipefail

usage() { echo "usage: tools/gen/quant_record.sh OUT | --check DIR"; }
case "${1-}" in
    -h | --help) usage; exit 0 ;;
esac
build=${BUILD:-build}
fixtures=tools/gen/quant_fixtures.py
export OMP_NUM_THREADS=1
export PYTHONHASHSEED=0 # AutoRound writes a set's order to a list in config.json

python_of() { echo "$build/venv-$1/bin/python"; }

if [ $# -eq 2 ] && [ "$1" = --check ]; then
    exec "$(python_of autoround)" "$fixtures" check golden/quant "$2"
fi
if [ $# -ne 1 ]; then usage >&2; exit 2; fi
out=$1
mkdir -p "$out"

for name in llmcompressor autoround modelopt; do
    tools/gen/venv.sh "$build/venv-$name" "tools/gen/quant/requirements-$name.txt"
done

# One process per folder: a quantizer may leave changes in the classes that it patches.
record() { # command, environment
    local python name
    python=$(python_of "$2")
    for name in $("$python" "$fixtures" "$1" --names); do
        rm -rf "${out:?}/$name"
        "$python" "$fixtures" "$1" "$out/$name" >"$out/$name.log" 2>&1 || {
            cat "$out/$name.log" >&2
            exit 1
        }
        tail -n 1 "$out/$name.log"
        rm "$out/$name.log"
    done
}
for kind in dense moe-mtp; do
    "$(python_of autoround)" "$fixtures" input "$kind" "$out/in/$kind"
done
"$(python_of autoround)" "$fixtures" codecs "$out/codecs.safetensors"
"$(python_of llmcompressor)" "$fixtures" act-ct "$out/act-ct.safetensors"
"$(python_of modelopt)" "$fixtures" act-modelopt "$out/act-modelopt.safetensors"
PYTHONPATH=tools/gen "$(python_of llmcompressor)" tools/gen/quant/activations.py \
    "$out/activations.safetensors"
record ct llmcompressor
record autoround autoround
record modelopt modelopt
chmod -R a+rX "$out" # the safetensors package makes files readable only for their owner
