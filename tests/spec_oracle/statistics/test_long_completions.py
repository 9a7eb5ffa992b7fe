"""Token by token: the error rate holds, and each kind of defect is found at the power that is stated.

Rows are random, and every token is a speculative one. The seeds of the runs are their numbers.
"""

import re

import numpy as np
import pytest
from scipy import stats

from spec_oracle.statistics.long_completions import (
    ALL,
    REJECTED,
    Scored,
    TokenEvidence,
    joined,
    point_masses,
    proposed_along,
)
from spec_oracle.statistics.power import draws_needed_by_joint_e_process
from spec_oracle.statistics.token_tests import ACCEPTED, CORRECTED, ByRow
from tests.strategies import at_night

VOCAB = 12
RATE = 1e-6


def rows(rng, count):
    """Target and draft [N, V], the target's likeliest token first; they share half of their mass."""
    p = rng.dirichlet(np.full(VOCAB, 0.3), count)
    q = (p + rng.dirichlet(np.full(VOCAB, 0.3), count)) / 2
    order = np.argsort(-p, axis=1)
    return np.take_along_axis(p, order, axis=1), np.take_along_axis(q, order, axis=1)


def emitted(p, q, defect):
    """The distribution of a verified token [N, V]."""
    least = np.minimum(p, q)
    missing = 1 - least.sum(axis=1, keepdims=True)
    return {
        "": p,
        "always-accept": q,
        "corrects-from-p": least + missing * p,
        "sometimes": 0.7 * p + 0.3 * q,
        "temperature": p**1.15 / (p**1.15).sum(axis=1, keepdims=True),
    }[defect]


def sampled(rng, laws):
    reached = np.cumsum(laws, axis=1) < rng.random((len(laws), 1))
    return np.minimum(reached.sum(axis=1), laws.shape[1] - 1)


def run(seed, count, defect="", *, doubt=0.0, wrong=0.0):
    """Return the evidence of so many tokens; the rows that are shown may be ``wrong``, nats."""
    rng = np.random.default_rng(seed)
    p, q = rows(rng, count)
    shown = p * np.exp(rng.uniform(-wrong, wrong, p.shape))
    shown /= shown.sum(axis=1, keepdims=True)
    evidence = TokenEvidence(["p/q"], rng)
    evidence.add(Scored(shown, sampled(rng, emitted(p, q, defect)), {"p/q": q}, doubt))
    return evidence


def tv_in(order, p, q, laws):
    """The TV a token that tenths of u in an order see."""
    keys = np.argsort(-p / q if order == "by p/q" else -p, axis=1, kind="stable")
    ends = np.cumsum(np.take_along_axis(p, keys, axis=1), axis=1)
    share = np.take_along_axis(laws / p, keys, axis=1)
    u = (np.arange(1000) + 0.5) / 1000
    density = np.stack(
        [s[np.minimum(np.searchsorted(e, u), VOCAB - 1)] for e, s in zip(ends, share, strict=True)]
    )
    return float(abs(density.mean(axis=0).reshape(10, -1).mean(axis=1) - 1).mean() / 2)


def false_alarms(runs, rate, **options):
    return sum(run(seed, 192, **options).p_value <= rate for seed in range(runs))


@pytest.mark.parametrize(("runs", "options"), [(60, {}), (25, {"wrong": 0.1, "doubt": 0.1})])
def test_right_completions_are_called_wrong_within_the_rate(runs, options):
    assert false_alarms(runs, 0.1, **options) <= stats.binom.isf(1e-6, runs, 0.1)


@pytest.mark.nightly
def test_2000_right_completions_are_called_wrong_within_the_rate():
    assert false_alarms(2000, 0.05) <= stats.binom.isf(1e-6, 2000, 0.05)


@pytest.mark.parametrize(("doubt", "is_found"), [(1e-9, True), (0.2, False)])
def test_uncertainty_of_rows_is_allowed_for(doubt, is_found):
    """Drafts that are always accepted show, unless rows may be off by as much."""
    assert (run(0, 300, "always-accept", doubt=doubt).p_value <= 1e-3) == is_found


