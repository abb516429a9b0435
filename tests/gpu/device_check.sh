#!/usr/bin/env bash
# Tests the command for devices, tests/device/check.sh, without a device. Its programs compare the emulator,
# the interpreter and the host instead of the device, and detect planted faults. Without a device, the command
# says which claims are not shown. The whole command runs on a machine that is played (device_fake.bash), and with a
# fault in each of its parts.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
export BUILD=${BUILD:-build}
programs=$BUILD/tests/gpu
passed=0 failed=0 skipped=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED $name"; fi
}
ends() { # ends STATUS COMMAND...: what it says is in $work/said
    local want=$1 status
    shift
    "$@" > "$work/said" 2>&1
    status=$?
    [ $status = "$want" ] || { echo "status $status, not $want:" && tail -n 20 "$work/said" && return 1; }
}
all_of() { # how many passed; 0 unless all of them
    local count
    count=$(sed -n 's/^\([0-9]*\) passed, 0 failed, 0 skipped$/\1/p' "$work/said")
    echo "${count:-0}"
}
says() { grep -q -- "$1" "$work/said"; }
the_command() { bash tests/device/check.sh --engine emu --keep "$work/kept" "$@"; }

"$BUILD/samebit" make "$work/T1" --preset T1 --recipe predictable > /dev/null || exit 2
"$BUILD/samebit" make "$work/T4" --preset T4 > /dev/null || exit 2
ops=$programs/device_ops
check "launches and graphs of the emulator" ends 0 "$ops" graphs emu sm121 "$work/T4"
check "and calls are compared" says ' calls, [0-9]* values, launched and as graphs the same'
check "fused kernels of the emulator" ends 0 "$ops" fused emu sm121,kv_cache=fp8 "$work/T4"
check "and their calls are compared" says ' calls, [0-9]* values, launched and fused the same'
check "a knob that is none" ends 2 "$ops" fused emu sm121,kv_cache=f8 "$work/T4"
check "the emulator beside itself" ends 0 "$ops" twin emu emu sm121 "$work/T1" 1 0
check "and all is compared" says ' calls of ops with kernels, [0-9]* values, 0 differ'
check "beside the reference, which differs" ends 1 "$ops" twin emu ref sm121 "$work/T1" 1 0
check "and where is said" says 'differ: [a-z0-9_]*, layer .* on emu and .* on ref'
check "layers that no checkpoint has, beside the reference" ends 0 "$ops" layers emu ref
check "and they are compared" says ' 9 calls, [0-9]* values, 0 differ'
check "layers of one backend alone" ends 2 "$ops" layers emu
check "replays" ends 0 "$ops" replays emu sm121 "$work/T4" 2
check "and their number" says ' 48 replays in 1 sequences, 0 with other '
check "where the reference differs" ends 1 "$ops" twin emu ref sm121 "$work/T1" 1 0 "$work"
check "and its arrays are kept" test -s "$work/out.emu.npy" -a -s "$work/out.ref.npy" -a -s "$work/out.before.npy"
check "a program without a backend" ends 2 "$ops" twin emu none sm121 "$work/T1" 1 0
check "a prompt of no token" ends 2 "$ops" twin emu emu sm121 "$work/T1" 0 0
check "one repeat" ends 2 "$ops" repeats emu sm121 "$work/T1" 1
check "and how it is used is said" says '^usage: .* twin FIRST SECOND'
check "an unknown check" ends 2 "$ops" length emu sm121 "$work/T1"

