#!/usr/bin/env bash
# Builds llama.cpp and llama_record from the pinned source: tools/record/llamacpp/build.sh DIR [server]
#
# DIR/source is the source. DIR/bin has llama_record, llama_record_faulty (with the mistakes of faults.def) and
# llama-perplexity; with `server`, llama-server, too. For the CPU, with AVX2 and FMA, and no options that depend on the
# build machine. Existing files are kept, so an interrupted build continues. Needs cmake, ninja, a C++17 compiler and
# pip; make.sh of tools/gen/engines says what it costs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:?usage: tools/record/llamacpp/build.sh DIR [server]}
targets=(llama-perplexity)
[ "${2-}" != server ] || targets+=(llama-server)
commit=0c1e57098
mkdir -p "$dir/bin" "$dir/sdist"
dir=$(cd "$dir" && pwd)
source=$dir/source

# Only this package: `--no-binary :all:` would also build the tools that pip needs to read its metadata.
if [ ! -f "$source/CMakeLists.txt" ]; then
    "${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-python \
        --require-hashes -r "$here/requirements.txt" -d "$dir/sdist"
    rm -rf "$dir/unpacked"
    mkdir "$dir/unpacked"
    tar -xzf "$dir"/sdist/llama_cpp_python-*.tar.gz -C "$dir/unpacked"
    mv "$dir"/unpacked/*/vendor/llama.cpp "$source"
    rm -rf "$dir/unpacked"
fi

if [ ! -f "$dir/cmake/build.ninja" ]; then
    off=(BUILD_SHARED_LIBS GGML_NATIVE GGML_OPENMP GGML_LLAMAFILE GGML_CCACHE LLAMA_OPENSSL LLAMA_BUILD_UI
        LLAMA_USE_PREBUILT_UI LLAMA_BUILD_TESTS LLAMA_BUILD_EXAMPLES LLAMA_BUILD_APP)
    off=("${off[@]/#/-D}")
    nice -n 10 cmake -S "$source" -B "$dir/cmake" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" "-DCMAKE_PROJECT_ggml_INCLUDE=$here/ggml.cmake" \
        "${off[@]/%/=OFF}" -DLLAMA_BUILD_NUMBER=0 -DLLAMA_BUILD_COMMIT=$commit > "$dir/cmake.log" 2>&1
fi
nice -n 10 ninja -C "$dir/cmake" -j "${JOBS:-2}" "${targets[@]}" > "$dir/ninja.log" || { tail "$dir/ninja.log"; exit 1; }
for target in "${targets[@]}"; do
    cp -u "$dir/cmake/bin/$target" "$dir/bin/"
done

mapfile -t libraries < <(find "$dir/cmake" -name 'libllama.a' -o -name 'libllama-common*.a' -o -name 'libggml*.a' \
    -o -name 'libcpp-httplib.a' -o -name 'libvendor-hash.a')
compile() { # SOURCE
    "${CXX:-c++}" -std=c++17 -O1 -Wall -Wextra -DLLAMA_RECORD_COMMIT="\"$commit\"" "-I$source/include" \
        "-I$source/ggml/include" "-I$source/common" "-I$source/vendor" -c "$here/$1.cpp" -o "$dir/$1.o"
}
program() { # NAME, further arguments
    "${CXX:-c++}" "$dir/llama_record.o" "${@:2}" -o "$dir/bin/$1" \
        -Wl,--start-group "${libraries[@]}" -Wl,--end-group -pthread -ldl
}
last=$dir/bin/llama_record_faulty
for file in "$here"/*.cpp "$here/faults.def" "$here/build.sh" "${libraries[@]}"; do
    [ "$file" -nt "$last" ] || continue
    compile llama_record
    compile faults
    mapfile -t wrapped < <(sed -n 's/^WRAP([^,]*, \([a-zA-Z_0-9]*\),.*/-Wl,--wrap=\1/p' "$here/faults.cpp")
    program llama_record
    program llama_record_faulty "$dir/faults.o" "${wrapped[@]}"
    break
done
