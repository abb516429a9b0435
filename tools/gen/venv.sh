#!/usr/bin/env bash
# Make a Python environment of the cross-checks: tools/gen/venv.sh DIR [REQUIREMENTS]
#
# Installs exactly REQUIREMENTS (every version pinned, with --no-deps). The default is
# tools/gen/requirements.txt, the environment of the Hugging Face cross-check. Each quantizer has its
# own file, tools/gen/quant/requirements-*.txt, and its own environment, because they need different
# versions of torch and transformers. The x86-64 torch wheel of PyPI is a CUDA build and pip would add
# gigabytes of nvidia-* wheels and triton. The cross-checks compute on the CPU, so these packages are
# not installed:
#
#   package that torch requires                  why it is absent here
#   nvidia-cudnn, -cublas, -cufft, -cusolver,    only called for tensors on a GPU; but the
#   -cusparse, -cusparselt, -nvrtc, -nvjitlink,  dynamic loader wants a file with each SONAME, since
#   -nccl, -nvshmem, -cufile, -cuda-cupti        import torch maps libtorch_cuda.so
#   nvidia-cuda-runtime                          the same, and static constructors of
#                                                libtorch_cuda.so register kernels with it
#   cuda-bindings, nvtx, triton                  never loaded by import torch
#
# The C compiler makes placeholder libraries for the loader: each has the right SONAME and symbol
# versions, and every function returns 100 (cudaErrorNoDevice). So torch never sees a GPU, and the
# environment is the same with and without a CUDA toolkit. If one of these functions were ever needed,
# the result would be an error, not a wrong number.
#
# For requirements without torch there are no placeholders and no check of transformers.
#
# DOWNLOADS names a folder that keeps downloads, so that an interrupted call can continue.
#
# Idempotent: a second call verifies and returns. Needs python3 >= 3.11 ($PYTHON names another one),
# a C compiler ($CC), binutils (readelf, nm) and, for the first call, the network (0.6 GB; 1.6 GB on
# disk for each environment).
set -euo pipefail

usage() { echo "usage: tools/gen/venv.sh DIR [REQUIREMENTS]   (make or verify DIR)"; }
case "${1-}" in
    -h | --help) usage; exit 0 ;;
