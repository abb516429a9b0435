"""Records what mlx-lm computes as a trace (docs/trace.md), up to level 4.

    model, tokenizer = mlx_lm.load(CKPT)
    with record(model, "t", given=len(prompt)) as recorded:
        for token, _ in generate_step(mx.array(prompt), recorded, max_tokens=20):
            ...

given: the number of prompt tokens, because mlx-lm feeds the last of them in a separate call. States and taps
make it slow: observed values are computed at once. tools/gen/engines/mlx_record.py runs this in mlx-lm 0.32.2.
"""

from typing import Any

from mlx_taps import Taps
from samebit_trace import Bf16, Sequence, Trace, values


def rows(array: Any) -> Any:
    """[1, rows, ...] to [rows, columns]."""
    plain = values(array)
    return plain.reshape(plain.shape[1], -1)


def pieces(cache: list[Any]) -> dict[str, Any]:
    """The state in the layouts of docs/state.md, from ArraysCache and KVCache."""
    found = {}
    for number, layer in enumerate(cache):
        if hasattr(layer, "offset"):
            for piece, array in (("keys", layer.keys), ("values", layer.values)):
                plain = values(array[:, :, : layer.offset])[0]  # [heads, positions, width]
                found[f"layers.{number}.self_attn.{piece}"] = swapped(plain, 1, 0, 2)
        else:
            found[f"layers.{number}.linear_attn.conv_state"] = values(layer[0])[0]
            found[f"layers.{number}.linear_attn.recurrent_state"] = swapped(values(layer[1])[0], 0, 2, 1)
    return found


def swapped(plain: Any, *axes: int) -> Any:
    """The array with its axes in another order."""
    return Bf16(plain.bits.transpose(*axes)) if isinstance(plain, Bf16) else plain.transpose(*axes)


class Recorded:
    """The model in the form that generate_step() needs, and the recording of its calls."""

    def __init__(
        self, model: Any, folder: str, given: int, states: bool, taps: bool, sampling: dict | None, **head: Any
    ) -> None:
        self.sampling, self.begun = sampling, False  # the sequence's sampler is declared
        self.model, self.given, self.states, self.taps = model, given, states, taps
        self.text = getattr(model, "language_model", model)
        args = self.text.args
        level = 4 if taps and states else 3 if states else 2
        self.trace = Trace(folder, vocab_size=args.vocab_size, level=level, **({"engine": "mlx-lm"} | head))
        self.sequence: Sequence | None = None
        self.cache: Any = None
        self.inside: Taps | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def __enter__(self) -> "Recorded":
        if self.taps:
            self.inside = Taps(self.text)
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        if self.inside:
            self.inside.stop()
        if kind is None and self.states and self.sequence is not None:
            with self.trace.call() as call:
                call.state(self.sequence, pieces(self.cache))
        self.trace.__exit__(kind, *error)

    def __call__(self, tokens: Any, cache: Any = None, **kwargs: Any) -> Any:
        ids = [int(token) for token in values(tokens).reshape(-1)]
        if len(values(tokens)) != 1 or cache is None:
            raise ValueError("one sequence at a time, with a cache")
        if cache is not self.cache:  # another run
            self.cache, self.sequence = cache, self.trace.sequence(slot=self.trace.sequences())
            self.begun = False
        sequence, call = self.sequence, self.trace.call()
        if self.states:
            call.state(sequence, pieces(cache) if sequence.position else {})
        if len(ids) == 1 and sequence.position >= self.given:
            call.decode(sequence, ids[0])
        else:
            call.prompt(sequence, ids)
        if self.sampling is not None and not self.begun:
            call.sampling(sequence, **self.sampling)
            self.begun = True
        if self.inside:
            self.inside.found = {}
        logits = self.model(tokens, cache=cache, **kwargs)
        for name, out in (self.inside.found if self.inside else {}).items():
            call.tensor(name, rows(out))
        call.logits(rows(logits))
        call.write()
        return logits


def record(
    model: Any,
    folder: str,
    given: int,
    states: bool = False,
    taps: bool = False,
    sampling: dict | None = None,
    **head: Any,
) -> Recorded:
    """Writes the calls of MODEL to FOLDER. sampling: how make_sampler() draws, by the keys of U-12 in docs/trace.md,
    for example {"temperature": 0.7, "top_p": 0.9, "sampler": "mlx", "seed": None}. head: arguments of Trace, including
    engine ("mlx-lm 0.32.2")."""
    return Recorded(model, folder, given, states, taps, sampling, **head)
