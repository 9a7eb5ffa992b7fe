"""Uniforms on a grid: every coarse one is found exactly, a fine one is rounding."""

import pytest

from lab.specimens.registry import specimens
from spec_oracle.audit.declared import FLOAT32_ROUNDING
from spec_oracle.audit.instances import panel
from spec_oracle.audit.sampler.tracer import traced_law
from spec_oracle.contracts import SamplerCode

GRIDS = [s for s in specimens().values() if s.name.startswith(("accept-by", "correct-by"))]


@pytest.mark.parametrize("specimen", GRIDS, ids=lambda specimen: specimen.name)
def test_a_grid_is_traced(specimen):
    law = traced_law(SamplerCode(specimen.function), panel(3, 1, 1, 0)["flat"])
    assert (law.total_variation <= FLOAT32_ROUNDING) == specimen.is_control
