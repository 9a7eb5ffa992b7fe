"""One call of a verifier, as the exact laws run it: drafts in, checked emissions out."""

import math
from functools import lru_cache

import numpy as np

from spec_oracle.arrays import Integers, Numbers
from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.exact.arithmetic import NUMPY, Arithmetic, arithmetic
from spec_oracle.exact.drafting import Drafting, ShapedTrees, draft_paths, in_rationals, multiset_law
from spec_oracle.exact.enumeration import OpenToken
from spec_oracle.places import raised_at
from spec_oracle.toy import Context, Instance
from spec_oracle.toy.model import FLOAT_BYTES, RATIONAL_BYTES, require_memory
from spec_oracle.validation import require_instance_of
from verifiers import (
    ROOT,
    AnyVerifier,
    DecisionSource,
    Drafts,
    ModelBound,
    Path,
    Paths,
    Siblings,
    State,
    StatefulVerifier,
    Verdict,
    traits_of,
)
from verifiers.arrays import Array
from verifiers.rows import TableRows

BATCH_BYTES = 1 << 22
"""About how much memory one enumerated batch of rows may take for its probabilities.

Small enough for its intermediate arrays to stay in the processor's cache."""


class VerdictError(SpecOracleError):
    """A verifier returned something that is no emission: a token or place out of range."""


