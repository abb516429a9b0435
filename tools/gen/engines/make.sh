#!/usr/bin/env bash
# make engines: makes an environment for each engine that is compared with the reference.
#
#   tools/gen/engines/make.sh [ENGINE...]     under $BUILD (build): venv-vllm, venv-mlx, ..., llamacpp
#
# Installs exactly requirements-ENGINE.txt (tools/gen/venv.sh). llama.cpp is built from source, with venv-hf for its
# converter. An existing environment is only checked, and downloads and compiled files are kept until it is complete, so
# an interrupted run can continue. Ends with "N made, N failed": an engine that cannot be installed is named with the
# reason, the others are still made, and the exit status is 1.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 2
build=${BUILD:-build}
engines=("$@")
[ $# -gt 0 ] || engines=(vllm mlx transformers speculators llamacpp)

cost() { # ENGINE: measured on two shared processors
    case $1 in
        vllm) echo "download 0.9 GB, on disk 2.7 GB, 2 to 15 minutes" ;;
        mlx) echo "download 0.1 GB, on disk 0.4 GB, 1 to 8 minutes" ;;
        llamacpp) echo "download 0.7 GB, on disk 1.9 GB, 5 to 40 minutes, 9 of processor time for compiling" ;;
        speculators) echo "download 0.7 GB, on disk 2.0 GB, 2 to 15 minutes" ;;
        transformers) echo "download 0.6 GB, on disk 1.9 GB, 1 to 10 minutes" ;;
        *) return 1 ;;
    esac
}
for engine in "${engines[@]}"; do
    known=$(cost "$engine") || { echo "engines: no engine is called $engine"; exit 2; }
    echo "engines: $engine: $known"
done

# Modules that are imported late must exist, too: the versions are pinned without dependencies.
imports() { # ENGINE
    case $1 in
        vllm) echo "import vllm.v1.engine.llm_engine, vllm.v1.structured_output" ;;
        mlx) echo "import mlx_lm.generate, mlx_lm.utils" ;;
        speculators) echo "import runpy; runpy.run_path('tools/gen/engines/speculators_run.py')" ;;
        transformers) echo "import transformers.models.qwen3_5_moe.modeling_qwen3_5_moe" ;;
        llamacpp) echo "import numpy, torch, transformers" ;;
    esac
}

environment() { # ENGINE
    case $1 in
        llamacpp) echo "$build/venv-hf" ;;
        *) echo "$build/venv-$1" ;;
    esac
}
make_engine() { # ENGINE
    if [ "$1" = llamacpp ]; then
        tools/gen/venv.sh "$build/venv-hf" && tools/record/llamacpp/build.sh "$build/llamacpp"
    else
        tools/gen/venv.sh "$build/venv-$1" "tools/gen/engines/requirements-$1.txt"
    fi
}

made=0 failed=0
for engine in "${engines[@]}"; do
    log=$build/engines/make-$engine.log
    mkdir -p "$build/engines"
    folder=$(environment "$engine")
    if DOWNLOADS=$build/engines/downloads make_engine "$engine" > "$log" 2>&1 &&
        "$folder/bin/python" -c "$(imports "$engine")" >> "$log" 2>&1; then
        made=$((made + 1))
        [ "$engine" != llamacpp ] || folder=$build/llamacpp
        echo "ready   $engine: $folder, $(du -sh "$folder" | cut -f1)"
    else
        failed=$((failed + 1))
        echo "FAILED  $engine: $(grep -v '^ *$' "$log" | tail -n 1)"
    fi
done
[ $failed -gt 0 ] || rm -rf "$build/engines/downloads"
echo "$made made, $failed failed"
[ $failed = 0 ]
