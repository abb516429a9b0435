"""Triton reads its mode when it is imported, also by flash-linear-attention."""

import os

os.environ["TRITON_INTERPRET"] = "1"
