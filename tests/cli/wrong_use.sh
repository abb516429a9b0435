#!/usr/bin/env bash
# Wrong use: exit status 2, one line that names what is wrong, nothing on stdout, nothing written.
. "$(dirname "$0")/lib.bash"

make_checkpoint t4 --preset T4
t4=$work/t4

refused 2 fly
says_err "'fly'"
refused 2 ''
refused 2 RUN "$t4"
for command in make info hash convert run golden; do
    refused 2 $command
    refused 2 $command --no-such-option
    says_err --no-such-option
    refused 2 $command -q "$t4"
done
refused 2 run "$t4" extra --tokens 1
says_err usage
refused 2 run "$t4"
says_err --tokens
refused 2 run "$t4" --tokens 1 --tokens-file "$t4/config.json"
refused 2 run "$t4" --tokens
says_err "'--tokens'"
refused 2 run "$t4" --tokens 1 -n
says_err "'-n'"
refused 2 run "$t4" --colour --tokens 1
says_err "'--colour'"
refused 2 run "$t4" --tokens 1 -q
says_err "'-q'"
refused 2 run --json=1 "$t4" --tokens 1
says_err json
for n in x -1 1.5 '' 99999999999999999999 1e3 ' 1' 2000000; do
    refused 2 run "$t4" --tokens 1 -n "$n"
done
refused 2 run "$t4" --tokens 1 --threads many
says_err --threads
for tokens in '' , ' ' a 1,b '1;2' 0x10 -1 1.5 99999999999; do
    refused 2 run "$t4" --tokens "$tokens"
done
refused 2 run "$t4" --tokens 1,384
says_err 384
refused 2 run "$t4" --tokens 1 --set colour=blue
for knob in $("$SAMEBIT" info --knobs | cut -d ' ' -f 1); do says_err "$knob"; done
refused 2 run "$t4" --tokens 1 --set act=fp8
says_err 'f32, bf16, f16'
refused 2 run "$t4" --tokens 1 --set act
refused 2 run "$t4" --tokens 1 --profile nobody
says_err 'exact, hf'
refused 2 run "$t4" --tokens 1 --backend vulkan
says_err "'vulkan'"
printf '1,2\n3\n' > "$work/two"
refused 2 run "$t4" --tokens-file "$work/two" --logits "$work/l.npy"
check "something was written" test ! -e "$work/l.npy"
printf '1,2\n3,x\n' > "$work/bad"
refused 3 run "$t4" --tokens-file "$work/bad"
says_err "$work/bad:2"
printf '# nothing\n\n' > "$work/none"
printf '1,2\n384\n' > "$work/beyond"
# a mistake in a file is bad input, and a mistake on the command line is wrong use
for file in bad none beyond; do
    refused 3 run "$t4" --tokens-file "$work/$file"
    refused 3 accept "$t4" --tokens-file "$work/$file"
    refused 3 compare "$t4" "$t4" --tokens-file "$work/$file"
    refused 3 diff "$t4" --engine sim:sequential --tokens-file "$work/$file"
    refused 3 golden write "$work/g" "$t4" --tokens-file "$work/$file"
done
refused 3 state save "$t4" -o "$work/s" --tokens-file "$work/none"
# a missing number in a list is reported, not skipped
for list in 1,,2 1,2, ,1 ,; do
    refused 2 run "$t4" --tokens "$list"
    says_err "is missing"
done
refused 2 run "$t4" --tokens 1,,2
says_err "number 1 is missing"
run 0 run "$t4" --tokens ' 1 , 2 3' -n 0
refused 2 run "$t4" --tokens 1 --temp -1
says_err "--temp is '-1'; expected a number from 0 on"
refused 2 make "$work/new" --preset T4 --format nvfp4
says_err 'format "nvfp4" is unknown, is it nvfp4-ct or nvfp4a16-ct or nvfp4-modelopt or nvfp4-modelopt-all; expected one of bf16, '
refused 2 vectors delta_rule --format gated -o "$work/v"
says_err "format 'gated': delta_rule has no quantized weights, so it has no formats"
printf '1,2,3\n' > "$work/on.ids"
run 4 diff "$t4" --engine "$work/on.ids"
says "none was judged: expected --given N, the length of the prompt"
refused 2 compare "$t4" "$t4" --tokens 1,384
refused 2 diff "$t4" --engine sim:sequential --tokens 1,384
# an abbreviated option could change its meaning with the next new option, so every command refuses it
refused 2 run "$t4" --tok 1
says_err "there is no option '--tok', but there is --tokens"
refused 2 run "$t4" --tokens 1 --gen=3
says_err "'--gen=3'"
sed -n 's/^SB_COMMAND(\([a-z_]*\),.*/\1/p' tools/cli/commands.def > "$work/commands"
while read -r command; do
    refused 2 "$command" --hel
    says_err "'--hel'"
    option=$("$SAMEBIT" "$command" --help | grep -oE -m 1 -- '--[a-z]{3,}')
    refused 2 "$command" "${option%?}" 1
    says_err "'${option%?}'"
done < "$work/commands"
refused 2 info "$t4" --ops
refused 2 info "$t4" "$t4"
refused 2 golden verify "$work/g" "$t4" --tokens 1
# golden verify repeats the recorded options: an option that would change them is refused, not ignored
for option in '-n 3' '--profile hf' '--set act=bf16' '--logits l.npy'; do
    # shellcheck disable=SC2086
    refused 2 golden verify "$work/g" "$t4" $option
done
refused 2 golden keep "$work/g" "$t4" --tokens 1
says_err "'keep'"
refused 2 golden write "$work/g" "$t4"
check "something was written" test ! -e "$work/g"
refused 2 make "$work/new"
refused 2 make --preset T1
refused 2 make "$work/new" --preset T99
says_err T4
for choice in --format --recipe --layout --storage --experts; do
    refused 2 make "$work/new" --preset T4 $choice nonsense
    says_err nonsense
done
refused 2 make "$work/new" --preset T4 --layers 2000
check "something was written" test ! -e "$work/new"
last="(SAMEBIT_ISA=mmx)"
SAMEBIT_ISA=mmx "$SAMEBIT" info --machine > "$out" 2> "$err"
check "SAMEBIT_ISA=mmx is not refused with status 2" test $? = 2
says_err mmx
finish
