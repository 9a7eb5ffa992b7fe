"""Exact figures that several claims are about."""

from collections.abc import Callable
from fractions import Fraction

import verifiers
from lab.specimens.registry import specimens
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.exact.arithmetic import to_fraction
from spec_oracle.optimum import (
    Optimum,
    block_transport_optimum,
    check_certificate,
    multi_path_optimum,
    single_path_optimum,
)
from spec_oracle.optimum.cutting_planes import best_budgets
from spec_oracle.optimum.drafts import trees_of
from spec_oracle.toy import Instance
from verifiers import AnyVerifier, Siblings

OPTIMA: dict[str, Callable[..., Optimum]] = {
    "single-path optimum": single_path_optimum,
    "K-path optimum": multi_path_optimum,
    "K-path optimum with carry-over": block_transport_optimum,
}


def law(verifier: str | AnyVerifier, instance: Instance) -> EmissionLaw:
    """Return the emission law in rationals of a verifier, or of the built-in one of that name."""
    chosen = verifiers.get(verifier) if isinstance(verifier, str) else verifier
    return emission_law(chosen, instance, exact=True)


def tokens(name: str, instance: Instance) -> Fraction:
    """Return the block efficiency of a built-in verifier, in tokens per call."""
    return Fraction(law(name, instance).block_efficiency)


def acceptance(name: str, instance: Instance) -> Fraction:
    """Return the probability with which a built-in verifier accepts at least one token."""
    return 1 - Fraction(law(name, instance).accepted_length_pmf[0])


def total_variation(verifier: str | AnyVerifier, instance: Instance) -> Fraction:
    """Return the distance of the extended law from the target, in probability mass."""
    return Fraction(law(verifier, instance).total_variation)


def distance(one: str, other: str, instance: Instance) -> Fraction:
    """Return half the summed gaps between the emission laws of two built-in verifiers."""
    pairs = zip(law(one, instance).masses, law(other, instance).masses, strict=True)
    return Fraction(sum(abs(mine - theirs).sum() for mine, theirs in pairs)) / 2


def optimum(name: str, instance: Instance) -> Fraction:
    """Return an optimum of `OPTIMA`, its certificate checked in rationals without a solver."""
    best = OPTIMA[name](instance, exact=True)
    check_certificate(instance, best.certificate)
    return Fraction(best.value)


def over_draft_trees(instance: Instance, *, carry_over: bool = False) -> Fraction:
    """Return the K-path optimum by the linear program over all trees of K independent paths, one by one."""
    trees = trees_of(instance.exact, Siblings.INDEPENDENT)
    target = trees.prefixes.joint(instance.target)
    ceiling = trees.prefixes.parent * (not carry_over)
    return to_fraction(target @ best_budgets(target, ceiling, trees).budgets)


def specimen(name: str) -> AnyVerifier:
    """Return the verifier of a specimen of several paths."""
    found = specimens(num_paths=2)[name].rule
    assert found is not None
    return found
