"""Where counts are off: the calls are named, and no factor is fitted to a model that the counts refute.

Logs of 1,000 calls and more with fixed seeds; a right engine, or one that is wrong everywhere alike, has a
part named with probability 1e-6 at most.
"""

import json

import numpy as np
import pytest

from spec_oracle.acceptance import acceptance
from spec_oracle.acceptance.log import read_calls
from spec_oracle.acceptance.report import FORMATS
from spec_oracle.acceptance.where import BEHIND_A_CUT, END, LAST
from tests.strategies import at_night

MATCH = "sample_and_match"


def engine(count=1000, seed=3, factor=1.0, of_a_prompt=40):
    """Return the log of an engine that accepts likely drafts ``factor`` times as often as by p."""
    rng, log = np.random.default_rng(seed), []
    for number in range(count):
        p = rng.uniform(0.4, 0.8, 4)
        kept = int((rng.random(4) < factor * p).cumprod().sum())
        call = {"drafted": [1, 2, 3, 4], "accepted": kept, "p": p.tolist(), "q": [1, 1, 1, 1]}
        log.append(call | {"prompt": number // of_a_prompt})
    return log


@pytest.fixture(scope="module")
def right():
    return engine()


def replayed(log):
    """After a cut, the accepted tokens are drafted again in a call of their own, and counted again."""
    for one in log:
        yield one
        kept = one["accepted"]
        if 0 < kept < len(one["drafted"]):
            names = one.keys() - {"accepted", "prompt"}
            yield one | {name: one[name][:kept] for name in names} | {"accepted": kept}


def one_more(log):
    """The call after a cut reports one accepted token too many."""
    owed = 0
    for one in log:
        length, kept = len(one["drafted"]), one["accepted"]
        yield one | {"accepted": min(length, kept + owed)}
        owed = int(0 < kept < length)


def last_is_free(log):
    """The last drafted token counts as accepted where it is reached."""
    for one in log:
        length, kept = len(one["drafted"]), one["accepted"]
        yield one | {"accepted": length if kept == length - 1 else kept}


def cut_at_the_end(log):
    """The last call of a completion reports nothing, since the counts are read after the end is cut."""
    for one, after in zip(log, [*log[1:], None], strict=True):
        is_last = after is None or after["prompt"] != one["prompt"]
        yield one | {"accepted": 0} if is_last else one


def drafts_of_some_lengths(log):
    """Drafts of one, three and four tokens in turn."""
    for number, one in enumerate(log):
        length = (1, 3, 4)[number % 3]
        short = {name: one[name][:length] for name in ("drafted", "p", "q")}
        yield one | short | {"accepted": min(one["accepted"], length)}


def ignored(log):
    """Drafts of one token are logged, but too short to be verified (llama.cpp #14104)."""
    for one in drafts_of_some_lengths(log):
        yield one | {"accepted": one["accepted"] * (len(one["drafted"]) > 1)}


def last_is_lost(log):
    """The last drafted token never counts."""
    return (one | {"accepted": min(one["accepted"], 3)} for one in log)


def judged(log, rule=MATCH, **how):
    return acceptance(read_calls(map(json.dumps, log)), rule=rule, **how)


@pytest.mark.parametrize(
    ("wrong", "where"), [(replayed, BEHIND_A_CUT), (one_more, BEHIND_A_CUT), (last_is_free, LAST)]
)
def test_calls_with_counts_too_high_are_named(right, wrong, where):
    """The first two as llama.cpp counts replayed drafts (llama.cpp #26320)."""
    found = judged(wrong(right))
    assert (found.where.name, found.factor, found.exit_code) == (where, None, 1)
    assert found.where.reported > found.where.expected
    said = FORMATS["text"](found)
    _, _, after = said.partition(found.where.question)
    assert (f"is {MATCH} the rule of this engine?" in after) == found.accepts_more
    assert "times as often" not in said


def test_counts_that_are_cut_at_the_end_are_named():
    found = judged(cut_at_the_end(engine(of_a_prompt=4)), at_least=0.5)
    assert (found.where.name, found.exit_code) == (END, 1)
    assert found.where.reported == 0 < found.where.expected


@pytest.mark.parametrize(
    ("wrong", "where"), [(ignored, "in drafts of length at most 1"), (last_is_lost, LAST)]
)
def test_counts_that_are_too_low_ask_for_drafts_that_were_not_verified(right, wrong, where):
    found = judged(wrong(right), at_least=0.5)
    assert (found.where.name, found.exit_code) == (where, 1)
    assert "fails: are drafts logged that were not verified" in FORMATS["text"](found)


@pytest.mark.parametrize(("calls", "is_sure"), [(400, True), (12, False)])
def test_drafts_counted_behind_a_rejected_one_are_asked_for(calls, is_sure):
    """All drafts that would pass count, also those behind a rejected one (vllm #10604)."""
    rng, log = np.random.default_rng(4), engine(count=calls)
    for one in log:
        one["p"] = (np.array(one["p"]) * (rng.random(4) > 0.2)).tolist()
        one["accepted"] = int((rng.random(4) < one["p"]).sum())
    found = judged(log)
    assert (found.accepts_more, found.impossible > 0, found.exit_code) == (is_sure, True, 1)
    assert "are drafts counted that come behind a rejected one? if not, is" in FORMATS["text"](found)


def test_a_right_log_names_no_calls(right):
    assert not judged(drafts_of_some_lengths(right)).disagrees
    found = judged(right)
    assert (found.disagrees, found.where) == (False, None)
    assert found.factor[1] < 1 < found.factor[2]


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_an_engine_that_is_wrong_everywhere_has_a_factor(factor):
    found = judged(engine(factor=factor))
    assert (found.disagrees, found.where) == (True, None)
    assert found.factor[1] < factor < found.factor[2]


def test_last_calls_of_completions_of_a_length_are_longer():
    """The call that crosses a limit is longer than others, which names no part of a log that is wrong."""
    log, tokens, prompt = engine(count=3000, factor=1.15), 0, 0
    for one in log:
        one["prompt"] = prompt
        tokens += one["accepted"] + 1
        if tokens >= 6:
            tokens, prompt = 0, prompt + 1
    found = judged(log)
    assert (found.disagrees, found.where) == (True, None)


def test_a_log_of_another_rule_has_no_factor(right):
    """By the token rule with q = 0.8, more is accepted of unlikely drafts than of likely ones."""
    found = judged([one | {"q": [0.8] * 4} for one in right], "sample_and_match")
    assert not found.disagrees
    found = judged([one | {"q": [0.8] * 4} for one in engine(factor=1.25)], "sample_and_match")
    assert (found.disagrees, found.fitting) == (True, ("token",))


@pytest.mark.parametrize(
    "chance", [lambda p: 0 * p + 0.5, *at_night(lambda p: p**2, lambda p: p * [1, 1, 0.6, 1])]
)
def test_a_defect_that_is_no_factor_has_none(chance):
    """An acceptance probability that ignores p, another temperature, and one place that is too strict."""
    rng, log = np.random.default_rng(6), engine(count=3000)
    for one in log:
        one["accepted"] = int((rng.random(4) < chance(np.array(one["p"]))).cumprod().sum())
    found = judged(log)
    assert (found.disagrees, found.factor) == (True, None)
    assert f"no single factor of {MATCH}'s acceptance probabilities" in FORMATS["text"](found)


def test_a_contradiction_that_is_not_a_smaller_factor_fails_every_gate(right):
    """Too many whole drafts and too few single tokens: the share of all tokens is right."""
    log = [one | {"accepted": one["accepted"] * (one["accepted"] != 1)} for one in last_is_free(right)]
    found = judged(log, at_least=0.5)
    assert found.share_at_alpha[0] < 1
    assert (found.disagrees, found.exit_code) == (True, 1)
    assert "fails: " in FORMATS["text"](found)


def test_a_gate_allows_fewer_by_a_factor():
    found = judged(engine(factor=0.85), at_least=0.5)
    assert (found.disagrees, found.exit_code) == (True, 0)
