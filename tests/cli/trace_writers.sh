#!/usr/bin/env bash
# tools/record/samebit_trace.h compiles everywhere without a warning. The traces that the example of docs/trace.md
# writes with it are complete, reach their level, and have the given numbers. Misuse leaves no trace. PYTHON, and rustc
# in RUSTC, run the other examples, which write the same bytes (`make crosscheck`).
. "$(dirname "$0")/lib.bash"
example=$helpers/trace_example
numbers=$work/numbers

# --- compilers --------------------------------------------------------------------------------------------
compiled() { # COMPILER OPTION...
    check "$* compiles samebit_trace.h" "$@" -Wall -Wextra -pedantic -Wconversion -Wshadow -Werror -I. -o "$work/compiled" \
        tests/cli/trace_example.c
}
compiled "${CC:-cc}" -std=c99
for compiler in gcc clang; do
    command -v $compiler > "$work/which" || continue
    compiled $compiler -std=c11 -O3
done
for compiler in g++ clang++; do
    command -v $compiler > "$work/which" || continue
    compiled $compiler -std=c++11 -x c++
    example=$work/as-cxx && cp "$work/compiled" "$example"
done

# --- the numbers of an engine, and the run of the document ------------------------------------------------
make_checkpoint t1 --preset T1 --recipe predictable
run 0 run "$work/t1" --backend sim:sequential --tokens 1,2,3 -n 5 --draft 1 --trace "$work/sim" --taps 'all,state.*'
mkdir "$numbers"
"$helpers/trace_raw" "$work/sim" logits > "$numbers/logits.f32"
"$helpers/trace_raw" "$work/sim" layers.0.linear_attn.g > "$numbers/g.f32"
"$helpers/trace_raw" "$work/sim" state.layers.0.linear_attn.conv_state > "$numbers/conv_state.f32"
check "no numbers" test "$(wc -c < "$numbers/logits.f32")" = $((5 * 384 * 4))

block() { awk -v wanted="$1" '/^```json/ { on = ++n == wanted; next } /^```/ { on = 0 } on' docs/trace.md; }
plain() { tr -s ' \n' ' ' | sed 's/ $//; s/\[ /[/g'; }
for level in 0 1 2 3 4; do
    check "level $level is written" "$helpers/trace_example" "$work/$level" $level "$numbers"
    [ "$example" = "$helpers/trace_example" ] || {
        check "level $level is written by C++" "$example" "$work/cxx-$level" $level "$numbers"
        check "C++ writes other bytes" diff -r "$work/$level" "$work/cxx-$level"
    }
    run 0 trace "$work/$level" --checkpoint "$work/t1" --json
    at level $level
    at found 0
    at unknown 0
    at head.engine 'mine 1.0'
    check "a file is left" test -z "$(find "$work/$level" -name '*.part')"
done
# docs/trace.md shows the text that is written: all of level 0, a round, the state at the end
shown() { # BLOCK LEVEL
    check "docs/trace.md, block $1, is not what is written at level $2" \
        grep -qF -- "$(block "$1" | plain)" <(plain < "$work/$2/trace.json")
}
shown 1 0
shown 2 2
shown 3 3
check "docs/trace.md: logits_rows" grep -qF '"logits_rows": [2]' "$work/1/trace.json"
check "docs/trace.md: step 2" grep -qF '"states": [{"sequence": 0, "position": 5}]' "$work/3/trace.json"
for level in 1 2 3 4; do
    [ $level -lt 4 ] || free=--free # one tap does not judge every op
    run 0 diff "$work/t1" --engine "$work/$level" ${free-}
done
# a wrong number is detected
cp -r "$numbers" "$work/planted"
printf '\x40' | dd of="$work/planted/logits.f32" bs=1 seek=$((3 * 384 * 4 + 3)) conv=notrunc 2> "$work/dd"
check "a trace of wrong numbers" "$helpers/trace_example" "$work/wrong" 2 "$work/planted"
run 1 diff "$work/t1" --engine "$work/wrong"

