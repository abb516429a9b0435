#!/usr/bin/env bash
# Tests the command for devices, tests/device/check.sh, without a device. Its programs compare the emulator,
# the interpreter and the host instead of the device, and detect planted faults. Without a device, the command
# says which claims are not shown.
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
    check "a part of the command" ends 0 bash tests/device/check.sh --engine emu --small math
    check "counts" says "^$functions passed, 0 failed, 0 skipped$"
    check "no time is no success" ends 4 bash tests/device/check.sh --engine emu --limit 0 math runs
    check "and every case is named" says '^SKIPPED run, T1 int4-fp8-hybrid sm121: not reached'
    check "and counted" test "$(grep -c '^SKIPPED ' "$work/said")" -gt 20
    check "and nothing else" says '^0 passed, 0 failed, [0-9]* skipped$'
else
    skipped=1
    echo "SKIPPED device programs: built without nvcc; that they see a wrong bit was not covered"
fi
check "a part with models" ends 0 bash tests/device/check.sh --engine emu --small runs
check "and its cases" says '^2 passed, 0 failed, 0 skipped$'
check "a case that hangs" ends 1 bash tests/device/check.sh --engine emu --small --patience 0.01 runs
check "is named" says '^\[  FAILED  \] run, T1 bf16 sm121: hangs: stopped after 0.01 s$'
check "and has failed" says '^0 passed, 2 failed, 0 skipped$'
if [ "${CHECK_ALL-}" = 1 ]; then # half a minute each
    check "ops of two engines" ends 0 bash tests/device/check.sh --engine emu --small twin
    check "and each case counts" says '^3 passed, 0 failed, 0 skipped$'
    check "rows, drafts and repeats" ends 0 bash tests/device/check.sh --engine emu --small whole
    check "and says what it repeated" says '2 repeats, T1 bf16 sm121'
fi
check "no such part" ends 2 bash tests/device/check.sh everything
"$ops" widths gpu sm121 "$work/T1" > /dev/null 2>&1
if [ $? = 4 ]; then
    check "without a device" ends 4 bash tests/device/check.sh
    check "says so" says '^there is no device: '
    check "names what has not been shown" says '^SKIPPED sanitizer: that compute-sanitizer finds'
    check "all of it" says '^0 passed, 0 failed, 7 skipped$'
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
