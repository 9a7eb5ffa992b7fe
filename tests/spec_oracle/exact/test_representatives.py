"""Few outcomes stand for many: which are run, and what is refused."""

import numpy as np
import pytest

from spec_oracle.exact.conditional import conditional_laws
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.exact.representatives import FEW, NotAlikeError, chosen, represented, require_alike
from verifiers import ROOT, Drafts, Verdict

LAW = np.arange(1, 21) / 210


def test_few_outcomes_are_all_run():
    assert chosen(LAW, None) == (pytest.approx(np.arange(20)), ())
    tried, alike = chosen(LAW[:FEW], {0})
    assert (tried.tolist(), alike) == ([*range(FEW)], ())


def test_of_many_those_looked_at_both_ends_and_the_likeliest_are_run():
    tried, alike = chosen(LAW, {0, 19}, taken={18})
    assert (tried.tolist(), alike) == ([0, 1, 17, 18, 19], (1, 17, 17))
    masses = represented(LAW, tried, 17)
    assert masses.sum() == pytest.approx(LAW[2:18].sum())
    assert not masses[[0, 1, 18, 19]].any()


def test_what_does_not_lead_to_the_same_is_refused():
    same = [(0.2, [("first", 1)], (), 1), (0.6, [("first", 5)], (), 5)]
    require_alike([*same, (0.2, [], (), 7)])
    with pytest.raises(NotAlikeError):
        require_alike([*same, (0.2, [("first", 7)], (3,), 7)])


class _LooksAtParity:
    """Draws a token, and of odd ones emits the first."""

    def __init__(self, odd):
        self._odd = odd

    def verify(self, drafts, decisions):
        token = decisions.categorical(drafts.target.row(ROOT))
        token = np.where(token % 2 == 1, self._odd, token) if self._odd is not None else token * 1
        return Verdict(token * 0 + ROOT, token, drafts)


def test_a_verifier_that_looks_at_more_than_the_drafted_ids_is_refused():
    rows = np.full((1, 1, 2, 40), 1 / 40)
    drafts = Drafts.of_paths(np.full((1, 1, 1), 4), rows[:, :, :1], rows)
    (law,) = conditional_laws(_LooksAtParity(None), drafts)
    assert law.leaves[()] == pytest.approx(np.full(40, 1 / 40))
    assert law.assumed == pytest.approx(37 / 40)  # 0, 4 and 39 were run
    with pytest.raises(NotTracedError):
        conditional_laws(_LooksAtParity(1), drafts)
