"""Tokenizers trained and texts tokenized by the real package, for tests/unit/test_tokenizer.c.

    tokenizer.py OUT [--random N] [--seed S]

writes OUT/NAME.json (a tokenizer.json) and OUT/NAME.cases for each variant below. golden/tokenizer was
made without options; `make crosscheck` makes another folder with more random texts and another seed, and
runs the same test on it. The lines of a .cases file:

    t TEXT      a text; \\xHH is a byte, and t*N a text repeated N times
    i 5 7*3     its ids: 5, 7, 7, 7
    n N HASH    instead, for many ids: their number, and FNV-1a (64 bits) of them, 4 bytes each
    d TEXT      the decoded ids, with special tokens, and U+FFFD for invalid UTF-8;
                d= if that is the text
    x 5 7       ids without a text; a d line follows

Random texts use only characters that are the same in all versions of Unicode in use: their general
category and normalization are equal in Unicode 3.2 (unicodedata.ucd_3_2_0) and in the table of this
Python. A category that did not change in twenty years is assumed to be the same in PCRE2, utf8proc,
Oniguruma and the Rust crates. Newer characters occur in the texts only by name.
"""

import argparse
import json
import random
import unicodedata
from pathlib import Path

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_texts import CASES, PARAGRAPHS, RUNS

QWEN3_5 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
           r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, **options}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def added(content, special=False, normalized=False, single_word=False, lstrip=False, rstrip=False):
    return {"content": content, "single_word": single_word, "lstrip": lstrip, "rstrip": rstrip,
            "normalized": normalized, "special": special}


PUBLISHED = [added("<|endoftext|>", True), added("<|im_start|>", True), added("<|im_end|>", True),
             added("<think>"), added("</think>")]
NFC = {"type": "NFC"}
QWEN = sequence(split(QWEN3_5), byte_level(use_regex=False))

ADDED = [
    added("<|endoftext|>", True), added("<|im_end|>", True, lstrip=True), added("<|im_start|>", True, rstrip=True),
    added("<both>", lstrip=True, rstrip=True), added("[WORD]", single_word=True), added("the", single_word=True),
    added("mask", single_word=True, lstrip=True), added("ab"), added("abc"), added("abcabd"), added("bca"),
    added("<a>"), added("<a><b>"), added("<b>"), added("<a><b><c"), added("\n\n", rstrip=True),
    added("\u4f60\u597d"), added("\U0001f642", rstrip=True), added("e\u0301t", normalized=True), added("o\u0302x"),
    added("\u1e0b\u0323", normalized=True, lstrip=True), added("lower", normalized=True), added("\u00fc"),
]
BLANKS = [added("<|im_end|>", True, lstrip=True), added("<|im_start|>", True, rstrip=True), added(" "), added("   "),
          added("\n", rstrip=True, normalized=True), added("\t\t", lstrip=True), added("a b")]
ADDED_CASES = [
    "a <|im_end|> b", "a  \n<|im_end|>  b", "<|im_end|>  <|im_end|>", "a <|im_start|> b", "<|im_start|>   <|im_end|>",
    " <both> <both>  x", "x<both>y", "[WORD]", "a[WORD]", "[WORD]a", " [WORD] ", "a [WORD] b", "[WORD][WORD]", "\u0301[WORD]", "[WORD]\u0301",
    "[WORD]_", "[WORD]\u203f", "[WORD]1", "[WORD]\u00bd", "[WORD]\u2167", "[WORD]\u24b6", "[WORD]\u200d", "[WORD]\u4f60", "[WORD]\U0001f642", "-[WORD]-",
    "[WORD]\u0488", "[WORD]\u00aa", "[WORD]\u00b2", "[WORD]\u093e", "[WORD]\u0661", "\u0661[WORD]", "the", "then", "the then the", "bathe the", "the,the",
    "mask", "a mask b", "unmask mask", "  mask", "abcabcabd", "ababc", "abcab", "bcabca", "xabcabdx", "aabca", "<a><b><c>", "<a><b>", "<a><a><b>", "<b><a>",
    "      ", "a   b  c d", "    a", "\n\n\n\n a", "\n\n  \n\n", "x \n\n y", "\U0001f642   \U0001f642 a", "e\u0301t", "\u00e9t", "e\u0301te\u0301t", "\u00f4x", "o\u0302x",
    "d\u0323\u0307", "d\u0307\u0323", "a \u1e0d\u0307 \u1e0b\u0323", "lower LOWER lowest", "\u00fc", "u\u0308", "na\u00fcb", "\u4f60\u597d\u4f60\u597d\u5417", "<|endoftext|>the<|endoftext|>",
    "abc" * 30, "<a>" * 9 + "<b>", "the " * 12, "   \n\n   \n\n<|im_end|>  \U0001f642 \u00e9t",
    "<|im_start|>\t\t", "<|im_start|>\t\tx", "<|im_start|>\t\t<|im_end|>", "<|im_start|>\n\n", "<|im_start|> <|im_start|>",
]

