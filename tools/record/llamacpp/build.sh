#!/usr/bin/env bash
# Builds llama.cpp and llama_record from the pinned source: tools/record/llamacpp/build.sh DIR
#
# DIR/source is the source, DIR/bin has llama_record, llama-perplexity and llama-server. For the CPU, with AVX2
# and FMA, and no options that depend on the build machine. The first build takes half an hour on two cores and
# downloads 75 MB; existing files are kept. Needs cmake, ninja, a C++17 compiler and pip.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:?usage: tools/record/llamacpp/build.sh DIR}
commit=0c1e57098
mkdir -p "$dir/bin"
if [ -x "$dir/bin/llama-server" ] && [ "$dir/bin/llama_record" -nt "$here/llama_record.cpp" ]; then exit; fi
dir=$(cd "$dir" && pwd)
source=$dir/source

if [ ! -f "$source/CMakeLists.txt" ]; then
    mkdir -p "$dir/sdist"
    "${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
        --require-hashes -r "$here/requirements.txt" -d "$dir/sdist"
    rm -rf "$dir/unpacked"
    mkdir "$dir/unpacked"
    tar -xzf "$dir"/sdist/llama_cpp_python-*.tar.gz -C "$dir/unpacked"
    mv "$dir"/unpacked/*/vendor/llama.cpp "$source"
    rm -rf "$dir/unpacked"
fi

off=(BUILD_SHARED_LIBS GGML_NATIVE GGML_OPENMP GGML_LLAMAFILE GGML_CCACHE LLAMA_OPENSSL LLAMA_BUILD_UI
    LLAMA_USE_PREBUILT_UI LLAMA_BUILD_TESTS LLAMA_BUILD_EXAMPLES LLAMA_BUILD_APP)
off=("${off[@]/#/-D}")
nice -n 10 cmake -S "$source" -B "$dir/cmake" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    "${off[@]/%/=OFF}" -DLLAMA_BUILD_NUMBER=0 -DLLAMA_BUILD_COMMIT=$commit > "$dir/cmake.log"
nice -n 10 ninja -C "$dir/cmake" -j "${JOBS:-2}" llama-perplexity llama-server > "$dir/ninja.log"
cp "$dir/cmake/bin/llama-perplexity" "$dir/cmake/bin/llama-server" "$dir/bin/"

mapfile -t libraries < <(find "$dir/cmake" -name 'libllama.a' -o -name 'libllama-common*.a' -o -name 'libggml*.a' \
    -o -name 'libcpp-httplib.a' -o -name 'libvendor-hash.a')
"${CXX:-c++}" -std=c++17 -O1 -Wall -Wextra -DLLAMA_RECORD_COMMIT="\"$commit\"" "-I$source/include" \
    "-I$source/ggml/include" "-I$source/common" "-I$source/vendor" "$here/llama_record.cpp" -o "$dir/bin/llama_record" \
    -Wl,--start-group "${libraries[@]}" -Wl,--end-group -pthread -ldl