# --- misuse leaves no trace.json ----------------------------------------------------------------------------
check "a folder that is there" test ! "$("$helpers/trace_example" "$work/0" 0 "$numbers" 2>&1)" = ''
check "the level that is none" test ! "$("$helpers/trace_example" "$work/5" 5 "$numbers" 2>&1)" = ''
check "it left a folder" test ! -e "$work/5/trace.json"
cat > "$work/misuse.c" <<'C'
#include "tools/record/samebit_trace.h"
int main(int argc, char **argv)
{
    char text[256];
    const uint32_t ids[] = {1, 2, 384};
    int which = atoi(argv[argc - 1]);
    sbt_trace *t = sbt_open(argv[1], "mine \"1.0\"", 384, which == 3 ? 2 : 0);
    sbt_sequence s = sbt_new_sequence(t, -1);
    sbt_prompt(t, &s, ids, which == 1 ? 3 : 2);
    if (which == 2)
        sbt_decode(t, &s, 2);
    sbt_sequence other = sbt_new_sequence(t, -1);
    if (which == 4)
        sbt_verify(t, &other, 1, ids, 1, 2, ids, 1);
    sbt_end_call(t);
    if (which == 5)
        sbt_head(t, "note", "late");
    if (which == 6)
        sbt_forced(t);
    if (sbt_finish(t, text, sizeof text) == 0)
        return 0;
    puts(text);
    return 1;
}
C
check "misuse compiles" "${CC:-cc}" -std=c11 -Wall -I. -o "$work/misuse" "$work/misuse.c"
misuse() { # NUMBER MESSAGE
    "$work/misuse" "$work/m$1" "$1" > "$out"
    says "$2"
    check "misuse $1 leaves trace.json" test ! -e "$work/m$1/trace.json"
    run 3 trace "$work/m$1"
}
misuse 1 'token id is 384, expected an id below 384'
misuse 2 'sequence 0 was fed twice in one call'
misuse 3 'sequence 0 has no slot'
misuse 4 'accepted is 2, expected 0 to 1, the number of drafts'
misuse 5 'note: was set after the first call, expected before it'
misuse 6 'sbt_forced was called without sbt_verify before it'
check "the same without misuse" "$work/misuse" "$work/m0" 0
run 0 trace "$work/m0" --json
at head.engine 'mine "1.0"'

# --- what version 2 adds -----------------------------------------------------------------------------------
cat > "$work/two.c" <<'C'
#include "tools/record/samebit_trace.h"
int main(int argc, char **argv)
{
    char text[256];
    const uint32_t ids[] = {1, 2, 3};
    sbt_trace *t = sbt_open(argv[argc - 1], "mine 1.0", 384, 0);
    sbt_sequence s = sbt_new_sequence(t, 0);
    sbt_head(t, "rollback", "replay");
    sbt_head(t, "drafter", "external");
    sbt_head_number(t, "delta_chunk", 128);
    sbt_prompt(t, &s, ids, 2);
    sbt_end_call(t);
    for (int i = 0; i < 2; i++) {
        sbt_verify(t, &s, i ? 2 : 3, ids, 1, 0, ids + 1, 1);
        if (i)
            sbt_forced(t);
        sbt_end_call(t);
    }
    return sbt_finish(t, text, sizeof text) != 0;
}
C
check "version 2 compiles" "${CC:-cc}" -std=c11 -Wall -I. -o "$work/two" "$work/two.c"
check "version 2 is written" "$work/two" "$work/v2"
run 0 trace "$work/v2" --json
at head.engine 'mine 1.0'
check "the head of version 2" \
    grep -qF '"rollback": "replay", "drafter": "external", "delta_chunk": 128' "$work/v2/trace.json"
check "one round is forced, the second" \
    test "$(grep -o '"emitted": \[2\][^}]*}' "$work/v2/trace.json" | tr -d '\n')" = '"emitted": [2]}"emitted": [2], "forced": true}'