# name: pre-tokenizer, normalizer, added tokens, changes of the model, further texts
VARIANTS = {
    "qwen": (QWEN, NFC, PUBLISHED, {}, []),
    "plain": (sequence(split(QWEN2), byte_level(use_regex=False)), None, PUBLISHED, {"strings": True}, []),
    "gpt2": (byte_level(use_regex=True), None, PUBLISHED[:1], {}, []),
    "whole": (byte_level(use_regex=False), None, [], {}, []),
    "ignore": (sequence(split(CL100K), byte_level(use_regex=False)), None, PUBLISHED, {"ignore": True}, []),
    "shuffled": (sequence(split(O200K), byte_level(use_regex=False)), {"type": "Sequence", "normalizers": [NFC]},
                 PUBLISHED, {"shuffle": True}, []),
    "pairs": (QWEN, None, PUBLISHED, {"pairs": True}, []),
    "twice": (sequence(split(r"\p{Nd}{1,2}|[a-cx-z]+|d?+d|e+?[rs]|(?>th|t)h|i(?=n)"), split(QWEN3_5), byte_level(use_regex=True)), NFC, [], {}, []),
    "added": (QWEN, NFC, ADDED, {}, ADDED_CASES),
    "blanks": (QWEN, None, BLANKS, {}, ADDED_CASES),
}


def train(pre_tokenizer, normalizer, size, least):
    """A model trained on the paragraphs, as written by the package."""
    tokenizer = Tokenizer(models.BPE())
    document = json.loads(tokenizer.to_str())
    document["pre_tokenizer"], document["normalizer"] = pre_tokenizer, normalizer
    tokenizer = Tokenizer.from_str(json.dumps(document))
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=least, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator([line for text in PARAGRAPHS for line in text.splitlines(True)], trainer)
    return json.loads(tokenizer.to_str())


def add_pairs(model, texts):
    """Replaces the trained merges by all byte pairs at boundaries of characters, so that every split
    between them shows."""
    alphabet = {byte: name for name, byte in byte_alphabet().items()}
    pairs = {(one.encode()[-1], two.encode()[0]) for text in texts for one, two in zip(text, text[1:])}
    model["merges"] = [[alphabet[one], alphabet[two]] for one, two in sorted(pairs)]
    random.Random("pairs").shuffle(model["merges"])
    model["vocab"] = byte_alphabet()
    for pair in model["merges"]:
        model["vocab"]["".join(pair)] = len(model["vocab"])


def byte_alphabet():
    own = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    names = {chr(byte): byte for byte in own} | {chr(0x100 + rank): byte for rank, byte in enumerate(others)}
    assert set(names) == set(pre_tokenizers.ByteLevel.alphabet())
    return names


def document_of(name, texts):
    pre_tokenizer, normalizer, tokens, change, _ = VARIANTS[name]
    document = train(pre_tokenizer, normalizer, *((1600, 1) if name == "qwen" else (800, 2)))
    model = document["model"]
    chooser = random.Random(name)
    if change.get("shuffle"):
        chooser.shuffle(model["merges"])
    if change.get("ignore"):  # tokens that merges cannot make, and some that they can
        model["ignore_merges"] = True
        words = ["Ġlighthouse", "harbour", "Ġharbour", "'ll", "123", "!!!", "Ã©tÃ©", "ĠĠĠ", "abababababababab"]
        for word in [word for word in words if word not in model["vocab"]]:
            model["vocab"][word] = len(model["vocab"])
    if change.get("pairs"):
        add_pairs(model, texts)
    if change.get("strings"):
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
    if name == "added":
        model["vocab"]["lower"] = len(model["vocab"])  # an added token with an id from the vocabulary
    vocab = model["vocab"]
    free = len(vocab)
    for token in tokens:
        if token["content"] in vocab:
            number = vocab[token["content"]]
        else:
            number, free = free, free + 1
        document["added_tokens"].append({"id": number, **token})
    document["decoder"] = document["post_processor"] = byte_level(use_regex=False)
    return document


