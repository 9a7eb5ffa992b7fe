"""The checker refuses a certificate in which any one field is wrong, and bounds hold for any potentials."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from spec_oracle.optimum import (
    CertificateError,
    block_transport_optimum,
    check_certificate,
    multi_path_optimum,
    single_path_optimum,
)
from spec_oracle.toy import Instance
from verifiers import Siblings

TINY = Fraction(1, 10**40)
INSTANCE = Instance.random(2, 2, num_paths=2, seed=1, agreement=0.2)
SINGLE = single_path_optimum(INSTANCE).certificate
MULTI = multi_path_optimum(INSTANCE).certificate
CARRIED = block_transport_optimum(INSTANCE).certificate
SELECTIONS = {"single": SINGLE, "multi": MULTI, "carried": CARRIED}
TRANSPORTS = {
    name: optimum(INSTANCE, drafting=Siblings.TOP_AND_SAMPLED).certificate
    for name, optimum in (("multi", multi_path_optimum), ("carried", block_transport_optimum))
}


def nudged(table, key, by=TINY):
    return table | {key: table[key] + by}


def without(table):
    return dict(list(table.items())[1:])


def shifted_stop(certificate):
    """Move a little mass of one tree from one node to another that also is on it."""
    tree, stops = next((tree, stops) for tree, stops in certificate.stops.items() if len(stops) > 1)
    first, second = list(stops)[:2]
    return certificate.stops | {tree: nudged(nudged(stops, first), second, -TINY)}


def misplaced_stop(certificate):
    """Let a tree stop at a node that is not on it."""
    tree, stops = next(iter(certificate.stops.items()))
    outside = next(path for path in certificate.budgets if len(path) == 2 and path not in tree)
    return certificate.stops | {tree: {outside: sum(stops.values())}}


def bad_budgets(certificate):
    return {
        "value": ({"value": certificate.value + TINY}, "value"),
        "bound": ({"bound": certificate.bound - TINY}, "bound"),
        "budget raised": ({"budgets": nudged(certificate.budgets, (1, 1))}, "(budgets|stops)"),
        "budget lowered": ({"budgets": nudged(certificate.budgets, (1, 1), -TINY)}, "(budgets|stops|value)"),
        "budget negative": ({"budgets": certificate.budgets | {(1, 1): -TINY}}, "budgets"),
        "root budget": ({"budgets": nudged(certificate.budgets, (), -TINY)}, "budgets"),
        "budget missing": ({"budgets": without(certificate.budgets)}, "budgets"),
        "potential": ({"potentials": nudged(certificate.potentials, (1,), Fraction(1, 8))}, "bound"),
        "no potentials": ({"potentials": dict.fromkeys(certificate.potentials, Fraction(0))}, "bound"),
        "potential missing": ({"potentials": without(certificate.potentials)}, "potentials"),
    }


def bad_law(certificate):
    law = certificate.law
    return {
        "law of more than one": ({"law": nudged(law, (1, 1))}, "law"),
        "law shifted": (
            {"law": nudged(nudged(law, (0, 0), Fraction(1, 8)), (0, 1), Fraction(-1, 8))},
            "(budgets|law)",
        ),
        "law shifted back": (
            {"law": nudged(nudged(law, (0, 0), Fraction(-1, 8)), (0, 1), Fraction(1, 8))},
            "(budgets|law)",
        ),
        "law that no selection has": (
            {"law": dict.fromkeys(law, Fraction(0)) | {(1, 1): Fraction(1)}},
            "(budgets|law)",
        ),
        "law negative": ({"law": law | {(0, 1): -TINY}}, "law"),
        "path missing": ({"law": without(law)}, "law"),
        "number of paths": ({"num_paths": 3 - certificate.num_paths}, "(bound|budgets|law)"),
    }


def bad_stops(certificate):
    return {
        "drafting": ({"drafting": Siblings.INDEPENDENT}, "stops"),
        "stops shifted": ({"stops": shifted_stop(certificate)}, "stops"),
        "stops off the tree": ({"stops": misplaced_stop(certificate)}, "stops"),
        "tree missing": ({"stops": without(certificate.stops)}, "stops"),
    }


CASES = [
    pytest.param(certificate, change, field, id=f"{label}-{name}")
    for certificates, bad_service in ((SELECTIONS, bad_law), (TRANSPORTS, bad_stops))
    for label, certificate in certificates.items()
    for name, (change, field) in (bad_budgets(certificate) | bad_service(certificate)).items()
]


@pytest.mark.parametrize(("certificate", "change", "field"), CASES)
def test_tampered_certificates_are_refused(certificate, change, field):
    with pytest.raises(CertificateError, match=f"^{field}"):
        check_certificate(INSTANCE, replace(certificate, **change))


def test_carry_over_cannot_be_claimed_or_hidden():
    with pytest.raises(CertificateError, match=r"^bound"):
        check_certificate(INSTANCE, replace(MULTI, carry_over=True))
    with pytest.raises(CertificateError, match=r"^budgets"):
        check_certificate(INSTANCE, replace(CARRIED, carry_over=False))


@pytest.mark.parametrize("certificate", [*SELECTIONS.values(), *TRANSPORTS.values()])
def test_a_certificate_of_another_instance_is_refused(certificate):
    with pytest.raises(CertificateError):
        check_certificate(Instance.random(2, 2, num_paths=2, seed=5), certificate)


@pytest.mark.parametrize("certificate", [*SELECTIONS.values(), *TRANSPORTS.values()])
def test_any_potentials_prove_a_bound_and_its_gap_is_reported(certificate):
    rng = np.random.default_rng(1)
    for _ in range(20):
        rough = {v: mu + Fraction(rng.normal() / 20) for v, mu in certificate.potentials.items()}
        loose = replace(certificate, potentials=rough, bound=certificate.value + 1)
        assert check_certificate(INSTANCE, loose) == 1
        with pytest.raises(CertificateError, match=r"^bound"):
            check_certificate(INSTANCE, replace(certificate, potentials=rough))
