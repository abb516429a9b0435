#!/usr/bin/env bash
# Prints the variables with which `make` builds for AArch64 on another machine, one a line: tools/pack/cross.sh FOLDER
# [--device]. The libraries are the static ones of `tools/deps cross`, so that the programs need only glibc. FOLDER gets
# links to their headers.
#
# With --device, the gpu backend is built too: nvcc compiles the kernels, and takes the cross-compiler for the code
# around them. The CUDA runtime for AArch64 (libcudart_static.a) is NVIDIA's package on PyPI, pinned in
# tools/py/requirements-cuda.txt; it is downloaded into build/cross/cuda.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=${1:?usage: tools/pack/cross.sh FOLDER [--device]} triplet=aarch64-linux-gnu
root=$PWD/build/cross/arm64/usr cuda=$PWD/build/cross/cuda
lib=$root/lib/$triplet
fail() { echo "cross: $*" >&2; exit 1; }

tools/deps cross >&2 || fail "tools/deps cross failed"
mkdir -p "$folder"
folder=$(realpath "$folder")
bash tools/pack/headers.sh "$root" "$triplet" "$folder"
printf '%s\n' "CC=$triplet-gcc" "JANSSON_CFLAGS=-isystem $folder" "JANSSON_LIBS=$lib/libjansson.a" \
    "PCRE2_LIBS=$lib/libpcre2-8.a" "UTF8PROC_LIBS=$lib/libutf8proc.a" "ZIP_LIBS=$lib/libminizip.a $lib/libz.a" \
    "CRYPTO_LIBS=$lib/libcrypto.a"
if [ "${2-}" != --device ]; then
    echo NVCC=
    exit
fi
nvcc=${NVCC:-$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2> /dev/null || true)}
[ -n "$nvcc" ] || fail "the kernels need nvcc, which is not installed"
# tools/py/requirements-cuda.txt has the release that nvcc is of
wanted=$(sed -n 's/^nvidia-cuda-runtime==\([0-9]*[.][0-9]*\)[.].*/\1/p' tools/py/requirements-cuda.txt)
"$nvcc" --version | grep -q "release $wanted," ||
    fail "$nvcc is not of release $wanted: tools/py/requirements-cuda.txt has the CUDA runtime of that one"
runtime=$cuda/nvidia/cu${wanted%.*}/lib/libcudart_static.a
if [ ! -e "$runtime" ] || ! cmp -s tools/py/requirements-cuda.txt "$cuda/made"; then
    rm -rf "$cuda" && mkdir -p "$cuda"
    "${PYTHON:-python3}" -m pip install -q --no-deps --require-hashes --only-binary=:all: --platform manylinux2014_aarch64 \
        --target "$cuda" -r tools/py/requirements-cuda.txt >&2 || fail "the CUDA runtime for AArch64 cannot be downloaded"
    cp tools/py/requirements-cuda.txt "$cuda/made"
fi
# the tests of a device need neither cmocka nor MPFR
printf '%s\n' "NVCC=$nvcc" "CUDART=$runtime" \
    "TEST_LIBS=$(printf "$lib/lib%s.a " jansson pcre2-8 utf8proc minizip z crypto)-lm"
