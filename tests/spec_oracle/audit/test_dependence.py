"""Dependence between requests and between calls: what is found, what stands, how often it is a mistake."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import verifiers
from lab.specimens.foreign.uniforms import token_by_uniforms
from lab.specimens.registry import specimens
from spec_oracle.audit import dependence
from spec_oracle.audit.context import Context
from spec_oracle.audit.dependence import (
    BATCHES,
    CHAINS,
    CallSizes,
    equal_calls,
    equal_requests,
    findings,
    independent,
    ordered,
)
from spec_oracle.audit.results import Status
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.saved_inputs import as_drafts
from spec_oracle.audit.subjects import of_engines
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import SamplerCode, as_sampler
from tests.strategies import at_night, by_day
from tests.subjects import sampler
from verifiers import numpy_decisions

NEVER = 1e-6
"""Chance that a test of this module fails although nothing is wrong."""

ALL = [s for paths in (1, 2) for s in specimens(num_paths=paths).values()]
FAULTY = [s for s in ALL if s.catalogue_id in {"C11", "C12", "C13"} and s.kind != "rule"]
BY_DAY = (
    *("shared-at-distance-2", "clamped-beyond-64", "antithetic", "seeds-repeat-beyond-64"),
    *("shared-64-calls-apart", "graph-of-33-replays"),
)
"""One of each form; other distances are found every night."""
RIGHT = (
    *("blocks-of-a-counter-generator", "hash-of-a-counter", "buffer-for-each-size", "split-at-32"),
    *("own-seeds-by-paths", "system", "system-with-stop-and-budget"),
)
TOKEN = as_sampler(verifiers.get("token"))
OTHERS = {"greedy_block", "greedy_multipath_carry", "block_transport", "univer"}
"""They carry a state, or take no independent drafts, as samplers get them."""

STATELESS = [name for name in verifiers.names() if name not in OTHERS]


def subject_of(specimen):
    if specimen.engine is not None:
        return of_engines(specimen.name, specimen.engine())
    return SamplerSubject(
        specimen.name, SamplerCode(specimen.function, specimen.array), num_paths=specimen.num_paths
    )


@pytest.mark.usefixtures("full_effort")
@pytest.mark.parametrize(
    "specimen", by_day(FAULTY, [s for s in FAULTY if s.name in BY_DAY]), ids=lambda specimen: specimen.name
)
def test_shared_numbers_are_found_by_the_check_that_is_made_for_them(specimen):
    for check in specimen.detected_by:
        result = result_of(check, subject_of(specimen), Context())
        assert result.status is Status.FAILED, result.detail


CONTROLS = {s.name: s for s in ALL if s.name in RIGHT}
QUICK = ("blocks-of-a-counter-generator", "buffer-for-each-size", "split-at-32")


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.usefixtures("less_effort")
def test_right_code_that_looks_like_it_passes(name):
    for check in ("batch", "calls"):
        result = result_of(check, subject_of(CONTROLS[name]), Context())
        assert result.status is Status.PASSED, result.detail


@pytest.mark.nightly
@pytest.mark.parametrize("name", CONTROLS)
def test_right_code_that_looks_like_it_stands(name):
    """With all samples."""
    test_right_code_that_looks_like_it_passes(name)


def sharing(distance, uniforms=(0, 1, 2), start=0):
    """Return the token rule in which every second block of ``distance`` requests repeats the one before."""

    def verify(x, q, p, generator):
        drawn, number = generator.random((len(x), x.shape[1] + 1)), np.arange(len(x)) - start
        source = np.where(number // distance % 2 == 1, number - distance, number) + start
        source = np.where(number < 0, number + start, source)
        drawn[:, uniforms] = drawn[source][:, uniforms]
        return token_by_uniforms(x, q, p, drawn, dtype=np.float64)

    return SamplerSubject("sharing", SamplerCode(verify))


def is_found(subject, design, seed=0):
    """Whether one design shows dependence, at its part of the rate of `batch` in a run of 1e-6."""
    rate = 1e-7 / 3 / len(BATCHES)
    return min(findings(ordered(equal_calls(subject, seed)(design)), rate))[0] <= rate


@pytest.mark.parametrize("distance", [1, 1029, *at_night(2, 7, 32, 64, 515, 1000, 1023, 1024, 1028)])
def test_numbers_shared_at_any_distance_in_a_batch_of_1030_are_found(distance):
    assert is_found(sharing(distance), BATCHES[-1])


@pytest.mark.parametrize("distance", [1000, *at_night(1, 64, 515)])
@pytest.mark.parametrize("uniform", [1, *at_night(0, 2)])
def test_a_single_shared_uniform_is_found(uniform, distance):
    assert is_found(sharing(distance, [uniform]), BATCHES[-1])


def outcomes_of(tokens):
    """Return outcomes [3, N, C] of tokens [N, C], one a request."""
    return ordered(tokens[..., None])


def test_a_finding_names_both_requests_and_their_calls():
    """Independent tokens, of which some are those of another request; the first finding is the strongest."""
    tokens = np.random.default_rng(3).integers(10, size=(60, 40))
    found = {"fresh": tokens}
    for name in ("later request", "later call", "other place", "pair"):
        found[name] = tokens.copy()
    found["later request"][:, 1::2] = tokens[:, ::2]
    found["later call"][1::2] = tokens[::2]
    found["other place"][1::2, :-2] = tokens[::2, 2:]
    found["pair"][:, 5] = tokens[:, 1]
    says = {name: min(findings(outcomes_of(one), 1e-7)) for name, one in found.items()}
    assert says.pop("fresh")[0] > 1e-3
    assert {name: what for name, (_, what) in says.items()} == {
        "later request": "request b depends on request b - 1 of its call: their tokens agree too often",
        "later call": "request b depends on request b of the call 1 earlier: their tokens agree too often",
        "other place": "request b depends on request b + 2 of the call 1 earlier: "
        "their tokens agree too often",
        "pair": "request 5 depends on request 1 of its call: their tokens are equal too often",
    }


def test_requests_beyond_the_1024th_that_share_among_themselves_are_found():
    assert is_found(sharing(1, start=1024), BATCHES[-1])


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("distance", "uniforms"), [(64, [0]), (515, [1]), (1000, [0]), (1024, [0, 1, 2]), (1029, [0, 1, 2])]
)
def test_numbers_shared_in_a_batch_of_1030_are_found_with_a_power_of_0_999(distance, uniforms):
    runs = 1000
    missed = sum(not is_found(sharing(distance, uniforms), BATCHES[-1], seed) for seed in range(runs))
    assert missed <= stats.binom.isf(NEVER, runs, 1e-3)


def alarms(runs, level):
    """Run all families on independent outcomes; return how often a p-value is at most ``level``."""
    rng, design = np.random.default_rng(7), CallSizes((6,), 11)
    law = np.array([0.05, 0.15, 0.2, 0.6])
    count = 0
    for _ in range(runs):
        outcomes = rng.choice(4, p=law, size=(2 * design.half, 6))
        orders = np.stack([outcomes, (outcomes + 2) % 4, outcomes // 2])
        count += min(findings(orders, level))[0] <= level
    return count


def test_independent_outcomes_seldom_raise_an_alarm():
    assert alarms(150, 0.2) <= stats.binom.isf(NEVER, 150, 0.2)


@pytest.mark.nightly
@pytest.mark.parametrize("level", [0.1, 1e-2, 1e-3])
def test_p_values_are_not_too_small_in_the_tail(level):
    assert alarms(40_000, level) <= stats.binom.isf(NEVER, 40_000, level)


@pytest.mark.parametrize("paths", [2, *at_night(1, 3)])
@pytest.mark.parametrize("name", STATELESS)
def test_equal_requests_have_emissions_of_much_entropy_under_every_rule(name, paths):
    """Two emissions are equal with a probability of 0.2 at most, and lengths differ."""
    drafts = equal_requests(4000, 1 if verifiers.traits_of(verifiers.get(name)).single_path else paths)
    verdict = verifiers.get(name).verify(as_drafts(drafts), numpy_decisions(np.random.default_rng(0)))
    counts = np.unique(verdict.emitted, axis=0, return_counts=True)[1] / 4000
    assert (counts**2).sum() < 0.22
    assert len(np.unique(verdict.num_accepted)) > 1


def test_chains_are_as_long_as_they_should_be():
    assert all(2 * chain.half >= 300 for chain in CHAINS)
    assert [size for design in BATCHES for size in design.sizes] == [2, 16, 33, 128, 130, 1030]


@pytest.mark.parametrize(("pace", "status"), [(30_000.0, Status.PASSED), (10.0, Status.NOT_RUN)])
def test_slow_code_is_asked_less_or_nothing_and_that_is_told(pace, status):
    subject = SamplerSubject("slow", SamplerCode(TOKEN))
    vars(subject)["_pace"] = {0: pace}
    result = result_of("batch", subject, Context(budget=1.0))
    assert result.status is status, result.detail
    assert result.measured.draws < sum(design.requests for design in BATCHES) / 2


def test_code_too_slow_for_one_call_of_a_design_leaves_it_open():
    none = tuple(replace(design, half=0) for design in BATCHES[:1])
    result = independent(None, none, 1e-7)
    assert (result.status, result.measured.draws) == (Status.INCONCLUSIVE, 0)
    assert result.detail.endswith("too slow")


def refusing(tokens, draft_probs, target_probs, generator):
    if len(tokens) > 128:
        raise ValueError("capacity 128")
    return TOKEN(tokens, draft_probs, target_probs, generator)


@pytest.mark.usefixtures("less_effort")
def test_sizes_that_are_refused_are_named(monkeypatch):
    monkeypatch.setattr(dependence, "BATCHES", (BATCHES[1], BATCHES[-1]))
    result = result_of("batch", sampler(refusing), Context())
    assert result.status is Status.PASSED
    assert "calls of 1030 requests: raised ValueError: capacity 128" in result.detail


RANKED, BY_NUMBER = (specimens()[f"handed-rows-{name}"] for name in ("by-rank", "of-sampled-requests"))


@pytest.mark.usefixtures("few_equal_requests")
def test_numbers_that_sampled_requests_share_beside_greedy_ones_are_found():
    wrong, right = (result_of("batch", subject_of(one), Context()) for one in (BY_NUMBER, RANKED))
    assert wrong.status is Status.FAILED
    assert "calls of 16 sampled and as many greedy requests: " in wrong.detail
    assert right.status is Status.PASSED
