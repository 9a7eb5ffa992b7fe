"""Branches that ordinary calls take, and traced ones never do: what was traced is not said of them."""

from functools import partial

import numpy as np
import pytest

from lab.specimens.foreign.rows import by_accept
from lab.specimens.registry import specimens
from spec_oracle.audit.context import Context
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import How, NoEvidenceError, Status
from spec_oracle.audit.sampler.branch_tracing import Watched, require_alike
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import law_after
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.audit.shapes.covered import UnlikeError
from spec_oracle.audit.shapes.trees import tree_of
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import SamplerCode
from tests.strategies import at_night
from verifiers import Siblings

WATCHED = {name: found for name, found in specimens().items() if name.startswith("watched-")}
RIGHT = ["token-rule", "exponential-race", "gumbel-race", "inverse-cdf", "block-rule", "python-random"]


def laws_at(specimen, vocab_size):
    tree = tree_of(Shape(vocab_size, 3), 0, Siblings.INDEPENDENT)
    code = SamplerCode(specimen.function, specimen.array)
    return Watched(law_after, np.random.default_rng(0)).laws_after(code, map(tree.drafts, tree.likely))


UNSEEN = (
    "watched-type-of-the-generator",
    "watched-traced-lines-are-no-matter",
    "watched-traced-lines-are-right",
)
"""Traced calls take the branch of ordinary ones."""


@pytest.mark.parametrize("name", [name for name in WATCHED if name not in UNSEEN])
def test_another_branch_is_seen(name):
    with pytest.raises(UnlikeError, match="watched"):
        laws_at(WATCHED[name], 64)


def test_nobody_knows_that_lines_are_watched():
    right, wrong = (WATCHED[f"watched-traced-lines-are-{name}"] for name in ("no-matter", "right"))
    pairs = zip(laws_at(right, 64), laws_at(wrong, 64), strict=True)
    assert any(one.distance(other) > 0.05 for one, other in pairs)


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("vocab_size", [3, 24, *at_night(64)])
def test_code_that_does_not_care_takes_the_same_branches(name, vocab_size):
    assert laws_at(specimens()[name], vocab_size)


def test_the_lines_are_named():
    with pytest.raises(UnlikeError, match=r"another branch than traced ones: lab/specimens/watched.py:\d+"):
        laws_at(WATCHED["watched-exact-type-of-a-uniform"], 64)


def _by_type(x, q, p, i, rng, *, factor):
    u, ratio = rng.random(), p[i, x[i]] / q[i, x[i]]
    if type(u) is float:
        ratio = ratio * factor
    return bool(u < ratio)


def test_one_call_is_sampled_then():
    right, wrong = (SamplerCode(by_accept(partial(_by_type, factor=factor))) for factor in (1.0, 1.3))
    with pytest.raises(NoEvidenceError, match="ordinary calls take another branch than traced ones"):
        require_alike(right, panel(3, 2, 1, 0)["flat"], np.random.default_rng(0), law_after)
    found = result_of("joint", SamplerSubject("mine", wrong), Context(budget=30.0))
    assert found.status is Status.FAILED
    assert found.how is How.SAMPLED
    assert "ordinary calls take another branch than traced ones" in found.remarks.notes[0]
