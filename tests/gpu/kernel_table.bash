# kernel_table.bash - tables of the code that nvcc made for the kernels of the gpu backend, and of their
# launches by the backend. Sourced by device_gates.sh after gates.bash.
targets='90 121'
# objects_of BUILD: the objects in use, without those left by an earlier build
objects_of() { ar t "$1/libgpu.a" | grep '[.]cuda[.]o$'; }

# --- tables of a set of objects, in a folder ---------------------------------------------------------
# tables FOLDER OBJECT...: writes FOLDER/log, the output of ptxas; /kernels, `SM KERNEL REGISTERS BYTES` with
# the bytes of shared memory that it declares; /opcodes, `SM KERNEL CODE NAME COUNT`; /loads, `SM` and a line
# of cubin_opcodes --loads
tables() {
    local to=$1 object sm
    shift
    mkdir -p "$to" && : > "$to/opcodes" && : > "$to/loads"
    cat "${@/%.o/.log}" > "$to/log"
    awk '/Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; sm = part[4]; gsub(/[^0-9]/, "", sm) }
        / Used [0-9]+ registers/ && kernel != "" {
            bytes = 0
            for (i = 3; i <= NF; i++) if ($i ~ /^smem/) bytes = $(i - 2)
            for (i = 2; i <= NF; i++) if ($i ~ /^registers/) print sm, kernel, $(i - 1), bytes
            kernel = ""
        }' "$to/log" | sort > "$to/kernels"
    for object; do
        for sm in $targets; do
            "$opcodes" "$object" $sm 2>> "$to/errors" | sed "s/^/$sm /" >> "$to/opcodes"
            "$opcodes" --loads "$object" $sm 2>> "$to/errors" | sed "s/^/$sm /" >> "$to/loads"
        done
    done
    ! grep -v 'it has no code for this target' "$to/errors"
}
names() { awk -v sm="$2" '$1 == sm { print $2 }' "$1/kernels" | sort; } # names FOLDER SM

# --- the launches --------------------------------------------------------------------------------------
# launched: runs the program on a runtime that only records launches, so that every kernel is reached
run() { # run TOKENS PROFILE WORD...: of the checkpoint in $work/model
    SAMEBIT_LAUNCHES=$work/launches "$BUILD/tests/gpu/samebit_launches" run "$work/model" --tokens "$1" -n 2 \
        --profile "$2" --backend gpu --no-step "${@:3}" > "$work/out" 2>&1 && return
    echo "  run of $1 $2 ${*:3}" && tail -n 1 "$work/out"
    return 1
}
model() { "$BUILD/samebit" make "$work/model" --replace "$@" > "$work/out" 2>&1; }
tokens() { # tokens COUNT: so many, with 8 ids
    local i
    for ((i = 1; i < $1; i++)); do printf '%d,' $((i % 8)); done
    echo 8
}
# a draw after a prompt is a call of one row
formats() { # widths of linear layers, by format
    local format rows profile ten=1,2,3,4,5,6,7,8,9,10 twenty many
    twenty=$(seq -s, 1 20) many=$(tokens 8200) # a row of 64 blocks
    for format in bf16 fp8-block fp8-channel fp8-tensor nvfp4-ct mxfp4 int4-gptq int8-gptq 'int8-gptq --group-size 128'; do
        model --preset T4 --format $format || return
        for rows in $ten $twenty; do
            for profile in sm121 sm121-w8a8 sm121-w4a4; do run $rows $profile || return; done
        done
        for profile in sm121 sm121-w8a8 sm121-w4a4; do run $many $profile || return; done
    done
}
experts() { # few pairs and many, and so many that all kernels are started
    local format profile many most
    many=$(seq -s, 1 64) most=$(tokens 1030)
    for format in bf16 fp8-block fp8-channel mxfp8 nvfp4-ct nvfp4-modelopt mxfp4 int4-gptq 'int4-gptq --group-size 32' \
        int8-gptq 'int8-gptq --group-size 128'; do
        model --preset T1 --layers 4 --no-mtp --format $format || return
        for profile in sm121 sm121-w8a8 sm121-w4a4; do run $many $profile && run $most $profile || return; done
    done
}
mixers() { # caches of many parts, widths of heads, forms of the delta rule; draws
    local preset cache rows form some thousand
    some=$(tokens 300) thousand=$(tokens 1201)
    for preset in T1 T2 T3 T6; do
        model --preset $preset || return
        for cache in act fp8; do
            for rows in 1,2,3 $some $thousand; do run $rows sm121 --set kv_cache=$cache || return; done
        done
        for form in f32 act; do
            run 1,2,3 sm121 --set delta_rule=prompt_fla --set l2norm_round=$form || return
        done
        run 1,2,3 sm121 --draft 2 --accept-mode residual --seed 42 --temp 2 --top-k 9 --top-p 0.9 || return
    done
}
meters() { # what measures a card, whose results cannot be right here
    SAMEBIT_LAUNCHES=$work/launches "$BUILD/tests/gpu/samebit_launches" bench decode --preset T1 --backend gpu \
        > "$work/out" 2>&1
    [ $? = 1 ] && grep -q 'measures the card computed a wrong result' "$work/out" && return
    echo "  bench" && tail -n 1 "$work/out"
    return 1
}
steps() { # op by op and by fused kernels: widths of heads, caches, dense layers and experts, drafts
    local preset cache how
    for preset in T1 T2 T4 T6; do
        model --preset $preset || return
        for cache in act fp8; do
            for how in graphs fused; do
                SAMEBIT_LAUNCHES=$work/launches "$BUILD/tests/gpu/device_ops_launches" $how gpu sm121,kv_cache=$cache \
                    "$work/model" > "$work/out" 2>&1 && continue
                echo "  a step of $preset, $how, kv_cache=$cache" && tail -n 1 "$work/out"
                return 1
            done
        done
    done
}
odd_layers() { # of which the stand-in has no right values either
    SAMEBIT_LAUNCHES=$work/launches "$BUILD/tests/gpu/device_ops_launches" layers gpu ref > "$work/out" 2>&1
    [ $? = 1 ] && grep -q 'differ: ' "$work/out" && return
    echo "  layers" && tail -n 1 "$work/out"
    return 1
}
launched() { : > "$work/launches" && formats && experts && mixers && meters && steps && odd_layers; }


