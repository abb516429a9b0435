"""Records mlx-lm's inner values: mlx_record.py CKPT OUT [FAULT...], in the environment of MLX.

OUT/none is the trace of the unchanged engine, OUT/FAULT the trace with a planted mistake (mlx_faults.py), each from
its own process. Skips a fault whose folder exists. recording.py has the prompts.
"""

import sys
from importlib.metadata import version

from recording import GENERATE, PROMPTS, chosen, record_all  # isort: skip  # it adds the folder of mlx_plugin
from mlx_faults import FAULTS, can
from mlx_models import loaded
from mlx_plugin import record


def one(checkpoint, folder, fault):
    """Records one trace."""
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    model = loaded(checkpoint)
    if fault != "none":
        FAULTS[fault](model)
    with record(model, folder, given=0, states=True, taps=True, engine=f"mlx-lm {version('mlx-lm')}") as recorded:
        for prompt in PROMPTS:
            recorded.given = len(prompt)
            for _ in generate_step(mx.array(prompt), recorded, max_tokens=GENERATE):
                pass


def main():
    """Starts a process for each fault."""
    checkpoint, out, *faults = sys.argv[1:]
    record_all(out, chosen(faults, FAULTS, can(checkpoint)), lambda folder, fault: one(checkpoint, folder, fault))


main()
