#!/usr/bin/env bash
# diff and trace of sequences whose sampler is declared (U-12): the right declaration passes, and every token is
# replayed; a wrong one fails, and without it the same tokens pass.
. "$(dirname "$0")/lib.bash"
export TMPDIR=$work

t4=$work/T4
run 0 make "$t4" --preset T4 --recipe plain
printf '1,2,3\n1,2,3\n' > "$work/two.ids"
run 0 run "$t4" --tokens-file "$work/two.ids" -n 48 --temp 20 --top-k 5 --seed 42 --backend sim:sequential \
    --trace "$work/right"

# edited SED: $work/trace is a copy of the trace with this edit
edited() {
    rm -rf "$work/trace"
    cp -r "$work/right" "$work/trace"
    sed -i "$1" "$work/trace/trace.json"
    check "nothing was edited by $1" test "$(cmp -s "$work/right/trace.json" "$work/trace/trace.json"; echo $?)" = 1
}
# declared SED: the same without the generator, so that only support and frequencies are judged
declared() {
    edited "s/, \"generator\": \"philox\"//; $1"
}

# --- the right declaration -----------------------------------------------------------------------------------
run 0 trace "$work/right" --checkpoint "$t4"
says '2 sequences declare their samplers, the first: temperature 20, top_k 5, top_p 1, min_p 0'
run 0 diff "$t4" --engine "$work/right" --json
at sampler.draws 96
at sampler.replayed 96
at sampler.outside 0
at sampler.not_declared ''
run 0 diff "$t4" --engine "$work/right"
says 'sampler: 96 draws of 2 sequences: 0 cannot be drawn'
says 'sampler: so few draws do not show whether'

# --- without a declaration -----------------------------------------------------------------------------------
edited 's/, "sampling": \[[^]]*\]//'
run 0 diff "$t4" --engine "$work/trace" --sampled
says 'no sampler is declared (U-12), so any token passes as a draw'
run 1 diff "$t4" --engine "$work/trace"
says 'token'

# --- wrong declarations --------------------------------------------------------------------------------------
declared 's/"top_k": 5/"top_k": 4/g'
run 1 diff "$t4" --engine "$work/trace"
says_err 'which no correct sampler draws here'
says_err 'it draws as if top_k were one more'
edited 's/"seed": 42/"seed": 43/g'
run 1 diff "$t4" --engine "$work/trace"
says_err 'the generator philox with seed 43 does not give'

# --- what is not declared ------------------------------------------------------------------------------------
declared 's/"temperature": 20.0, "top_k": 5/"top_k": 5/g'
run 0 diff "$t4" --engine "$work/trace"
says 'not declared, so any value may be meant: temperature'
run 0 diff "$t4" --engine "$work/trace" --json
at sampler.tested 0

# --- refused, and contradictions -----------------------------------------------------------------------------
edited 's/"version": 3/"version": 2/'
run 3 trace "$work/trace"
edited 's/"top_p": 1.0/"top_p": 1.5/'
run 3 trace "$work/trace"
says_err 'expected a number above 0 and at most 1'
edited 's/"sampler": "samebit"/"sampler": "mine"/'
run 3 trace "$work/trace"
says_err 'is "mine", expected a sampler of U-12'
edited 's/"sampling": \[{"sequence": 1/"sampling": [{"sequence": 7/'
run 1 trace "$work/trace"
says 'sampling: step'
says 'sequence 7: declares its sampler, but has neither rows nor a state in this step'
finish
