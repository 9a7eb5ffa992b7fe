"""Screening, decision, looks and confirmation, on outcomes of known laws."""

import math
import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest

from spec_oracle.audit.confirm import confirm
from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import numbered, sampled
from spec_oracle.audit.results import NoEvidenceError, Status
from spec_oracle.audit.sampling import (
    Effort,
    OutcomeCells,
    Sample,
    decide,
    draw_within,
    indexed,
    judge_samples,
    listed,
    screen,
)
from spec_oracle.statistics import EProcess, draws_needed_by_g, goodness_of_fit_by_e_process

LAW = np.array([0.5, 0.3, 0.2])
WRONG = np.array([0.4, 0.4, 0.2])
IMPOSSIBLE = np.array([0.5, 0.3, 0.1, 0.1])
SHIFT = np.array([1, -1, 0])
RATE = 1e-6


@dataclass
class Outcomes:
    """Samples by a law, each of which is said to take a millisecond; they end after ``last`` of them."""

    actual: np.ndarray
    law: np.ndarray = field(default_factory=lambda: LAW)
    slack: float = 0.0
    last: int = 10**9
    seconds: float = 0.0
    calls: int = 0

    def __post_init__(self):
        self.counts, self.impossible = np.zeros(len(self.law), dtype=int), Counter()
        self.rng = np.random.default_rng(0)

    def afresh(self):
        self.own = Outcomes(self.actual)
        return self.own

    def draw(self, count):
        count = min(count, self.last - int(self.counts.sum()))
        self.counts = self.counts + self.rng.multinomial(count, self.actual)
        self.seconds += count / 1000
        self.calls += 1


def judged(*, tv=0.02, **samples):
    return judge_samples(samples, Effort(tv, look=500), rate=RATE, seconds=1000.0)


def test_right_samples_are_decided_by_fresh_ones_as_many_as_the_total_variation_takes():
    samples = {"one": Outcomes(LAW), "other": Outcomes(LAW)}
    decision = judged(**samples)
    assert decision.worst is None
    assert decision.detectable_tv <= 0.02
    needed = draws_needed_by_g(0.02, LAW, alpha=RATE / 4)
    assert [int(sample.own.counts.sum()) for sample in samples.values()] == [needed, needed]
    assert decision.draws == sum(int(sample.counts.sum()) for sample in samples.values())


def test_the_screening_names_the_wrong_sample_early():
    wrong = Outcomes(WRONG)
    decision = judged(right=Outcomes(LAW), wrong=wrong)
    assert decision.worst == "wrong"
    assert decision.draws < 5000
    assert not wrong.own.calls


def test_the_decision_finds_what_the_screening_misses():
    off = Outcomes(LAW + 0.024 * SHIFT)
    assert judged(right=Outcomes(LAW), off=off).worst == "off"
    assert off.own.calls


def test_evidence_is_followed_where_it_is_strongest():
    samples = [Outcomes(LAW), Outcomes(LAW + 0.03 * SHIFT)]
    screen(samples, 1e-300, [500] * 20)
    assert samples[1].calls > 9  # half of the turns, and the first


def test_slack_is_allowed_for_and_samples_before_the_end_are_judged():
    """Code over a network may end early: then fewer samples come than are asked for."""
    slack = float(np.log(LAW[1] / 0.25))
    close = np.array([0.55, 0.25, 0.2])

    def decided(sample):
        return judge_samples(
            {"one": sample}, Effort(0.05, look=64, most=1000, keeps=True), rate=RATE, seconds=60.0
        )

    assert decided(Outcomes(close)).worst is not None
    allowed = decided(Outcomes(close, slack=slack, last=2000))
    assert allowed.worst is None
    assert allowed.draws == 2000


def test_confirmation_states_its_power_and_contradicts():
    sample = Outcomes(LAW)
    sample.draw(20_000)
    assert "20,000 uninstrumented samples agrees" in confirm({"mine": sample}, RATE)
    sample = Outcomes(WRONG)
    sample.draw(20_000)
    with pytest.raises(NoEvidenceError, match="mine"):
        confirm({"mine": sample}, RATE)


def test_calls_grow_up_to_the_time_and_the_size_allowed():
    sample = Outcomes(LAW)
    draw_within(sample, 10.0, 100_000, start=10, most=1000)
    assert 9.0 < sample.seconds < 11.0
    assert sample.calls < 20
    draw_within(sample, 0.0, 100_000, start=10, most=1000)
    assert sample.seconds < 11.1


def test_without_a_total_variation_to_detect_the_screening_decides_with_the_whole_rate():
    one = Outcomes(LAW)
    decision = judged(tv=math.inf, one=one)
    assert decision.worst is None
    assert decision.draws == one.counts.sum() == (1 + 8) * 500
    fit = goodness_of_fit_by_e_process(EProcess.against([LAW]).observe(one.counts), alpha=RATE)
    assert decision.detectable_tv == fit.smallest_detectable_tv
    assert judged(tv=math.inf, one=Outcomes(WRONG)).worst == "one"


