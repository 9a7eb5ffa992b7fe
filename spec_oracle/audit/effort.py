"""Effort on one page: how much is sampled, which shares of the budget it may take, and what it must detect.

`docs/effort.md` and the help of ``--budget`` are made from it. Seconds are of the budget of one check;
shares are of that budget; a TV is a total variation.
"""

from typing import Final

# --- all kinds -------------------------------------------------------------------------------------------

SHAPES_SHARE: Final = 0.4
"""Share of the budget that `shapes` may take, in an audit of one subject."""

SHAPES_LEAST_PART: Final = 0.05
"""That much of it is left to each of many subjects."""

# --- joint of samplers and verifiers ---------------------------------------------------------------------

SAMPLER_TV: Final = 0.02
"""TV that samples must be able to detect before they may call a sampler or a server lossless."""

# --- other checks of samplers and verifiers --------------------------------------------------------------

# --- engines ---------------------------------------------------------------------------------------------

# --- servers ---------------------------------------------------------------------------------------------
