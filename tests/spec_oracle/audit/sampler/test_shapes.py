"""The check `shapes`: what is wrong at one shape only is found there; special paths alone are no defect."""

import re

import numpy as np
import pytest

from lab.specimens.registry import specimens
from spec_oracle.audit.context import COUNTED, Context, Inputs, ShapeLimits
from spec_oracle.audit.experiment import FoundBy
from spec_oracle.audit.results import How, Status
from spec_oracle.audit.sampler.joint import OneCall
from spec_oracle.audit.suite import result_of
from tests.strategies import at_night
from tests.subjects import sampler

QUICK = {
    "four-drafts-unrolled": "L (5|8|16)",
    "fifth-token-forgotten": "V 5",
    "bonus-of-float16": "float16",
    "order-in-memory": "transposed",
    "two-or-three-requests": " of [23]",
}
AT_NIGHT = {"rare-tokens-raised": "(tiny|one-hot|near) probabilities", "ids-of-int32": "int32"}
"""Defects that few shapes show, and what the first of these has, as a pattern."""


def outcome(function, shapes=12, dtypes=COUNTED, **options):
    subject = sampler(function, **options)
    return result_of("shapes", subject, Context(budget=60.0, shapes=ShapeLimits(dtypes, most=shapes)))


@pytest.mark.parametrize(("name", "where"), [*QUICK.items(), *at_night(*AT_NIGHT.items())])
def test_a_defect_of_one_shape_is_found_there(name, where):
    specimen = specimens()[f"shape-{name}"]
    result = outcome(specimen.function, dtypes=specimen.dtypes)
    assert result.status is Status.FAILED
    assert re.search(where, result.detail)
    assert result.measured.total_variation > 1e-5
    assert result.measured.alpha == 0


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize(
    "name", ["contiguous-first", *at_night("chunks-of-64", "four-drafts-a-time", "rows-of-float64")]
)
def test_special_paths_are_no_defect(name):
    result = outcome(specimens()[f"shape-{name}"].function, shapes=6)
    assert result.status is Status.PASSED
    assert result.detail.startswith("output distribution exact at")


def beyond_the_end(x, q, p, rng):
    """Search a uniform that was rounded up: with float16 rows it may be behind the last token."""
    tokens = np.full((len(x), x.shape[1] + 1), -1)
    for b, row in enumerate(p[:, 0]):
        is_one = p.dtype == np.float16 and rng.random() > 1 - 2**-12
        tokens[b, 0] = len(row) if is_one else rng.choice(len(row), p=row / row.sum())
    return tokens, np.zeros(len(x), dtype=int)


@pytest.mark.parametrize(("dtypes", "status"), [(COUNTED, Status.PASSED), (("float16",), Status.FAILED)])
def test_an_id_out_of_range_counts_in_types_that_count(dtypes, status):
    result = outcome(beyond_the_end, shapes=1, dtypes=dtypes)
    assert result.status is status
    says = r"tokens must be ids from 0 to (\d+); found .*, at V \d+, L \d+, K 1, float16"
    assert bool(re.search(says, result.detail)) == (status is Status.FAILED)


def test_types_that_numpy_lacks_leave_the_check_open():
    found = outcome(specimens()["token-rule"].function, dtypes=("bfloat16",))
    assert found.status is Status.INCONCLUSIVE
    assert found.detail == "numpy has no rows of type bfloat16: --array torch has"


def test_code_that_cannot_be_traced_is_sampled_in_a_type_that_counts():
    found = outcome(specimens()["token-rule"].function, dtypes=("float16",), traceable=False)
    assert found.status is not Status.FAILED


def test_code_that_cannot_be_followed_is_drawn():
    names = ("token-rule", "shape-fifth-token-forgotten")
    found = [outcome(specimens()[name].function, traceable=False) for name in names]
    assert [result.status for result in found] == [Status.PASSED, Status.FAILED]
    assert all(result.measured.alpha > 0 for result in found)
    assert [result.word for result in found] == [How.SAMPLED, How.FAILED]


def only_int64(x, q, p, rng):
    """The token rule of a library that takes ids of int64 only, as many operators of torch do."""
    if x.dtype != np.int64:
        raise TypeError("indices must be of int64")
    return specimens()["token-rule"].function(x, q, p, rng)


def test_code_that_cannot_be_followed_may_refuse_ids_of_int32():
    found = outcome(only_int64, traceable=False)
    assert found.status is Status.PASSED
    assert any("ids int32: raised TypeError" in line for line in found.remarks.scope)


@pytest.mark.parametrize(("name", "rule"), [("exponential-race", "token"), ("block-rule", "block")])
def test_rules_are_identified(name, rule):
    subject = sampler(specimens()[name].function)
    found = findings_of(subject)
    assert found.rule == rule
    assert found.length.status is Status.PASSED


def findings_of(subject):
    context = Context(rate=1e-6, budget=5.0, inputs=Inputs(draft_length=2))
    return OneCall(subject, context).found(FoundBy.TRACED).findings


def test_code_of_no_built_in_rule_is_not_identified():
    def from_the_target(x, q, p, rng):
        tokens = np.full((len(x), x.shape[1] + 1), -1)
        tokens[:, 0] = [rng.choice(p.shape[2], p=row) for row in p[:, 0]]
        return tokens, np.zeros(len(x), dtype=int)

    subject = sampler(from_the_target)
    found = findings_of(subject)
    assert found.rule is None
    assert found.length is None
