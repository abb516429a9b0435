#!/usr/bin/env bash
# The definition (SAMEBIT_ISA=exact: ref/ops, plain loops over exact sums) and its twin (ref/fast) print the same
# document for whole models, digests of logits and states included: every preset, every profile, and formats that
# quantize their inputs.
. "$(dirname "$0")/lib.bash"

# both FOLDER OPTION...: the definition and the twin print the same document of a run
both() {
    local folder=$1
    shift
    run 0 run "$folder" --tokens 5,6,7 -n 2 --json "$@"
    cp "$out" "$work/twin"
    at logits_digest.length 2
    SAMEBIT_ISA=exact run 0 run "$folder" --tokens 5,6,7 -n 2 --json "$@"
    check "another document by the definition: ${folder##*/} $*" cmp "$out" "$work/twin"
}

mapfile -t profiles < <(sed -n 's/^SB_PROFILE(\([^,]*\),.*/\1/p' ref/ops/profiles.def)
check "no profiles in ref/ops/profiles.def" test ${#profiles[@]} -ge 9
for preset in T1 T2 T3 T4 T5 T6; do
    make_checkpoint $preset --preset $preset
    both "$work/$preset"
done
for profile in "${profiles[@]}"; do # profiles that only quantize inputs run with formats below
    case $profile in exact | *w4a4 | *w8a8) ;; *) both "$work/T1" --profile "$profile" ;; esac
done
both "$work/T1" --draft 2

for format in nvfp4-ct fp8-block fp8-channel mxfp4 mxfp8 int4-gptq; do
    case $format in nvfp4*) profile=w4a4 ;; fp8*) profile=w8a8 ;; *) profile=hf ;; esac
    make_checkpoint $format --preset T4 --format $format
    both "$work/$format" --profile $profile
done

# `info --machine` says which one runs
SAMEBIT_ISA=exact run 0 info --machine
says "dot product kernels: exact"
finish
