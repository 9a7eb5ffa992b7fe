"""Every rule on a pair of models, judged by what it emits; and planted defects that must be found.

``--target`` and ``--draft`` name any Hugging Face pair. Without them a random network is drafted by its own
first layers: over a billion parameters on a GPU, small on a CPU. All false-alarm rates are 1e-9 a test.
``--figures STEM`` writes the table that the run ends with.
"""

from dataclasses import replace
from functools import cache

import pytest

import verifiers
from gpu_tests.judging import ALPHA, greedy_compared, judged, parts_at_near_ties, texts_compared
from gpu_tests.observed import RULES, by_day, decoded_texts, observed, target_only, truncation_of
from gpu_tests.pair import load_pair, shorter
from gpu_tests.planted import PLANTED
from gpu_tests.recorded import TARGET_ONLY, head_of, row_of
from gpu_tests.second_pass import measured_rounding
from spec_oracle.language_models import Truncation

DETECTED = 0.1
"""Total variation a token that the tokens of a run detect: of every rule on random models, where there are
enough of them, and of `PRECISE` rules on SmolLM2."""

PRECISE = ("token", "block")
FEWER = {"requests": 32, "tokens": 24}
"""Texts of the other rules on SmolLM2 on a CPU: at least 200 calls, and about 0.2 a token."""

SEEDED = Truncation(top_k=20)
"""Truncation of seeded texts: in whole rows rounding finds another of the many rare tokens too often."""

OF_DAY = ("always accepted", "correction from p instead of the residual", "rejected tokens left in the cache")
"""Planted defects of verification, of residuals and of caches; on a GPU all are run."""

MEASURED = 16
"""Texts on which rounding is measured."""


@pytest.fixture(scope="session", params=["given", pytest.param("smollm2", marks=pytest.mark.lm)])
def pair(request, device):
    """The pair of the options, and SmolLM2 with its first layers where it is installed."""
    option = request.config.getoption
    memory = None if option("--memory") is None else 1e9 * option("--memory")
    named = {"target": option("--target"), "draft": option("--draft"), "size": option("--size")}
    if request.param != "given":
        named |= {"target": request.param, "draft": None}
    return load_pair(device, option("--dtype"), memory=memory, **named)


@pytest.fixture(scope="session")
def plain(pair):
    """Target-only decoding."""
    return target_only(pair)


@pytest.fixture(scope="session")
def rounding_of(pair, plain):
    """How far rows of two correct passes differ, by truncation."""
    return cache(
        lambda truncation: measured_rounding(
            pair, plain.prompts[:MEASURED], plain.texts[:MEASURED], truncation
        )
    )


def is_few(pair, name):
    """Whether a rule gets fewer tokens: any but the precise ones where a named model runs on a CPU."""
    return not pair.is_random and pair.device.type == "cpu" and name not in PRECISE


def test_target_only_decoding_is_the_targets(pair, plain, rounding_of, record_property):
    rounding = rounding_of(Truncation())
    evidence = judged(pair, plain, None, rounding)
    record_property("head", head_of(pair, rounding))
    record_property("rules", row_of(pair, TARGET_ONLY, plain, evidence))
    assert not evidence.problems


@pytest.mark.parametrize(
    "defect", [pytest.param(one, marks=() if one in OF_DAY else pytest.mark.nightly) for one in PLANTED]
)
def test_a_planted_defect_is_found(defect, pair, rounding_of, record_property):
    plan = {"draft_length": pair.draft_length, **PLANTED[defect]}
    sizes = replace(pair, draft_length=plan.pop("draft_length"))
    run = observed(sizes, "token", **plan)
    evidence = judged(sizes, run, verifiers.get("token"), rounding_of(Truncation()))
    found = {
        "defect": defect,
        "found": evidence.problems,
        "log_e": max(evidence.tokens.largest_log_e, evidence.lengths.largest),
        "tokens_per_call": float(run.accepted.mean()) + 1,
        "tokens": sum(map(len, run.texts)),
    }
    record_property("planted", found)
    assert evidence.problems


@pytest.mark.parametrize("name", by_day(RULES))
def test_a_rule_emits_the_targets_tokens_and_its_own_lengths(name, pair, rounding_of, record_property):
    rule = verifiers.get(name)
    sizes = shorter(pair, **FEWER) if is_few(pair, name) else pair
    run, rounding = observed(sizes, name), rounding_of(truncation_of(rule))
    evidence = judged(sizes, run, rule, rounding)
    record_property("rules", row_of(sizes, name, run, evidence))
    assert not evidence.problems
    assert len(run.accepted) >= 200
    if not is_few(pair, name) and rounding.doubt(pair.draft_length) < DETECTED / 100:
        assert evidence.detected_tv <= DETECTED


@pytest.mark.parametrize("name", by_day(RULES))
def test_texts_do_not_depend_on_the_batch_and_greedy_ones_are_the_targets(
    name, pair, rounding_of, record_property
):
    """Unlike prompts in one batch and each alone, greedily and with seeds; seeds again, and other seeds."""
    rounding, seeded_rounding = rounding_of(Truncation()), rounding_of(SEEDED)
    prompts = pair.prompts(pair.few_requests)
    greedy = decoded_texts(pair, name, prompts, Truncation(top_k=1))
    lone = [decoded_texts(pair, name, [prompt], Truncation(top_k=1))[0] for prompt in prompts[:2]]
    seeds = range(len(prompts))
    seeded, again, others = (
        decoded_texts(pair, name, prompts, SEEDED, [first + seed for seed in seeds]) for first in (0, 0, 100)
    )
    alone = [decoded_texts(pair, name, [prompts[seed]], SEEDED, [seed])[0] for seed in seeds]
    found = {
        "greedy, beside target-only": greedy_compared(pair, prompts, greedy, rounding),
        "greedy, batch beside alone": parts_at_near_ties(pair, prompts[:2], lone, greedy[:2], rounding),
        "seeds, batch beside alone": texts_compared(pair, seeded, alone, seeded_rounding),
        "same seeds again": texts_compared(pair, seeded, again, seeded_rounding),
    }
    record_property("texts", {name: {kind: str(one) for kind, one in found.items()}})
    assert not any(one.parted for one in found.values()), found
    assert seeded != others


def test_error_rates_equal_the_documented_ones():
    assert ALPHA == 1e-9
