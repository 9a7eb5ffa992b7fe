"""The part of Triton's libdevice that interpreted kernels need: the interpreter itself has none.

Import only after `spec_oracle.third_party.samplers.triton_interpreter.require_interpreter`.
"""

import triton
from triton import language


@triton.jit
def log1p(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201  # a kernel's function has no types
    """Return log(1 + value) to float32 rounding, by Kahan's correction: also where 1 + value rounds to 1."""
    shifted = 1.0 + value
    return language.where(shifted == 1.0, value, language.log(shifted) * (value / (shifted - 1.0)))
