#!/usr/bin/env bash
# Checks that every source of ref/ and tools/ compiles for macOS on AArch64, with zig, which has the headers of its C
# library: `make check-macos`, and a part of `make check-all`. Nothing is linked, and nothing has run there. The
# headers of libraries are those of this system. One test for each folder.
#
# zig: $ZIG, the one in PATH, or the one of `make wheel` (BUILD/venv-wheel). SKIPPED without it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
unset MAKEFLAGS MFLAGS MAKELEVEL
export LC_ALL=C
mkdir -p "${BUILD:-build}/macos"
build=$(realpath "${BUILD:-build}")
work=$build/macos
passed=0 failed=0
finish() { echo "$passed passed, $failed failed, ${1:-0} skipped" && exit $((failed > 0)); }
check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@" > "$work/said" 2>&1; then
        passed=$((passed + 1)) && echo "ok      $name"
    else
        failed=$((failed + 1)) && echo "FAILED  $name" && head -n 20 "$work/said"
    fi
}

zig=${ZIG-}
[ -n "$zig" ] || zig=$(command -v zig) || zig=$(echo "$build"/venv-wheel/lib/python*/site-packages/ziglang/zig)
if ! "$zig" version > "$work/version" 2>&1; then
    echo "SKIPPED every source for macOS: no zig (make wheel installs one)"
    finish 1
fi
export ZIG_GLOBAL_CACHE_DIR=$work/cache ZIG_LOCAL_CACHE_DIR=$work/cache
cat > "$work/cc" <<CC
#!/bin/sh
case "\$*" in # zig would leave a file a.o here
    -dumpmachine) echo aarch64-macos; exit ;;
    --version) echo "clang of zig $(cat "$work/version")"; exit ;;
esac
exec "$zig" cc -target aarch64-macos "\$@"
CC
chmod +x "$work/cc"
bash tools/pack/headers.sh /usr "$(uname -m)-linux-gnu" "$work/include" || exit 2

# compiles TEXT: whether TEXT compiles; the two checks show that this compiler can fail
compiles() { echo "$1" | "$work/cc" -x c -c - -o "$work/one.o"; }
not() { ! "$@"; }
check "the compiler is one for macOS" compiles '#if !__APPLE__ || !__aarch64__
#error
#endif
#include <stdio.h>'
check "it does not read the headers of Linux" not compiles '#include <sys/sysinfo.h>'

settings=(BUILD="$work" CC="$work/cc" OPT=-O0 ROUNDING=-frounding-math NVCC= CXX=none
    JANSSON_CFLAGS="-isystem $work/include")
make -s -k -j"${JOBS:-$(nproc)}" "${settings[@]}" objects > "$work/log" 2>&1
compiled() { # compiled FOLDER: each of its sources; an object may be left of a source that compiled before
    local source bad=0
    for source in "$1"/*.c; do
        [ -e "$work/obj/${source%.c}.o" ] && ! grep -qF "/obj/${source%.c}.o] Error" "$work/log" || { bad=1 && echo "$source" && grep -F "$source:" "$work/log"; }
    done
    return $bad
}
for folder in $(printf '%s\n' ref/*/*.c ref/*/*/*.c tools/*/*.c | xargs dirname | sort -u); do
    check "$folder" compiled "$folder"
done
finish
