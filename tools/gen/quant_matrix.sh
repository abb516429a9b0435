#!/usr/bin/env bash
# The matrix of quantizers: small models quantized by llm-compressor, AutoRound and ModelOpt, checked by
# `samebit`.
#
#   tools/gen/quant_matrix.sh OUT [NAME...]          write the folders and judge them
#   tools/gen/quant_matrix.sh --judge OUT [NAME...]  judge existing folders
#   tools/gen/quant_matrix.sh --write OUT            judge existing folders, and write docs/check/quantizers.md
#
# Each folder of tools/gen/quant/matrix.py gets: samebit info; check alone; check --against its source; run. If the
# library dequantizes the folder, also check --loaded with its values, and the run must give the logits of a run with
# these values in place of the quantized layers (FOLDER.plain), to the bit, under one law of dequantization (K-17).
# Prints one line per folder, then "N passed, N failed, N skipped". tools/gen/quant/matrix.expected lists folders with
# problems, the expected outcome and the reason: skip (the quantizer does not write the folder), refuse (samebit does
# not read it, and a WARN names the cause; it counts as skipped), fail NUMBER (the folder is unsound: an ERROR of that
# check, and evidence from the library's own code: FOLDER.claims, or a missing tensor).
set -uo pipefail

usage() { echo "usage: tools/gen/quant_matrix.sh [--judge|--write] OUT [NAME...]"; }
case "${1-}" in
    -h | --help) usage; exit 0 ;;
esac
judge_only=0 document=""
case "${1-}" in
    --judge) judge_only=1; shift ;;
    --write) judge_only=1 document=docs/check/quantizers.md; shift ;;
