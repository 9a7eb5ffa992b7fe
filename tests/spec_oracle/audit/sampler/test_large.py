"""Samples at full vocabularies of code that cannot be traced: what is found, and what they say they find."""

from types import MappingProxyType

import numpy as np
import pytest

from lab.specimens.registry import specimens
from lab.specimens.sharing import Own
from spec_oracle.audit.context import Context, ShapeLimits
from spec_oracle.audit.results import Status
from spec_oracle.audit.sampler.scale import LARGE_TV, _rows, large
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.contracts import SamplerCode
from spec_oracle.errors import ImpossibleOutputError
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
SLOW = "unseen-first-half-of-the-vocabulary"
"""Found every night; by day "unseen-even-ids-of-large-vocabularies" stands for it."""
BEYOND_16_BITS = ("unseen-ids-of-sixteen-bits", "unseen-even-ids-of-large-vocabularies")


@pytest.mark.parametrize("specimen", [s for s in DEFECTS if s.name != SLOW], ids=lambda s: s.name)
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


def test_as_many_samples_are_planned_as_detect_what_is_promised():
    law = np.full(16, 1 / 16)
    needed = draws_needed_by_g(LARGE_TV, law, alpha=RATE)
    assert smallest_detectable_tv_by_g(needed, law, alpha=RATE) <= LARGE_TV


def unseen_with_options(wrong="", least=1_024):
    """Return the token rule by an own generator; in vocabularies of ``least`` tokens it is ``wrong``."""
    own = Own()

    def verify(x, q, p, generator, *, draft_lengths=None, is_greedy=None):
        count, length, vocab = q.shape
        uniforms = own(np.arange(count * (length + 1)).reshape(count, -1), count * (length + 1))
        tokens = np.full((count, length + 1), -1)
        for b in range(count):
            greedy = is_greedy is not None and is_greedy[b] and not (wrong == "greedy" and vocab >= least)
            end = length if draft_lengths is None else draft_lengths[b]
            for i in range(end + 1):
                row, left = p[b, i].astype(float), uniforms[b, i]
                if i == end and wrong == "short" and vocab >= least and not greedy:
                    row = p[b, -1].astype(float)
                if greedy:
                    tokens[b, i] = row.argmax()
                elif i < end and (ratio := row[x[b, i]] / q[b, i, x[b, i]]) > left:
                    tokens[b, i] = x[b, i]
                else:
                    if i < end:
                        row, left = np.maximum(row - q[b, i], 0), (left - ratio) / (1 - ratio)
                    sums = row.cumsum()
                    tokens[b, i] = np.searchsorted(sums, left * sums[-1], side="right")
                if i < end and tokens[b, i] != x[b, i]:
                    break
        return tokens, (tokens >= 0).sum(axis=1) - 1

    return SamplerSubject(wrong or "right", SamplerCode(verify))


def test_bonuses_of_short_drafts_are_sampled_at_full_vocabularies():
    assert large(unseen_with_options("short"), Context(), RATE)[0].status is Status.FAILED


def test_greedy_requests_are_tried_at_full_vocabularies():
    with pytest.raises(ImpossibleOutputError, match="most likely token"):
        large(unseen_with_options("greedy"), Context(), RATE)


@pytest.mark.nightly
def test_right_options_pass_at_full_vocabularies():
    result = large(unseen_with_options(), Context(), RATE)[0]
    assert result.status is Status.PASSED, result.detail
    assert any("mixed drafts" in line for line in result.remarks.scope)
