"""What was not tried leaves the check open, what a sampler refuses can be declared, new rows are tried."""

import time

import numpy as np
import pytest

from lab.specimens.foreign.rows import token_by_request
from lab.specimens.registry import specimens
from spec_oracle.audit.context import Context
from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.results import Status
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.table import CHECKS
from spec_oracle.contracts import SamplerCode
from spec_oracle.errors import InvalidInputError

QUICK = {
    "residual-cut-at-32768": "V 32769",
    "end-of-qwen-masked": "V 151936",
    "mask-of-bert-masked": "V 151936",
}


def outcome(function, **context):
    subject = SamplerSubject("mine", SamplerCode(function))
    return CHECKS["shapes"].outcome(subject, Context(budget=60.0, **context))


@pytest.mark.parametrize(("name", "where"), QUICK.items(), ids=QUICK)
def test_values_that_were_seldom_tried_are_among_the_first(name, where):
    result = outcome(specimens()[f"shape-{name}"].function)
    assert result.status is Status.FAILED
    assert where in result.detail


def raw_memory(x, q, p, rng):
    """Read rows as raw memory: strided ones are no distributions, and are refused."""
    rows = np.frombuffer(memoryview(p if p.base is None else p.base).cast("B"), dtype=p.dtype)[: p.size]
    if not np.allclose(rows.reshape(p.shape).sum(axis=-1), 1):
        raise ValueError("rows are no distribution")
    return token_by_request(x, q, p, rng)


def test_a_layout_at_which_the_code_raised_was_not_tried_unless_it_is_declared():
    found = outcome(raw_memory, most_shapes=3)
    assert found.status is Status.INCONCLUSIVE
    assert "layout sliced: raised ValueError: rows are no distribution" in found.detail
    assert "--only layouts=contiguous" in found.detail
    only = AuditOptions(layouts=["contiguous"]).context(1e-6).only
    declared = outcome(raw_memory, most_shapes=3, only=only)
    assert declared.status is Status.PASSED
    assert "declared: the code takes only layout contiguous; no other was tried" in declared.scope


def test_values_that_time_did_not_suffice_for_leave_the_check_open():
    def slow(x, q, p, rng):
        end = time.process_time() + 0.3
        while p.shape[-1] > 1000 and time.process_time() < end:
            pass
        return token_by_request(x, q, p, rng)

    found = CHECKS["shapes"].outcome(
        SamplerSubject("mine", SamplerCode(slow)),
        Context(budget=4.0, only={"vocab_size": (5, 20_000), "draft_length": (1,), "batch": (1,)}),
    )
    assert found.status is Status.INCONCLUSIVE
    assert "not tried in this time: V 20,000" in found.detail
    assert "--budget" in found.detail


def test_what_is_declared_must_make_sense():
    with pytest.raises(InvalidInputError, match="layouts"):
        AuditOptions(layouts=["diagonal"])
    with pytest.raises(InvalidInputError, match="vocabularies: expected at least 2, got 1"):
        AuditOptions(vocabularies=[1])
