"""Expected accepted lengths are those of the rules, and counts are judged at the stated rates.

Right logs raise an alarm with probability 1e-6 at most each; seeds are fixed.
"""

import itertools
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import verifiers
from spec_oracle.acceptance import RULES, acceptance
from spec_oracle.acceptance.evidence import AcceptanceEvidence, Chances, share_bounds
from spec_oracle.acceptance.figures import mean_interval
from spec_oracle.acceptance.log import LoggedCalls, block_weights, digest, read_calls
from spec_oracle.acceptance.rules import TYPICAL_SHARE, TYPICAL_THRESHOLD, accepted_lengths
from spec_oracle.acceptance.where import known_parts
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from spec_oracle.toy import Instance
from tests.spec_oracle.acceptance.logs import VOCAB, fields, lines, rows_and_drafts, with_counts
from tests.strategies import at_night
from verifiers import Verdict
from verifiers.parts.path import first_failure


def all_drafts(instance):
    """Return every draft path of an instance as a call, and its probability under the drafter."""
    paths = [*itertools.product(range(instance.vocab_size), repeat=instance.draft_length)]
    rows = [
        [(model.conditional(path[:place]), path[place]) for place in range(instance.draft_length)]
        for path in paths
        for model in (instance.target, instance.draft)
    ]
    numbers = np.array([[row[token] for row, token in along] for along in rows])
    p, q = numbers[::2], numbers[1::2]
    chances = q.prod(axis=1)
    q = np.where(q == 0, 1, q)  # never drafted: their weight is 0
    whole = [np.array([[row for row, _ in along] for along in rows[start::2]]) for start in (0, 1)]
    weights = block_weights(p, q)[:, :-1, None]
    surplus = np.maximum(weights * whole[0] - whole[1], 0 * whole[0]).sum(axis=-1)
    entropy = None
    if whole[0].dtype != object:
        entropy = -(whole[0] * np.log(np.where(whole[0] > 0, whole[0], 1))).sum(axis=-1)
    length = np.full(len(paths), instance.draft_length)
    largest = whole[0].max(axis=-1)
    return LoggedCalls(length, length * 0, p, q, np.stack([surplus] * 2), largest, entropy), chances


@pytest.mark.parametrize("kind", ["dirichlet", "sparse"])
@pytest.mark.parametrize("rule", ["token", "block", "sample_and_match"])
def test_mean_over_drafts_is_the_enumerated_distribution_in_rationals(rule, kind):
    instance = Instance.random(3, 3, kind=kind, seed=3, agreement=0.3).rounded(60).exact
    calls, chances = all_drafts(instance)
    tails = accepted_lengths(RULES[rule].chances(calls, 0.0))
    expected = emission_law(verifiers.get(rule), instance, exact=True).accepted_length_pmf
    assert [(chances * tail).sum() for tail in tails.T] == [sum(expected[i:]) for i in (1, 2, 3)]
    assert isinstance(tails[0, 0], Fraction | int)


class Deterministic:
    """Accept drafted tokens for which a condition on target row [B, V] and token probability [B] holds."""

    traits = verifiers.Traits(single_path=True)

    def __init__(self, keeps):
        self.keeps = keeps

    def verify(self, drafts, decisions):
        paths = drafts.paths
        tokens, target = paths.tokens[:, 0], paths.target_probs[:, 0]
        rows = [target[:, place] for place in range(paths.draft_length)]
        own = [row[np.arange(len(row)), token] for row, token in zip(rows, tokens.T, strict=True)]
        kept = [self.keeps(row, mass) for row, mass in zip(rows, own, strict=True)]
        tau = decisions.categorical(first_failure(np.stack(kept, axis=1).astype(float)))
        following = decisions.categorical(target[np.arange(len(tau)), tau])
        return Verdict.on_paths(drafts, tau * 0, tau, following)


def is_typical(row, mass):
    entropy = -(row * np.log(np.where(row > 0, row, 1))).sum(axis=1)
    return mass > np.minimum(TYPICAL_THRESHOLD, TYPICAL_SHARE * np.exp(-entropy))


