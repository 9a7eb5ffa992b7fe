"""Confirm a traced defect of a sampler with ordinary samples, on its toy instance or at its shape."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.confirm import borne_out, require_repeated
from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import Sample, numbered
from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.audit.shapes.judged import JudgedShape
from spec_oracle.audit.shapes.sampled import TreeCells, chances_of
from spec_oracle.contracts import ContractError, Emissions, SamplerCode
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.draft_tree import DraftTree
from spec_oracle.exact.errors import NotTracedError
from verifiers import Paths

CLAIM_SECONDS: Final = 3.0  # Seconds for samples of a defect at one shape, or of a broken contract.
CLAIM_PILOT: Final = 20  # First samples at one shape.

_SAME = 1e-9
_CERTAIN = 1 - 1e-9

UNDECIDED = (
    "could not trace the random numbers: no random decision was seen, and the target leaves a choice; "
    "sampled instead"
)


def require_decisions(known: list[ConditionalLaw], laws: list[EmissionLaw]) -> None:
    """Raise `NoEvidenceError` where no decision was seen of what the targets do not leave certain."""
    is_certain = all(
        mass.max() >= _CERTAIN for law in known for mass in [np.concatenate([*law.leaves.values()])]
    )
    targets = (law.instance.floats.target.joint(law.instance.draft_length + 1) for law in laws)
    if is_certain and any(target.max() < _CERTAIN for target in targets):
        raise NoEvidenceError(UNDECIDED)


@dataclass(frozen=True)
class CallsAtShape:
    """Ordinary calls at a shape, of which one ``request`` is counted by the ``cells`` of its completion.

    ``among`` puts the drafts of a request into the batch of a call.
    """

    code: SamplerCode
    tree: DraftTree
    among: Callable[[Paths], Paths]
    request: int
    cells: TreeCells
    rng: np.random.Generator

    def many(self, count: int) -> NDArray[np.int64]:
        """Make so many calls; return the cells of the completions, int [N]."""
        times = self.rng.multinomial(count, chances_of(self.tree)).tolist()
        drafts = (self.tree.drafts(paths) for paths in self.tree.likely)
        each = ([self.among(one)] * calls for one, calls in zip(drafts, times, strict=True) if calls)
        return np.concatenate([self._cell(one) for some in each for one in some])

    def _cell(self, drafts: Paths) -> NDArray[np.int64]:
        found = self.code(drafts, self.code.generator(int(self.rng.integers(2**31))))
        own = slice(self.request, self.request + 1)
        return self.cells.of(Emissions(found.tokens[own], found.lengths[own]), self.rng)


def confirm_shape(
    calls: CallsAtShape, judged: JudgedShape, context: Context, again: Callable[[], JudgedShape]
) -> None:
    """Sample between the distribution traced at a shape and the target's; ``again`` traces once more.

    Raises `NoEvidenceError` where samples contradict what was traced, and where they are too few and it is
    traced to another distribution the next time; `NotTracedError` where no random decision was seen instead.
    """
    assert judged.account is not None
    seconds = min(CLAIM_SECONDS, effort.CLAIM_SHARE * context.shape_seconds)
    one = numbered("calls", "a completion", calls.cells.law, calls.many)
    is_confirmed = borne_out(
        Sample(one, one.cells),
        calls.cells.law_of(judged.account.following),
        rate=effort.CLAIM_PART * context.rate,
        seconds=seconds,
        pilot=CLAIM_PILOT,
        most=10 * CLAIM_PILOT,
    )
    if is_confirmed:
        return
    if not judged.is_decided and calls.cells.law.max() < _CERTAIN:
        raise NotTracedError(UNDECIDED)
    is_same = lambda other: abs(other.total_variation - judged.total_variation) < _SAME  # noqa: E731
    require_repeated(again, is_same, time.process_time() + seconds)


def confirm_breach(
    code: SamplerCode,
    error: ContractError,
    context: Context,
    is_breach: Callable[[Emissions], bool] = lambda _: False,
) -> None:
    """Repeat a traced call that broke the contract without tracing it, until an ordinary one does, too.

    ``is_breach`` says whether one does that raises nothing. Raises `NoEvidenceError` where none does, unless
    the breach is too rare for these samples.
    """
    if error.traced is None:
        return
    drafts, chance = error.traced
    needed = math.ceil(-math.log(effort.CLAIM_PART * context.rate) / chance)
    rng, end = context.stream("sampler/claimed breach"), time.perf_counter() + CLAIM_SECONDS
    for _ in range(needed):
        try:
            if is_breach(code(drafts, code.generator(int(rng.integers(2**31))))):
                return
        except ContractError:
            return
        if chance < _CERTAIN and time.perf_counter() > end:
            return
    raise NoEvidenceError(f"{needed:,} ordinary calls contradict a traced one, in which {error}")
