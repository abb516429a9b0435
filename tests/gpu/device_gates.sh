#!/usr/bin/env bash
# Checks the code that nvcc made for the kernels of the gpu backend, in the objects of the build: code for
# both targets, no warning, no spill, the matrix instruction that each kernel is made for and no other, and
# weights read 16 bytes or more at a time. Also checks the launches of the backend: no more shared memory and
# no more registers than the target has. Needs the build, but no GPU.
#
#   device_gates.sh            the tests
#   device_gates.sh --table    prints the tables that docs/gpu-kernels.md explains
. "$(dirname "${BASH_SOURCE[0]}")/gates.bash"
. tests/gpu/kernel_table.bash
BUILD=${BUILD:-build}
mapfile -t objects < <(objects_of "$BUILD")
if [ ${#objects[@]} = 0 ]; then
    without_nvcc "the program was built without it; that the kernels compile for sm_121 and sm_90"
fi
# the targets of the kernels that become PTX once; others have code for both (NVCC_COMMON in the Makefile)
common=$(for sm in $targets; do sed -n 2p "$BUILD/flags-device" | grep -o "sm_$sm"; done | tr -d 'sm_' | xargs)
case ${1-} in
    '') ;;
    --table)
        [ "$common" = "$targets" ] || { echo "the build has code for sm_$common alone" >&2 && exit 2; }
        tables "$work/all" "${objects[@]}" && launched && tables_of "$work/all" "$work/launches"
        exit
        ;;
    *) echo "usage: device_gates.sh [--table]" >&2 && exit 2 ;;
esac

# held FOLDER SM KERNEL-PATTERN OPCODE: there is such a kernel, and each has the opcode
held() {
    awk -v sm="$2" -v like="$3" -v name="$4" '$1 == sm && $2 ~ like { seen[$2] += $4 == name ? $5 : 0 }
        END { for (k in seen) { n++; if (!seen[k]) { bad++; print "  " k " for sm_" sm " has no " name } }
            exit !(n && !bad) }' "$1/opcodes"
}
# free FOLDER SM KERNEL-PATTERN OPCODE-PATTERN: none of the kernels has such an opcode
free() {
    awk -v sm="$2" -v like="$3" -v name="$4" '$1 == sm && $2 ~ like && $4 ~ name {
        bad++; print "  " $2 " for sm_" sm " has " $4 } END { exit bad > 0 }' "$1/opcodes"
}
units='^([HIDQ]MMA|OMMA|QMMA[.]SF)$'
in_bf16='sb_linear_kernel|sb_meter_matrix|sb_wide_kernel|sb_attention_kernel|sb_expert_linear|sb_delta_chunk|sb_delta_carry'
w8a8() { held "$1" 121 sb_w8a8 QMMA && free "$1" 121 sb_w8a8 '^([HID]MMA|OMMA|QMMA[.]SF)$' && free "$1" 90 sb_w8a8 "$units"; }
w4a4() { held "$1" 121 sb_w4a4 OMMA && free "$1" 121 sb_w4a4 '^([HIDQ]MMA|QMMA[.]SF)$' && held "$1" 90 sb_w4a4 IMMA &&
    free "$1" 90 sb_w4a4 '^([HDQ]MMA|OMMA|QMMA[.]SF)$'; }
