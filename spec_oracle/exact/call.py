"""One call of a verifier, as the exact laws run it: drafts in, checked emissions out."""

from functools import lru_cache
from typing import Any

import numpy as np

from spec_oracle.arrays import Integers, Numbers
from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.exact.arithmetic import Arithmetic, arithmetic
from spec_oracle.exact.drafting import draft_law, multiset_law
from spec_oracle.toy import Context, Instance
from spec_oracle.toy.size import FLOAT_BYTES, RATIONAL_BYTES, require_memory
from spec_oracle.validation import require_instance_of
from verifiers import (
    AnyVerifier,
    DecisionSource,
    Drafting,
    Drafts,
    ModelBound,
    State,
    StatefulVerifier,
    Verdict,
    traits_of,
)

BATCH_BYTES = 1 << 22
"""About how much memory one enumerated batch of rows may take for its probabilities.

Small enough for its intermediate arrays to stay in the processor's cache."""


class VerdictError(SpecOracleError):
    """A verifier returned something that is no emission: a token, path or length out of range."""


class DraftTable:
    """Every draft tuple of an instance, and the model rows along it, in batches that a verifier takes."""

    def __init__(
        self, instance: Instance, drafting: Drafting, chosen: Arithmetic, *, any_order: bool = False
    ) -> None:
        require_memory(instance.vocab_size, instance.draft_length, exact=instance.target.is_exact)
        target = [chosen.prepare(instance.target.rows(d)) for d in range(instance.draft_length + 1)]
        draft = [chosen.prepare(instance.draft.rows(d)) for d in range(instance.draft_length)]
        self.law = (multiset_law if any_order else draft_law)(draft, instance.num_paths, drafting)
        # One table a model, so that the rows of a batch are copied once and not once a depth.
        self._starts = np.cumsum([0, *(len(level) for level in target[:-1])])
        self._target, self._draft, self._chosen = np.concatenate(target), np.concatenate(draft), chosen
        paths, length, vocab = instance.num_paths, instance.draft_length, instance.vocab_size
        number_bytes = RATIONAL_BYTES if self._target.dtype == object else FLOAT_BYTES
        self.batch_rows = max(64, BATCH_BYTES // (paths * (2 * length + 1) * vocab * number_bytes))

    def drafts(self, rows: Integers) -> Drafts:
        """Return the draft tuples numbered ``rows`` [R] as one batch."""
        nodes = self.law.contexts[rows] + self._starts
        return Drafts(
            self._chosen.from_numpy(self.law.tokens[rows]),
            self._chosen.probabilities(np.take(self._draft, nodes[:, :, :-1], axis=0)),
            self._chosen.probabilities(np.take(self._target, nodes, axis=0)),
        )


def prepared_call(
    verifier: AnyVerifier, instance: Instance, *, exact: bool, array: str, dtype: str
) -> tuple[AnyVerifier, Instance, Arithmetic]:
    """Check the arguments of an exact law; return the verifier, bound to the models, and what it is run on.

    The instance comes in the numbers of the arithmetic. Raises `InvalidInputError` for what is no verifier or
    no instance, for an arithmetic that does not exist, and for sizes that do not fit in memory.
    """
    if isinstance(verifier, str | type) or not callable(getattr(verifier, "verify", None)):
        raise InvalidInputError(f"verifier: expected an object with a method verify, got {verifier!r:.80}")
    require_instance_of(instance, "instance", Instance)
    chosen = arithmetic(exact=exact, array=array, dtype=dtype)
    require_memory(instance.vocab_size, instance.draft_length, exact=exact)
    numbers = enumerated_instance(verifier, instance.exact if exact else instance.floats)
    return bound_to_instance(verifier, numbers, chosen), numbers, chosen


def enumerated_instance(verifier: AnyVerifier, instance: Instance) -> Instance:
    """Return the instance to enumerate: with one path for a verifier that ignores all others."""
    return instance.with_paths(1) if traits_of(verifier).single_path else instance


def bound_to_instance(verifier: AnyVerifier, instance: Instance, chosen: Arithmetic) -> AnyVerifier:
    """Bind a verifier that needs both models (`ModelBound`) to them; return any other as it is."""
    if not isinstance(verifier, ModelBound):
        return verifier

    def target(context: Context) -> Any:
        return chosen.prepare(instance.target.conditional(context))

    def draft(context: Context) -> Any:
        return chosen.prepare(instance.draft.conditional(context))

    return verifier.bound_to(target, draft)


def fresh_state(verifier: AnyVerifier, batch: int) -> State:
    """Return the state of requests that were never verified; () for a verifier without state."""
    return verifier.initial_state(batch) if isinstance(verifier, StatefulVerifier) else ()


def draft_table(instance: Instance, drafting: Drafting = Drafting.INDEPENDENT) -> DraftTable:
    """Return all drafts of an instance with their probabilities, in float64."""
    return _table(instance.floats, drafting)


@lru_cache(maxsize=16)
def _table(instance: Instance, drafting: Drafting) -> DraftTable:
    # Cached: checks of batches and seeds make thousands of small draws from one instance.
    return DraftTable(instance, drafting, arithmetic())


def call_verifier(
    verifier: AnyVerifier, drafts: Drafts, decisions: DecisionSource, state: State
) -> tuple[Verdict, State]:
    """Run one call, whether or not the verifier keeps a state; raises `VerdictError` for no verdict."""
    if isinstance(verifier, StatefulVerifier):
        return verifier.verify(drafts, decisions, state)
    verdict = verifier.verify(drafts, decisions)
    if not hasattr(verdict, "num_accepted"):
        must = "it must return a Verdict (num_accepted [B], path [B], next_token [B])"
        raise VerdictError(f"verify returned {type(verdict).__name__}; {must}")
    return verdict, ()


def checked_emissions(
    verdict: Verdict, size: Instance | Drafts, chosen: Arithmetic
) -> tuple[Integers, Integers]:
    """Return tau [R] and the emitted tokens [R, L+1]; raise `VerdictError` where they are no emission."""
    tau = within("num_accepted", chosen.to_numpy(verdict.num_accepted), size.draft_length + 1)
    within("path", chosen.to_numpy(verdict.path), size.num_paths)
    within("next_token", chosen.to_numpy(verdict.next_token), size.vocab_size)
    return tau, chosen.to_numpy(verdict.emitted)


def no_mass(instance: Instance, like: Numbers) -> list[Numbers]:
    """Return zeros of the number type of ``like`` for the emissions of n tokens, flat [V^n], n = 1..L+1."""
    zero = like.sum() * 0
    return [np.full(instance.vocab_size**length, zero) for length in range(1, instance.draft_length + 2)]


def within(name: str, values: Numbers, stop: int) -> Integers:
    """Return values int [R] that lie in 0..stop-1; raise `VerdictError` for others."""
    wrong = ~((values >= 0) & (values < stop))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise VerdictError(f"{name}: {values[row]} at row {row}, expected 0..{stop - 1}")
    return values.astype(np.int64)
