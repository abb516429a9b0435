#!/usr/bin/env bash
# make engines: makes an environment for each engine that is compared with the reference.
#
#   tools/gen/engines/make.sh [ENGINE...]     under $BUILD (build): venv-vllm, venv-mlx, venv-transformers
#
# Installs exactly requirements-ENGINE.txt (tools/gen/venv.sh). An existing environment is only checked, and
# downloads are kept until it is complete, so an interrupted run can continue. Ends with "N made, N failed": an
# engine that cannot be installed is named with the reason, the others are still made, and the exit status is 1.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 2
build=${BUILD:-build}
engines=("$@")
[ $# -gt 0 ] || engines=(vllm mlx transformers)

cost() { # ENGINE: measured on two shared processors
    case $1 in
        vllm) echo "download 0.9 GB, on disk 2.7 GB, 6 to 15 minutes" ;;
        mlx) echo "download 0.1 GB, on disk 0.4 GB, 2 to 8 minutes" ;;
        transformers) echo "download 0.6 GB, on disk 1.9 GB, 4 to 10 minutes" ;;
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
        transformers) echo "import transformers.models.qwen3_5_moe.modeling_qwen3_5_moe" ;;
    esac
}

made=0 failed=0
for engine in "${engines[@]}"; do
    log=$build/engines/make-$engine.log
    mkdir -p "$build/engines"
    if DOWNLOADS=$build/engines/downloads tools/gen/venv.sh "$build/venv-$engine" \
        "tools/gen/engines/requirements-$engine.txt" > "$log" 2>&1 &&
        "$build/venv-$engine/bin/python" -c "$(imports "$engine")" >> "$log" 2>&1; then
        made=$((made + 1))
        echo "ready   $engine: $build/venv-$engine, $(du -sh "$build/venv-$engine" | cut -f1)"
    else
        failed=$((failed + 1))
        echo "FAILED  $engine: $(grep -v '^ *$' "$log" | tail -n 1)"
    fi
done
[ $failed -gt 0 ] || rm -rf "$build/engines/downloads"
echo "$made made, $failed failed"
[ $failed = 0 ]
