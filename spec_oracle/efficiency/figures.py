"""Exact block efficiency of verifiers on instances, beside what any verifier could reach."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import verifiers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from spec_oracle.optimum import block_transport_optimum, multi_path_optimum, single_path_optimum
from spec_oracle.toy import Instance
from verifiers import Drafting, StatefulVerifier, drafting_of


@dataclass(frozen=True)
class Optima:
    """The most tokens per call on one instance; None where the instance is too large for the program.

    ``multi_path`` and ``block_transport`` (with carry-over) hold for the drafting law of the verifier at
    hand; ``single_path`` for one path drawn from q.
    """

    single_path: Any
    multi_path: Any
    block_transport: Any


@dataclass(frozen=True)
class Efficiency:
    """One verifier on one instance; numbers are floats, or `Fraction` with ``exact``.

    ``block_efficiency`` in tokens per call; ``accepted_length`` P(tau = 0..L); ``optimum`` is the entry of
    ``optima`` that bounds this verifier: with carry-over for those that carry a state.
    """

    file: str
    verifier: str
    block_efficiency: Any
    total_variation: Any
    accepted_length: tuple[Any, ...]
    optima: Optima
    optimum: Any

    @property
    def share(self) -> Any:
        """Block efficiency as a share of the optimum."""
        return None if self.optimum is None else self.block_efficiency / self.optimum


def efficiencies(
    file: str, instance: Instance, names: Sequence[str], *, exact: bool = False, array: str = "numpy"
) -> list[Efficiency]:
    """Return the exact figures of the named verifiers on one instance.

    >>> toy = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)
    >>> for row in efficiencies("toy", toy, ["token", "block"], exact=True):
    ...     print(row.verifier, row.block_efficiency, row.optimum, row.share)
    token 19/9 20/9 19/20
    block 20/9 20/9 1
    """
    optima: dict[Drafting, Optima] = {}
    results = []
    for name in names:
        verifier = verifiers.get(name)
        drafting = drafting_of(verifier)
        if drafting not in optima:
            optima[drafting] = _optima(instance, drafting, exact=exact)
        law = emission_law(verifier, instance, exact=exact, array=array)
        best = optima[drafting]
        results.append(
            Efficiency(
                file,
                name,
                law.block_efficiency,
                law.total_variation,
                law.accepted_length_pmf,
                best,
                best.block_transport if isinstance(verifier, StatefulVerifier) else best.multi_path,
            )
        )
    return results


def _optima(instance: Instance, drafting: Drafting, *, exact: bool) -> Optima:
    single = single_path_optimum(instance, exact=exact).value
    try:
        multi = multi_path_optimum(instance, drafting=drafting, exact=exact)
        transport = block_transport_optimum(instance, drafting=drafting, exact=exact)
    except InvalidInputError:  # too many draft tuples for an exact program
        return Optima(single, None, None)
    return Optima(single, multi.value, transport.value)
