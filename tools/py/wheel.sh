#!/usr/bin/env bash
# Wheels of the package for x86-64 and AArch64 Linux: `make wheel` or tools/py/wheel.sh [ARCH...] (x86_64 aarch64).
# A wheel has the package, the library and the program. The library is compiled by zig for an old glibc, with the
# code of jansson and PCRE2 in it; the program is static. auditwheel says which systems the result runs on: glibc 2.28
# or older must suffice. Library and program have no kernels for a device.
#
# Needs Python 3.9 or later, the network for the packages of requirements-wheel.txt, and for another architecture than
# this one the packages of `tools/deps cross`. BUILD=DIR; the wheels are in BUILD/wheel/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "${BUILD:-build}"
build=$(realpath "${BUILD:-build}")
work=$build/wheel
archs=("$@")
[ ${#archs[@]} -gt 0 ] || archs=(x86_64 aarch64)
newest=28 # of glibc 2.N
unset MAKEFLAGS MFLAGS # each make has jobs of its own

fail() { echo "wheel: $*" >&2; exit 1; }
mkdir -p "$work"
env=$build/venv-wheel
if ! cmp -s tools/py/requirements-wheel.txt "$env/made"; then
    rm -rf "$env"
    "${PYTHON:-python3}" -m venv "$env" || fail "no Python environment can be made: apt-get install python3-venv"
    "$env/bin/pip" install -q --no-deps -r tools/py/requirements-wheel.txt
    cp tools/py/requirements-wheel.txt "$env/made"
fi

wheel_of() { # ARCH
    local arch=$1 triplet=$1-linux-gnu root=/usr here=$work/$1 cc
    if [ "$arch" != "$(uname -m)" ]; then
        [ "$arch" = aarch64 ] || fail "$arch: expected x86_64 on such a machine, or aarch64"
        tools/deps cross > "$work/deps.log" 2>&1 || fail "$arch: tools/deps cross failed, see $work/deps.log"
        root=$PWD/build/cross/arm64/usr
    fi
    local lib=$root/lib/$triplet
    mkdir -p "$here"
    bash tools/pack/headers.sh "$root" "$triplet" "$here/include"
    cc=$here/cc
    printf '#!/bin/sh\nexec "%s" -m ziglang cc -target %s-linux-gnu.2.%s "$@"\n' "$env/bin/python" "$arch" "$newest" > "$cc"
    chmod +x "$cc"
    echo "wheel: the library for $arch"
    make -s BUILD="$here/library" CC="$cc" ROUNDING=-frounding-math NVCC= JANSSON_CFLAGS="-isystem $here/include" \
        JANSSON_LIBS="$lib/libjansson.a" PCRE2_LIBS="$lib/libpcre2-8.a" UTF8PROC_LIBS= ZIP_LIBS= CRYPTO_LIBS= \
        "$here/library/libsamebit.so.0"
    echo "wheel: the program for $arch"
    local program=$build/static/samebit
    if [ "$root" = /usr ]; then
        make -s BUILD="$build" static
    else
        program=$here/program/static/samebit
        make -s BUILD="$here/program" CC="$triplet-gcc" NVCC= JANSSON_CFLAGS="-isystem $here/include" \
            JANSSON_LIBS="$lib/libjansson.a" PCRE2_LIBS="$lib/libpcre2-8.a" UTF8PROC_LIBS="$lib/libutf8proc.a" \
            ZIP_LIBS="$lib/libminizip.a $lib/libz.a" CRYPTO_LIBS="$lib/libcrypto.a" static
    fi
    rm -rf "$here/plain" "$here/many"
    SAMEBIT_LIBRARY=$here/library/libsamebit.so.0 SAMEBIT_PROGRAM=$program SAMEBIT_PLATFORM=linux_$arch \
        "$env/bin/pip" wheel -q --no-deps -w "$here/plain" ./tools/py
    PATH=$env/bin:$PATH auditwheel repair --plat auto -w "$here/many" "$here"/plain/*.whl > "$here/repair" 2>&1 ||
        { cat "$here/repair"; fail "$arch: auditwheel refuses it"; }
    local wheel
    wheel=$(echo "$here"/many/*.whl)
    # manylinux_2_17_x86_64.manylinux2014_x86_64: the oldest of its tags
    local oldest
    oldest=$(basename "$wheel" | grep -oE 'manylinux_2_[0-9]+' | cut -d_ -f3 | sort -n | head -n 1)
    [ -n "$oldest" ] && [ "$oldest" -le "$newest" ] || fail "$wheel needs glibc 2.$oldest, expected at most 2.$newest"
    cp "$wheel" "$work/"
    echo "$work/$(basename "$wheel")"
}
for arch in "${archs[@]}"; do wheel_of "$arch"; done
