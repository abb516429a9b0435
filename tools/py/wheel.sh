#!/usr/bin/env bash
# Wheels of the package for x86-64 and AArch64 Linux: `make wheel` or tools/py/wheel.sh [ARCH...] (x86_64 aarch64).
# A wheel has the package, the library and the program. The library is compiled by zig for an old glibc, with the
# code of jansson and PCRE2 in it; the program is static. auditwheel says which systems the result runs on: glibc 2.28
# or older must suffice. Library and program have no kernels for a device.
#
# aarch64-cuda is the same for AArch64 with kernels in the program, for a DGX Spark: nvcc compiles them, CUDA's runtime
# is linked into the program, and glibc is that of the cross-compiler. Its version ends in +cuda and the release of
# CUDA, and it is in BUILD/wheel/cuda/, so that no pip takes it for the wheel that runs everywhere.
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
newest=28      # of glibc 2.N
newest_cuda=39 # that of Ubuntu 24.04, which a DGX Spark runs
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
    local arch=${1%-cuda} triplet root=/usr here=$work/$1 cc given program include cross variables=()
    triplet=$arch-linux-gnu include=$work/$arch/include
    if [ "$arch" != "$(uname -m)" ]; then
        [ "$arch" = aarch64 ] || fail "$arch: expected x86_64 on such a machine, or aarch64"
        root=$PWD/build/cross/arm64/usr
        # the build with kernels is also that of `make gpu-bundle ARCH=aarch64`
        if [ "$arch" = "$1" ]; then cross=("$include"); else cross=("$build/aarch64-device/include" --device); fi
        given=$(bash tools/pack/cross.sh "${cross[@]}") || fail "$1: tools/pack/cross.sh failed"
        mapfile -t variables <<< "$given"
    elif [ "$arch" != "$1" ]; then
        fail "$1: expected another machine than AArch64, on which \`make install\` has the kernels"
    fi
    local lib=$root/lib/$triplet
    mkdir -p "$here"
    bash tools/pack/headers.sh "$root" "$triplet" "$include"
    cc=$here/cc
    printf '#!/bin/sh\nexec "%s" -m ziglang cc -target %s-linux-gnu.2.%s "$@"\n' "$env/bin/python" "$arch" "$newest" > "$cc"
    chmod +x "$cc"
    echo "wheel: the library for $arch"
    make -s BUILD="$work/$arch/library" CC="$cc" ROUNDING=-frounding-math NVCC= JANSSON_CFLAGS="-isystem $include" \
        JANSSON_LIBS="$lib/libjansson.a" PCRE2_LIBS="$lib/libpcre2-8.a" UTF8PROC_LIBS= ZIP_LIBS= CRYPTO_LIBS= \
        "$work/$arch/library/libsamebit.so.0"
    echo "wheel: the program for $arch"
    if [ "$root" = /usr ]; then
        program=$build/static/samebit
        make -s BUILD="$build" static
    elif [ "$arch" = "$1" ]; then
        program=$here/program/static/samebit
        make -s BUILD="$here/program" "${variables[@]}" static
    else
        program=$here/samebit
        make -s BUILD="$build/aarch64-device" "${variables[@]}" program
        "$triplet-strip" -o "$program" "$build/aarch64-device/samebit"
        bash tools/pack/spdx.sh "$program" --cuda > "$program.spdx.json"
    fi
    rm -rf "$here/plain" "$here/many"
    SAMEBIT_LIBRARY=$work/$arch/library/libsamebit.so.0 SAMEBIT_PROGRAM=$program SAMEBIT_PLATFORM=linux_$arch \
        SAMEBIT_LOCAL=$([ "$arch" = "$1" ] || sed -n 's/^nvidia-cuda-runtime==\([0-9]*\)[.].*/cuda\1/p' tools/py/requirements-cuda.txt) \
        "$env/bin/pip" wheel -q --no-deps -w "$here/plain" ./tools/py
    PATH=$env/bin:$PATH auditwheel repair --plat auto -w "$here/many" "$here"/plain/*.whl > "$here/repair" 2>&1 ||
        { cat "$here/repair"; fail "$1: auditwheel refuses it"; }
    local wheel to=$work least=$newest
    [ "$arch" = "$1" ] || { to=$work/cuda least=$newest_cuda && mkdir -p "$to"; }
    wheel=$(echo "$here"/many/*.whl)
    # manylinux_2_17_x86_64.manylinux2014_x86_64: the oldest of its tags
    local oldest
    oldest=$(basename "$wheel" | grep -oE 'manylinux_2_[0-9]+' | cut -d_ -f3 | sort -n | head -n 1)
    [ -n "$oldest" ] && [ "$oldest" -le "$least" ] || fail "$wheel needs glibc 2.$oldest, expected at most 2.$least"
    cp "$wheel" "$to/"
    echo "$to/$(basename "$wheel")"
}
for arch in "${archs[@]}"; do wheel_of "$arch"; done