def test_the_price_of_doubt_is_none_without_doubt():
    assert run(1, 200).log_e == pytest.approx(run(1, 200, doubt=1e-15).log_e)


@pytest.mark.parametrize(
    ("defect", "order"),
    [("always-accept", "by p/q"), *at_night(("corrects-from-p", "by p/q")), ("temperature", "by p")],
)
def test_a_defect_of_the_stated_size_is_found(defect, order):
    """As many tokens as state to detect what the order sees; two misses of 8 have a chance of 3e-5."""
    p, q = rows(np.random.default_rng(99), 4000)
    size = tv_in(order, p, q, emitted(p, q, defect))
    test = next(test for test in run(0, 64).tests if (test.name, test.counts.size) == (f"{order}, {ALL}", 10))
    count = draws_needed_by_joint_e_process(size, [[0.1] * 10], alpha=RATE * test.weight)
    found = [run(seed, count, defect) for seed in range(8)]
    assert found[0].detects(RATE)[order] == pytest.approx(size, rel=0.02)
    assert sum(evidence.p_value <= RATE for evidence in found) >= 7


@pytest.mark.parametrize(
    ("defect", "kind"), [("sometimes", ACCEPTED), *at_night(("corrects-from-p", CORRECTED))]
)
def test_a_bet_finds_the_size_that_it_states_with_fewer_tokens_than_counts_need(defect, kind):
    """Two misses of 8 have a chance of 3e-5."""
    p, q = rows(np.random.default_rng(99), 4000)
    size, name = abs(emitted(p, q, defect) - p).sum(axis=1).mean() / 2, f"by p/q, {kind}"
    count = next(n for n in np.geomspace(200, 4000, 24).astype(int) if run(0, n).detects(RATE)[name] <= size)
    assert count < draws_needed_by_joint_e_process(size, [[0.1] * 10], alpha=RATE / 10) / 1.5
    assert sum(run(seed, count, defect).p_value <= RATE for seed in range(8)) >= 7


def test_orders_detect_the_share_that_theory_predicts():
    """A correction from p shows nearly whole by p/q, and not by p; a temperature is the reverse."""
    p, q = rows(np.random.default_rng(1), 2000)
    for defect, order in (("corrects-from-p", "by p/q"), ("temperature", "by p")):
        laws = emitted(p, q, defect)
        whole = abs(laws - p).sum(axis=1).mean() / 2
        seen = {order: tv_in(order, p, q, laws) for order in ("by p", "by p/q")}
        assert seen[order] > 0.8 * whole
        assert min(seen.values()) < 0.6 * whole


def test_a_bias_from_a_late_token_on_is_seen_there():
    rng = np.random.default_rng(3)
    evidence = TokenEvidence(["p/q"], rng)
    for _ in range(30):
        p, q = rows(rng, 63)
        laws = np.concatenate([p[:31], q[31:]])  # tokens 2 to 32 are right
        evidence.add(Scored(p, sampled(rng, laws), {"p/q": q}))
    assert evidence.p_value <= RATE
    late = {test.where: test.log_e_value for test in evidence.tests if test.order == "by p/q"}
    assert late["tokens 33 to 64"] > 100
    assert max(late["tokens 17 to 32"], late["token 2"]) < 3


def test_a_defect_after_rejections_is_found_there():
    """The token behind a correction is the draft's: the token rule says what probably was a correction."""
    rng = np.random.default_rng(4)
    p, q = rows(rng, 3000)
    q = np.roll(q, 1, axis=0)  # of other contexts: rejections are frequent
    came, evidence, corrected = sampled(rng, p), TokenEvidence(["p/q"], rng), False
    for place in range(len(p)):
        if corrected:
            came[place] = sampled(rng, q[[place]])[0]
        own, of_draft = p[place, came[place]], q[place, came[place]]
        corrected = not corrected and rng.random() > of_draft / own
    evidence.add(Scored(p, came, {"p/q": q}))
    assert evidence.p_value <= RATE
    size = {test.where: test.least_tv(1e-3) for test in evidence.tests if test.order == "by p/q"}
    assert size[REJECTED] > 1.5 * size[ALL]


