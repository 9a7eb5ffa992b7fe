"""The figures of claims about coupled drafts, computed once more by hand, and reused noise in an engine."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from lab.claims import Ruling
from lab.claims.coupling import QUESTIONS, corrections_by_draft_noise
from lab.specimens.registry import specimens
from lab.specimens.toy_engine import ToyEngine, Use, accepted_prefix, emission, keyed_noise, race
from spec_oracle.statistics.goodness_of_fit import goodness_of_fit_by_g
from tests.lab.claims.decided import decided_claim, first_rows
from tests.strategies import by_day

RATE = 1e-9


decided = partial(decided_claim, QUESTIONS)


@pytest.mark.parametrize("words", ["exactly (1 − d)/(1 + d)", "Over three tokens Gumbel coupling"])
def test_the_bound_of_one_path_is_tight_where_two_tokens_are_foreign(words):
    claim = decided(words)
    p, q = first_rows(claim)
    half = Fraction(1, 2)
    assert (p, q) == ([half, half, 0], [half, 0, half])
    # Tokens 0, 1 and 2 have noise of rates 1/2 in one race or both: token 0 must beat the others.
    assert claim.figures["Gumbel coupling"] == half / (half + half + half) == (1 - half) / (1 + half)
    assert claim.verdict is (Ruling.PROVED if "exactly" in words else Ruling.REFUTED)


def test_the_list_matching_bound_is_not_met():
    claim = decided("equals the bound of the list matching lemma")
    assert first_rows(claim) == [[1, 0], [Fraction(1, 2)] * 2]
    # Token 0 is emitted, and each of two paths drafts it by a fair coin of its own.
    assert claim.figures["list coupling"] == 1 - Fraction(1, 2) ** 2
    # The bound: the path with the smaller E_0 drafts token 0 if that is below its E_1.
    assert claim.figures["lemma"] == Fraction(2, 3)


def test_given_the_drafts_alone_the_drafter_matters():
    claim = decided("but not the uniforms")
    assert first_rows(claim) == [[Fraction(1, 2)] * 2, [1, 0]]
    # q always drafts token 0, which says nothing of the noise. p drafts it where it wins the same race.
    assert claim.figures == {"drafted from q": Fraction(1, 2), "drafted from p": 1}


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("that probability for K = 1", lambda target, draft, paths: 1),
        ("Given the emitted token j", lambda target, draft, active, racing: {(0, 0): target[0]}),
        ("at least 1/K of the lemma's bound", lambda target, draft, active, racing: {(0, 0): target[0]}),
    ],
)
def test_claims_of_the_lemma_can_fail(monkeypatch, words, wrong):
    name = "list_matching_bound" if "K = 1" in words else "matches_law"
    monkeypatch.setattr(f"lab.claims.coupling.{name}", wrong)
    assert decided(words).verdict is Ruling.REFUTED


def test_rules_whose_paths_all_race_reject_even_the_targets_own_drafts():
    claim = decided("The same where all paths race")
    p, q = first_rows(claim)
    assert p == q == [Fraction(1, 2)] * 2
    # The first winner's path drafted it. The other path did by 1/2; if not, one of two racing paths is
    # active: it holds the next winner by 1/2, and by 1/2 drafts the other path's winner all the same.
    assert claim.figures["K − 1 paths"] == 3
    assert claim.figures["K paths, all race"] == 2 + Fraction(1, 2) + Fraction(1, 2) * Fraction(3, 4)


def test_corrections_on_draft_noise_are_lossy():
    claim = decided("Over three tokens the token rule stays lossless")
    p, q = first_rows(claim)
    third = Fraction(1, 3)
    assert (p, q) == ([2 * third, third, 0], [third, 0, 2 * third])
    # Only token 2 is refused, always; the residual is even on 0 and 1. E_2 / (2/3) < E_0 / (1/3), hence
    # E_0 > E_2 / 2, favours token 1, about whose noise nothing is known: it wins by 5/8.
    wins = Fraction(5, 8)
    law = (third + 2 * third * (1 - wins), 2 * third * wins, 0)
    assert corrections_by_draft_noise(claim.instance) == law
    assert claim.figures["total variation"] == abs(law[0] - p[0]) == Fraction(1, 12)


def first_tokens(engine, requests):
    session = engine.start_many([[0]] * requests, 1, range(requests))
    session.step()
    return np.bincount([text[0] for text in session.tokens], minlength=3)


ENGINES = specimens()["draft-noise-recovers"].engine()


@pytest.mark.parametrize("toy", ENGINES)
def test_the_specimen_has_the_distribution_that_is_computed(toy):
    """G test at 1e-9 on each toy: false-alarm rate 4e-9; it detects a total variation of 0.03."""
    engine = ENGINES[toy]
    law = [float(mass) for mass in corrections_by_draft_noise(engine.instance)]
    result = goodness_of_fit_by_g(first_tokens(engine, 40_000), law, alpha=RATE)
    assert result.passed
    assert result.smallest_detectable_tv < 0.03


def coupled(call):
    """Emit the winners of races of the target on the noise that drafted."""
    wanted = race(call.target, call.correct)
    accepted = accepted_prefix(call.tokens == wanted[:, :-1])
    return emission(call.tokens, accepted, wanted[np.arange(len(wanted)), accepted]), accepted


def decoded(engine, tokens, requests):
    session = engine.start_many([[0]] * requests, tokens, range(requests))
    while not session.ended.all():
        session.step()
    return np.bincount(np.array(session.tokens) @ 3 ** np.arange(tokens)[::-1], minlength=3**tokens)


@pytest.mark.parametrize("toy", by_day(ENGINES, ["good-draft"]))
def test_one_key_for_all_noise_is_right_where_the_rule_is_coupled(toy):
    """The control of catalogue numbers C1 and C2: the same noise drafts and decides, and the text is right.

    G test of 3 tokens at 1e-9 on each toy, and the specimen of C1 fails the same test: false-alarm rate 4e-9.
    """
    instance = ENGINES[toy].instance

    def noise(seeds, call, use, shape):
        return keyed_noise(seeds, call, Use.DRAFT, shape)

    shared = ToyEngine(instance, rule=None, noise=noise, verify=coupled)
    law = instance.target.joint(3)
    assert goodness_of_fit_by_g(decoded(shared, 3, 40_000), law, alpha=RATE).passed
    faulty = specimens()["one-key-for-all-noise"].engine()[toy]
    assert not goodness_of_fit_by_g(decoded(faulty, 3, 40_000), law, alpha=RATE).passed