@pytest.mark.parametrize(
    ("rule", "keeps"),
    [("greedy", lambda row, mass: mass == row.max(axis=1)), ("typical", is_typical)],
)
def test_mean_over_drafts_of_rules_without_a_verifier(rule, keeps):
    instance = Instance.random(4, 2, seed=5, concentration=0.4)
    calls, chances = all_drafts(instance)
    tails = accepted_lengths(RULES[rule].chances(calls, 0.0))
    expected = emission_law(Deterministic(keeps), instance).accepted_length_pmf
    np.testing.assert_allclose(chances @ tails, [sum(expected[1:]), expected[2]], atol=1e-12)
    assert 0 < sum(expected[1:]) < 1


def test_ragged_drafts_have_the_accepted_lengths_of_each_alone():
    found = [json.loads(line) for line in lines(6)]
    for number, call in enumerate(found):
        for name in ("drafted", "p", "q", "surplus", "largest", "entropy"):
            call[name] = call[name][: 1 + number % 4]
        call["accepted"] = 0
    together = read_calls(map(json.dumps, found))
    for rule in RULES.values():
        tails = accepted_lengths(rule.chances(together, 0.0))
        for call, tail in zip(found, tails, strict=True):
            alone = accepted_lengths(rule.chances(read_calls([json.dumps(call)]), 0.0))[0]
            np.testing.assert_allclose(tail, np.pad(alone, (0, 4 - len(alone))), atol=1e-14)


@pytest.mark.parametrize("listed", [3, 10, VOCAB])
def test_rows_of_the_likeliest_tokens_bound_block_verification(listed):
    rng, whole, cut = np.random.default_rng(1), [], []
    for target, draft, tokens in rows_and_drafts(40, rng):
        whole.append(json.dumps({"drafted": tokens, "accepted": 0} | fields(target, draft, tokens)))
        call = {"drafted": tokens, "accepted": 0}
        for name, rows in (("target", target), ("draft", draft)):
            order = [np.argsort(-row)[:listed] for row in rows]
            call[name] = [
                {"ids": ids.tolist(), "probs": row[ids].tolist()}
                for ids, row in zip(order, rows, strict=True)
            ]
        numbers = fields(target, draft, tokens)
        cut.append(json.dumps(call | {"p": numbers["p"], "q": numbers["q"]}))
    exact, bounded = read_calls(whole), read_calls(cut)
    known = RULES["block"].chances(exact, 0.0)
    lower, upper = (RULES["block"].chances(bounded, slack) for slack in (-1e-12, 1e-12))
    assert (lower <= known + 1e-9).all()
    assert (upper >= known - 1e-9).all()
    assert ((upper - lower).max() < 1e-9) == (listed == VOCAB)
    np.testing.assert_allclose(bounded.largest, exact.largest)
    assert (RULES["typical"].missing(bounded) == ()) == (listed == VOCAB)


def test_evidence_has_mean_one_at_most_where_contexts_depend_on_counts():
    """The second call is of another kind after each count of the first: all outcomes are enumerated."""
    first, kinds = [0.9, 0.4], {0: [1.0, 0.2], 1: [0.3, 0.3], 2: [0.99, 0.97]}
    mean = 0.0
    for counts in itertools.product(range(3), repeat=2):
        chances = np.array([first, kinds[counts[0]]])
        mass = np.prod(
            [np.prod(row[:n]) * (1 - [*row, 0][n]) for row, n in zip(chances, counts, strict=True)]
        )
        noisy = Chances(chances, chances * np.exp(-1e-6), np.minimum(1, chances * np.exp(1e-6)))
        others = [np.full((2, 2), 0.5), np.ones((2, 2))]
        lengths = np.array([2, 2])
        parts = known_parts(
            LoggedCalls(lengths, np.array(counts), chances, np.ones((2, 2)), prompts=("a", "a"))
        )
        if mass > 0:
            mean += mass * np.exp(AcceptanceEvidence(np.array(counts), noisy, others, parts).log_e_value)
    assert 0.5 < mean <= 1


@pytest.fixture(scope="module")
def calls():
    return read_calls(lines(500, seed=2))


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_of_an_engine_is_named(calls, rule):
    found = acceptance(with_counts(calls, np.random.default_rng(4), rule), rule=rule)
    assert (found.disagrees, found.fitting) == (False, (rule,))
    own = found.rules[0]
    low, high = share_bounds(np.array([own.expected]), (np.array([own.expected]),) * 2, 4, 0.5)
    assert low <= 1 <= high
    assert found.share[0] < 1 < found.share[1]
    assert found.factor[1] <= 1 <= found.factor[2]