def test_numbers_that_repeat_are_seen_in_pairs():
    rng = np.random.default_rng(5)
    p, _ = rows(rng, 640)
    numbers = np.repeat(rng.random((160, 1, 2)), 2, axis=1).reshape(320, 2).ravel()[:, None]
    came = np.minimum((np.cumsum(p, axis=1) < numbers).sum(axis=1), VOCAB - 1)
    evidence = TokenEvidence([], rng)
    evidence.add(Scored(p, came))
    assert evidence.p_value <= RATE
    assert evidence.worst.where == "a token and the 2nd one after it"


def test_tokens_of_probability_0_are_counted_apart_and_unknown_rows_are_left_out():
    p = np.array([[0.7, 0.3, 0.0], [np.nan] * 3, [0.5, 0.5, 0.0]])
    evidence = TokenEvidence(["n-gram"], np.random.default_rng(0))
    evidence.add(Scored(p, np.array([0, 1, 2]), {"n-gram": point_masses([1, None, None], 3)}))
    assert (evidence.tokens, evidence.impossible) == (1, 1)
    counted = {test.order: test.tokens for test in evidence.tests if test.where == ALL}
    assert counted == {"by p": 1, "by n-gram": 1}


def test_an_n_gram_drafter_proposes_what_followed_last():
    assert proposed_along([1, 2, 3, 1, 2, 4, 1, 2], 8) == [4]
    assert proposed_along([1, 2, 3], 3) == proposed_along([1], 1) == [None]


@pytest.mark.parametrize("seed", range(5))
def test_proposals_along_a_text_are_those_after_each_beginning(seed):
    text = np.random.default_rng(seed).integers(3, size=40).tolist()

    def proposed(before):
        ends = range(len(before) - 1, 1, -1)
        return next((before[end] for end in ends if before[end - 2 : end] == before[-2:]), None)

    assert proposed_along(text, 0) == [proposed(text[:end]) for end in range(41)]
    assert proposed_along(text, 7) == proposed_along(text, 0)[7:]


def at_places(is_wrong, tokens, completions, *, knows_positions=True):
    """Return the evidence of completions whose tokens are sampled from q where a place is wrong.

    ``is_wrong`` is asked for places in the completion, and in prompt and completion.
    """
    rng = np.random.default_rng(17)
    evidence, scored = TokenEvidence([], rng, knows_positions=knows_positions), []
    for number in range(completions):
        p, q = rows(rng, tokens)
        places = 1 + np.arange(tokens)
        positions = places + 5 + number % 2
        laws = np.where(is_wrong(places, positions)[:, None], q, p)
        known = positions if knows_positions else None
        scored.append(Scored(p, sampled(rng, laws), {}, 0.0, places, positions=known))
    evidence.add(joined(scored))
    return evidence


@pytest.mark.parametrize(
    ("is_wrong", "tokens", "completions", "where"),
    [
        (lambda place, _: place % 64 == 0, 320, 200, "places 0 modulo 64$"),
        (lambda _, position: position % 32 == 7, 96, 300, "places 7 modulo 32 of prompt and completion"),
        (lambda place, _: place == 5, 24, 800, "token 5$|places 5 modulo"),
    ],
    ids=["every 64th of a completion", "every 32nd of prompt and completion", "the fifth"],
)
def test_a_defect_at_one_place_is_found_there(is_wrong, tokens, completions, where):
    """Of drafts that are always accepted at 800 places one in a thousand would be missed."""
    evidence = at_places(is_wrong, tokens, completions)
    assert evidence.p_value <= RATE
    assert re.search(where, max(evidence.by_place, key=lambda one: one.log_e_value).name)
    assert at_places(lambda place, _: place < 0, tokens, completions).p_value > RATE