# --- what version 3 adds: the example of a hit of the prefix cache, and declared samplers ------------------
cat > "$work/three.c" <<'C'
#include "tools/record/samebit_trace.h"
int main(int argc, char **argv)
{
    char text[256];
    const uint32_t ids[] = {1, 2, 3, 127, 9, 8};
    const int wrong = argc > 2;
    sbt_trace *t = sbt_open(argv[1], "mine 1.0", 384, 0);
    sbt_sequence chat = sbt_new_sequence(t, 0);
    sbt_head(t, "prefix", "block");
    sbt_head_number(t, "prefix_block", 2);
    sbt_prompt(t, &chat, ids, 4);
    sbt_end_call(t);
    sbt_sequence other = sbt_continue(t, &chat, wrong ? 5 : 4, 1);
    sbt_decode(t, &chat, 5);
    sbt_prompt(t, &other, ids + 4, 2);
    sbt_sampler sampler = sbt_plain_sampler();
    sbt_sampling(t, &chat, &sampler);
    sampler.temperature = 0.7;
    sampler.top_k = 40;
    sampler.sampler = "vllm";
    sampler.generator = "torch_cpu";
    sampler.seed = 42;
    sbt_sampling(t, &other, &sampler);
    sbt_end_call(t);
    sbt_decode(t, &other, 7);
    sbt_end_call(t);
    if (sbt_finish(t, text, sizeof text) == 0)
        return 0;
    puts(text);
    return 1;
}
C
check "version 3 compiles" "${CC:-cc}" -std=c11 -Wall -I. -o "$work/three" "$work/three.c"
check "version 3 is written" "$work/three" "$work/v3"
run 0 trace "$work/v3"
says 'prefixes: block, multiples of 2 tokens'
says '1 sequence continues another one'
says '2 sequences declare their samplers, the first: temperature 1, top_k 0, top_p 1, min_p 0, repetition_penalty 1'
run 0 trace "$work/v3" --json
at sampling.sequence 0
at sampling.temperature 1.0
at prefixes 1
at orphans 0
same "parents" "$(grep -o '"prefixes": [^]]*]' "$work/v3/trace.json")" \
    '"prefixes": [{"sequence": 1, "parent": 0, "position": 4}]'
"$work/three" "$work/v3-wrong" wrong > "$out"
says 'sequence 0 was fed 4 tokens and cannot be continued at 5'
check "a wrong parent leaves trace.json" test ! -e "$work/v3-wrong/trace.json"
if [ -n "${PYTHON-}" ]; then
    cat > "$work/three.py" <<'PY'
import sys
from samebit_trace import Trace, TraceError
with Trace(sys.argv[1], engine="mine 1.0", vocab_size=384, prefix="block", prefix_block=2) as trace:
    chat = trace.sequence(slot=0)
    with trace.call() as call:
        call.prompt(chat, [1, 2, 3, 127])
    try:
        trace.continued(chat, 5)
        sys.exit("a parent that was not fed that far was taken")
    except TraceError:
        pass
    other = trace.continued(chat, 4, slot=1)
    with trace.call() as call:
        call.decode(chat, 5)
        call.prompt(other, [9, 8])
        usual = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0, "repetition_penalty": 1, "presence_penalty": 0}
        usual |= {"frequency_penalty": 0, "penalty_window": 0}
        call.sampling(chat, **usual)
        own = {"temperature": 0.7, "top_k": 40, "sampler": "vllm", "generator": "torch_cpu", "seed": 42}
        call.sampling(other, **(usual | own))
    with trace.call() as call:
        call.decode(other, 7)
PY
    check "version 3 from Python" env PYTHONPATH=tools/record "$PYTHON" "$work/three.py" "$work/v3-python"
    check "Python writes another trace" cmp "$work/v3/trace.json" "$work/v3-python/trace.json"
fi

# --- the other languages ------------------------------------------------------------------------------------
same_bytes() { # NAME COMMAND...
    local name=$1
    shift
    for level in 0 1 2 3 4; do
        check "$name writes level $level" "$@" "$work/$name-$level" $level "$numbers"
        check "$name writes other bytes at level $level" diff -r "$work/$level" "$work/$name-$level"
    done
}
[ -z "${PYTHON-}" ] || same_bytes python "$PYTHON" tools/record/trace_example.py
if [ -n "${RUSTC-}" ]; then
    check "rustc compiles trace_example.rs" "$RUSTC" -O -D warnings -o "$work/rust" tools/record/trace_example.rs
    same_bytes rust "$work/rust"
fi
finish