def test_a_rule_that_rejects_3_percent_too_much_is_named(calls):
    found = acceptance(with_counts(calls, np.random.default_rng(5), factor=0.97))
    assert (found.disagrees, found.exit_code, found.fitting) == (True, 1, ())
    factor, low, high = found.factor
    assert 0.94 < low < 0.97 < high < 1
    assert abs(factor - 0.97) < 0.015
    assert 5 < found.impossible < 50


def test_the_smallest_detected_factor_is_detected(calls):
    """Missed with probability 0.001 each: none of 40 but with probability 0.04."""
    smallest = acceptance(calls).detects[0]
    assert 0.96 < smallest < 0.99
    rng, chances = np.random.default_rng(6), Chances(*[RULES["token"].chances(calls, 0.0)] * 3)
    logs = [with_counts(calls, rng, factor=smallest) for _ in range(40)]
    assert all(AcceptanceEvidence(log.accepted, chances).p_value <= 1e-6 for log in logs)


@pytest.mark.parametrize("logs", [50, *at_night(200)])
def test_p_values_of_right_logs(calls, logs):
    """None is below 1e-3: under the rule it would be in 0.2 of 200 logs on average at most."""
    rng, chances = np.random.default_rng(7), RULES["token"].chances(calls, 0.0)
    found = [
        AcceptanceEvidence(with_counts(calls, rng).accepted, Chances(chances, chances, chances))
        for _ in range(logs)
    ]
    assert min(one.p_value for one in found) > 1e-3


def test_noise_forgives_what_rounding_makes_impossible(calls):
    """Refusing a token with p = q now and then contradicts the rule, unless p / q may be off by as much."""
    counts = with_counts(replace(calls, p=calls.q), np.random.default_rng(8), factor=0.985)
    assert acceptance(counts, noise=1e-9).disagrees
    assert not acceptance(counts, noise=0.03).disagrees


@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (0.8, False), *at_night((0.94, None))])
def test_the_gate_allows_the_given_share(calls, factor, passes):
    names = ("lengths", "accepted", "p", "q")
    many = LoggedCalls(
        *(np.concatenate([getattr(calls, name)] * 6) for name in names), prompts=calls.prompts * 6
    )
    found = acceptance(with_counts(many, np.random.default_rng(9), factor=factor), at_least=0.9)
    assert found.passes is passes
    few = acceptance(read_calls(lines(5)), at_least=0.9)
    assert (few.passes, few.exit_code) == (None, 2)


def test_more_than_the_rule_accepts_passes_no_gate(calls):
    found = acceptance(replace(calls, accepted=calls.lengths), at_least=0.5)
    assert (found.exit_code, found.fitting, found.accepts_more) == (1, (), True)


def test_definitions_are_converted():
    log = [
        {"drafted": [1, 2], "accepted": 2, "p": [0.5, 0.5], "q": [0.5, 1.0]},
        {"drafted": [1], "accepted": 0, "p": [0.25], "q": [0.5]},
        {"drafted": [], "accepted": 0, "p": [], "q": []},
        {"drafted": [3, 4], "accepted": 1, "p": [0.5, 0.0], "q": [0.5, 0.5]},
    ]
    found = {one.name: one for one in acceptance(read_calls(map(json.dumps, log))).definitions}
    reported = {name: one.reported for name, one in found.items()}
    assert reported == {
        "accepted tokens per call": 3 / 4,
        "tokens per call": 7 / 4,
        "accepted / drafted": 3 / 5,
        "accepted / verified": 3 / 5,
        "calls that accept token 1": 2 / 4,
        "calls that accept token 2": 1 / 4,
    }
    assert found["accepted tokens per call"].expected == (1 + 0.5 + 0.5 + 1) / 4
    assert found["accepted / verified"].expected == 3 / (2 + 1 + 2)


def test_intervals_treat_prompts_as_clusters():
    values = np.array([1.0, 1.0, 1.0, 3.0, 3.0, 3.0])
    alone, together = (mean_interval(values, prompts) for prompts in ("aaaaaa", "aaabbb"))
    assert together[0] < alone[0] < 2 < alone[1] < together[1]


