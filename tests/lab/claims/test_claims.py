"""The page is what the command prints, and its instances show what they are said to show.

The figures of every decisive instance are computed here once more: from its rows, by summing over the drafts
by hand, without the verifiers, the enumeration and the solvers behind the page.
"""

import json
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import chain, combinations, islice, product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from lab import claims as claims_package
from lab.claims import GROUPS, Ruling, decide
from lab.claims.__main__ import main
from lab.claims.report import instance_text
from spec_oracle.toy import Instance

PAGE = Path(__file__).parents[3] / "docs/evidence/claims.md"


def decided_on(question, step):
    """Return a claim that the page says holds decided on every so many instances, any other on all."""
    said = next(line for line in PAGE.read_text("utf-8").splitlines() if f"| {question.statement} |" in line)
    if "**holds**" not in said:
        return decide(question)
    every = replace(question.family, instances=lambda: islice(question.family.instances(), None, None, step))
    claim = decide(replace(question, family=every))
    return replace(claim, question=question, tried=sum(1 for _ in question.family.instances()))


@pytest.fixture(scope="module", params=[60, pytest.param(1, marks=pytest.mark.nightly)])
def decided_once(request):
    """Return what decides a claim, once; at night those that hold are put to all of their instances."""
    return lru_cache(partial(decided_on, step=request.param))


@pytest.fixture(scope="module")
def groups(decided_once):
    """Return all claims, decided."""
    return {heading: [*map(decided_once, questions)] for heading, questions in GROUPS.items()}


@pytest.fixture
def command(groups, monkeypatch):
    """Run the command on claims that are decided already."""
    monkeypatch.setattr(claims_package, "decided_claims", lambda: iter(groups.items()))
    return lambda *arguments: main(arguments)


@pytest.fixture
def decided(decided_once):
    """Return the one claim whose statement has the given words."""

    def find(words):
        (question,) = [one for one in chain(*GROUPS.values()) if words in one.statement]
        return decided_once(question)

    return find


@pytest.mark.nightly
def test_the_claims_page_is_up_to_date(command, tmp_path):
    output = tmp_path / "claims.md"
    assert command("--output", str(output)) == 0
    assert output.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