if [ -x "$programs/device_atoms" ] && [ -x "$programs/device_math" ]; then
    check "atoms" ends 0 "$programs/device_atoms" 12 30 host
    atoms=$(all_of)
    check "atoms with a wrong bit" ends 1 "$programs/device_atoms" 12 30 plant
    check "and each is seen" says "^0 passed, $atoms failed"
    check "of the atoms at least one" test "$atoms" -gt 0
    check "atoms with the second readings" ends 0 "$programs/device_atoms" 16 30 other
    check "which are no failure" says "^$atoms passed, 0 failed"
    check "and said of groups" says 'atom nvfp4: .* of a zero, as [1-9][0-9]* elements decide$'
    check "and of signs" says 'atom bf16: .* is +0, as [1-9][0-9]* elements decide$'
    check "and are none of the portable body" says 'atom nvfp4, portable: .* 0 elements differ$'
    check "atoms with readings in turn" ends 1 "$programs/device_atoms" 16 30 mixed
    check "which is said" says 'FAILED.* atom nvfp4: .*fragment'
    check "the first readings" ends 0 "$programs/device_atoms" 16 30 host
    check "are said as well" says 'atom nvfp4: .* of its scales, as [1-9][0-9]* elements decide$'
    check "functions" ends 0 "$programs/device_math" 1000003 20 host
    functions=$(all_of)
    check "functions with a wrong bit" ends 1 "$programs/device_math" 1000003 20 plant
    check "and each is seen" says "^0 passed, $functions failed"
    check "of all functions" test "$functions" = "$(grep -c '^ *X([a-z0-9_]*)' tests/gpu/math_functions.h)"
    check "atoms in no time" ends 4 "$programs/device_atoms" 10000 0 host
    check "are no success" says '^7 passed, 0 failed, 13 skipped$'
    check "functions in no time" ends 4 "$programs/device_math" 61 0 host
    check "are no success either" says "^0 passed, 0 failed, $functions skipped$"
    check "nor hide a wrong bit" ends 1 "$programs/device_math" 61 0 plant
    check "no step" ends 2 "$programs/device_math" 0 20
    check "atoms, and what differs is kept" ends 1 "$programs/device_atoms" 12 30 plant "$work"
    check "with its inputs" grep -qE '^fragment [0-9]+ in( [0-9a-f]{8}){384} right( [0-9a-f]{8}){128} got( [0-9a-f]{8}){128}$' \
        "$work/atom-bf16.txt"
    check "and how many differ" grep -q '^1 fragments differ, 1 are listed$' "$work/atom-bf16.txt"
    check "and those of golden/atoms apart" test -s "$work/golden-atom-bf16.txt"
    check "a part of the command" ends 0 the_command --small math
    check "counts" says "^$functions passed, 0 failed, 0 skipped$"
    check "no time is no success" ends 4 the_command --again --limit 0 math runs
    check "and every case is named" says '^SKIPPED run, T1 int4-fp8-hybrid sm121: not reached'
    check "and counted" test "$(grep -c '^SKIPPED ' "$work/said")" -gt 20
    check "and nothing else" says '^0 passed, 0 failed, [0-9]* skipped$'
else
    skipped=1
    echo "SKIPPED device programs: built without nvcc; that they see a wrong bit was not covered"
fi
check "a part with models" ends 0 the_command --small runs
check "and its cases" says '^2 passed, 0 failed, 0 skipped$'
check "digests as recorded" ends 0 the_command --small digests
check "of each case" says '^\[       OK \] digests of ops, T1 bf16 sm121: [0-9]* ops, .*, as recorded$'
if [ "${CHECK_ALL-}" = 1 ]; then # half a minute each
    check "every way of a step" ends 0 "$ops" ways emu sm121 "$work/T4"
    check "and digests of all are said" says ' ways: 9 ways of 16 calls, 0 differ; digest [0-9a-f]\{32\}$'
    check "all digests as recorded" ends 0 the_command digests
    check "ops of two engines" ends 0 the_command --small twin
    check "and each case counts" says '^3 passed, 0 failed, 0 skipped$'
    check "rows, drafts and repeats" ends 0 the_command --small whole
    check "and says what it repeated" says '2 repeats, T1 bf16 sm121'
fi
check "no such part" ends 2 bash tests/device/check.sh everything

# --- the whole command, on a machine that is played -------------------------------------------------------
bundle=$work/bundle
mkdir -p "$bundle/bin" "$bundle/tools" "$bundle/golden"
cp tests/device/check.sh "$bundle/" && cp -r golden/device "$bundle/golden/"
for name in bin/samebit bin/device_{ops,ops_jitter,atoms,math} tools/{compute-sanitizer,ncu,nvidia-smi}; do
    cp tests/gpu/device_fake.bash "$bundle/$name"
done
# played FAULT WORD...: the command there, with a fault or none
played() { FAKE_FAULT=$1 FAKE_CALLS=$work/calls FAKE_DIGESTS=$PWD/golden/device PATH=$bundle/tools:$PATH \
    bash "$bundle/check.sh" --patience 60 "${@:2}"; }
called() { grep -c "^$1" "$work/calls"; }
check "the whole command" ends 0 played '' --small
check "has no failure" says '^[1-9][0-9]* passed, 0 failed, 0 skipped$'
check "its parts in order" test "$(sed -n 's/^--- \([a-z]*\): [a-z].*/\1/p' "$work/said" | xargs)" = \
    "$(sed -n "s/^all='\(.*\)'$/\1/p" tests/device/check.sh)"
check "and says what the device was" says \
    '^the device: 2400 to 2400 MHz, at most 60 W and 71 degrees, slowed down in 0 of '
