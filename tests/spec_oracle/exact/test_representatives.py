"""Few outcomes stand for many: which are run, and what is refused."""

import numpy as np
import pytest

from spec_oracle.exact.draft_tree import conditional_laws
from spec_oracle.exact.errors import NotTracedError, TooManyBranchesError
from spec_oracle.exact.representatives import FEW, NotAlikeError, chosen, represented, require_alike
from verifiers import ROOT, Drafts, Verdict

LAW = np.arange(1, 21) / 210


def test_few_outcomes_are_all_run():
    assert chosen(LAW, None) == (pytest.approx(np.arange(20)), ())
    tried, alike = chosen(LAW[:FEW], {0})
    assert (tried.tolist(), alike) == ([*range(FEW)], ())


def test_of_many_outcomes_used_extreme_and_likeliest_ones_are_run():
    tried, alike = chosen(LAW, {0, 19}, taken={18})
    assert (tried.tolist(), alike) == ([0, 1, 17, 18, 19], (1, 17, 17))
    masses = represented(LAW, tried, 17)
    assert masses.sum() == pytest.approx(LAW[2:18].sum())
    assert not masses[[0, 1, 18, 19]].any()


def test_outcomes_that_lead_elsewhere_are_refused():
    same = [(0.2, [("first", 1)], (), 1), (0.6, [("first", 5)], (), 5)]
    require_alike([*same, (0.2, [], (), 7)])
    with pytest.raises(NotAlikeError):
        require_alike([*same, (0.2, [("first", 7)], (3,), 7)])


def _drafts(vocab, possible):
    """Draft token 4, in a vocabulary of which some tokens are possible, all alike; return their row, too."""
    row = np.where(np.arange(vocab) < possible, 1 / possible, 0)
    rows = np.tile(row, (1, 1, 2, 1))
    return Drafts.of_paths(np.full((1, 1, 1), 4), rows[:, :, :1], rows), row


class _LooksAtParity:
    """Draws a token, and of odd ones emits the first."""

    def __init__(self, odd):
        self._odd = odd

    def verify(self, drafts, decisions):
        token = decisions.categorical(drafts.target.row(ROOT))
        token = np.where(token % 2 == 1, self._odd, token) if self._odd is not None else token * 1
        return Verdict(token * 0 + ROOT, token, drafts)


def test_a_verifier_that_looks_at_more_than_the_drafted_ids_is_refused():
    drafts, row = _drafts(100, 100)
    (law,) = conditional_laws(_LooksAtParity(None), drafts)
    assert law.leaves[()] == pytest.approx(row)
    assert law.assumed == pytest.approx(97 / 100)  # 0, 4 and 99 were run
    with pytest.raises(NotTracedError):
        conditional_laws(_LooksAtParity(1), drafts)


class _NumbersItsCells:
    """Draws the accepted length and the next token in one decision, of 2 V cells."""

    def verify(self, drafts, decisions):
        drafted, target = drafts.tokens[:, 0], drafts.target
        first, next_row = target.row(ROOT), target.row(drafted * 0)
        chance = np.take_along_axis(first, drafted[:, None], axis=1)
        without = np.where(np.arange(first.shape[1]) == drafted[:, None], 0, first)
        cell = decisions.categorical(np.concatenate([without, chance * next_row], axis=1))
        vocab = first.shape[1]
        return Verdict(np.where(cell < vocab, ROOT, 0), cell % vocab, drafts)


def test_where_ids_cannot_stand_for_others_few_possible_ones_are_all_run():
    drafts, row = _drafts(1000, 12)
    (law,) = conditional_laws(_NumbersItsCells(), drafts)
    assert law.leaves[4,] == pytest.approx(row / 12)
    assert law.leaves[()] == pytest.approx(np.where(np.arange(1000) == 4, 0, row))
    assert law.assumed == 0
    with pytest.raises(NotTracedError):
        conditional_laws(_NumbersItsCells(), _drafts(20_000, 20_000)[0])


class _DecidesAllAtOnce:
    """Draws a token for every place in one call, those that it does not need, too."""

    def verify(self, drafts, decisions):
        rows = np.stack([drafts.target.row(ROOT), drafts.target.row(0)], axis=1)
        tokens = decisions.categorical(rows)
        accepted = tokens[:, 0] == drafts.tokens[:, 0]
        return Verdict(np.where(accepted, 0, ROOT), tokens[np.arange(len(tokens)), accepted * 1], drafts)


def test_decisions_of_one_call_with_too_many_outcomes_are_refused_before_memory_is_asked_for():
    drafts, row = _drafts(1000, 12)
    (law,) = conditional_laws(_DecidesAllAtOnce(), drafts)
    assert law.leaves[4,] == pytest.approx(row / 12)
    with pytest.raises(TooManyBranchesError, match="2 decisions of one call"):
        conditional_laws(_DecidesAllAtOnce(), _drafts(20_000, 20_000)[0])
