"""Optima, the certificates that prove them, and the checker of certificates.

A certificate is checked from the instance alone, without anything of how it was found. What is trusted: the
instance, the enumeration of draft tuples, and rational arithmetic.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import inf
from typing import Any, TypeAlias

from spec_oracle.arrays import Number
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.arithmetic import to_internal
from spec_oracle.exact.call import drafting_on
from spec_oracle.exact.drafting import Drafting, in_rationals
from spec_oracle.toy import Context, Instance, ToyModel
from spec_oracle.validation import require_instance_of
from verifiers import EMPTY, ROOT, Siblings

Paths: TypeAlias = tuple[Context, ...]
Masses: TypeAlias = Mapping[Context, Number]


@dataclass(frozen=True)
class SelectionCertificate:
    """Proof of the best block efficiency over K = ``num_paths`` independent paths.

    ``carry_over``: whether the verifier may modify the target of the rest of the block. ``budgets``: c(v) for
    every context of up to L tokens, which attain ``value``. ``law``: s of every path, the law of one path
    selected among the K; it reaches every v with p(v) c(v) at least. ``potentials``: mu(v), the sum of the
    multipliers of the node sets with v in them that limit the budgets; like any numbers they prove a bound,
    these prove ``bound``. `check_certificate` explains both.
    """

    carry_over: bool
    value: Fraction
    bound: Fraction
    budgets: dict[Context, Fraction]
    potentials: dict[Context, Fraction]
    num_paths: int
    law: dict[Context, Fraction]


@dataclass(frozen=True)
class TransportCertificate:
    """Proof of the best block efficiency over the draft trees that ``drafting`` yields.

    As `SelectionCertificate`, but what serves the budgets are ``stops``: for every draft tree, named by the
    distinct paths to its leaves in lexicographic order, the mass that stops at each of its nodes.
    """

    carry_over: bool
    value: Fraction
    bound: Fraction
    budgets: dict[Context, Fraction]
    potentials: dict[Context, Fraction]
    drafting: Siblings | Drafting
    stops: dict[Paths, dict[Context, Fraction]]


Certificate: TypeAlias = SelectionCertificate | TransportCertificate


@dataclass(frozen=True)
class Optimum:
    """What no lossless verifier exceeds and some verifier attains.

    ``value`` is in tokens (block efficiency): float, or `Fraction` when asked for with ``exact=True``.
    """

    value: float | Fraction
    certificate: Certificate

    @property
    def gap(self) -> Fraction:
        """How far the proven bound lies above the value, tokens."""
        return self.certificate.bound - self.certificate.value


class CertificateError(SpecOracleError):
    """A certificate does not prove what it says; the message names the field, the index and the value."""


def check_certificate(instance: Instance, certificate: Certificate) -> Fraction:
    """Confirm that ``certificate`` proves its value attained and its bound valid; return their gap.

    Everything is recomputed in rationals from ``instance``. Raises `CertificateError` at the first thing that
    fails.
    """
    require_instance_of(instance, "instance", Instance)
    if isinstance(certificate, SelectionCertificate):
        _check_selection(instance.exact, certificate)
    else:
        require_instance_of(certificate, "certificate", TransportCertificate)
        _check_transport(instance.exact, certificate)
    return certificate.bound - certificate.value


def _check_selection(instance: Instance, certificate: SelectionCertificate) -> None:
    """Attained: some selection among the K paths has the law s, and s passes every v with p(v) c(v) at least.

    It has if no set A of paths gets more than H(q(A)) = 1 - (1 - q(A))^K, the chance that one of the K is in
    A (docs/theory.md, "Budgets and the optimum"). Of all sets with the same q the first paths in the order of
    falling s/q get most; between two of them that is linear in q, and H is concave: these sets are enough.

    Bound: the best mu on the draft tree is at least t with chance H(q(A)), A the paths with such a node.
    """
    target, draft = _joint(instance, instance.target), _joint(instance, instance.draft)
    paths = [v for v in draft if len(v) == instance.draft_length]
    _check_budgets(target, certificate.budgets, carry_over=certificate.carry_over)
    for v, mass in _stop_masses(target, certificate.budgets).items():
        _demand(mass >= 0, "budgets", v, certificate.budgets[v], "less than its children want")
    _check_keys("law", certificate.law, paths)
    passed = dict.fromkeys(target, Fraction(0))
    for path, mass in certificate.law.items():
        _demand(mass >= 0, "law", path, mass, "negative")
        for length in range(len(path) + 1):
            passed[path[:length]] += mass
    _demand(passed[()] == 1, "law", (), passed[()], "expected 1 in all")
    for v, budget in certificate.budgets.items():
        _demand(target[v] * budget <= passed[v], "budgets", v, budget, "more than the law reaches")
    ratio = {x: mass / draft[x] if draft[x] else inf for x, mass in certificate.law.items()}
    got = Fraction(0)
    for path, hit in _hits(ratio, draft, certificate.num_paths):
        got += certificate.law[path]
        _demand(got <= hit, "law", path, got, f"with all of higher law/draft; {hit} at most")
    _check_value(target, certificate.budgets, certificate.value)
    _check_keys("potentials", certificate.potentials, target)
    highest = dict(certificate.potentials)
    for v in target:
        highest[v] = max(highest[v], highest[v[:-1]])
    expected = below = Fraction(0)
    for path, hit in _hits({x: highest[x] for x in paths}, draft, certificate.num_paths):
        expected += highest[path] * (hit - below)
        below = hit
    _check_bound(expected + _gain(target, certificate), certificate.bound)


def _hits(ranks: Masses, draft: Masses, num_paths: int) -> Iterator[tuple[Context, Number]]:
    """Yield paths, highest first, each with the chance that it or a higher one is among ``num_paths``."""
    missed = Fraction(1)
    for path in sorted(ranks, key=ranks.__getitem__, reverse=True):
        missed -= draft[path]
        yield path, 1 - missed**num_paths


def _check_transport(instance: Instance, certificate: TransportCertificate) -> None:
    target = _joint(instance, instance.target)
    trees = _trees(instance, certificate.drafting)
    _check_budgets(target, certificate.budgets, carry_over=certificate.carry_over)
    _check_stops(target, trees, certificate)
    _check_value(target, certificate.budgets, certificate.value)
    _check_keys("potentials", certificate.potentials, target)
    expected = sum(
        mass * max(certificate.potentials[v] for v in _nodes(paths)) for paths, mass in trees.items()
    )
    _check_bound(expected + _gain(target, certificate), certificate.bound)


def _joint(instance: Instance, model: ToyModel) -> dict[Context, Number]:
    """Return the joint probability of every context of up to L tokens, parents before children."""
    mass: dict[Context, Number] = {(): Fraction(1)}
    for length in range(instance.draft_length):
        for v in product(range(instance.vocab_size), repeat=length):
            for token, chance in enumerate(to_internal(model.conditional(v))):
                mass[*v, token] = mass[v] * chance
    return mass


def _trees(instance: Instance, drafting: Siblings | Drafting) -> dict[Paths, Number]:
    """Return the mass of every draft tree, named by the distinct paths to its leaves."""
    law = drafting_on(instance, drafting).law(in_rationals(instance))
    trees: dict[Paths, Number] = {}
    for tokens, parents, mass in zip(law.tokens.tolist(), law.parents.tolist(), law.probability, strict=True):
        nodes: dict[int, Context] = {ROOT: ()}
        for place, (token, above) in enumerate(zip(tokens, parents, strict=True)):
            if above != EMPTY:
                nodes[place] = (*nodes[above], token)
        name = tuple(sorted(set(nodes.values()) - {node[:-1] for node in nodes.values() if node}))
        trees[name] = trees.get(name, 0) + mass
    return trees


def _nodes(paths: Paths) -> set[Context]:
    return {path[:length] for path in paths for length in range(len(path) + 1)}


def _ceiling(v: Context, *, carry_over: bool) -> Context:
    """Return the context whose budget limits that of ``v``: its parent, or with carry-over the root."""
    return () if carry_over else v[:-1]


def _check_budgets(target: Masses, budgets: Masses, *, carry_over: bool) -> None:
    _check_keys("budgets", budgets, target)
    _demand(budgets[()] == 1, "budgets", (), budgets[()], "expected 1 at the root")
    for v, budget in budgets.items():
        ceiling = budgets[_ceiling(v, carry_over=carry_over)]
        _demand(0 <= budget <= ceiling, "budgets", v, budget, f"expected 0..{ceiling}")


def _check_stops(target: Masses, trees: Mapping[Paths, Number], certificate: TransportCertificate) -> None:
    """Every tree's mass is split over its own nodes, and every node receives its stop mass e(v)."""
    _check_keys("stops", certificate.stops, trees)
    received = dict.fromkeys(target, Fraction(0))
    for paths, stops in certificate.stops.items():
        nodes = _nodes(paths)
        for v, mass in stops.items():
            _demand(v in nodes and mass >= 0, "stops", (paths, v), mass, "off the tree or negative")
            received[v] += mass
        total = sum(stops.values())
        _demand(total == trees[paths], "stops", paths, total, f"expected the tree's mass {trees[paths]}")
    for v, mass in _stop_masses(target, certificate.budgets).items():
        _demand(received[v] == mass, "stops", v, received[v], f"expected the stop mass {mass}")