esac
if [ $# -lt 1 ]; then usage >&2; exit 2; fi
out=$1
shift
build=${BUILD:-build}
venvs=${VENVS:-$build}
samebit=$build/samebit
matrix=tools/gen/quant_matrix.py
expected=tools/gen/quant/matrix.expected
export OMP_NUM_THREADS=1 PYTHONHASHSEED=0
mkdir -p "$out/in"

chosen() { # NAME, names: 1 if there are names and NAME is none of them
    local name=$1 other
    shift
    [ $# -eq 0 ] && return 0
    for other in "$@"; do [ "$other" = "$name" ] && return 0; done
    return 1
}

make_environments() {
    local producer
    for producer in llmcompressor autoround modelopt; do
        tools/gen/venv.sh "$venvs/venv-$producer" "tools/gen/quant/requirements-$producer.txt" >/dev/null || exit 1
    done
}

write_sources() {
    local kind options
    while read -r kind options; do
        [ -e "$out/in/$kind/config.json" ] && continue
        if [ "$kind" = plain ]; then
            "$venvs/venv-autoround/bin/python" tools/gen/quant_fixtures.py input dense "$out/in/$kind"
        else
            # shellcheck disable=SC2086
            "$samebit" make "$out/in/$kind" $options >/dev/null
        fi || exit 1
    done < <(python3 "$matrix" sources)
}

write_folders() { # names; the three producers at the same time
    local producer names
    for producer in llmcompressor autoround modelopt; do
        names=$(python3 "$matrix" names | while read -r name by _; do
            [ "$by" = "$producer" ] && chosen "$name" "$@" && echo "$name"
        done)
        # shellcheck disable=SC2086
        [ -z "$names" ] ||
            "$venvs/venv-$producer/bin/python" "$matrix" make "$producer" "$out/in" "$out" $names >&2 &
    done
    wait
}

# The expected outcome of a folder: pass, or the word of matrix.expected.
expected_of() {
    awk -v name="$1" '$1 == name { print $2; found = 1 } END { if (!found) print "pass" }' "$expected"
}

# The number of the check that must fail for an unsound folder.
number_of() { awk -v name="$1" '$1 == name { print $3 }' "$expected"; }

reason_of() { awk -v name="$1" '$1 == name { sub("^[^ ]* [^ ]* ", ""); print }' "$expected"; }

# The law of dequantization under which a folder has the logits of its FOLDER.plain; fails if there is none.
law_of() { # folder, log
    local law logits=$2.logits
    "$samebit" run "$1.plain" --tokens 1,2,3 -n 4 --logits "$logits.plain.npy" >"$2.plain" 2>&1 || return 1
    for law in $("$samebit" info --knobs | sed -n 's/^dequant .*: //p'); do
        "$samebit" run "$1" --tokens 1,2,3 -n 4 --set "dequant=$law" --logits "$logits.npy" >"$2.law" 2>&1 || continue
        if cmp -s "$logits.npy" "$logits.plain.npy"; then
            echo "$law"
            return
        fi
    done
    return 1
}

# A line of the outcomes: name, outcome, warnings, whether the library's values were compared, the evidence.
note() { printf '%s\t%s\t%s\t%s\t%s\n' "$@" >>"$outcomes"; }

first_finding() { grep -a -m 1 -E '^ *(FATAL|ERROR)' "$1" | sed -e 's/^ *//' | cut -c 1-160; }

# Prints one line about a folder with the result of each step.
judge() { # name, kind, head
    local name=$1 source=$out/in/$2 folder=$out/$1 log=$out/$1.judged bad="" word law=""
    word=$(expected_of "$name")
    if [ ! -e "$folder/config.json" ]; then
        if [ "$word" = skip ]; then
            skipped=$((skipped + 1))
            note "$name" skipped 0 "" ""
            echo "SKIPPED $name: the quantizer does not write it: $(reason_of "$name")"
        else
            failed=$((failed + 1))
            echo "FAILED  $name: not written: $(tail -n 1 "$out/$name.log" 2>/dev/null | cut -c 1-160)"
        fi
        return
    fi
    if [ "$3" = head ]; then
        rm -rf "$folder.head"
        "$samebit" graft "$folder" --take 'mtp.*' --from "$source" -o "$folder.head" >"$log.graft" 2>&1 || bad="$bad graft"
        folder=$folder.head
    fi
    "$samebit" info "$folder" >"$log.info" 2>&1 || bad="$bad info"
    "$samebit" check "$folder" >"$log.alone" 2>&1 || bad="$bad alone"
    "$samebit" check "$folder" --against "$source" >"$log.against" 2>&1 || bad="$bad against"
    "$samebit" run "$folder" --tokens 1,2,3 -n 4 >"$log.run" 2>&1 || bad="$bad run"
    if [ -e "$out/$name.values.json" ]; then # of the folder as the library wrote it, without a grafted head
        "$samebit" check "$out/$name" --headers --loaded "$out/$name.values.json" >"$log.loaded" 2>&1
        grep -a -q '^LOADED PASS' "$log.loaded" || bad="$bad loaded"
        law=$(law_of "$out/$name" "$log") || bad="$bad logits"
    fi
    verdict "$name" "$word" "$bad" "$log" "$law"
}

# The evidence, without samebit, that a folder is unsound; fails if there is none.
shown_by() { # name
    local claims=$out/$1.claims
    if [ -s "$claims" ]; then
        echo "$(wc -l <"$claims") modules are called quantized and are floats, the first $(head -n 1 "$claims")"
    elif ! grep -a -q '"mtp\.' "$out/$1"/*.safetensors && grep -q '"mtp_num_hidden_layers": [1-9]' "$out/$1/config.json"; then
        echo "no tensor of the files begins with mtp., and config.json has mtp_num_hidden_layers above 0"
    else
        return 1
    fi
}

verdict() { # name, expected outcome, failed steps, logs, law
    local name=$1 word=$2 bad=$3 log=$4 held=1 warned outcome=$2 shown="" values=$5
    case $word in
        pass) [ -z "$bad" ] || held=0 ;;
        fail)
            outcome=unsound
            grep -a -q "^ERROR $(number_of "$name") " "$log.against" || held=0
            shown=$(shown_by "$name") || held=0
            ;;
        # the refusal must name the format, and not call the file truncated
        refuse)
            outcome=refused
            case $bad in *alone* | *against*) held=0 ;; *run*) ;; *) held=0 ;; esac
            grep -a -q 'not read' "$log.alone" || held=0
            ! grep -a -q -E 'download it again|was cut' "$log.alone" || held=0
            ;;
        *) held=0 ;;
    esac
    warned=$(grep -a -c -E '^ *WARN' "$log.against")
    if [ $held -eq 1 ] && [ "$word" = refuse ]; then
        skipped=$((skipped + 1))
        note "$name" "$outcome" "$warned" "$values" "$shown"
        echo "SKIPPED $name: samebit does not read it, and says so: $(reason_of "$name")"
    elif [ $held -eq 1 ]; then
        passed=$((passed + 1))
        note "$name" "$outcome" "$warned" "$values" "$shown"
        echo "ok      $name: $word${bad:+,$bad as expected}, $warned warnings${values:+, values and logits of the library, law $values}"
    else
        failed=$((failed + 1))
        note "$name" "as not expected" "$warned" "$values" ""
        echo "FAILED  $name: expected $word, bad:${bad:- nothing}: $(cat "$log".* 2>/dev/null | first_finding /dev/stdin)"
    fi
}

[ $judge_only -eq 1 ] || { make_environments && write_sources && write_folders "$@"; }
passed=0 failed=0 skipped=0
outcomes=$out/outcomes.tsv
: >"$outcomes"
while read -r name _ kind head; do
    if chosen "$name" "$@"; then judge "$name" "$kind" "$head"; fi
done < <(python3 "$matrix" names)
[ -z "$document" ] || python3 "$matrix" table "$outcomes" >"$document" || exit 1
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