class DraftTable:
    """Every draft tree of an instance, and the model rows at its places, in batches that a verifier takes."""

    def __init__(
        self,
        instance: Instance,
        drafting: Drafting,
        chosen: Arithmetic,
        *,
        any_order: bool = False,
        end: float = math.inf,
    ) -> None:
        require_memory(instance.vocab_size, instance.draft_length, exact=instance.target.is_exact)
        numbers = in_rationals(instance) if chosen.is_exact else instance
        length = instance.draft_length
        target = [chosen.prepare(numbers.target.rows(d)) for d in range(length + 1)]
        draft = [chosen.prepare(numbers.draft.rows(d)) for d in range(length)]
        if any_order and isinstance(drafting, ShapedTrees):
            self.law = multiset_law(draft, drafting)
        else:
            self.law = drafting.law(numbers, end)
        # One table a model: a batch reads the rows of its nodes there.
        tables = np.concatenate([*draft, target[-1] * 0]), np.concatenate(target)
        self._draft, self._target = map(chosen.probabilities, tables)
        self._chosen = chosen
        number_bytes = RATIONAL_BYTES if target[0].dtype == object else FLOAT_BYTES
        places = 2 * self.law.nodes.shape[1]
        self.batch_rows = max(64, BATCH_BYTES // (places * instance.vocab_size * number_bytes))

    def drafts(self, trees: Integers) -> Drafts:
        """Return the trees numbered ``trees`` [R] as one batch."""
        law, given = self.law, self._chosen.from_numpy
        nodes = given(law.nodes[trees])
        draft, target = TableRows(self._draft, nodes), TableRows(self._target, nodes)
        ids = given(law.tokens[trees]), given(law.parents[trees])
        if law.num_paths is not None:
            return Drafts(*ids, draft, target, law.num_paths)
        return Drafts(*ids, draft, target, None, law.depth, law.fan_out)

    def sampled(self, count: int, rng: np.random.Generator) -> Integers:
        """Sample the numbers [count] of trees, by their probabilities."""
        chance = self.law.probability / self.law.probability.sum()
        return rng.choice(len(chance), size=count, p=chance)

    def paths(self, trees: Integers) -> Paths:
        """Return the arrays of the paths numbered ``trees`` [R]; errors as of `Drafts.paths`."""
        return self.drafts(trees).paths


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
    numbers = instance.exact if exact else instance.floats
    return bound_to_instance(verifier, numbers, chosen), numbers, chosen


def enumerated_instance(verifier: AnyVerifier, instance: Instance) -> Instance:
    """Return the instance whose paths to enumerate: with one path for a verifier that ignores all others."""
    return instance.with_paths(1) if traits_of(verifier).single_path else instance


def bound_to_instance(verifier: AnyVerifier, instance: Instance, chosen: Arithmetic) -> AnyVerifier:
    """Bind a verifier that needs both models (`ModelBound`) to them; return any other as it is."""
    if not isinstance(verifier, ModelBound):
        return verifier

    def target(context: Context) -> Array:
        return chosen.prepare(instance.target.conditional(context))

    def draft(context: Context) -> Array:
        return chosen.prepare(instance.draft.conditional(context))

    return verifier.bound_to(target, draft)


def fresh_state(verifier: AnyVerifier, batch: int) -> State:
    """Return the state of requests that were never verified; () for a verifier without state."""
    return verifier.initial_state(batch) if isinstance(verifier, StatefulVerifier) else ()


@lru_cache(maxsize=16)
def draft_table(instance: Instance, drafting: Siblings | Drafting = Siblings.INDEPENDENT) -> DraftTable:
    """Return all draft trees of an instance with their probabilities, in float64; K paths of a law.

    Cached: checks of batches and seeds make thousands of small draws from one instance.
    """
    return DraftTable(instance.floats, drafting_on(instance, drafting), NUMPY)


def drafting_on(instance: Instance, drafting: Siblings | Drafting) -> Drafting:
    """Return the drafting of an instance's K paths of L tokens by a law of siblings; another as it is."""
    if isinstance(drafting, Siblings):
        return draft_paths(instance.num_paths, instance.draft_length, drafting)
    return drafting


def converted(drafts: Drafts, chosen: Arithmetic) -> Drafts:
    """Return numpy drafts in the arrays of an arithmetic."""
    return drafts.converted(chosen.probabilities, chosen.from_numpy)


def call_verifier(
    verifier: AnyVerifier, drafts: Drafts, decisions: DecisionSource, state: State
) -> tuple[Verdict, State]:
    """Run one call, whether or not the verifier keeps a state.

    Raises `VerdictError` for no verdict, and for draft trees that it refuses: it says to accept them.
    """
    try:
        if isinstance(verifier, StatefulVerifier):
            verdict, next_state = verifier.verify(drafts, decisions, state)
            return _as_verdict(verdict), next_state
        return _as_verdict(verifier.verify(drafts, decisions)), ()
    except InvalidInputError as error:
        if drafts.num_paths is not None:
            raise
        place = raised_at(error)
        raise VerdictError(f"verify refused draft trees: {error}{f' (at {place})' * bool(place)}") from error


def _as_verdict(returned: object) -> Verdict:
    if not isinstance(returned, Verdict):
        must = "it must return a Verdict (node [B], next_token [B], drafts)"
        raise VerdictError(f"verify returned {type(returned).__name__}; {must}")
    return returned


def checked_node(verdict: Verdict, drafts: Drafts, chosen: Arithmetic) -> Integers:
    """Return the last accepted place, int [B]; raise `VerdictError` where there is no such place."""
    return _checked("node", verdict.node, drafts, chosen, (ROOT, drafts.places))


def checked_next_token(verdict: Verdict, drafts: Drafts, chosen: Arithmetic) -> Integers:
    """Return the next token, int [B]; raise `VerdictError` where it is none of the vocabulary."""
    return _checked("next_token", verdict.next_token, drafts, chosen, (0, drafts.vocab_size))


def _checked(
    name: str, values: Array, drafts: Drafts, chosen: Arithmetic, limits: tuple[int, int]
) -> Integers:
    """Return values int [B] that are whole and lie in the ``limits``, the last one excluded."""
    numbers, (least, stop) = chosen.to_numpy(values), limits
    if numbers.shape != (drafts.batch,):
        raise VerdictError(f"{name}: expected shape ({drafts.batch},), got {numbers.shape}")
    wrong = ~((numbers >= least) & (numbers < stop) & (numbers % 1 == 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise VerdictError(f"{name}: {numbers[row]} at row {row}, expected {least}..{stop - 1}")
    return numbers.astype(np.int64)


def verified_path(
    verifier: AnyVerifier, drafts: Drafts, decisions: DecisionSource, chosen: Arithmetic
) -> tuple[Path, OpenToken | Integers]:
    """Return the accepted path after one call in a fresh state, and the token that follows, maybe open.

    Raises `VerdictError` where they are no emission.
    """
    verdict, _ = call_verifier(verifier, drafts, decisions, fresh_state(verifier, drafts.batch))
    path = drafts.path_to(chosen.from_numpy(checked_node(verdict, drafts, chosen)))
    if isinstance(verdict.next_token, OpenToken):
        return path, verdict.next_token
    return path, checked_next_token(verdict, drafts, chosen)


def checked_emissions(verdict: Verdict, drafts: Drafts, chosen: Arithmetic) -> tuple[Integers, Integers]:
    """Return tau [R] and the emitted tokens [R, D+1], D the depth of the trees.

    Raises `VerdictError` where they are no emission.
    """
    checked_node(verdict, drafts, chosen)
    checked_next_token(verdict, drafts, chosen)
    return chosen.to_numpy(verdict.num_accepted), chosen.to_numpy(verdict.emitted)


def no_mass(instance: Instance, like: Numbers) -> list[Numbers]:
    """Return zeros of the number type of ``like`` for the emissions of n tokens, flat [V^n], n = 1..L+1."""
    zero = like.sum() * 0
    return [np.full(instance.vocab_size**length, zero) for length in range(1, instance.draft_length + 2)]