def _stop_masses(target: Masses, budgets: Masses) -> dict[Context, Number]:
    """Return e(v) = p(v) c(v) - sum over children of p c."""
    stop = {v: mass * budgets[v] for v, mass in target.items()}
    for v, mass in target.items():
        if v:
            stop[v[:-1]] -= mass * budgets[v]
    return stop


def _gain(target: Masses, certificate: Certificate) -> Number:
    """Return what potentials leave to the budgets: the bound less the mean of the largest mu on a tree.

    Why any mu will do: docs/theory.md, "Budgets and the optimum". The largest sum of g c over feasible
    budgets follows from the leaves of the order of ceilings upward: c(v) is its ceiling's where that pays,
    else 0.
    """
    mu = certificate.potentials
    gain = {v: mass * (1 - mu[v] + (mu[v[:-1]] if v else 0)) for v, mass in target.items()}
    for v in sorted(gain, key=len, reverse=True):
        if v:
            gain[_ceiling(v, carry_over=certificate.carry_over)] += max(gain[v], 0)
    return gain[()]


def _check_value(target: Masses, budgets: Masses, value: Fraction) -> None:
    attained = sum(mass * budgets[v] for v, mass in target.items())
    if attained != value:
        raise CertificateError(f"value: {value} claimed, but the budgets attain {attained}")


def _check_bound(proven: Number, bound: Fraction) -> None:
    if proven > bound:
        raise CertificateError(f"bound: {bound} claimed, but only {proven} is proven")


def _check_keys(field: str, actual: Mapping[Any, Any], expected: Collection[Any]) -> None:
    for key in set(expected) ^ actual.keys():
        what = "missing" if key in expected else "not of this instance"
        raise CertificateError(f"{field}: {key} is {what}")


def _demand(holds: bool, field: str, index: Any, value: Any, expected: str) -> None:  # noqa: FBT001
    if not holds:
        raise CertificateError(f"{field}[{index}]: {value}, {expected}")