def test_intervals_hold_where_one_prompt_has_most_of_the_calls():
    """With the variance of sums around the common mean 62 % of them held."""
    rng, prompts = np.random.default_rng(0), np.repeat(np.arange(10), [455] + [5] * 9)
    found = (mean_interval(rng.binomial(3, 0.6, 500).astype(float), prompts.tolist()) for _ in range(300))
    assert sum(low <= 1.8 <= high for low, high in found) >= 0.88 * 300


def test_intervals_of_expectations_are_narrower_than_those_of_counts(calls):
    found = acceptance(calls)
    widths = [high - low for low, high in (found.rules[0].interval, found.interval)]
    assert widths[0] < 0.95 * widths[1]


GOOD = {"drafted": [1, 2], "accepted": 1, "p": [0.5, 0.5], "q": [0.5, 0.5]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"drafted": "ab"}, "line 2: drafted: expected a list of token ids, got 'ab'"),
        ({"drafted": [1, -1]}, r"got \[1, -1\]; leave out -1, which no draft model proposed"),
        ({"accepted": 4}, "line 2: accepted: expected 0..2, got 4$"),
        ({"accepted": 2.0}, "line 2: accepted: expected an integer, 0..2, got 2.0"),
        ({"p": [0.5]}, "line 2: p: expected a list of 2 numbers"),
        ({"p": [0.5, 1.5]}, r"line 2: p\[1\]: expected 0 to 1, got 1.5"),
        ({"q": [0.5, 0.0]}, "line 2: q: a drafted token has probability 0; log it at full precision"),
        ({"accepted": 3}, "line 2: accepted: expected 0..2, got 3; leave the bonus token out"),
        ({"q": None}, r"line 2 has no 'q': give 2 probabilities, or rows \(\"target\" and \"draft\"\)"),
        ({"target": [[0.5]], "draft": []}, "line 2: target: expected 2 rows"),
        ({"target": [[0.5, 0.1]] * 2, "draft": []}, r"line 2: target\[0\]: expected a total of 1, got 0.6"),
        ({"target": [{"ids": [1, 1], "probs": [0.1, 0.1]}] * 2, "draft": []}, "2 different token ids"),
        ({"target": [7, 7], "draft": []}, r"line 2: target\[0\]: expected V probabilities"),
    ],
)
def test_mistakes_in_a_log(changes, message):
    with pytest.raises(InvalidInputError, match=message):
        read_calls([json.dumps(GOOD), json.dumps(GOOD | changes)])


@pytest.mark.parametrize("name", ["drafted", "accepted", "p", "q"])
def test_a_line_without_a_field_names_those_it_has(name):
    line = {one: value for one, value in GOOD.items() if one != name} | {"n_accepted": 1}
    with pytest.raises(InvalidInputError, match=f"line 1 has no field '{name}' \\(has .*n_accepted"):
        read_calls([json.dumps(line)])


def test_a_log_without_drafts_or_json():
    for log, message in (
        (["{"], "line 1: not JSON"),
        (["[]"], "line 1: expected an object"),
        ([], "no call"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            read_calls(log)


def test_a_rule_that_needs_more_than_the_log_has():
    with pytest.raises(InvalidInputError, match='--rule block: the log needs "surplus", or rows'):
        acceptance(read_calls([json.dumps(GOOD)]), rule="block")


def test_a_log_of_tokens_that_the_target_forbids():
    found = acceptance(read_calls([json.dumps(GOOD | {"accepted": 0, "p": [0.0, 0.0]})]))
    assert (found.share_of_expected, found.exit_code, found.p_value) == (None, 2, 1.0)
    found = acceptance(read_calls([json.dumps(GOOD | {"p": [0.0, 0.0]})]))
    assert (found.disagrees, found.impossible) == (True, 1)


def test_a_call_without_drafts_has_rows_of_no_tokens():
    row = [0.5, 0.5]
    full = {"drafted": [1], "accepted": 1, "target": [row], "draft": [row]}
    none = {"drafted": [], "accepted": 0, "target": [], "draft": []}
    calls = read_calls(map(json.dumps, [full, none]))
    assert calls.lengths.tolist() == [1, 0]
    assert calls.surplus.tolist() == [[[0.0], [0.0]]] * 2


def test_a_digest_without_the_drafted_token_has_no_p():
    row = (np.array([0, 1]), np.array([0.6, 0.3]))
    assert digest([2], [row], [row]).keys() == {"largest"}
