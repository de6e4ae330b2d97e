"""Whether torch can compile a network here."""

from __future__ import annotations

import torch

from simplax.errors import UserError


def check_compiler(device: torch.device | str) -> None:
    """Refuse to compile for a CPU on a machine without a C++ compiler: torch finds out at the first call only."""
    if torch.device(device).type != "cpu":
        return
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, OSError) as error:
        raise UserError(
            "compiling a network for a CPU needs a C++ compiler, and none is here: install g++ or clang, or leave "
            "--compile out (in training: --run.compile false)."
        ) from error
