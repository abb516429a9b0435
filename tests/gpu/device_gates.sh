#!/ usr / bin / env bash
#What the build of the gpu backend said of its kernels : that there are some for both targets,     \
    that none spills,
#and that none has more shared memory than a block may have.Needs the build, and no GPU.
set - uo pipefail cd "$(dirname " $
{
    BASH_SOURCE[0]
}
")/../.." || exit 2 BUILD = ${BUILD : -build} passed = 0 failed = 0 skipped = 0 work =
    $(mktemp - d) || exit 2 trap 'rm -rf "$work"' EXIT

                     check()
{
#check NAME COMMAND... local name = $1 shift if "$@";
    then passed = $((passed + 1));
    else failed = $((failed + 1)) && echo "FAILED $name";
    fi
}
#kernels ARCHITECTURE LOG... : how many ptxas speaks of
kernels()
{
    local a = $1;
    shift;
    cat "$@" | grep - c "Compiling entry function .* for 'sm_$a'";
}
in_registers(){
    #LOG... : every kernel,
    and there is one cat "$@" > "$work/all" grep - q 'bytes spill stores' "$work/all" &&
        !grep 'bytes spill stores' "$work/all" |
            grep - qv ' 0 bytes spill stores, 0 bytes spill loads'
} fits(){
    #LOG... : 99 KiB of static shared memory cat "$@" |
    awk '{ for (i = 3; i <= NF; i++) if ($i ~ /^smem/ && $(i - 2) > 101376) exit 1 }'
}

        mapfile
        - t logs < <
    (find "$BUILD/device" - name '*.log' 2 > / dev / null | sort) if[$ { #logs[@] } = 0];
then["${CI-}" = true] || skipped =
    1 echo "SKIPPED device code: the program was built without nvcc; that the kernels compile for "
           "sm_121a and sm_90a"
           "was not covered" else check "kernels for sm_90a" test "$(kernels 90a " $
{
    logs[@]
}
")" - gt 10 check "as many for both" test "$(kernels 90a " $
{
    logs[@]
}
")" = "$(kernels 121a " $
{
    logs[@]
}
")" check "a kernel spills" in_registers "${logs[@]}" check
          "a kernel has too much shared memory" fits "${logs[@]}" check
          "a warning" eval '! cat "${logs[@]}" | grep -i warning' fi

#and it would be seen
              echo 'ptxas info    : Used 40 registers, used 1 barriers, 101380 bytes smem' >
    "$work/large" echo '    0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads' >
    "$work/spills" check "too much is not seen" eval '! fits "$work/large"' check
    "a spill is not seen" eval '! in_registers "$work/spills"' echo
    "$passed passed, $failed failed, $skipped skipped"[$failed = 0]
