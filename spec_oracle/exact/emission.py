"""The exact law of what one call of a verifier emits."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.arithmetic import Arithmetic, arithmetic
from spec_oracle.exact.drafting import draft_law
from spec_oracle.exact.enumeration import ScriptedDecisions, enumerate_branches
from spec_oracle.toy import Context, Instance
from verifiers import Drafting, Drafts, Verdict, Verifier, drafting_of

BATCH_BYTES = 1 << 25
"""About how much memory one enumerated batch of rows may take for the probabilities it is handed."""


class VerdictError(SpecOracleError):
    """A verifier returned something that is no emission: a token, path or length out of range."""


class Gap(NamedTuple):
    """The sequence whose probability is furthest from the target's."""

    sequence: Context
    expected: Any
    actual: Any


@dataclass(frozen=True)
class EmissionLaw:
    """The joint law of one emission, over drafts and decisions.

    ``masses[n - 1]`` is the mass of each emission of n tokens, flat [V^n] in lexicographic order, n = 1..L+1.
    Numbers are float64, or `Fraction` where the law was computed in rationals.
    """

    instance: Instance
    masses: tuple[NDArray[Any], ...]

    @cached_property
    def probabilities(self) -> dict[Context, Any]:
        """The probability of each emission that can occur."""
        vocab = self.instance.vocab_size
        return {
            tuple(int(i) for i in np.unravel_index(index, (vocab,) * length)): mass[index]
            for length, mass in enumerate(self.masses, start=1)
            for index in np.flatnonzero(mass > 0)
        }

    @property
    def accepted_length_pmf(self) -> tuple[Any, ...]:
        """P(tau = 0), ..., P(tau = L)."""
        return tuple(mass.sum() for mass in self.masses)

    @property
    def block_efficiency(self) -> Any:
        """Expected tokens per call, E[tau + 1]."""
        return sum(length * mass for length, mass in enumerate(self.accepted_length_pmf, start=1))

    def extended(self) -> NDArray[Any]:
        """Return the law of the first L+1 tokens, emissions continued by the target; shape (V,) * (L+1)."""
        law = self.masses[0]
        for length, mass in enumerate(self.masses[1:], start=1):
            law = (law[:, None] * self.instance.target.rows(length)).reshape(-1) + mass
        return law.reshape((self.instance.vocab_size,) * len(self.masses))

    @cached_property
    def _gaps(self) -> NDArray[Any]:
        gaps: NDArray[Any] = self.extended().reshape(-1) - self.instance.target.joint(len(self.masses))
        return gaps

    @property
    def total_variation(self) -> Any:
        """Half the summed gaps between the extended law and the target; 0 means lossless."""
        return abs(self._gaps).sum() / 2

    @property
    def largest_gap(self) -> Gap:
        """The sequence of L+1 tokens with the largest gap between the target and the extended law."""
        index = int(np.argmax(abs(self._gaps)))
        shape = (self.instance.vocab_size,) * len(self.masses)
        expected = self.instance.target.joint(len(self.masses))[index]
        sequence = tuple(int(i) for i in np.unravel_index(index, shape))
        return Gap(sequence, expected, expected + self._gaps[index])


def emission_law(
    verifier: Verifier,
    instance: Instance,
    *,
    exact: bool = False,
    array: str = "numpy",
    dtype: str = "float64",
) -> EmissionLaw:
    """Enumerate the emission law of ``verifier`` on ``instance``.

    ``exact=True`` computes in rationals, where a lossless verifier's total variation is exactly 0. Otherwise
    ``array`` ("numpy" or "torch") and ``dtype`` choose the arithmetic under test; masses are float64. Raises
    `DecisionError` or `VerdictError` for code that cannot be a verifier.
    """
    chosen = arithmetic(exact=exact, array=array, dtype=dtype)
    numbers = instance.exact if exact else instance.floats
    table = DraftTable(numbers, drafting_of(verifier), chosen)

    def run(rows: NDArray[np.int64], decisions: ScriptedDecisions) -> Verdict:
        return verifier.verify(table.drafts(rows), decisions)

    masses = _EmissionMasses(numbers, table.law.probability.sum() * 0)
    for branches in enumerate_branches(
        run,
        table.law.probability,
        max_rows=table.batch_rows,
        to_numpy=chosen.to_numpy,
        from_numpy=chosen.from_numpy,
    ):
        masses.add(branches.result, branches.weight, chosen)
    return EmissionLaw(numbers, tuple(chosen.finish(mass) for mass in masses.by_length))


class DraftTable:
    """Every draft tuple of an instance, and the model rows along it, ready to be handed over in batches."""

    def __init__(self, instance: Instance, drafting: Drafting, chosen: Arithmetic) -> None:
        target = [chosen.prepare(instance.target.rows(d)) for d in range(instance.draft_length + 1)]
        draft = [chosen.prepare(instance.draft.rows(d)) for d in range(instance.draft_length)]
        self.law = draft_law(draft, instance.num_paths, drafting)
        self._target, self._draft, self._chosen = target, draft, chosen
        paths, length, vocab = instance.num_paths, instance.draft_length, instance.vocab_size
        number_bytes = 100 if target[0].dtype == object else 8
        self.batch_rows = max(64, BATCH_BYTES // (paths * (2 * length + 1) * vocab * number_bytes))

    def drafts(self, rows: NDArray[np.int64]) -> Drafts:
        """Return the draft tuples numbered ``rows`` [R] as one batch."""
        contexts = self.law.contexts[rows]
        return Drafts(
            self._chosen.from_numpy(self.law.tokens[rows]),
            self._chosen.probabilities(_gathered(self._draft, contexts)),
            self._chosen.probabilities(_gathered(self._target, contexts)),
        )


def _gathered(levels: list[NDArray[Any]], contexts: NDArray[np.int64]) -> NDArray[Any]:
    """Return the rows of each path's contexts: [R, K, positions, V]."""
    return np.stack([level[contexts[:, :, d]] for d, level in enumerate(levels)], axis=2)


class _EmissionMasses:
    """Sums branch weights by what was emitted, after checking that it can be an emission."""

    def __init__(self, instance: Instance, zero: Any) -> None:
        self._vocab, self._paths = instance.vocab_size, instance.num_paths
        self.by_length = [
            np.full(instance.vocab_size**length, zero) for length in range(1, instance.draft_length + 2)
        ]

    def add(self, verdict: Verdict, weight: NDArray[Any], chosen: Arithmetic) -> None:
        """Add the emissions of one batch of branches, ``weight`` [R]."""
        tau = self._checked("num_accepted", chosen.to_numpy(verdict.num_accepted), len(self.by_length))
        self._checked("path", chosen.to_numpy(verdict.path), self._paths)
        self._checked("next_token", chosen.to_numpy(verdict.next_token), self._vocab)
        emitted = chosen.to_numpy(verdict.emitted)
        index = np.zeros(len(tau), dtype=np.int64)
        for position, masses in enumerate(self.by_length):
            index = index * self._vocab + np.maximum(emitted[:, position], 0)
            here = tau == position
            np.add.at(masses, index[here], weight[here])

    def _checked(self, name: str, values: NDArray[Any], stop: int) -> NDArray[np.int64]:
        wrong = ~((values >= 0) & (values < stop))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise VerdictError(f"{name}: {values[row]} at row {row}, expected 0..{stop - 1}")
        checked: NDArray[np.int64] = values.astype(np.int64)
        return checked