def test_a_defect_in_one_of_many_samples_is_found_from_the_stated_size_on():
    """Twelve samples, looked at once each: five runs miss it with probability 0.005 at most."""
    law, grows = np.full(20, 0.05), np.arange(20) % 2
    names, rng = [str(number) for number in range(12)], np.random.default_rng(5)

    def decided(off):
        laws = {name: law * (1 + 2 * off * (2 * grows - 1) * (name == "7")) for name in names}
        many = {
            name: lambda n, p=p: np.repeat(np.arange(20), rng.multinomial(n, p)) for name, p in laws.items()
        }
        samples = {name: Sample(many[name], indexed(law)) for name in names}
        return decide(samples, names, Effort(math.inf, look=5000, turns=0), 1e-8, 1e9)

    in_one = float(
        re.search(r"in all distributions at once or (0\.\d+) in one alone", decided(0.0).detail)[1]
    )
    assert in_one < 0.1
    assert [decided(in_one).worst for _ in range(5)] == ["7"] * 5


def test_a_report_says_which_samples_decide_where_others_are_only_screened():
    rng = np.random.default_rng(7)
    some = {one: Sample(lambda n: rng.choice(3, n, p=LAW), indexed(LAW)) for one in ("a", "b", "c")}
    found = decide(some, ["a", "b"], Effort(0.05, look=500), RATE, 1e9)
    assert found.detail.endswith("(a total variation of 0.05 at a or b would show)")


def test_where_outcomes_are_counted_in_bins_the_report_says_so():
    """What is moved inside of a bin does not show."""
    halves, rng = (
        OutcomeCells(np.array([0.5, 0.5]), lambda found: np.array(found) // 2),
        np.random.default_rng(6),
    )
    sample = Sample(lambda count: rng.choice([0, 2], count).tolist(), halves)
    found = decide({"a token": sample}, (), Effort(0.05, look=500), RATE, 1e9)
    assert found.detail.endswith("samples (between bins, a total variation of 0.05 would show)")


def test_an_impossible_outcome_is_named():
    law = np.array([0.5, 0.3, 0.2, 0.0])
    rng = np.random.default_rng(0)
    tokens = numbered("tokens", "a token", law, lambda count: rng.choice(4, count, p=IMPOSSIBLE))
    result = sampled([tokens], Context(rate=RATE, budget=5.0), Effort(math.inf, 50))
    assert result.status is Status.FAILED
    assert "outcomes of probability 0; 0.1" in result.detail


def test_an_outcome_that_no_cell_names_is_shown_where_it_is_most_of_what_is_wrong():
    shorter = Sample(lambda count: [(1,)] * (count - 1) + [(1, 0)], listed({(1, 0): 0.7, (1, 1): 0.3}))
    shorter.draw(10)
    gap, total_variation = shorter.gap
    assert (gap.sequence, gap.expected, gap.actual) == ((1,), 0.0, 0.9)
    assert total_variation == pytest.approx(0.9)
    shorter = shorter.afresh()
    assert shorter.gap is None


def test_impossible_outcomes_of_the_samples_that_decide_are_shown():
    drawn = []

    def ends_early(count):  # once the screening, of 9 x 100 samples, is over
        drawn.extend(range(count))
        return [(0, 0)] * count if len(drawn) <= 900 else [(0,)] * count

    one = Sample(ends_early, listed({(0, 0): 1.0}))
    found = judge_samples({"one": one}, Effort(0.02, look=100), rate=RATE, seconds=1000.0)
    assert found.worst == "one"
    assert one.impossible[0,] == one.counts[1] > 0


def kept(actual, tv=0.05, **more):
    sample = Outcomes(actual, **more)
    decision = judge_samples(
        {"one": sample}, Effort(tv, look=64, most=1000, keeps=True), rate=RATE, seconds=1000.0
    )
    return decision, sample


def test_kept_samples_end_where_the_total_variation_would_have_shown():
    decision, sample = kept(LAW)
    planned = draws_needed_by_g(0.05, LAW, alpha=RATE / 2, miss=7e-4)
    assert decision.worst is None
    assert decision.detectable_tv == 0.05
    assert decision.draws == sample.counts.sum() == math.ceil(planned / 2)


def test_kept_samples_that_are_not_clear_are_all_that_were_planned():
    """Off by a little less than what must be detected, they do not end early."""
    decision, sample = kept(LAW + 0.035 * SHIFT)
    planned = draws_needed_by_g(0.05, LAW, alpha=RATE / 2, miss=7e-4)
    assert decision.worst is not None or sample.counts.sum() == planned


def test_kept_samples_do_not_end_early_where_the_slack_hides_as_much():
    decision, sample = kept(LAW, slack=0.3, last=5000)
    assert decision.detectable_tv > 0.05
    assert sample.counts.sum() == 5000


def test_kept_samples_miss_no_more_than_they_may():
    cells = 20
    law, shift = np.full(cells, 1 / cells), np.where(np.arange(cells) % 2, 1, -1) * 0.2 / cells
    missed = 0
    for seed in range(200):
        sample = Outcomes(law + shift, law)
        sample.rng = np.random.default_rng(seed)
        decision = judge_samples(
            {"one": sample}, Effort(0.1, look=64, most=3000, keeps=True), rate=RATE, seconds=1e9
        )
        missed += decision.worst is None
    assert missed <= 4  # 0.2 on average, at most: more than 4 has probability 3e-6