esac
if [ $# -lt 1 ] || [ $# -gt 2 ]; then usage >&2; exit 2; fi

venv=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
requirements=${2:-$here/requirements.txt}
python=${PYTHON:-python3}
cc=${CC:-cc}

say() { echo "venv.sh: $*"; }

# Shared libraries that FILE... need, but neither torch nor the system has.
foreign_libraries() {
    readelf -d "$@" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -E '^lib(cu|nv|nccl)' | grep -v '^libcuda\.so' | sort -u
}

# "LIBRARY VERSION" for each symbol version that FILE... needs from LIBRARY.
wanted_versions() {
    readelf -V "$@" | awk '
        / File: /           { for (i = 1; i < NF; i++) if ($i == "File:") file = $(i + 1) }
        / Name: .* Flags: / { for (i = 1; i < NF; i++) if ($i == "Name:") print file, $(i + 1) }' |
        sort -u
}

# C definitions of the functions named in FILE. Functions that describe an error are really called:
# torch puts their text into the exception after another function failed.
function_bodies() { # FILE
    local describing='^(.*(Error|Status)(String|Name)|ncclGetLastError)$'
    sed -E -e "s/$describing/const char *&(void) { return TEXT; }/" -e t \
        -e 's/.*/int &(void) { return 100; }/' "$1"
}

# Make DIR/LIBRARY that defines every function which FILE... import from it: those with one of its
# symbol versions, or, if it has none, those whose name starts like the library's (ncclSend).
make_placeholder() { # LIBRARY DIR FILE...
    local library=$1 dir=$2 prefix work version
    shift 2
    prefix=${library#lib}
    prefix=${prefix%%.so*}
    work=$(mktemp -d)
    nm -D --undefined-only "$@" | sed -n 's/^ *[Uw] //p' | sort -u >"$work/imports"
    wanted_versions "$@" | awk -v l="$library" '$1 == l { print $2 }' >"$work/versions"
    while read -r version; do
        sed -n "s/^\(.*\)@@*$version\$/\1/p" "$work/imports" >"$work/names"
        function_bodies "$work/names" >>"$work/all.c"
        {
            echo "$version { global:"
            sed 's/$/;/' "$work/names"
            echo "local: *; };"
        } >>"$work/all.map"
    done <"$work/versions"
    if [ ! -s "$work/versions" ]; then
        { grep -i "^$prefix" "$work/imports" | grep -v @ || true; } >"$work/names"
        function_bodies "$work/names" >"$work/all.c"
        echo "{ global: *; };" >"$work/all.map"
    fi
    "$cc" -shared -fPIC -O1 -DTEXT='"no GPU: placeholder"' -Wl,-soname,"$library" \
        -Wl,--version-script="$work/all.map" -o "$work/library.so" "$work/all.c"
    mv "$work/library.so" "$dir/$library"
    rm -r "$work"
}

verify() {
    "$venv/bin/python" - <<'PYTHON'
import torch
import transformers
from transformers import Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM, Qwen3NextForCausalLM
from transformers.utils import is_causal_conv1d_available, is_flash_linear_attention_available

try:
    torch.cuda.is_current_stream_capturing()  # transformers calls this and expects an exception
except RuntimeError:
    pass
if torch.cuda.is_available():
    raise SystemExit("torch sees a GPU: the cross-check must run on the CPU")
if is_causal_conv1d_available() or is_flash_linear_attention_available():
    raise SystemExit("causal-conv1d or flash-linear-attention replaces the torch path: remove it")
if (torch.eye(3) @ torch.arange(9.0).view(3, 3)).sum() != 36:
    raise SystemExit("torch computes nonsense")
print(f"{Qwen3_5ForCausalLM.__name__}, {Qwen3_5MoeForCausalLM.__name__}, "
      f"{Qwen3NextForCausalLM.__name__} import")
print(f"torch {torch.__version__}, transformers {transformers.__version__}, "
      f"CPU capability {torch.backends.cpu.get_cpu_capability()}")
PYTHON
}

if [ ! -x "$venv/bin/python" ]; then
    say "making $venv with $("$python" --version)"
    "$python" -m venv "$venv"
fi
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
placeholders=$site/nvidia/cu13/lib # on the RUNPATH of every torch library
stamp=$venv/requirements.installed
if cmp -s "$requirements" "$stamp"; then
    say "packages are as pinned"
else
    say "installing the packages of $(basename "$requirements"), without dependencies"
    if [ -n "${DOWNLOADS-}" ]; then cache=(--cache-dir "$DOWNLOADS"); else cache=(--no-cache-dir); fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "${cache[@]}" \
        --only-binary :all: -r "$requirements"
    rm -rf "$placeholders" # they belong to one torch version
    cp "$requirements" "$stamp"
fi
if ! grep -q '^torch==' "$requirements"; then
    say "ready: $venv/bin/python"
    exit
fi

# libcaffe2_nvrtc.so is only opened when a kernel is compiled at run time, so it is left out.
mapfile -t torch_files < <(find "$site/torch/lib" -name '*.so' ! -name 'libcaffe2_nvrtc.so' | sort
                           find "$site/torch" -maxdepth 1 -name '_C.*.so')
mkdir -p "$placeholders"
for library in $(foreign_libraries "${torch_files[@]}"); do
    if [ -e "$placeholders/$library" ]; then continue; fi
    say "placeholder for $library"
    make_placeholder "$library" "$placeholders" "${torch_files[@]}"
done

say "checking that the classes import and the torch path is the only one"
verify
say "ready: $venv/bin/python"
