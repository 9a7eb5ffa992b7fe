"""Samples at full vocabularies of code that cannot be traced: what is found, and what they say they find."""

from types import MappingProxyType

import numpy as np
import pytest

from lab.specimens.registry import specimens
from spec_oracle.audit.context import Context, ShapeLimits
from spec_oracle.audit.results import Status
from spec_oracle.audit.sampler.sampled_shapes import LARGE_TV, large
from spec_oracle.audit.sampler.scale import _rows
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.contracts import SamplerCode
from spec_oracle.statistics import draws_needed_by_g, smallest_detectable_tv_by_g

OURS = [s for s in specimens().values() if s.name.startswith("unseen-")]
RATE = 1e-8


def found(specimen, only=MappingProxyType({})):
    return large(
        SamplerSubject(specimen.name, SamplerCode(specimen.function)),
        Context(shapes=ShapeLimits(only=only)),
        RATE,
    )[0]


DEFECTS = [s for s in OURS if s.detected_by]
BY_DAY = ("unseen-ids-of-sixteen-bits",)
"""Others are found every night."""
BEYOND_16_BITS = ("unseen-ids-of-sixteen-bits", "unseen-even-ids-of-large-vocabularies")


@pytest.mark.parametrize("specimen", [s for s in DEFECTS if s.name in BY_DAY], ids=lambda s: s.name)
def test_defects_of_full_vocabularies_and_long_drafts_are_found(specimen):
    """At the smaller of the vocabularies where that shows them."""
    only = {} if specimen.name in BEYOND_16_BITS else {"vocab_size": (32_769,)}
    assert found(specimen, only).status is Status.FAILED


@pytest.mark.nightly
@pytest.mark.parametrize("specimen", DEFECTS, ids=lambda s: s.name)
def test_defects_are_found_in_both_vocabularies(specimen):
    assert found(specimen).status is Status.FAILED


@pytest.mark.nightly
@pytest.mark.parametrize("specimen", [s for s in OURS if not s.detected_by], ids=lambda s: s.name)
def test_right_code_passes(specimen):
    result = found(specimen)
    assert result.status is Status.PASSED, result.detail
    assert all("V " in line and "detect" in line for line in result.remarks.scope)


@pytest.mark.parametrize(("kind", "cells"), [("weak", 4), ("good", 16)])
def test_all_cells_are_equally_likely_at_every_position(kind, cells):
    rows = _rows(32_769, 3, kind, 0)
    assert np.allclose(rows.draft.sum(axis=1), 1)
    for target, cell in zip(rows.target, rows.cells, strict=True):
        assert np.allclose(np.bincount(cell, target, minlength=cells), 1 / cells)


def test_enough_samples_are_planned_for_the_promised_power():
    law = np.full(16, 1 / 16)
    needed = draws_needed_by_g(LARGE_TV, law, alpha=RATE)
    assert smallest_detectable_tv_by_g(needed, law, alpha=RATE) <= LARGE_TV
