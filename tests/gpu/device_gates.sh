#!/usr/bin/env bash
# What nvcc made of the kernels of the gpu backend, in the build's own objects: code for both targets, no warning,
# no spill, the instruction of the matrix unit that each kernel stands for and no other; and what the backend
# starts them with: no more shared memory and no more registers than the target has. Needs the build, and no GPU.
. "$(dirname "${BASH_SOURCE[0]}")/gates.bash"
BUILD=${BUILD:-build}
# not what an earlier build has left
mapfile -t objects < <(ar t "$BUILD/libgpu.a" | grep '[.]cuda[.]o$' | while read -r name; do
    find "$BUILD/device/gpu" -name "$name"
done)
if [ ${#objects[@]} = 0 ]; then
    without_nvcc "the program was built without it; that the kernels compile for sm_121 and sm_90"
fi
targets='90 121'

# --- tables of a set of objects, in a folder ---------------------------------------------------------
# tables FOLDER OBJECT...: FOLDER/log, what ptxas said; /kernels, `SM KERNEL REGISTERS BYTES`, the bytes of shared
# memory that it declares; /opcodes, `SM KERNEL CODE NAME COUNT`
tables() {
    local to=$1 object sm
    shift
    mkdir -p "$to"
    cat "${@/%.o/.log}" > "$to/log"
    awk '/Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; sm = part[4]; gsub(/[^0-9]/, "", sm) }
        / Used [0-9]+ registers/ && kernel != "" {
            bytes = 0
            for (i = 3; i <= NF; i++) if ($i ~ /^smem/) bytes = $(i - 2)
            for (i = 2; i <= NF; i++) if ($i ~ /^registers/) print sm, kernel, $(i - 1), bytes
            kernel = ""
        }' "$to/log" | sort > "$to/kernels"
    for object; do
        for sm in $targets; do "$opcodes" "$object" $sm 2>> "$to/errors" | sed "s/^/$sm /"; done
    done > "$to/opcodes"
    ! grep -v 'it has no code for this target' "$to/errors"
}
names() { awk -v sm="$2" '$1 == sm { print $2 }' "$1/kernels" | sort; } # names FOLDER SM
# held FOLDER SM KERNEL-PATTERN OPCODE: each kernel of the name has it, and there is one
held() {
    awk -v sm="$2" -v like="$3" -v name="$4" '$1 == sm && $2 ~ like { seen[$2] += $4 == name ? $5 : 0 }
        END { for (k in seen) { n++; if (!seen[k]) { bad++; print "  " k " for sm_" sm " has no " name } }
            exit !(n && !bad) }' "$1/opcodes"
}
# free FOLDER SM KERNEL-PATTERN OPCODE-PATTERN: none of the kernels has one
free() {
    awk -v sm="$2" -v like="$3" -v name="$4" '$1 == sm && $2 ~ like && $4 ~ name {
        bad++; print "  " $2 " for sm_" sm " has " $4 } END { exit bad > 0 }' "$1/opcodes"
}
units='^([HIDQ]MMA|OMMA|QMMA[.]SF)$'
in_bf16='sb_linear_kernel|sb_attention_kernel|sb_expert_linear|sb_delta_chunk|sb_delta_carry'
w8a8() { held "$1" 121 sb_w8a8 QMMA && free "$1" 121 sb_w8a8 '^([HID]MMA|OMMA|QMMA[.]SF)$' && free "$1" 90 sb_w8a8 "$units"; }
w4a4() { held "$1" 121 sb_w4a4 OMMA && free "$1" 121 sb_w4a4 '^([HIDQ]MMA|QMMA[.]SF)$' && held "$1" 90 sb_w4a4 IMMA &&
    free "$1" 90 sb_w4a4 '^([HDQ]MMA|OMMA|QMMA[.]SF)$'; }
bf16() { # and these two are right for both targets
    local sm
    for sm in $targets; do
        held "$1" $sm "$in_bf16" HMMA && free "$1" $sm "$in_bf16" '^([IDQ]MMA|OMMA|QMMA[.]SF)$' || return
    done
}
spills() { grep 'bytes spill stores' "$1/log" | grep -v ' 0 bytes spill stores, 0 bytes spill loads'; }
registered() { grep -q 'bytes spill stores' "$1/log" && ! spills "$1"; }

# --- what the backend starts them with ---------------------------------------------------------------
# fits FOLDER LAUNCHES: lines `KERNEL THREADS BYTES`; with what ptxas says of each, no block is larger than the
# target has, and all of them were started
fits() {
    awk 'NR == FNR { if ($2 > threads[$1]) threads[$1] = $2; if ($3 > bytes[$1]) bytes[$1] = $3; next }
        # no checkpoint that samebit makes has MXFP4 of 32 columns, or inputs of experts with different factors
        $2 ~ /linear(_kernel)?ILi3ELb0|sb_expert_act_fp4/ { next }
        !($2 in threads) { bad++; print "  " $2 " was not started"; next }
        { warps = int((threads[$2] + 31) / 32); registers = int(($3 + 7) / 8) * 8 }
        $4 + bytes[$2] > 101376 { bad++; print "  " $2 " has " $4 + bytes[$2] " bytes of shared memory" }
        warps * 32 * registers > 65536 { bad++; print "  " $2 " has " registers " registers in " warps " warps" }
        END { exit bad > 0 || FNR == 0 }' "$2" "$1/kernels"
}
# launched: the program on a runtime that only writes down what is started, so that it comes to every kernel
run() { # run TOKENS PROFILE WORD...: of the checkpoint in $work/model
    SAMEBIT_LAUNCHES=$work/launches "$BUILD/tests/gpu/samebit_launches" run "$work/model" --tokens "$1" -n 2 \
        --profile "$2" --backend gpu "${@:3}" > "$work/out" 2>&1 && return
    echo "  run of $1 $2 ${*:3}" && tail -n 1 "$work/out"
    return 1
}
model() { "$BUILD/samebit" make "$work/model" --replace "$@" > "$work/out" 2>&1; }
# what is drawn behind a prompt is a call of one row
formats() { # widths of linear layers, by format
    local format rows profile ten=1,2,3,4,5,6,7,8,9,10 twenty
    twenty=$(seq -s, 1 20)
    for format in bf16 fp8-block fp8-channel fp8-tensor nvfp4-ct mxfp4 int4-gptq int8-gptq 'int8-gptq --group-size 128'; do
        model --preset T4 --format $format || return
        for rows in $ten $twenty; do
            for profile in sm121 sm121-w8a8 sm121-w4a4; do run $rows $profile || return; done
        done
    done
}
experts() { # few pairs and many
    local format profile many
    many=$(seq -s, 1 64)
    for format in bf16 fp8-block fp8-channel mxfp8 nvfp4-ct nvfp4-modelopt mxfp4 int4-gptq 'int4-gptq --group-size 32' \
        int8-gptq 'int8-gptq --group-size 128'; do
        model --preset T1 --layers 4 --no-mtp --format $format || return
        for profile in sm121 sm121-w8a8 sm121-w4a4; do run $many $profile || return; done
    done
}
mixers() { # caches of many parts, widths of heads, forms of the delta rule; draws
    local preset cache form thousand
    thousand=$(for ((i = 0; i < 150; i++)); do printf '1,2,3,4,5,6,7,8,'; done)9
    for preset in T1 T2 T3 T6; do
        model --preset $preset || return
        for cache in act fp8; do run $thousand sm121 --set kv_cache=$cache || return; done
        for form in f32 act; do
            run 1,2,3 sm121 --set delta_rule=prompt_fla --set l2norm_round=$form || return
        done
        run 1,2,3 sm121 --draft 2 --accept-mode residual --seed 42 --temp 2 || return
    done
}
launched() { : > "$work/launches" && formats && experts && mixers; }

# --- two compilations of one source ------------------------------------------------------------------
# apart FOLDER DEVICE-OBJECT... -- OBJECT...: nothing is defined on both sides, weak or not: the linker would
# take one for the other, and what is inline in the sources has another body on each
defined_on() { # defined_on device|host FILE...
    nm -g --defined-only "${@:2}" |
        awk -v of="$1" '/:$/ { left_out = of == "host" && /[.]cuda[.]o:$/ } NF == 3 && !left_out { print $3 }' | sort -u
}
apart() {
    local to=$1 device=()
    shift
    while [ "$1" != -- ]; do device+=("$1") && shift; done
    defined_on device "${device[@]}" > "$to/of-device" && defined_on host "${@:2}" > "$to/of-host"
    [ -s "$to/of-device" ] && [ -s "$to/of-host" ] && ! comm -12 "$to/of-device" "$to/of-host" | sed 's/^/  both define /' | grep .
}
# --- the backend --------------------------------------------------------------------------------------
check "the objects cannot be read" tables "$work/all" "${objects[@]}"
check "kernels for sm_90" test "$(names "$work/all" 90 | wc -l)" -gt 30
check "other kernels for sm_90 than for sm_121" test "$(names "$work/all" 90)" = "$(names "$work/all" 121)"
# what one program has: the backend beside any of the tests, and beside the two that have kernels of their own
libraries=("$BUILD/libgpu.a" "$BUILD/libtools.a" "$BUILD/libsamebit.a" "$BUILD/libhelp.a")
mapfile -t host < <(find "$BUILD/obj/tests/gpu" -name '*.o' ! -name launches.o)
mapfile -t with_kernels < <(find "$BUILD/obj/tests/gpu" -name device_atoms.o -o -name device_math.o)
check "host and device" apart "$work/all" "${objects[@]}" -- "${host[@]}" "${libraries[@]}"
if [ ${#with_kernels[@]} != 0 ]; then
    check "host and device, of tests" apart "$work/all" "$BUILD/device/tests/gpu/device_kernels.cuda.o" -- \
        "${with_kernels[@]}" "${libraries[@]}"
fi
check "a warning" eval '! grep -i warning "$work/all/log"'
check "a kernel spills" registered "$work/all"
check "a W8A8 kernel has other instructions" w8a8 "$work/all"
check "a W4A4 kernel has other instructions" w4a4 "$work/all"
check "a kernel on the bf16 unit has other instructions" bf16 "$work/all"
for sm in $targets; do
    check "a kernel without products uses the matrix unit" eval '! grep -vE "sb_w8a8|sb_w4a4|$in_bf16" "$work/all/opcodes" |
        awk -v sm=$sm -v units="$units" "\$1 == sm && \$4 ~ units" | grep .'
done
check "the backend does not run" launched
check "a kernel has no place" fits "$work/all" "$work/launches"

# --- and each of these would be seen --------------------------------------------------------------------
mkdir -p "$work/plants"
compile_as_built() { # compile_as_built NAME FLAG...: as the Makefile does
    $(head -n 1 "$BUILD/flags-device") "${@:2}" -x cu -c tests/gpu/plant_gates.cu -o "$work/plants/$1.o" > "$work/plants/$1.log" 2>&1
}
compile_as_built plain & compile_as_built contracted -fmad=true & wait
for name in plain contracted; do check "the plants: tables" tables "$work/$name" "$work/plants/$name.o"; done
unseen() { ! "$@" > "$work/out"; }
check "a spill goes unseen" unseen registered "$work/plain"
check "an expansion goes unseen" unseen w8a8 "$work/plain"
check "the name of the expansion" grep -q 'plant_sb_w8a8 for sm_121 has no QMMA' "$work/out"
check "a W4A4 kernel without OMMA goes unseen" unseen w4a4 "$work/plain"
check "a layer without HMMA goes unseen" unseen bf16 "$work/plain"
sed -i '/plant_room/!d' "$work/plain/kernels"
echo 'plant_room 256 60416' > "$work/fits" && echo 'plant_room 256 60417' > "$work/large"
echo 'plant_room 256 61440' > "$work/larger" && echo 'plant_rooms 256 0' > "$work/other"
check "what fits is refused" fits "$work/plain" "$work/fits"
check "a byte too much of shared memory goes unseen" unseen fits "$work/plain" "$work/large"
check "too much shared memory goes unseen" unseen fits "$work/plain" "$work/larger"
check "a kernel that is not started goes unseen" unseen fits "$work/plain" "$work/other"
sed 's/^\([0-9]* plant_room\) [0-9]*/\1 255/' "$work/plain/kernels" > "$work/contracted/kernels"
echo 'plant_room 512 0' > "$work/wide"
check "too many registers go unseen" unseen fits "$work/contracted" "$work/wide"
echo '__attribute__((weak)) void plant_spill(void) { }' | gcc -x c -c - -o "$work/plants/host.o"
check "a weak definition on both sides goes unseen" unseen apart "$work/plain" "$work/plants/plain.o" -- "$work/plants/host.o"
check "which one" grep -q 'both define plant_spill' "$work/out"
check "other names are refused" apart "$work/plain" "$work/plants/plain.o" -- "${libraries[@]}"
# Z-1: the build contracts nothing, and it would be seen if it did
for sm in $targets; do
    check "sm_$sm: the build contracts" free "$work/plain" $sm plant_contracted FFMA
    check "sm_$sm: a contraction goes unseen" held "$work/contracted" $sm plant_contracted FFMA
done
close
