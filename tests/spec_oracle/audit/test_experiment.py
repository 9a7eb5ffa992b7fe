"""An experiment is found out in the best way that works, and what is said of it is confirmed by samples.

Every test has one fixed stream. False alarms have a rate of 1e-6 each; a defect of the stated size is missed
in one of a thousand.
"""

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import Experiment, FoundBy, Ledger, TracedOutcome, find
from spec_oracle.audit.results import Cause, How, NoEvidenceError, Status
from spec_oracle.audit.sampling import Effort
from spec_oracle.contracts import ContractError, ImpossibleOutputError, SubjectRaisedError
from tests.strategies import at_night

FAIR = dict.fromkeys(range(1, 7), 1 / 6)
LOADED = {**dict.fromkeys(range(1, 6), 0.15), 6: 0.25}
CONTEXT = Context(rate=1e-6, budget=20.0)
EFFORT = Effort(tv=0.05, look=500)


def throws(law, rng, count):
    return rng.choice([*law], size=count, p=[*law.values()]).tolist()


def die(law, traced=None, seed=0, **more):
    """Return the experiment of a die that falls by a law, and is traced as having another."""
    many = partial(throws, law, np.random.default_rng(seed))
    trace = None if traced is None else lambda *_: TracedOutcome(traced, 6)
    return Experiment("a die", "one throw", lambda: FAIR, many, trace, **more)


def found(*experiments, context=CONTEXT, effort=EFFORT, **options):
    return find(experiments, context, effort, **options)


def test_a_right_trace_is_proven_and_samples_agree():
    result = found(die(FAIR, FAIR))
    assert (result.status, result.how, result.measured.alpha) == (Status.PASSED, How.PROVEN, 0)
    assert "uninstrumented samples agree" in result.remarks.scope[-1]


AT_ONCE = Effort(tv=0.05, look=500, most=4000, confirming=0.05, at_once=True)


def test_a_right_trace_is_confirmed_in_calls_of_a_look_and_once_in_larger_ones():
    sizes = {"first": [], "second": []}

    def many(name, rng, count):
        sizes[name].append(count)
        return throws(FAIR, rng, count)

    trace = lambda *_: TracedOutcome(FAIR, 6)  # noqa: E731
    rngs = map(np.random.default_rng, range(2))
    dice = [
        Experiment(name, "one throw", lambda: FAIR, partial(many, name, rng), trace)
        for name, rng in zip(sizes, rngs, strict=True)
    ]
    assert found(*dice, effort=AT_ONCE).status is Status.PASSED
    assert max(sizes["second"]) == AT_ONCE.look < max(sizes["first"]) <= AT_ONCE.most
    assert sum(sizes["first"]) == sum(sizes["second"]) > 5 * AT_ONCE.look


def test_calls_that_depend_on_each_other_do_not_contradict_a_right_trace():
    replayed = lambda count: throws(FAIR, np.random.default_rng(0), count)  # noqa: E731
    experiment = replace(die(FAIR, FAIR), many=replayed)
    result = found(die(FAIR, FAIR), replace(experiment, what="again"), effort=replace(AT_ONCE, look=20))
    assert (result.status, result.how) == (Status.PASSED, How.PROVEN)


def test_calls_at_once_contradict_a_wrong_trace():
    result = found(die(LOADED, FAIR), effort=AT_ONCE)
    assert (result.status, result.how) == (Status.FAILED, How.SAMPLED)
    assert "contradict the traced distribution" in result.remarks.notes[0]


def test_a_defect_that_was_traced_is_confirmed_by_samples():
    result = found(die(LOADED, LOADED))
    assert (result.status, result.how) == (Status.FAILED, How.PROVEN)
    assert result.measured.total_variation == pytest.approx(1 / 12)
    assert (
        result.detail
        == "a die: 6 has probability 0.25, 0.1667 expected (total variation 0.0833 of one throw)"
    )
    assert "not the target's distribution" in result.remarks.scope[-1]


@pytest.mark.parametrize(
    ("falls", "traced", "status"),
    [(FAIR, LOADED, Status.PASSED), (LOADED, FAIR, Status.FAILED)],
    ids=["right, traced as wrong", "wrong, traced as right"],
)
def test_samples_decide_where_they_contradict_the_trace(falls, traced, status):
    result = found(die(falls, traced))
    assert (result.status, result.how) == (status, How.SAMPLED)
    assert "contradict the traced distribution" in result.remarks.notes[0]


def test_without_a_decision_nothing_is_proven():
    blind = replace(die(FAIR), trace=lambda *_: TracedOutcome(FAIR, 1, is_decided=False))
    assert found(blind).how is How.SAMPLED


