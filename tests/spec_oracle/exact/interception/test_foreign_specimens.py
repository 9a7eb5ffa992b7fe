"""Every control keeps the target's law to rounding; every defect is found, however small."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from lab.specimens.coupling import buffer_for_each_size, made
from lab.specimens.registry import specimens
from spec_oracle.contracts import checked_emissions
from spec_oracle.statistics import goodness_of_fit_by_g
from tests.spec_oracle.exact.interception.support import (
    along,
    distance,
    drafts,
    emission_law,
    extended,
    random_models,
    sequence_law,
    total_variation,
)
from verifiers import Paths

ONE_CALL = [
    specimen
    for specimen in specimens().values()
    if specimen.function and specimen.array == "numpy" and set(specimen.detected_by) <= {"joint", "exact"}
]
OWN_GENERATORS = {"blocks-of-a-counter-generator", "hash-of-a-counter"}.union(
    name for name in specimens() if name.startswith(("own-", "unseen-"))
)
"""Random numbers from a key that is drawn, or from a generator of their own: nothing to follow."""

CONTROLS = [s.name for s in ONE_CALL if s.is_control and s.name not in OWN_GENERATORS]
DEFECTS = [specimen.name for specimen in ONE_CALL if not specimen.is_control]
FIRST_TOKEN_BLIND = [
    "last-draft-unverified",
    "same-uniform-everywhere",
    "no-break",
    "bonus-argmax",
    "bonus-from-row-before",
    "bonus-from-draft",
    "bonus-from-residual",
    "residual-of-row-zero",
    "residual-of-row-before",
    "weights-not-capped",
    "token-residual-in-block",
]


@pytest.mark.nightly  # by day audits prove them: tests/spec_oracle/audit/test_foreign_verdicts.py
@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize(("seed", "vocab_size", "draft_length"), [(1, 4, 2), (0, 3, 1), (2, 3, 3)])
def test_controls_are_lossless(name, seed, vocab_size, draft_length):
    # A buffer that an ordinary call has left, of another test, cannot hold what is traced.
    function = made(buffer_for_each_size) if name == "buffer-for-each-size" else specimens()[name].function
    assert distance(function, seed, vocab_size, draft_length) < 1e-12


@pytest.mark.nightly  # by day audits do, too
@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_lossy(name):
    assert distance(specimens()[name].function, 1, 3, 2) > 1e-4


def test_a_small_epsilon_is_found():
    assert 1e-4 < distance(specimens()["epsilon-in-ratio"].function, 1) < 1e-3


@pytest.mark.parametrize("name", FIRST_TOKEN_BLIND)
def test_some_defects_leave_the_first_token_alone(name):
    target, draft = random_models(1, 3, 2)
    first = defaultdict(float)
    for emission, mass in emission_law(specimens()[name].function, target, draft, 3, 2).items():
        first[emission[0]] += mass
    assert np.allclose([first[token] for token in range(3)], target[()], atol=1e-12)


def reference_tv(rule):
    """Distance of a rule given as exact emission probabilities for one path."""
    target, draft = random_models(1, 3, 2)
    law = defaultdict(float)
    for path, probability in drafts(draft, 3, 2):
        for emission, chance in rule(path, along(draft, path, 2), along(target, path, 3)):
            law[emission] += probability * chance
    return total_variation(extended(law, target, 3, 3), sequence_law(target, 3, 3))


def token_walk(path, q, p, *, acceptance=None, correction=None, bonus=None):
    """Yield the token rule's exact emissions, with one ingredient replaced."""
    accept = [min(1.0, p[i, x] / q[i, x]) for i, x in enumerate(path)] if acceptance is None else acceptance
    reached = 1.0
    for i in range(len(path)):
        residual = np.maximum(p[i] - q[i], 0)
        residual = residual / residual.sum() if residual.sum() > 0 else p[i]
        for token, chance in enumerate(residual if correction is None else correction[i]):
            yield (*path[:i], token), reached * (1 - accept[i]) * chance
        reached *= accept[i]
    for token, chance in enumerate(p[-1] if bonus is None else bonus):
        yield (*path, token), reached * chance


def one_uniform(path, q, p):
    """Test with one uniform: after passing at c, the next test passes with min(1, r / c)."""
    ratios = np.minimum(1, [p[i, x] / q[i, x] for i, x in enumerate(path)])
    passed = np.minimum.accumulate([1.0, *ratios])
    conditional = [passed[i + 1] / passed[i] if passed[i] > 0 else 1.0 for i in range(len(path))]
    return token_walk(path, q, p, acceptance=conditional)


def two_chances(path, q, p):
    ratios = np.minimum(1, [p[i, x] / q[i, x] for i, x in enumerate(path)])
    match = np.array([p[i, x] for i, x in enumerate(path)])
    return token_walk(path, q, p, acceptance=match + (1 - match) * ratios)


def small_epsilon(path, q, p):
    return token_walk(
        path, q, p, acceptance=[min(1.0, p[i, x] / (q[i, x] + 3e-4)) for i, x in enumerate(path)]
    )


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("token-rule", token_walk),
        ("always-accept", lambda path, q, p: token_walk(path, q, p, acceptance=[1.0] * len(path))),
        ("correction-from-target", lambda path, q, p: token_walk(path, q, p, correction=p)),
        ("bonus-from-draft", lambda path, q, p: token_walk(path, q, p, bonus=q[-1])),
        ("match-or-ratio", two_chances),
        ("same-uniform-everywhere", one_uniform),
        ("epsilon-in-ratio", small_epsilon),
    ],
)
def test_distance_agrees_with_a_hand_calculation(name, rule):
    assert distance(specimens()[name].function, 1) == pytest.approx(reference_tv(rule), abs=1e-13)


def sampled(verify, target, draft, count):
    """Plain sampling of emissions, drafts included, with real randomness."""
    rng = np.random.default_rng(5)
    paths, chances = zip(*drafts(draft, 3, 2), strict=True)
    tokens = np.array(paths)[rng.choice(len(paths), p=chances, size=count)]
    q = np.array([along(draft, tuple(path), 2) for path in tokens])
    p = np.array([along(target, tuple(path), 3) for path in tokens])
    found = checked_emissions(verify(tokens, q, p, rng), Paths(tokens[:, None], q[:, None], p[:, None]))
    return [tuple(row[:n]) for row, n in zip(found.tokens.tolist(), found.lengths, strict=True)]


@pytest.mark.parametrize("name", ["exponential-race", "recycled-uniform", "product-against-product"])
def test_plain_sampling_agrees_with_the_enumerated_law(name):
    """False alarm: 1e-6. That a wrong law is noticed is tested with the audit, which does the same."""
    target, draft = random_models(1, 3, 2)
    law = dict(emission_law(specimens()[name].function, target, draft, 3, 2))
    seen = Counter(sampled(specimens()[name].function, target, draft, 3000))
    assert set(seen) <= set(law)
    assert goodness_of_fit_by_g([seen[e] for e in law], list(law.values()), alpha=1e-6).passed