@pytest.mark.nightly
def test_json_has_every_claim_with_an_instance_that_can_be_loaded(command, groups, capsys):
    assert command("--format", "json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert len(printed) == sum(map(len, groups.values()))
    for entry, claim in zip(printed, chain(*groups.values()), strict=True):
        assert entry["verdict"] == claim.verdict.value
        if claim.instance is not None:
            assert instance_text(Instance.from_json(entry["instance"])) == instance_text(claim.instance)


@pytest.mark.nightly
def test_every_claim_is_decided(groups):
    assert all(claim.verdict is not Ruling.UNDECIDED for group in groups.values() for claim in group)


def test_an_instance_with_several_rows_is_shown_as_its_file():
    instance = Instance.random(2, 2, seed=1).rounded(4)
    assert json.loads(instance_text(instance).strip("`")) == instance.to_json()


def rows(claim):
    instance = claim.instance
    return list(instance.target.levels[0][0]), list(instance.draft.levels[0][0]), instance.num_paths


def overlap(p, q):
    return sum(map(min, p, q))


def selection_law(p, q, paths, select):
    """Return the law of the draft that ``select`` takes from a tuple of independent drafts."""
    law = [Fraction(0)] * len(p)
    for drafts in product(range(len(q)), repeat=paths):
        law[select(drafts)] += prod(q[x] for x in drafts)
    return law


def highest(p, q, *, larger_wins_ties=False, clip=False):
    """Return the selection of the draft with the highest p/q."""

    def key(token):
        ratio = p[token] / q[token]
        if clip:  # ties go to the first draft, as max() does
            return min(Fraction(1), ratio)
        return ratio, token if larger_wins_ties else -token

    return lambda drafts: max(drafts, key=key)


def best_acceptance(p, q, paths):
    """Return alpha* by trying every subset."""
    tokens = range(len(p))
    subsets = chain.from_iterable(combinations(tokens, size) for size in range(len(p) + 1))
    return min(
        1 - sum(p[x] for x in subset) + 1 - (1 - sum(q[x] for x in subset)) ** paths for subset in subsets
    )


def corrected(p, drawn, believed):
    """Return the law of the token rule for a draft of law ``drawn`` that is believed to have another."""
    kept = [
        d * min(Fraction(1), target / b) if d else 0 for d, target, b in zip(drawn, p, believed, strict=True)
    ]
    left = [max(target - b, 0) for target, b in zip(p, believed, strict=True)]
    return [k + (1 - sum(kept)) * x / sum(left) for k, x in zip(kept, left, strict=True)]


def distance(p, law):
    return sum(abs(a - b) for a, b in zip(p, law, strict=True)) / 2


def test_two_tokens_block_and_token_differ(decided):
    claim = decided("coincide for drafts of at most two tokens")
    p, q, _ = rows(claim)
    pairs = list(product(range(len(p)), repeat=2))
    accepted = overlap(p, q)
    assert claim.verdict is Ruling.REFUTED
    assert claim.figures["token"] == 1 + accepted + accepted**2
    budgets = {x: min(Fraction(1), q[x] / p[x]) for x in range(len(p))}
    two = sum(min(budgets[x], q[x] * q[y] / (p[x] * p[y])) * p[x] * p[y] for x, y in pairs)
    assert claim.figures["block"] == 1 + accepted + two


def test_example_of_block_verification(decided):
    claim = decided("In the example of the paper")
    assert claim.verdict is Ruling.PROVED
    assert list(claim.figures.values()) == [Fraction(10, 9), Fraction(11, 9), Fraction(12, 9)]


def test_selection_by_ratio_misses_the_optimum(decided):
    claim = decided("Selecting a draft by p/q")
    p, q, paths = rows(claim)
    chosen = {}
    for drafts in product(range(len(q)), repeat=paths):
        weights = [p[x] / q[x] for x in drafts]
        for i, weight in enumerate(weights):
            chosen[drafts, i] = prod(q[y] for y in drafts) * weight / sum(weights)
    law = [sum(mass for (drafts, i), mass in chosen.items() if drafts[i] == x) for x in range(len(p))]
    left = [max(a - b, 0) for a, b in zip(p, law, strict=True)]
    # A refused draft is redrawn from what is left, and that may be another draft.
    accepted = sum(
        mass * min(Fraction(1), p[drafts[i]] / law[drafts[i]])
        + mass
        * max(Fraction(0), 1 - p[drafts[i]] / law[drafts[i]])
        * sum(left[x] for x in set(drafts))
        / sum(left)
        for (drafts, i), mass in chosen.items()
    )
    assert claim.verdict is Ruling.REFUTED
    assert claim.figures == {"canonical": accepted, "α*": best_acceptance(p, q, paths)}
    assert claim.figures["canonical"] < claim.figures["α*"]


@pytest.mark.parametrize(
    ("words", "verdict", "relation"),
    [
        ("on some instance, above", Ruling.PROVED, lambda block, gbv, best: block < gbv == best),
        ("GBV attains the K-path optimum on every", Ruling.REFUTED, lambda block, gbv, best: gbv < best),
        ("GBV over K paths never emits fewer", Ruling.REFUTED, lambda block, gbv, best: gbv < block),
        ("no two tokens have equal ratios", Ruling.REFUTED, lambda block, gbv, best: gbv < block),
    ],
)
def test_greedy_multipath_against_one_path_and_optimum(decided, words, verdict, relation):
    claim = decided(words)
    p, q, paths = rows(claim)
    block = 1 + overlap(p, q)
    gbv = 1 + overlap(p, selection_law(p, q, paths, highest(p, q)))
    best = 1 + best_acceptance(p, q, paths)
    assert claim.verdict is verdict
    assert claim.figures["block on one path"] == block
    assert claim.figures["greedy_multipath_block"] == gbv
    assert claim.figures.get("K-path optimum", best) == best
    assert relation(block, gbv, best)


def test_ties_are_excluded_where_the_claim_says_so(decided):
    p, q, _ = rows(decided("no two tokens have equal ratios"))
    assert p[0] / q[0] != p[1] / q[1]


def test_tie_breaks_change_block_efficiency(decided):
    claim = decided("does not depend on how ties")
    smaller, larger = claim.figures.values()
    p, q, paths = rows(claim)
    assert p == q
    for figure, ascending in ((smaller, False), (larger, True)):
        # The highest of all paths by rank, read as the smallest or the largest number.
        pick = max if ascending else min
        law = np.zeros((2, 2), dtype=object)
        for drafts in product(product(range(2), repeat=2), repeat=paths):
            law[pick(drafts)] += prod(q[x] * q[y] for x, y in drafts)
        first = law.sum(axis=1)
        one = [min(p[x], first[x]) for x in range(2)]
        both = [
            min(one[x] / p[x], law[x, y] / (p[x] * p[y])) * p[x] * p[y] for x in range(2) for y in range(2)
        ]
        assert figure == 1 + sum(one) + sum(both)
    assert smaller != larger


def test_traversal_misses_the_optimum(decided):
    claim = decided("Traversal verification attains")
    p, q, paths = rows(claim)
    assert claim.verdict is Ruling.REFUTED
    assert claim.figures["K-path optimum"] == 1 + best_acceptance(p, q, paths)
    assert claim.figures["traversal"] < claim.figures["K-path optimum"]


def test_masses_of_block_transport_are_not_optimal(decided):
    claim = decided("is the most that K independent paths allow")
    p, q, paths = rows(claim)
    masses = sum(a * (1 - (1 - min(Fraction(1), b / a)) ** paths) for a, b in zip(p, q, strict=True))
    assert claim.verdict is Ruling.REFUTED
    assert list(claim.figures.values()) == [1 + masses, 1 + best_acceptance(p, q, paths)]
    assert masses < best_acceptance(p, q, paths)


@pytest.mark.parametrize(
    ("words", "faulty"),
    [
        ("ties of p/q are broken one way", {"larger_wins_ties": True}),
        ("compares min(1, p/q)", {"clip": True}),
    ],
)
def test_two_orders_are_lossy(decided, words, faulty):
    claim = decided(words)
    p, q, paths = rows(claim)
    believed = selection_law(p, q, paths, highest(p, q))
    drawn = selection_law(p, q, paths, highest(p, q, **faulty))
    assert claim.verdict is Ruling.REFUTED
    assert claim.figures["total variation"] == distance(p, corrected(p, drawn, believed)) > 0


def test_k_seq_with_rho_rounded_down_is_lossy(decided):
    claim = decided("rounded down")
    p, q, paths = rows(claim)
    rho = Fraction(170, 100)  # the root of (1 - (1 - 1/(2 rho))^2) = 1/2 is 1.7071...
    assert (p, q, paths) == ([Fraction(1, 2)] * 2, [1, 0], 2)
    served = 1 - (1 - p[0] / rho) ** paths
    assert claim.figures["total variation"] == served - p[0] > 0


def test_masses_without_carry_over_are_lossy(decided):
    claim = decided("without carry-over")
    p, q, _ = rows(claim)
    assert claim.instance.draft_length == 2
    tokens = range(len(p))
    text = dict.fromkeys(product(tokens, repeat=2), Fraction(0))
    stop = 1 - sum(min(p[x], q[x]) for x in tokens)
    left = [max(p[x] - q[x], 0) for x in tokens]
    for x, y in text:
        # Accepted beyond x; stopped after x and corrected; stopped before x, then a fresh target row.
        inner = min(p[x], q[x]) - sum(min(p[x] * p[z], q[x] * q[z]) for z in tokens)
        owed = [max(p[x] * p[z] - q[x] * q[z], 0) for z in tokens]
        text[x, y] += min(p[x] * p[y], q[x] * q[y])
        text[x, y] += inner * owed[y] / sum(owed) if sum(owed) else 0
        text[x, y] += stop * left[x] / sum(left) * p[y]
    assert sum(text.values()) == 1
    joint = sum(abs(mass - p[x] * p[y]) for (x, y), mass in text.items()) / 2
    assert 0 < joint <= claim.figures["total variation"]


@pytest.mark.parametrize(
    ("words", "leftover"),
    [
        ("one acceptance ratio", lambda r, k: (1 - r) ** k),
        ("with residual p (1 − r^K)", lambda r, k: 1 - r**k),
    ],
)
def test_ratios_per_draft_are_lossy(decided, words, leftover):
    claim = decided(words)
    p, q, paths = rows(claim)
    ratio = [min(Fraction(1), b / a) if a else Fraction(1) for a, b in zip(p, q, strict=True)]
    law, refused = [Fraction(0)] * len(p), Fraction(1)
    for k in range(paths):
        left = [a * (1 - r) ** k for a, r in zip(p, ratio, strict=True)]
        chances = [
            min(Fraction(1), mass * r / (b * sum(left))) if b else 0
            for mass, r, b in zip(left, ratio, q, strict=True)
        ]
        law = [mass + refused * b * chance for mass, b, chance in zip(law, q, chances, strict=True)]
        refused = 1 - sum(law)
    weights = [a * leftover(r, paths) for a, r in zip(p, ratio, strict=True)]
    law = [mass + refused * weight / sum(weights) for mass, weight in zip(law, weights, strict=True)]
    assert claim.verdict is Ruling.REFUTED
    assert claim.figures["total variation"] == distance(p, law) > 0