def test_untraceable_experiments_are_sampled_and_the_others_stay_exact():
    def cannot(*_):
        raise NoEvidenceError("out of sight")

    seeded = replace(die(FAIR, seed=1), what="a seeded die", trace=cannot, group="seeds")
    result = found(die(FAIR, FAIR), seeded)
    assert (result.status, result.how) == (Status.PASSED, How.SAMPLED)
    assert result.detail.startswith(
        "1 distribution of up to one throw: off by 0.0e+00 at most; seeds: no defect"
    )
    assert result.remarks.notes == ("seeds: out of sight",)
    wrong = replace(seeded, many=partial(throws, LOADED, np.random.default_rng(2)))
    assert found(die(FAIR, FAIR), wrong).status is Status.FAILED


def test_a_deviation_that_may_be_rounding_stays_open():
    result = found(die(LOADED, LOADED, doubtful=0.1), doubt="the error of the die is not known")
    assert (result.status, result.cause) == (Status.INCONCLUSIVE, Cause.UNDECIDED)
    assert "the error of the die is not known" in result.detail
    assert found(die(LOADED, LOADED, allowed=0.1)).status is Status.PASSED


def some_of_the_throws(law, seed):
    """Return a die whose throws are seen now and then only, as calls after a rare history are."""
    rng = np.random.default_rng(seed)
    return lambda count: throws(law, rng, count)[: count // 5]


def test_only_samples_can_call_a_conditional_experiment_wrong():
    hidden = replace(die(FAIR, LOADED), is_conditional=True)
    for law, status in ((LOADED, Status.FAILED), (FAIR, Status.INCONCLUSIVE)):
        one = replace(hidden, many=some_of_the_throws(law, seed=3))
        assert found(one, ways=FoundBy.TRACED).status is status
    slightly = {**FAIR, 1: FAIR[1] + 1e-5, 6: FAIR[6] - 1e-5}
    small = replace(hidden, trace=lambda *_: TracedOutcome(slightly, 1))
    result = found(small, ways=FoundBy.TRACED)
    assert (result.status, result.cause) == (Status.INCONCLUSIVE, Cause.UNDECIDED)
    assert "samples neither confirm nor refute it; about " in result.detail


def test_samples_that_would_show_nothing_detect_nothing():
    few = Effort(math.inf, look=2, turns=0)
    assert found(die(FAIR), effort=few, ways=FoundBy.SAMPLED).measured.detectable is None


@pytest.mark.parametrize(
    ("error", "cause"), [(ImpossibleOutputError("7"), None), (ContractError("None"), Cause.BROKEN_CONTRACT)]
)
def test_an_outcome_that_is_none_fails(error, cause):
    def breaks(*_):
        raise error

    result = found(replace(die(FAIR), trace=breaks))
    assert (result.status, result.cause, result.detail) == (Status.FAILED, cause, f"a die: {error}")


def test_samples_that_are_too_few_leave_it_open_unless_they_come_in_addition():
    few = replace(CONTEXT, budget=1e-9)
    assert found(die(FAIR), context=few).status is Status.INCONCLUSIVE
    effort = replace(EFFORT, tv=float("inf"), wanted=0.05)
    assert found(die(FAIR), context=few, effort=effort).status is Status.PASSED


def test_samples_before_an_exception_are_judged():
    """The screening takes 9 calls of 10 throws, too few; the fifth call of the deciding samples raises."""

    def breaking(law):
        falls, calls = partial(throws, law, np.random.default_rng(0)), itertools.count(1)

        def many(count):
            if next(calls) > 9 + 4:
                raise SubjectRaisedError("raised KeyError")
            return falls(count)

        return replace(die(FAIR), many=many)

    effort = replace(EFFORT, look=10)
    wrong = found(breaking(LOADED), effort=effort)
    assert (wrong.status, wrong.how) == (Status.FAILED, How.SAMPLED)
    assert wrong.remarks.scope[-1].endswith(f"{wrong.measured.draws} samples, and then it raised KeyError")
    right = found(breaking(FAIR), effort=effort)
    assert (right.status, right.detail) == (Status.INCONCLUSIVE, "raised KeyError")


def test_one_wrong_experiment_ends_the_tracing_unless_all_are_wanted():
    for goes_on, count in ((False, 1), (True, 2)):
        ledger = Ledger(20.0)
        effort = replace(EFFORT, goes_on=goes_on)
        pair = [die(LOADED, LOADED), replace(die(FAIR, FAIR), what="another")]
        found(*pair, ledger=ledger, effort=effort, ways=FoundBy.TRACED)
        assert len(ledger.found) == count


@pytest.mark.parametrize(("dice", "most"), [(200, 24), *at_night((500, 47))])
def test_right_dice_are_called_wrong_within_the_rate(dice, most):
    """At a rate of 0.05 each, more false alarms have a chance of less than 3e-5."""
    context = replace(CONTEXT, rate=0.05)
    effort = Effort(tv=float("inf"), look=50, wanted=0.3, turns=2)
    wrong = sum(
        found(die(FAIR, seed=seed), context=context, effort=effort, ways=FoundBy.SAMPLED).status
        is Status.FAILED
        for seed in range(dice)
    )
    assert wrong <= most
