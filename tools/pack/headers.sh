#!/usr/bin/env bash
# Links the headers of the program's libraries, and nothing else, into a folder: tools/pack/headers.sh ROOT TRIPLET
# FOLDER. For a compiler with its own C library: the folder of the system also has headers of the system's C library.
set -euo pipefail
root=$1 triplet=$2 folder=$3
rm -rf "$folder" && mkdir -p "$folder/openssl"
for name in xxhash.h xxh3.h jansson.h jansson_config.h pcre2.h utf8proc.h zlib.h zconf.h minizip; do
    for from in "$root/include/$triplet" "$root/include"; do
        [ ! -e "$from/$name" ] || ln -sfn "$(realpath "$from/$name")" "$folder/$name"
    done
done
for from in "$root/include" "$root/include/$triplet"; do
    ln -sf "$(realpath "$from/openssl")"/*.h "$folder/openssl/"
done
