"""The law of what is emitted after given drafts: for each accepted prefix, a vector over the next token.

The last decision of a verifier is the token that follows the accepted prefix. It need not be taken: its law
is read instead. So what follows the drafts of one request costs a run for each decision before the last,
whatever the vocabulary.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.call import call_verifier, checked_next_token, checked_node, converted, fresh_state
from spec_oracle.exact.enumeration import (
    Branches,
    OpenToken,
    Represented,
    ScriptedDecisions,
    enumerate_branches,
)
from spec_oracle.exact.errors import TooManyBranchesError, require_time
from spec_oracle.exact.representatives import (
    FEW_OF_A_BATCH,
    OPEN,
    Alike,
    NotAlikeError,
    Stand,
    require_alike,
)
from spec_oracle.toy import Context
from verifiers import AnyVerifier, Drafts, Path

MOST_NUMBERS = 1 << 21
"""About how many probabilities the verifier gets in one batch."""


_FEW_WHERE_NONE_STANDS: Final = 64
"""Outcomes of a decision that are all run where one cannot stand for others: what it draws is no token id."""

CERTAIN: Final = 1 - 1e-9
"""Probability from which on an outcome counts as certain."""


@dataclass(frozen=True)
class ConditionalLaw:
    """The law of the emission of one request, given its drafts.

    ``leaves``: by accepted prefix, the mass [V] of each token as the last of the emission; one in all.
    ``assumed`` is the part of it that rests on tokens coming out as others did that were run; ``guarded`` is
    the most that guards of noise against zeros change, in total variation.
    """

    leaves: Mapping[Context, Floats]
    assumed: float = 0.0
    guarded: float = 0.0

    @property
    def emissions(self) -> dict[Context, float]:
        """The probability of each emission that is possible."""
        return {
            (*prefix, int(token)): float(masses[token])
            for prefix, masses in self.leaves.items()
            for token in np.flatnonzero(masses)
        }

    @property
    def is_certain(self) -> bool:
        """Whether one emission has all of the probability: no random decision mattered."""
        return bool(max(masses.max() for masses in self.leaves.values()) >= CERTAIN)

    def distance(self, other: "ConditionalLaw") -> float:
        """Return the total variation to another law."""
        prefixes = self.leaves.keys() | other.leaves.keys()
        gaps = (np.abs(self.leaves.get(s, 0.0) - other.leaves.get(s, 0.0)).sum() for s in prefixes)
        return float(sum(gaps)) / 2


class RunOutcome(NamedTuple):
    """What one run comes to: the accepted tokens, the one that follows (maybe `OPEN`), and the probability.

    ``stands``: values in it that stand for others; ``alike``: those that should lead to what others lead to.
    """

    prefix: Context
    following: int
    weight: float
    stands: tuple[Stand, ...] = ()
    alike: tuple[Alike, ...] = ()


def conditional_laws(
    verifier: AnyVerifier,
    drafts: Drafts,
    *,
    array: str = "numpy",
    dtype: str = "float64",
    end: float = math.inf,
) -> list[ConditionalLaw]:
    """Return the law of the emission of every request of numpy ``drafts``, trees run together as one batch.

    A state is fresh. Where a token is looked at before it is returned, the drafted ones and a few more are
    run, and the others are `assumed` to lead to what these lead to. Raises `DecisionError` or `VerdictError`
    for code that is no verifier, `NotTracedError` where more decisions follow, or at the processor time
    ``end``.
    """
    chosen = arithmetic(array=array, dtype=dtype)

    def run(rows: Integers, decisions: ScriptedDecisions) -> tuple[Path, OpenToken | Integers]:
        require_time(end)
        some = drafts.take(rows)
        given = converted(some, chosen)
        verdict = call_verifier(verifier, given, decisions, fresh_state(verifier, len(rows)))[0]
        path = some.path_to(checked_node(verdict, given, chosen))
        if isinstance(verdict.next_token, OpenToken):
            return path, verdict.next_token
        return path, checked_next_token(verdict, given, chosen)

    numbers = 2 * (drafts.places + 1) * drafts.vocab_size
    for few in (FEW_OF_A_BATCH, _FEW_WHERE_NONE_STANDS):
        found: list[list[RunOutcome]] = [[] for _ in range(drafts.batch)]
        every_branch = enumerate_branches(
            run,
            np.ones(drafts.batch),
            max_rows=max(1, MOST_NUMBERS // numbers),
            arithmetic=chosen,
            leave_open=True,
            looked_at=drafts.tokens,
            few=few,
        )
        try:
            for branches in every_branch:
                for row, outcome in _outcomes(branches):
                    found[row].append(outcome)
            return [law_of(drafts.vocab_size, outcomes) for outcomes in found]
        except (TooManyBranchesError, NotAlikeError) as error:
            refused = error
    raise refused


def law_of(vocab_size: int, outcomes: Sequence[RunOutcome]) -> ConditionalLaw:
    """Return the law of the emission of one request, from all its runs.

    Raises `NotAlikeError` unless outcomes of which few were run lead to the same.
    """
    require_alike((one.weight, one.alike, one.prefix, one.following) for one in outcomes)
    leaves: dict[Context, Floats] = defaultdict(lambda: np.zeros(vocab_size))
    assumed = 0.0
    for one in outcomes:
        stand = next((stand for stand in one.stands if stand.value == one.following), None)
        if stand is None:
            leaves[one.prefix][one.following] += one.weight
            continue
        masses, possible = np.zeros(vocab_size), stand.chances > 0
        masses[stand.values[possible]] = stand.chances[possible] * one.weight
        leaves[one.prefix] += masses
        assumed += 0.0 if one.following == OPEN else one.weight - float(masses[one.following])
    return ConditionalLaw(dict(leaves), assumed)


def _outcomes(branches: Branches[tuple[Path, OpenToken | Integers]]) -> Iterator[tuple[int, RunOutcome]]:
    """Yield the request and the outcome of every finished branch."""
    path, following = branches.result
    accepted = zip(path.tokens.tolist(), path.lengths.tolist(), strict=True)
    prefixes = [tuple(tokens[:length]) for tokens, length in accepted]
    for number, (row, weight, known) in enumerate(
        zip(branches.rows.tolist(), branches.weight.tolist(), branches.represented, strict=True)
    ):
        stand, alike = known or Represented()
        opened: tuple[Stand, ...] = ()
        token = OPEN if isinstance(following, OpenToken) else int(following[number])
        if isinstance(following, OpenToken):
            chances = following.chances[number]
            opened = (Stand(OPEN, np.arange(len(chances)), chances),)
        if stand is not None and stand.value != token:
            raise TooManyBranchesError("the code changes a sampled token id that represents others, not run")
        stands = opened if stand is None else (stand, *opened)
        yield row, RunOutcome(prefixes[number], token, weight, stands, alike)
