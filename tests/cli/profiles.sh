#!/usr/bin/env bash
# docs/profiles.md and profiles.def agree about vllm, sglang, llamacpp and sm121: every setting has its row, every
# filled cell of a row with a knob has its setting, and every --set of the document runs.
. "$(dirname "$0")/lib.bash"

# differences DOCUMENT: one line for each difference. The tables of settings have the engines as columns. The knob of a
# row is written "name (K-n)", followed by a fixed value if all engines have the same.
differences() {
    awk -F'|' '
        function trim(s) { gsub(/^ +| +$/, "", s); return s }
        FNR == NR {
            if (match($0, /^SB_SET\((vllm|sglang|llamacpp|sm121[-a-z0-9]*), /)) {
                split(substr($0, 8), part, /[ ,()]+/)
                set[part[1], part[2]] = part[3]
            }
            next
        }
        /^\| \|.* (vllm \| sglang \| llamacpp|sm121 \| sm121-w8a8 \| sm121-w4a4) \|/ {
            split("", column)
            for (i = 2; i < NF; i++) column[trim($i)] = i
            reading = !($0 ~ /knob \|$/) # not the table in prose of the MTP head
            next
        }
        !/^\|/ { reading = 0 }
        reading && match($0, /[a-z0-9_]+ \(K-[0-9]+\)/) {
            knob = substr($0, RSTART, RLENGTH)
            sub(/ .*/, "", knob)
            rows++
            for (engine in column) {
                if (engine !~ /^(vllm|sglang|llamacpp|sm121.*)$/) continue
                cell = trim($column[engine])
                sub(/[:, ].*/, "", cell)
                told[engine, knob] = 1
                if (cell != set[engine, knob])
                    print engine, knob, "is \"" set[engine, knob] "\", the document has \"" cell "\""
            }
        }
        END {
            for (key in set) {
                split(key, part, SUBSEP)
                if (part[2] !~ /^mtp_/ && !(key in told)) print part[1], part[2], "has no row"
            }
            if (rows < 35) print "only", rows + 0, "rows"
        }' ref/ops/profiles.def "$1"
}

same() { [ -z "$(differences docs/profiles.md | tee /dev/stderr)" ]; }
check "the document and profiles.def differ" same

# the comparison sees a changed cell, an emptied cell, and a lost row
planted() { # planted SED: of a copy
    sed "$1" docs/profiles.md > "$work/copy.md"
    ! cmp -s docs/profiles.md "$work/copy.md" && [ -n "$(differences "$work/copy.md")" ]
}
check "a wrong value is not seen" planted '/moe_sum (K-14)/s/epilogue/after/'
check "an empty cell is not seen" planted '/kv_cache (K-24)/s/f16//'
check "a value too many is not seen" planted '/norm_weight (K-49)/s/| | | |$/| act | | |/'
check "a lost row is not seen" planted '/norm_input (K-48)/d'
check "a wrong value of sm121 is not seen" planted '/act_fp4 (K-18)/s/vllm_ref/fast/'
check "a lost row of sm121 is not seen" planted '/residual (K-53)/d'

# | who | `--profile NAME` or "the profile" | `knob=value ...` |
recipes() {
    sed -n 's/^| [^|]* | \(`--profile \([-a-z0-9]*\)`\|the profile\|any\) | `\([a-z0-9_= ]*=[a-z0-9_= ]*\)`.*|$/\2:\3/p' docs/profiles.md
}
run 0 make "$work/ckpt" --preset T1 --recipe predictable
check "few recipes in the document" test "$(recipes | wc -l)" -ge 15
while IFS=: read -r profile settings; do
    options=()
    for setting in $settings; do
        options+=(--set "$setting")
    done
    run 0 run "$work/ckpt" --tokens 1,2,3 -n 1 --profile "${profile:-vllm}" "${options[@]}"
done < <(recipes)

finish
