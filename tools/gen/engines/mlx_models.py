"""Loads a folder of `samebit make` into mlx-lm, on the CPU."""

import json
import pathlib

import mlx.core as mx
from mlx_lm.utils import load_model


def loaded(checkpoint):
    """The model. mlx-lm asks for intermediate_size also where every layer is a mixture, which has none."""
    mx.set_default_device(mx.cpu)
    config = json.loads(pathlib.Path(checkpoint, "config.json").read_text(encoding="utf-8"))
    lacks = config["model_type"] == "qwen3_next" and "intermediate_size" not in config
    return load_model(pathlib.Path(checkpoint), model_config={"intermediate_size": 0} if lacks else None)[0]