bf16() { # and these two are right for all targets
    local sm
    for sm in $common; do
        held "$1" $sm "$in_bf16" HMMA && free "$1" $sm "$in_bf16" '^([IDQ]MMA|OMMA|QMMA[.]SF)$' || return
    done
}
# dependent FOLDER: each kernel waits for the launch before its own, and signals when the next one may begin
# (Y-16)
dependent() {
    local sm
    for sm in $targets; do held "$1" $sm . ACQBULK && held "$1" $sm . PREEXIT || return; done
}
# once FOLDER: nearly all kernels stand in one object. A source whose header names the launches of all kernels compiles
# all of them again
once() {
    awk '{ n[$1 " " $2]++ } END { for (k in n) if (n[k] > 1 && ++twice > 32) print "  " k " stands in " n[k] " objects"
        exit twice > 32 || !NR }' "$1/kernels"
}
spills() { grep 'bytes spill stores' "$1/log" | grep -v ' 0 bytes spill stores, 0 bytes spill loads'; }
registered() { grep -q 'bytes spill stores' "$1/log" && ! spills "$1"; }
# wide FOLDER SM: kernels that read weights (those of layers, and all on the matrix unit except mixers) have
# loads or copies of 16 bytes or more, none of 1 or 2, and none whose memory is unknown
wide() {
    awk -v sm="$2" -v units="$units" '$1 != sm { next }
        FILENAME ~ /opcodes$/ { if ($4 ~ units && $2 !~ /sb_(attention|delta)/) reads[$2] = 1; next }
        $2 !~ /sb_(linear|tile)_kernel/ && !($2 in reads) { next }
        { n++ }
        $7 + $8 + $11 == 0 { bad++; print "  " $2 " for sm_" sm " reads nothing 16 bytes at a time" }
        $3 + $4 + $12 > 0 { bad++; print "  " $2 " for sm_" sm " has " $3 + $4 " loads of 1 or 2 bytes, " $12 " of either memory" }
        END { exit !n || bad > 0 }' "$1/opcodes" "$1/loads"
}
# early FOLDER: layers whose weights do not depend on a launch ask for half of their wide loads, the first ring of
# chunks, before they wait for the launch before (Y-64). The other half stands in the loop
early() {
    awk '$2 !~ /sb_linear_kernel|sb_tile_kernel.*sb_all_rows/ { next }
        { n++; all = $7 + $8 + $11 }
        !all || 2 * $15 != all { bad++; print "  " $2 " for sm_" $1 " has " $15 " of " all " wide loads before its wait" }
        END { exit !n || bad > 0 }' "$1/loads"
}
# reads FOLDER KERNEL NUMBER...: the numbers that --loads prints for it, for both targets
reads() {
    local sm
    for sm in $targets; do
        [ "$(awk -v sm=$sm -v kernel="$2" '$1 == sm && $2 == kernel' "$1/loads")" = "$sm ${*:2}" ] && continue
        grep "^$sm $2 " "$1/loads"
        return 1
    done
}

