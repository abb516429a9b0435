"""Loads the tokenizer of a folder of `samebit make --tokenizer` with tokenizers and transformers.

    tokenizer_loads.py FOLDER SAMEBIT

Both must give the same ids as SAMEBIT tokenize, and the text of these ids.
"""

import json
import subprocess
import sys

from tokenizers import Tokenizer
from transformers import AutoTokenizer

from tokenizer_texts import CASES, PARAGRAPHS

folder, samebit = sys.argv[1:]
package = Tokenizer.from_file(f"{folder}/tokenizer.json")
auto = AutoTokenizer.from_pretrained(folder)
if (auto.eos_token, auto.pad_token) != ("<|im_end|>", "<|endoftext|>"):
    raise SystemExit(f"transformers: eos {auto.eos_token}, pad {auto.pad_token}")
texts = [text for text in [*PARAGRAPHS, *CASES[:90]] if text and "\0" not in text and not text.startswith("-")]
for text in texts:
    document = subprocess.run([samebit, "tokenize", folder, text, "--json"], capture_output=True, check=True)
    ids = json.loads(document.stdout)["tokens"]
    for name, other in ("tokenizers", package.encode(text).ids), ("transformers", auto(text)["input_ids"]):
        if other != ids:
            raise SystemExit(f"{name}: {other}, samebit: {ids}, of {text!r}")
    if package.decode(ids, skip_special_tokens=False) != json.loads(document.stdout)["text"]:
        raise SystemExit(f"another text of {ids}")
print(f"{len(texts)} texts agree, {package.get_vocab_size()} ids")
