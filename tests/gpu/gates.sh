#!/usr/bin/env bash
# Checks the code that the compiler makes of the atoms for a device: no warning, no spill, the
# instruction that each atom stands for, and no software instead of it. Needs nvcc, but no GPU; NVCC
# names nvcc.
. "$(dirname "$0")/gates.bash"

# --- the reader of cubins, with files that are no cubins ---------------------------------------------
refuses() { # refuses FILE TEXT: one line, status 1, no list
    local status
    "$opcodes" "$1" > "$work/list" 2> "$work/errors"
    status=$?
    [ $status = 1 ] && [ ! -s "$work/list" ] && [ "$(wc -l < "$work/errors")" = 1 ] &&
        grep -q "$2" "$work/errors"
}
: > "$work/empty"
check "an absent file" refuses "$work/absent" 'cannot be read'
check "an empty file" refuses "$work/empty" 'no ELF file'
check "a text" refuses "${BASH_SOURCE[0]}" 'no ELF file'
{ printf '\177ELF\2\1'; head -c 200 /dev/zero | tr '\0' '\377'; } > "$work/ones"
check "a header of ones" refuses "$work/ones" 'damaged'

if [ ! -x "$nvcc" ]; then
    without_nvcc "that the atoms compile for sm_121a and sm_90a, into which instructions, and without spills,"
fi

# --- compiling ---------------------------------------------------------------------------------------
gate() { compile tests/gpu/atom_gates.cu "$1" "$2" -fmad=false "${@:3}"; }
has() { # has NAME KERNEL OPCODE COUNT
    [ "$(awk -v k="$2" -v o="$3" '$1 == k && $3 == o { n += $4 } END { print n + 0 }' "$work/$1.list")" = "$4" ]
}
gate 121a target & gate 90a hopper & wait
gate 121 plain & gate 90a planted -DPLANT_EXPANSION & wait
for name in target hopper plain planted; do check "$name does not compile" compiled $name; done
for name in target hopper plain; do check "$name: a kernel spills" in_registers $name; done

for name in target hopper; do
    check "$name: bf16 is one HMMA" has $name atom_bf16 HMMA 1
    check "$name: f16 is one HMMA" has $name atom_f16 HMMA 1
    check "$name: s8 is one IMMA" has $name atom_s8 IMMA 1
    check "$name: four IMMA in the portable NVFP4" has $name atom_nvfp4_portable IMMA 4
    for opcode in HMMA QMMA F2FP; do
        check "$name: $opcode in the portable FP8" has $name atom_e4m3_portable $opcode 0
    done
    # one each of 1, 2 and 4 matrices, transposed or not
    check "$name: ldmatrix" test "$(grep -c '^_Z13atom_ldmatrix.* LDSM 1$' "$work/$name.list")" = 6
done
check "FP8 is one QMMA" has target atom_e4m3 QMMA 1
check "FP8 is expanded" has target atom_e4m3 F2FP 0
check "FP8 has HMMA" has target atom_e4m3 HMMA 0
check "NVFP4 is one OMMA" has target atom_nvfp4 OMMA 1
check "NVFP4 with selectors is one OMMA" has target atom_nvfp4_12 OMMA 1
check "NVFP4 has IMMA" has target atom_nvfp4 IMMA 0
# from E4M3 to bfloat16 by way of binary16
check "six conversions are one F2FP each" has target atom_convert F2FP 6
# on other targets, integer operations
for name in hopper plain; do
    check "$name: NVFP4 in four IMMA" has $name atom_nvfp4 IMMA 4
    check "$name: HMMA in FP8" has $name atom_e4m3 HMMA 0
done

# --- the gates detect faults -------------------------------------------------------------------------
check "an expansion is not seen" has planted plant_expansion HMMA 2
check "an expansion has no F2FP" eval '! has planted plant_expansion F2FP 0'
check "a spill is not seen" eval '! in_registers planted'
truncated() {
    head -c $(($(stat -c %s "$work/target.cubin") * $1 / 100)) "$work/target.cubin" > "$work/short"
    refuses "$work/short" damaged
}
for part in 30 60 95; do check "a cubin cut to $part %" truncated $part; done
close