def known_characters():
    old = unicodedata.ucd_3_2_0
    found = []
    for number in range(0x110000):
        character = chr(number)
        category = unicodedata.category(character)
        if category in ("Cn", "Cs") or old.category(character) != category:
            continue
        if all(old.normalize(form, character) == unicodedata.normalize(form, character) for form in ("NFC", "NFD")):
            found.append(character)
    return found


def random_texts(count, seed, tokens):
    chooser = random.Random(seed)
    known = known_characters()
    marks = [c for c in known if unicodedata.combining(c)]
    composed = [c for c in known if unicodedata.normalize("NFD", c) != c and not "\uac00" <= c <= "\ud7a3"]
    jamo = [chr(c) for c in [*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11a8, 0x11c3)]] + ["\uac00", "\uac01"]
    pools = [known, known, marks, composed, jamo, "abcdefghijklmnopqrstuvwxyzTHES", " \n\r\t\u00a0\u2028\u3000\x0b\x85", "  \n",
             "0123456789", "'\u2019sStTmMdDlLrReEvV", "!?.,;:#*()[]{}<>|/\\\"-_=+", [chr(c) for c in range(0x20)] + ["\x7f"],
             [chr(c) for c in range(0x80, 0x180)], [c for c in known if "\u4e00" <= c <= "\u9fa5"]]
    words = [word for text in PARAGRAPHS for word in text.split(" ")]
    for _ in range(count):
        pieces = []
        for _ in range(chooser.randint(1, 8)):
            kind = chooser.random()
            if kind < 0.12 and tokens:
                pieces.append(chooser.choice(tokens))
            elif kind < 0.4:
                pieces.append(chooser.choice(words) + chooser.choice(["", " ", "  ", "\n"]))
            else:
                pool = chooser.choice(pools)
                pieces.append("".join(chooser.choice(pool) for _ in range(chooser.randint(1, 9))))
        yield "".join(pieces)


def escape(text):
    return "".join(c if c >= " " and c not in "\\\x7f" else f"\\x{ord(c):02x}" for c in text)


def numbers(ids):
    out = []
    at = 0
    while at < len(ids):
        end = at
        while end < len(ids) and ids[end] == ids[at]:
            end += 1
        out.append(str(ids[at]) if end - at == 1 else f"{ids[at]}*{end - at}")
        at = end
    return " ".join(out)


def fnv(ids):
    value = 0xcbf29ce484222325
    for byte in b"".join(number.to_bytes(4, "little") for number in ids):
        value = (value ^ byte) * 0x100000001b3 % (1 << 64)
    return value


def cases_of(tokenizer, name, texts, seed):
    size = tokenizer.get_vocab_size()
    for text, times in [(text, 1) for text in texts] + RUNS:
        try:
            ids = tokenizer.encode(text * times, add_special_tokens=False).ids
        except BaseException as panic:  # pyo3 derives its PanicException only from this
            if "bad split" not in str(panic):
                raise
            continue  # a token in white space stripped by another one: the package has no answer
        back = tokenizer.decode(ids, skip_special_tokens=False)
        yield f"t{f'*{times}' if times > 1 else ''} {escape(text)}"
        yield f"n {len(ids)} {fnv(ids):016x}" if len(ids) > 1000 else f"i {numbers(ids)}".rstrip()
        if back == text * times:
            yield "d="
        else:
            normal = unicodedata.normalize("NFC", text)
            yield f"d*{times} {escape(normal)}" if times > 1 and back == normal * times else f"d {escape(back)}"
    chooser = random.Random(seed + "ids" + name)
    for _ in range(len(texts) // 10):
        ids = [chooser.randrange(size + 9) for _ in range(chooser.randint(1, 12))]
        yield f"x {numbers(ids)}"
        yield f"d {escape(tokenizer.decode(ids, skip_special_tokens=False))}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--random", type=int, default=120)
    parser.add_argument("--seed", default="42")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, variant in VARIANTS.items():
        tokens = [token["content"] for token in variant[2]]
        texts = [*PARAGRAPHS, *CASES, *variant[4], *random_texts(options.random, options.seed + name, tokens)]
        text = json.dumps(document_of(name, texts), ensure_ascii=False, separators=(",", ":")) + "\n"
        tokenizer = Tokenizer.from_str(text)
        (options.out / f"{name}.json").write_text(text, encoding="utf-8")
        lines = [f"# tools/gen/tokenizer.py, tokenizers {tokenizers.__version__}",
                 *cases_of(tokenizer, name, texts, options.seed)]
        (options.out / f"{name}.cases").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


main()
