"""Triton reads how it is to run when it is imported, which flash-linear-attention does, too."""

import os

os.environ["TRITON_INTERPRET"] = "1"
