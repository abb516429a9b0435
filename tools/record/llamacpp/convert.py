#!/usr/bin/env python3
"""Runs llama.cpp's own converter on a folder of `samebit make --tokenizer`.

    convert.py SOURCE CKPT OUT.gguf [options of convert_hf_to_gguf.py]

SOURCE is llama.cpp's source. Its converter identifies a pre-tokenizer by the digest of a text
tokenized with it, and refuses unknown ones. The tokenizer of `make` splits text like Qwen3.5's, so
it is passed off as that one. For Qwen3 the converter looks for a tokenizer.model first, with the package
sentencepiece; `make` writes no such file, and the answer is given without the package. Nothing else is changed.

Needs torch, transformers and numpy (tools/gen/venv.sh).
"""

import runpy
import sys
from pathlib import Path


def no_sentencepiece(_self: object) -> None:
    raise FileNotFoundError("tokenizer.model")


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    source, checkpoint, out, *options = sys.argv[1:]
    sys.path[:0] = [source, str(Path(source) / "gguf-py")]
    from conversion.base import TextModel

    TextModel.get_vocab_base_pre = lambda _self, _tokenizer: "qwen35"
    TextModel._set_vocab_sentencepiece = no_sentencepiece
    program = str(Path(source) / "convert_hf_to_gguf.py")
    sys.argv = [program, checkpoint, "--outfile", out, *options]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