total=$(sed -n '$s/ passed.*//p' "$work/said") && : > "$work/calls"
check "a second call" ends 0 played '' --small
check "knows what the first has found" says "^$total passed, 0 failed, 0 skipped$"
check "and repeats nothing" test "$(called device_atoms) $(called ncu)" = "0 0"
check "unless it is told to" ends 0 played '' --again --small atoms
check "and then does" test "$(called device_atoms)" = 1
check "no time at first" ends 4 played '' --again --small --limit 0
check "and then enough" ends 0 played '' --small
check "for the same" says "^$total passed, 0 failed, 0 skipped$"
# finds FAULT PART WORDS [OPTION...]: the part fails by this fault, and says WORDS
finds() {
    check "$1: status" ends 1 played "$1" --again --small "${@:4}" "$2"
    check "$1: what is said" says "$3"
    check "$1: counted" says '^[0-9]* passed, [1-9][0-9]* failed, [0-9]* skipped$'
}
finds 'hang:device_ops told' preflight \
    '^\[  FAILED  \] every kind of kernel once, T1 bf16 sm121: hangs: stopped after 4 s' --patience 4
check "the last word of a case that hangs" says '^    begins: device_ops told gpu sm121 '
finds atom:nvfp4 atoms '^\[  FAILED  \] atom nvfp4: 9 fragments, 1 elements differ'
finds 'fail:bench decode' rates '^\[  FAILED  \] rates of the card: status 1$'
finds 'fail:device_ops ways' steps '^\[  FAILED  \] every way of a step, T1 bf16 sm121: status 1$'
finds 'fail:device_ops_jitter replays' replays '^\[  FAILED  \] replays with jitter, T1 bf16 sm121: status 1$'
check "and without jitter all is well" says '^\[       OK \] 2 replays, T1 bf16 sm121: '
finds 'fail:--preset 35b-a3b' bench '^\[  FAILED  \] a decode step, 35b-a3b: status 1$'
finds digest digests '^\[  FAILED  \] digests of ops, T1 bf16 sm121: status 1$'
check "the op is named" says '^    recorded: .*linear_attn'
check "with both digests" says '^    computed: .* 01234567$'
finds race sanitizer \
    '^\[  FAILED  \] racecheck of a fused step and its graphs, T1 bf16 sm121: status 9$'
check "and memcheck is well" says '^\[       OK \] memcheck of a fused step and its graphs, T1 bf16 sm121: '
finds fail:device_math math '^\[  FAILED  \] functions: status 1$'
finds fail:ncu ncu '^\[  FAILED  \] ncu of sb_linear_kernel: status 1$'
finds 'fail:twin emu gpu' twin '^\[  FAILED  \] twin, T1 bf16 sm121, prompt 4: status 1$'
finds 'fail:samebit diff' diff '^\[  FAILED  \] diff, T1 bf16 sm121: status 1$'
finds 'fail:--backend gpu' runs '^\[  FAILED  \] run, T1 bf16 sm121: status 1$'
finds 'fail:device_ops widths' whole '^\[  FAILED  \] 1 to 9 rows, T1 bf16 sm121: status 1$'
# an atom that differs: the emulator says nothing about its profiles any more, and the device is compared with itself
check "an atom differs" ends 1 played atom:nvfp4 --again --small atoms digests twin
check "of the profile with the atom" says \
    '^\[       OK \] digests of ops, T1 nvfp4-ct sm121-w4a4, of the device beside itself'
check "and its ops" says \
    '^\[       OK \] twin, T1 nvfp4-ct sm121-w4a4, prompt 4, of the device beside itself'
check "not of another" says '^\[       OK \] digests of ops, T1 bf16 sm121: .* as recorded$'
# after a hang the device may not answer; then the rest is not tried
check "a device that hangs for good" ends 1 played 'hang:device_ops told' --again --small --patience 4 preflight digests
check "is not asked again" says \
    '^SKIPPED digests of ops, T1 bf16 sm121: the device does not answer any more, since every kind'
check "a device that only hangs once" ends 1 played 'hang:device_ops ways' --again --small --patience 4 steps digests
check "is asked again" says '^\[       OK \] digests of ops, T1 bf16 sm121: '
check "heat" ends 0 played heat --again --small atoms
check "is said" says 'slowed down in [1-9][0-9]* of [1-9][0-9]* seconds$'
"$ops" widths gpu sm121 "$work/T1" > /dev/null 2>&1
if [ $? = 4 ]; then
    check "without a device" ends 4 bash tests/device/check.sh --keep "$work/kept"
    check "says so" says '^there is no device: '
    check "names what has not been shown" says '^SKIPPED sanitizer: that compute-sanitizer finds'
    check "all of it" says '^0 passed, 0 failed, 14 skipped$'
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