# --- blocks of a multiprocessor -----------------------------------------------------------------------
# Its resources: registers, bytes of shared memory, warps and blocks, from the table "Technical Specifications
# per Compute Capability" of the CUDA C++ Programming Guide. A quarter of it has a quarter of the registers. A
# warp gets registers in units of 256. A block gets shared memory in units of 128 bytes, and the system takes
# 1024 bytes of it.
room_of='function up(n, unit) { return int((n + unit - 1) / unit) * unit }
    function least(a, b) { return a < b ? a : b }
    # the number of blocks that fit, and in `limit` the resource that is too small for one more
    function blocks(sm, registers, threads, bytes,    warps, by_warps, by_registers, by_bytes, n) {
        warps = up(threads, 32) / 32
        by_warps = int((sm == 90 ? 64 : 48) / warps)
        by_registers = int(4 * int(16384 / up(32 * registers, 256)) / warps)
        by_bytes = int((sm == 90 ? 233472 : 102400) / up(bytes + 1024, 128))
        n = least(least(by_warps, by_registers), least(by_bytes, sm == 90 ? 32 : 24))
        limit = n == by_bytes ? "shared" : n == by_registers ? "regs" : n == by_warps ? "warps" : "blocks"
        return n
    }'
# occupied: prints the blocks for lines `SM REGISTERS THREADS BYTES`
occupied() { awk "$room_of"' { print blocks($1, $2, $3, $4) }'; }
# table FOLDER LAUNCHES SM: one line per kernel; KiB is the size of all loads in flight, of all threads that
# fit
table() {
    printf '%-45s %3s %4s %6s %3s %3s %-6s %4s %3s %3s %2s | %2s %3s %3s | %2s %5s %5s\n' \
        kernel reg thr shared blk occ limit '<=4' 8 16 32 cp c16 pre n bytes KiB
    awk -v sm="$3" "$room_of"'
        FILENAME ~ /launches$/ { if ($2 > threads[$1]) threads[$1] = $2; if ($3 > more[$1]) more[$1] = $3; next }
        $1 != sm { next }
        FILENAME ~ /kernels$/ { registers[$2] = $3; bytes[$2] = $4; next }
        { reads = sprintf("%4d %3d %3d %2d | %2d %3d %3d | %2d %5d", $3 + $4 + $5, $6, $7, $8, $9 + $10, $11, $15, $13, $14)
          if ($2 in threads) {
              n = blocks(sm, registers[$2], threads[$2], bytes[$2] + more[$2]); warps = up(threads[$2], 32) / 32
              printf "%s# %3d %4d %6d %3d %3d %-6s %s %5.1f\n", $2, registers[$2], threads[$2], bytes[$2] + more[$2],
                  n, 100 * n * warps / (sm == 90 ? 64 : 48), limit, reads, $14 * n * threads[$2] / 1024
          } else printf "%s# %3d    - %6d   -   - %-6s %s     -\n", $2, registers[$2], bytes[$2], "-", reads
        }' "$2" "$1/kernels" "$1/loads" | c++filt | short_names | LC_ALL=C sort -u
}
# the name of a kernel without the parts common to all
short_names() {
    awk -F'#' '{ name = $1
        sub(/^void /, "", name); gsub(/[(]sb_act_form[)]/, "", name); sub(/[(][^()]*[)]$/, "", name)
        sub(/, float(, 2u)?>/, ">", name); sub(/<float, /, "<", name); sub(/<float>/, "", name); sub(/_kernel/, "", name)
        gsub(/unsigned short/, "u16", name); gsub(/unsigned char/, "u8", name); gsub(/sb_/, "", name)
        gsub(/ >/, ">", name)
        printf "%-45s%s\n", name, $2 }'
}
# tables_of FOLDER LAUNCHES: the tables of docs/gpu-kernels.md
tables_of() {
    local sm
    for sm in 121 90; do
        echo "sm_$sm, nvcc $("$nvcc" --version | sed -n 's/.*, V//p')"
        table "$1" "$2" $sm
        echo
    done
}