# --- the launches of the backend ---------------------------------------------------------------------
# fits FOLDER LAUNCHES: with lines `KERNEL THREADS BYTES` and the resources that ptxas prints, no block is
# larger than the target allows, and all kernels were launched
fits() {
    awk 'NR == FNR { if ($2 > threads[$1]) threads[$1] = $2; if ($3 > bytes[$1]) bytes[$1] = $3; next }
        !($2 in threads) { bad++; print "  " $2 " was not started"; next }
        { warps = int((threads[$2] + 31) / 32); registers = int(($3 + 7) / 8) * 8 }
        $4 + bytes[$2] > 101376 { bad++; print "  " $2 " has " $4 + bytes[$2] " bytes of shared memory" }
        warps * 32 * registers > 65536 { bad++; print "  " $2 " has " registers " registers in " warps " warps" }
        END { exit bad > 0 || FNR == 0 }' "$2" "$1/kernels"
}
# captured FILE: every launch in the graphs of a step is dependent (Y-16), and each graph is replayed
captured() {
    awk '$1 == "graph" { made[$2] = 1; n++ } $1 == "run" { runs[$2]++ }
        $1 == "graph" && ($3 != $4 || !$3) { bad++; print "  graph " $2 ": " $4 " of " $3 " launches are dependent" }
        END { for (g in made) if (!runs[g]) { bad++; print "  graph " g " is never replayed" }; exit bad > 0 || n < 10 }' "$1"
}
graphs() { # graphs HOW: in $work/HOW, of a decode step, of verifies of 2 to 9 rows, of drafts, and of what is kept
    : > "$work/$1"
    model --preset T4 --format bf16 && SAMEBIT_GRAPHS=$work/$1 \
        "$BUILD/tests/gpu/device_ops_launches" "$1" gpu sm121 "$work/model" > "$work/out" 2>&1 && return
    cat "$work/out"
    return 1
}
# calculated: the blocks of a multiprocessor by the toolkit's own calculator
calculated() {
    local sm registers threads bytes
    { for sm in $targets; do
        for registers in 16 32 33 40 56 57 72 128 168 255; do
            for threads in 32 33 64 96 128 160 256 384 512 1024; do
                for bytes in 0 1 1024 4096 8352 31744 32769 50176 65536 101376; do
                    [ $((registers * threads)) -gt 61440 ] || echo $sm $registers $threads $bytes
                done
            done
        done
    done; } > "$work/blocks"
    [ -s "$work/calculator" ] || "$nvcc" -x c++ -O1 tests/gpu/occupancy_gates.cu -o "$work/calculator" || return
    "$work/calculator" < "$work/blocks" > "$work/calculated" && "${@:-occupied}" < "$work/blocks" |
        paste -d ' ' "$work/blocks" "$work/calculated" - | awk '$5 != $6 { bad++; print "  " $0 } END { exit bad > 0 || !NR }'
}
# tabled TABLES: for each target, they have a row of each kernel, with its loads
tabled() {
    local sm
    for sm in $common; do
        sed -n "/^sm_$sm,/,/^\$/p" "$1" | awk 'NR > 2 && NF' > "$work/rows"
        grep -v '|.*|' "$work/rows"
        awk -v sm="$sm" '$1 == sm { print $2 "#" }' "$work/all/kernels" | c++filt | short_names | sed 's/ *$//' | sort -u |
            while read -r name; do grep -qF "$name " "$work/rows" || echo "  $name for sm_$sm"; done
    done > "$work/untabled"
    [ -s "$work/untabled" ] || return 0
    head -10 "$work/untabled"
    return 1
}

# --- two compilations of one source ------------------------------------------------------------------
# apart FOLDER DEVICE-OBJECT... -- OBJECT...: no symbol is defined on both sides, weak or not. Otherwise the
# linker would take one for the other, and functions that are inline in the sources have different bodies on
# each side.
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
for sm in $common; do check "kernels for sm_$sm" test "$(names "$work/all" $sm | wc -l)" -gt 30; done
check "kernels with code of their own for sm_90" test "$(names "$work/all" 90 | wc -l)" -gt 10
if [ "$common" = "$targets" ]; then
    check "other kernels for sm_90 than for sm_121" test "$(names "$work/all" 90)" = "$(names "$work/all" 121)"
else
    check "a kernel for sm_90 alone" eval '! comm -23 <(names "$work/all" 90) <(names "$work/all" 121) | grep .'