def test_a_defect_at_the_end_of_the_longest_context_is_found_there():
    """Behind the first 64 places no other test looks at a single one."""

    def at_the_end(size, completions=300, tokens=97):
        rng = np.random.default_rng(5)
        evidence, scored = TokenEvidence([], rng, knows_positions=True), []
        for _ in range(completions):
            p, q = rows(rng, tokens)
            places = 1 + np.arange(tokens)
            laws = np.where((places > tokens - size)[:, None], q, p)
            came, left = sampled(rng, laws), tokens - places
            scored.append(Scored(p, came, {}, 0.0, places, positions=places, left=left))
        evidence.add(joined(scored))
        return evidence

    found = at_the_end(2)
    assert found.p_value <= RATE
    worst = max(found.by_place, key=lambda one: one.log_e_value).name
    assert worst in [f"by p, {n} places before the last one that the context holds" for n in (0, 1)]
    assert at_the_end(0).p_value > RATE


def test_no_power_is_lost_where_positions_are_not_known():
    """A second test of the same places would halve the stake of the first: 0.7 nats."""
    known, unknown = (
        at_places(lambda place, _: place % 64 == 0, 320, 60, knows_positions=knows) for knows in (True, False)
    )
    assert len(unknown.by_place) == 1 + (len(known.by_place) - 1) // 2
    assert 0.5 < unknown.log_e - known.log_e < 0.7


FEW_ROWS = np.array([[0.5, 0.3, 0.2], [0.48, 0.32, 0.2], [0.7, 0.2, 0.1]])


def after_few_rows(swap):
    """Return the evidence of tokens of three distributions; ``swap`` moves mass of opposite sign in two."""
    rng = np.random.default_rng(3)
    wrong = FEW_ROWS + swap * np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0]])
    which = rng.integers(3, size=6000)
    evidence = TokenEvidence([], rng, whole_rows=True)
    evidence.add(Scored(FEW_ROWS[which], sampled(rng, wrong[which]), {}, 1e-6))
    return evidence


def test_a_defect_that_cancels_in_one_order_is_found_after_equal_rows():
    """A total variation of 0.08 after two of three rows; missed in one of a thousand."""
    evidence = after_few_rows(0.08)
    assert evidence.p_value <= RATE
    assert evidence.worst is evidence.by_row
    assert evidence.by_row.least_tv(1e-6) > 0.02
    assert after_few_rows(0.0).p_value > RATE


def test_rows_that_may_be_off_by_much_are_not_judged_apart():
    evidence = TokenEvidence([], np.random.default_rng(0), whole_rows=True)
    evidence.add(Scored(np.tile([0.6, 0.4], (500, 1)), np.zeros(500, np.int64), {}, 0.4))
    assert evidence.by_row.tokens == 0


@pytest.mark.parametrize("runs", [200, *at_night(1000)])
def test_right_samples_of_equal_rows_are_called_wrong_within_the_rate(runs):
    wrong = 0
    for seed in range(runs):
        rng, by_row = np.random.default_rng(seed), ByRow(0.1)
        laws = FEW_ROWS[rng.integers(3, size=300)]
        by_row.observe(laws, sampled(rng, laws), np.full(300, 1e-6))
        wrong += by_row.log_e_value >= np.log(20)
    assert wrong <= stats.binom.isf(1e-6, runs, 0.05)


def test_rows_that_depend_on_the_token_that_came_are_right_unless_they_are_called_whole():
    """Cells before the token, its own and behind it: what came is always the second one."""
    rng = np.random.default_rng(5)
    came = rng.integers(4, size=400)
    before = came / 4
    masses = np.stack([before, np.full(400, 0.25), 0.75 - before], axis=1)
    evidence = TokenEvidence([], rng)
    evidence.add(Scored(masses, np.ones(400, np.int64)))
    assert evidence.p_value > RATE
