"""The content of a server's answer in one form, for llama-server, vLLM, SGLang and OpenAI-compatible servers.

Nothing is guessed: missing values are None.
"""

import json
from dataclasses import dataclass, field
from typing import Any

Lists = list[dict[Any, float] | None]


class BadAnswer(ValueError):
    """An answer that does not fit the request; the message says why."""


@dataclass
class Answer:
    tokens: list[Any]  # ids, or texts if there are no ids
    are_ids: bool
    tops: Lists = field(default_factory=list)  # per token the most likely tokens and their log-probabilities
    prompt_ids: list[int] | None = None
    prompt_count: int | None = None  # prompt tokens counted by the server
    count: int | None = None  # generated tokens counted by the server
    cached: int | None = None
    drafted: int | None = None
    prompt_tops: Lists | None = None


def strict(text: str) -> Any:
    """Strict JSON, without extensions that only some readers accept."""

    def refuse(word: str) -> Any:
        raise BadAnswer(f"{word} is not a number of JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"the answer is not JSON: {error}") from None


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadAnswer(f"found {value!r:.40}, expected a log-probability")
    return float(value)


def ids(values: Any) -> list[int]:
    if not isinstance(values, list) or any(type(v) is not int or v < 0 for v in values):
        raise BadAnswer(f"found {values!r:.40}, expected a list of token ids")
    return values


def key(text: Any) -> Any:
    """A token as dictionary key; token_id:N becomes the id N."""
    if isinstance(text, str) and text.startswith("token_id:") and text[9:].isdigit():
        return int(text[9:])
    return text


def whole(value: Any) -> int | None:
    return value if type(value) is int else None


def aligned(tokens: list[int], items: list[Any], barred: set[Any]) -> Lists:
    """llama-server has no entry for a token that ends inside a character, and an entry without a list, which is
    no probability, for an accepted draft. Its lists are from before the exclusion of tokens, for example by
    ignore_eos."""
    tops: Lists = []
    at = 0
    for token in tokens:
        if at < len(items) and items[at]["id"] == token:
            entry = {i["id"]: number(i["logprob"]) for i in items[at]["top_logprobs"] if i["id"] not in barred}
            tops.append({token: number(items[at]["logprob"])} | entry if entry else None)
            at += 1
        else:
            tops.append(None)
    if at < len(items):
        raise BadAnswer("tokens and completion_probabilities list different tokens")
    return tops


def llama(document: dict[str, Any]) -> Answer:
    tokens = ids(document["tokens"])
    biases = (document.get("generation_settings") or {}).get("logit_bias") or []
    barred = {b["token"] for b in biases if b["bias"] is None}
    tops = aligned(tokens, document.get("completion_probabilities") or [], barred)
    timings = document.get("timings") or {}
    return Answer(
        tokens,
        True,
        tops,
        prompt_count=whole(document.get("tokens_evaluated")),
        count=whole(document.get("tokens_predicted")),
        cached=whole(timings.get("cache_n")),
        drafted=whole(timings.get("draft_n", 0)) if timings else None,
    )


def openai(document: dict[str, Any]) -> Answer:
    choice = document["choices"][0]
    logprobs = choice.get("logprobs") or {}
    texts = [key(t) for t in logprobs.get("tokens") or []]
    tokens = choice.get("token_ids")
    if tokens is None:
        tokens = texts or list(choice.get("text") or "")
    are_ids = bool(tokens) and all(type(t) is int for t in tokens)
    if are_ids:
        ids(tokens)
    own = logprobs.get("token_logprobs") or []
    lists = logprobs.get("top_logprobs") or []
    same = texts == tokens  # otherwise the lists have texts, and tokens are ids
    tops: Lists = []
    for i, entry in enumerate(lists if same else []):
        top = {key(t): number(p) for t, p in (entry or {}).items()}
        tops.append({tokens[i]: number(own[i])} | top if i < len(own) else top)
    usage = document.get("usage") or {}
    told = choice.get("prompt_logprobs", document.get("prompt_logprobs"))
    prompt_tops: Lists | None = None
    if told is not None:
        prompt_tops = [e and {int(t): number(p["logprob"]) for t, p in e.items()} for e in told]
    prompt_ids = choice.get("prompt_token_ids", document.get("prompt_token_ids"))
    return Answer(
        tokens,
        are_ids,
        tops,
        prompt_ids=None if prompt_ids is None else ids(prompt_ids),
        prompt_count=whole(usage.get("prompt_tokens")),
        count=whole(usage.get("completion_tokens")) if are_ids else None,
        cached=whole((usage.get("prompt_tokens_details") or {}).get("cached_tokens")),
        prompt_tops=prompt_tops,
    )


def sglang(document: dict[str, Any]) -> Answer:
    meta = document.get("meta_info") or {}
    tops: Lists = [{t[1]: number(t[0]) for t in e} if e else None for e in meta.get("output_top_logprobs") or []]
    verified, made = meta.get("spec_verify_ct"), whole(meta.get("completion_tokens"))
    return Answer(
        ids(document["output_ids"]),
        True,
        tops,
        prompt_count=whole(meta.get("prompt_tokens")),
        count=made,
        cached=whole(meta.get("cached_tokens")),
        drafted=whole(verified),
    )


READERS = {"llama-server": llama, "vllm": openai, "openai": openai, "sglang": sglang}


def read(kind: str, document: Any) -> Answer:
    """Reads an answer; BadAnswer if the document is not of this kind."""
    try:
        answer = READERS[kind](document)
    except BadAnswer:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise BadAnswer(f"the answer does not have the form of {kind}: {type(error).__name__} {error}") from None
    if answer.tops and len(answer.tops) != len(answer.tokens):
        raise BadAnswer(f"the answer has {len(answer.tokens)} tokens, but {len(answer.tops)} lists of logprobs")
    return answer