fi
# the objects that one program may contain: the backend with any of the tests, or with the two tests that have their
# own kernels
libraries=("$BUILD/libgpu.a" "$BUILD/libtools.a" "$BUILD/libsamebit.a" "$BUILD/libhelp.a")
mapfile -t host < <(find "$BUILD/obj/tests/gpu" -name '*.o' ! -name launches.o)
mapfile -t with_kernels < <(find "$BUILD/obj/tests/gpu" -name device_atoms.o -o -name device_math.o)
check "host and device" apart "$work/all" "${objects[@]}" -- "${host[@]}" "${libraries[@]}"
if [ ${#with_kernels[@]} != 0 ]; then
    check "host and device, of tests" apart "$work/all" "$BUILD/device/tests/gpu/device_kernels.cuda.o" -- \
        "${with_kernels[@]}" "${libraries[@]}"
fi
check "kernels are compiled several times" once "$work/all"
check "a warning" eval '! grep -i warning "$work/all/log"'
check "a kernel spills" registered "$work/all"
check "a W8A8 kernel has other instructions" w8a8 "$work/all"
check "a W4A4 kernel has other instructions" w4a4 "$work/all"
check "a kernel on the bf16 unit has other instructions" bf16 "$work/all"
for sm in $targets; do
    check "a kernel without products uses the matrix unit" eval '! grep -vE "sb_w8a8|sb_w4a4|$in_bf16" "$work/all/opcodes" |
        awk -v sm=$sm -v units="$units" "\$1 == sm && \$4 ~ units" | grep .'
done
check "a kernel does not wait for the launch before its own" dependent "$work/all"
for sm in $targets; do check "a kernel sleeps" free "$work/all" $sm . NANOSLEEP; done
check "the backend does not run" launched
for how in graphs fused; do
    check "a step as graphs does not run: $how" graphs $how
    check "a graph has other launches, or is not replayed: $how" captured "$work/$how"
done
check "a kernel has no place" fits "$work/all" "$work/launches"
for sm in $targets; do check "weights are read in small pieces" wide "$work/all" $sm; done
check "weights are not asked for before the wait" early "$work/all"
check "blocks of a multiprocessor" calculated
tables_of "$work/all" "$work/launches" > "$work/tables"
check "the tables of make kernels lack a kernel" tabled "$work/tables"

# --- planted faults are detected ------------------------------------------------------------------------
mkdir -p "$work/plants"
compile_as_built() { # compile_as_built NAME FLAG...: as the Makefile does
    $(head -n 1 "$BUILD/flags-device") "${@:2}" -x cu -c tests/gpu/plant_gates.cu -o "$work/plants/$1.o" > "$work/plants/$1.log" 2>&1
}
compile_as_built plain & compile_as_built contracted -fmad=true & compile_as_built jitter -DSB_JITTER & wait
for name in plain contracted jitter; do check "the plants: tables" tables "$work/$name" "$work/plants/$name.o"; done
unseen() { ! "$@" > "$work/out"; }
mkdir -p "$work/again" && cat "$work/all/kernels" "$work/all/kernels" > "$work/again/kernels"
check "kernels compiled twice go unseen" unseen once "$work/again"
check "a spill goes unseen" unseen registered "$work/plain"
check "an expansion goes unseen" unseen w8a8 "$work/plain"
check "the name of the expansion" grep -q 'plant_sb_w8a8 for sm_121 has no QMMA' "$work/out"
check "a W4A4 kernel without OMMA goes unseen" unseen w4a4 "$work/plain"
sed 's/^graph 4 \([0-9]*\) .*/graph 4 \1 1/' "$work/graphs" > "$work/graphs.no" && sed '/^run 3$/d' "$work/graphs" > "$work/graphs.idle"
check "a launch that is not dependent goes unseen" unseen captured "$work/graphs.no"
check "the name of its graph" grep -q 'graph 4: 1 of ' "$work/out"
check "a graph that is not replayed goes unseen" unseen captured "$work/graphs.idle"
check "the name of this graph" grep -q 'graph 3 is never replayed' "$work/out"
check "a kernel that waits for nothing goes unseen" unseen dependent "$work/plain"
check "the name of one" grep -q 'plant_sb_linear_kernel for sm_90 has no ACQBULK' "$work/out"
check "the name of one that waits" eval '! grep "plant_waits for" "$work/out"'
for sm in $targets; do check "sm_$sm: no sleep in the jitter build" held "$work/jitter" $sm plant_waits NANOSLEEP; done
check "a sleep in the build goes unseen" unseen free "$work/jitter" 121 . NANOSLEEP
check "a layer without HMMA goes unseen" unseen bf16 "$work/plain"
sed -i '/plant_room/!d' "$work/plain/kernels"
echo 'plant_room 256 60416' > "$work/fits" && echo 'plant_room 256 60417' > "$work/large"
echo 'plant_room 256 61440' > "$work/larger" && echo 'plant_rooms 256 0' > "$work/other"
check "what fits is refused" fits "$work/plain" "$work/fits"
check "a byte too much of shared memory goes unseen" unseen fits "$work/plain" "$work/large"
check "too much shared memory goes unseen" unseen fits "$work/plain" "$work/larger"
check "a kernel that is not started goes unseen" unseen fits "$work/plain" "$work/other"
sed 's/^\([0-9]* plant_room\) [0-9]*/\1 255/' "$work/plain/kernels" > "$work/contracted/kernels"
echo 'plant_room 512 0' > "$work/wider"
check "too many registers go unseen" unseen fits "$work/contracted" "$work/wider"
echo '__attribute__((weak)) void plant_spill(void) { }' | gcc -x c -c - -o "$work/plants/host.o"
check "a weak definition on both sides goes unseen" unseen apart "$work/plain" "$work/plants/plain.o" -- "$work/plants/host.o"
check "which one" grep -q 'both define plant_spill' "$work/out"
check "other names are refused" apart "$work/plain" "$work/plants/plain.o" -- "${libraries[@]}"
for name in late early; do mkdir -p "$work/$name" && grep "plant_${name}_" "$work/plain/loads" > "$work/$name/loads"; done
check "loads that ptxas moves behind the wait go unseen" unseen early "$work/late"
check "how many of them" grep -q 'sb_linear_kernel for sm_121 has 0 of 8 wide loads before its wait' "$work/out"
check "loads before the wait are refused" early "$work/early"
# the widths, and the loads in flight, of known loads: 1, 2, 4, 8, 16, 32; copies of 4, 8, 16; either; most; early
read -r -d '' widths <<- 'end'
	plant_load_1 1 0 0 0 0 0 0 0 0 0 1 1 0
	plant_load_2 0 1 0 0 0 0 0 0 0 0 1 2 0
	plant_load_4 0 0 1 0 0 0 0 0 0 0 1 4 0
	plant_load_8 0 0 0 1 0 0 0 0 0 0 1 8 0
	plant_load_16 0 0 0 0 1 0 0 0 0 0 1 16 0
	plant_copy_4 0 0 0 0 0 0 1 0 0 0 0 0 0
	plant_copy_8 0 0 0 0 0 0 0 1 0 0 0 0 0
	plant_copy_16 0 0 0 0 0 0 0 0 1 0 0 0 0
	plant_load_either 0 0 1 0 0 0 0 0 0 1 1 4 0
	plant_four_at_once 0 0 0 0 4 0 0 0 0 0 4 64 0
	plant_one_by_one 0 0 4 0 0 0 0 0 0 0 1 4 0
end
while read -r line; do check "$line" reads "$work/plain" $line; done <<< "$widths"
check "a load of 32 bytes" grep -q '^121 plant_load_32 0 0 0 0 0 1 0 0 0 0 1 32 0$' "$work/plain/loads"
for sm in $targets; do
    check "sm_$sm: small pieces go unseen" unseen wide "$work/plain" $sm
    check "which ones" diff <(sed 's/^  //; s/ for .*//' "$work/out" | sort -u) \
        <(printf '%s\n' plant_sb_linear_kernel plant_sb_tile_kernel_bytes plant_sb_tile_kernel_either plant_sb_w8a8)
done
mkdir -p "$work/sixteen" && for table in opcodes loads; do grep -E ' plant_sb_tile_kernel(_copies)? ' "$work/plain/$table" > "$work/sixteen/$table"; done
for sm in $targets; do check "sm_$sm: loads and copies of 16 bytes are refused" wide "$work/sixteen" $sm; done
for wrong in "${room_of/bytes + 1024/bytes}" "${room_of/256)/512)}" "${room_of/64 : 48/64 : 64}"; do
    check "a wrong number of blocks goes unseen" unseen calculated awk "$wrong"' { print blocks($1, $2, $3, $4) }'
done
sed '/^add /s/|.*//' "$work/tables" > "$work/short"
check "a row without its loads goes unseen" unseen tabled "$work/short"
sed '/^add /d' "$work/tables" > "$work/short"
check "a kernel without a row goes unseen" unseen tabled "$work/short"
check "its name" grep -q '^  add for sm_' "$work/out"
# Z-1: the build contracts nothing; a contraction would be detected
for sm in $targets; do
    check "sm_$sm: the build contracts" free "$work/plain" $sm plant_contracted FFMA
    check "sm_$sm: a contraction goes unseen" held "$work/contracted" $sm plant_contracted FFMA
done
close
