"""Drafter invariance: kept by one path and by paths that all race, lost by the active ones, and by leaks."""

from dataclasses import replace

import numpy as np
import pytest

from lab.coupling.drafter_invariance import coupled_text, drafter_invariance, reads_draft_probs
from lab.coupling.list_coupling import LIST_COUPLING, STRONG_LIST_COUPLING
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import VerdictError
from spec_oracle.statistics.goodness_of_fit import goodness_of_fit_by_g
from spec_oracle.toy import Instance, ToyModel
from verifiers import Verdict, get, replayed_decisions

DRAFTERS = [ToyModel.random(4, 1, seed=seed) for seed in (7, 8)]


class DraftNoiseDecides:
    """The token rule, whose accept tests and corrections read the noise of the draft."""

    def verify(self, drafts, uniforms):
        return get("token").verify(drafts, replayed_decisions(uniforms.reshape(drafts.batch, -1)))


class NoToken:
    """Returns a token that does not exist."""

    def verify(self, drafts, uniforms):
        none = drafts.tokens[:, 0] * 0
        return Verdict(none, none - 5, drafts)


def problem(paths, batch=2000, tokens=6):
    instance = Instance.random(4, 2, num_paths=paths, seed=paths)
    return instance, np.random.default_rng(paths).random((batch, paths, tokens + 2, 4))


@pytest.mark.parametrize("rule", [LIST_COUPLING, STRONG_LIST_COUPLING])
def test_one_path_writes_one_text_whoever_drafts(rule):
    """2,000 requests find a dependence on 0.35 % of the noise with power 0.999."""
    instance, uniforms = problem(1)
    found = drafter_invariance(rule, instance, DRAFTERS, uniforms)
    assert found.holds
    assert found.texts.shape == (3, 2000, 6)
    assert found.smallest_share() == pytest.approx(0.00345, abs=1e-5)


@pytest.mark.parametrize("paths", [2, 3])
def test_several_paths_write_one_text_only_if_all_race(paths):
    instance, uniforms = problem(paths)
    assert drafter_invariance(STRONG_LIST_COUPLING, instance, DRAFTERS, uniforms).holds
    found = drafter_invariance(LIST_COUPLING, instance, DRAFTERS, uniforms)
    request = found.differing[0]
    assert not found.holds
    assert len({tuple(text) for text in found.texts[:, request].tolist()}) > 1
    # The first token is written before anything is known of the drafts.
    assert (found.texts[:, :, 0] == found.texts[0, :, 0]).all()


def test_given_the_drafts_coupled_rules_ignore_q():
    for paths in (1, 2, 3):
        instance, uniforms = problem(paths)
        for rule in (LIST_COUPLING, STRONG_LIST_COUPLING):
            assert not reads_draft_probs(rule, instance, DRAFTERS[0], uniforms[:, :, :3]).any()


def test_a_rule_that_reads_q_has_neither_invariance():
    instance, uniforms = problem(1)
    assert not drafter_invariance(DraftNoiseDecides(), instance, DRAFTERS, uniforms).holds
    assert reads_draft_probs(DraftNoiseDecides(), instance, DRAFTERS[0], uniforms[:, :, :3]).any()


@pytest.mark.parametrize("rule", [LIST_COUPLING, STRONG_LIST_COUPLING])
def test_noise_that_a_call_did_not_get_to_may_be_read_again(rule):
    """G test of texts over calls, at 1e-9: false-alarm rate 2e-9; it detects a total variation of 0.05."""
    instance = Instance.random(2, 3, num_paths=3, seed=1)
    uniforms = np.random.default_rng(2).random((30_000, 3, 5 + 3, 2))
    text = coupled_text(rule, instance, uniforms)
    counts = np.bincount(text @ (2 ** np.arange(4, -1, -1)), minlength=32)
    result = goodness_of_fit_by_g(counts, instance.target.joint(5), alpha=1e-9)
    assert result.passed
    assert result.smallest_detectable_tv < 0.05


def test_a_leak_of_draft_noise_into_decisions_shows_in_the_text():
    """Draft noise that decides is lossy: the same test rejects it, on one path."""
    instance = Instance.random(2, 3, seed=1)
    text = coupled_text(DraftNoiseDecides(), instance, np.random.default_rng(2).random((30_000, 1, 5 + 3, 2)))
    counts = np.bincount(text @ (2 ** np.arange(4, -1, -1)), minlength=32)
    assert not goodness_of_fit_by_g(counts, instance.target.joint(5), alpha=1e-9).passed


def test_wrong_arguments_are_named():
    instance, uniforms = problem(2, batch=3)
    with pytest.raises(InvalidInputError, match=r"uniforms: expected shape \[B, 3, T \+ 2, 4\]"):
        coupled_text(LIST_COUPLING, instance.with_paths(3), uniforms)
    with pytest.raises(InvalidInputError, match="drafters: expected at least one"):
        drafter_invariance(LIST_COUPLING, instance, [], uniforms)
    with pytest.raises(VerdictError, match="next_token: -5"):
        coupled_text(NoToken(), replace(instance, num_paths=2), uniforms)
