"""Verifiers in the manner of other people: plain contract, own randomness, no `DecisionSource`.

Lossless controls and defects of the bug catalogue, each in a few lines, as a table by name. Importing this
does not import torch; `torch_specimens` does.
"""

from spec_oracle.specimens.foreign import controls, defects
from spec_oracle.specimens.foreign.rows import FOREIGN, ForeignSpecimen


def torch_specimens() -> dict[str, ForeignSpecimen]:
    """Return the batched torch specimens by name; raises ImportError where torch is not installed."""
    from spec_oracle.specimens.foreign.torch_batches import TORCH_FOREIGN

    return dict(TORCH_FOREIGN)


__all__ = ["FOREIGN", "ForeignSpecimen", "controls", "defects", "torch_specimens"]
