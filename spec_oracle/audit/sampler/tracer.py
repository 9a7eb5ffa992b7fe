"""Exact laws of functions of the sampler contract: run on every outcome of their random numbers."""

import math
import time
from collections.abc import Callable, Collection
from typing import Final, TypeAlias

import numpy as np

from spec_oracle import clock
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.contracts import Emissions, SamplerCode
from spec_oracle.contracts.sampler import (
    CALL_SECONDS,
    Handed,
    new_generator,
    require_finished,
)
from spec_oracle.errors import ContractError
from spec_oracle.exact.call import draft_table
from spec_oracle.exact.draft_tree import CERTAIN, ConditionalLaw, Outcome, law_of
from spec_oracle.exact.drafting import Drafting
from spec_oracle.exact.emission import EmissionLaw
from spec_oracle.exact.interception import (
    Branch,
    TooManyBranchesError,
    enumerate_calls,
    interception,
)
from spec_oracle.exact.representatives import OPEN, NotAlikeError
from spec_oracle.threads import raising
from spec_oracle.toy import Instance
from verifiers import Drafts, Paths, Siblings

MOST_BRANCHES: Final = 100_000
"""The most runs after one draft."""

FULL_VOCABULARY: Final = 600
"""The most possible tokens that are all run where representatives of them turn out not to be alike."""

GENERATOR_SEED: Final = 0x5EED_0F_C0DE
"""The seed of the generator that a sampler is given: one that no other generator of its has."""

EVERY_ID_NUMBERS: Final = 300
"""Target probabilities of a call up to which every sampled id is run."""

OVERRUN: Final = 10.0
"""Times the processor time of tracing that it may take by the clock, other work on the machine included."""

BREACH_SECONDS: Final = 3.0
"""Seconds for ordinary calls that repeat a broken contract."""

Known: TypeAlias = dict[bytes, ConditionalLaw]
"""Laws of what is emitted after one draft, by the bytes of the arrays that the sampler is given."""


def traced_law(
    code: SamplerCode,
    instance: Instance,
    known: Known | None = None,
    *,
    end: float = math.inf,
    exact: bool = False,
    drafting: Drafting | None = None,
) -> EmissionLaw:
    """Return the exact emission law of a sampler on ``instance``, in float64.

    ``drafting`` makes the draft trees of a tree sampler; None: independent paths. The sampler is run on one
    draft at a time, once per outcome of its random decisions. Laws found in ``known`` are not computed again,
    new ones are entered: instances that differ in one row, as in the search for a small counterexample, share
    most of them. ``end`` is when `time.process_time` says that it takes too long. Raises `NotTracedError`
    where the law would not be exact, `ContractError` for what is no emission, `SubjectRaisedError` when the
    sampler raises.
    """
    del exact  # foreign code computes in floats
    floats = instance.floats
    drawn = Siblings.INDEPENDENT if drafting is None else drafting
    vocab, probability = floats.vocab_size, draft_table(floats, drawn).law.probability
    masses = [np.zeros(vocab**length) for length in range(1, floats.draft_length + 2)]
    for row, law in laws_after(code, floats, {} if known is None else known, end, drawn).items():
        for prefix, mass in law.leaves.items():
            index = np.ravel_multi_index(prefix, (vocab,) * len(prefix)) if prefix else 0
            masses[len(prefix)].reshape(-1, vocab)[index] += mass * probability[row]
    return EmissionLaw(floats, tuple(masses))


def laws_after(
    code: SamplerCode,
    instance: Instance,
    known: Known,
    end: float = math.inf,
    drafting: Siblings | Drafting = Siblings.INDEPENDENT,
) -> dict[int, ConditionalLaw]:
    """Return the law after each possible draft, by its row in the table; errors as above."""
    table = draft_table(instance, drafting)
    found = {}
    with interception():
        for row in np.flatnonzero(table.law.probability).tolist():
            trees = table.drafts(np.array([row]))
            drafts = trees.paths if isinstance(drafting, Siblings) else trees
            key = b"".join(repr(array.shape).encode() + array.tobytes() for array in code.arguments(drafts))
            if key not in known:
                known[key] = law_after(code, drafts, max_seconds=end - time.process_time())
            found[row] = known[key]
    return found


def law_after(
    code: SamplerCode,
    drafts: Paths | Drafts,
    request: int = 0,
    *,
    max_seconds: float = math.inf,
    in_full: bool | None = None,
    looked_at: Collection[int] = (),
) -> ConditionalLaw:
    """Return the exact law of the emission of one request of a batch, given the drafts of all.

    The code sees fresh copies of its inputs in every branch. Where it draws one of many tokens and looks at
    it, few are run, and the others `assumed` to come out as these; those ``looked_at`` are run in any case,
    all ``in_full`` (None: of small shapes). Errors as `enumerate_calls`, `ContractError` for no emission,
    `SubjectRaisedError` when the code raises while its random numbers are traced.
    """
    arrays, end = code.arguments(drafts), time.process_time() + max_seconds
    inputs = [Handed(code, array) for array in arrays]

    def call() -> object:
        arguments = (given.fresh() for given in inputs)
        returned = code.function(*arguments, new_generator(code.array, GENERATOR_SEED))
        require_finished(returned)
        return _kept(returned)

    is_small = in_full is None and arrays[-1].size <= EVERY_ID_NUMBERS
    # Tracing looks at its processor time between calls only; a call may go on for long, or wait for ever.
    with raising(CALL_SECONDS + OVERRUN * max_seconds):
        branches = enumerate_calls(
            call,
            max_branches=MOST_BRANCHES,
            max_seconds=max_seconds,
            looked_at=None
            if in_full or is_small
            else {-1, *np.unique(drafts.tokens[request]).tolist(), *looked_at},
            leave_open=not in_full,
        )
        try:
            outcomes = [_outcome(code, branch, drafts, request) for branch in branches]
            return law_of(drafts.vocab_size, outcomes)
        except NotAlikeError as error:
            most = max(np.count_nonzero(stand.chances) for branch in branches for stand in branch.stands)
            if most > FULL_VOCABULARY:
                raise TooManyBranchesError(f"{error} ({most:,} tokens)") from None
            left = end - time.process_time()
            return law_after(code, drafts, request, max_seconds=left, in_full=True)


def _kept(returned: object) -> object:
    """Return a result that later calls do not overwrite: code may return the same buffers every time."""
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        return returned
    return tuple(
        part.copy() if type(part) is np.ndarray else part.clone() if hasattr(part, "detach") else part
        for part in returned
    )


def _outcome(code: SamplerCode, branch: Branch[object], drafts: Paths | Drafts, request: int) -> Outcome:
    """Return what a branch comes to; raises `NotAlikeError` where what is open is not the last token."""
    returned = branch.result
    opened = next((stand for stand in branch.stands if stand.value == OPEN), None)
    where: list[list[int]] = []
    if opened is not None and isinstance(returned, tuple | list) and len(returned) == 2:
        tokens, accepted = (
            np.array(part.tolist()) if hasattr(part, "detach") else np.array(part) for part in returned
        )
        where = np.argwhere(tokens == OPEN).tolist()
        tokens[tokens == OPEN] = opened.values[opened.chances.argmax()]
        if (accepted == OPEN).any():
            raise NotAlikeError("the accepted length is open")
        returned = (tokens, accepted)
    try:
        found = code.checked(returned, drafts)
    except ContractError as error:
        error.traced = drafts, branch.weight
        raise
    last = int(found.lengths[request]) - 1
    if where and where != [[request, last]]:
        raise NotAlikeError("a token was never compared with anything, and more tokens follow it")
    *prefix, following = found.tokens[request, : last + 1].tolist()
    return Branch(branch.weight, (tuple(prefix), OPEN if where else following), *branch[2:])


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
    rng, end = context.stream("sampler/claimed breach"), clock.now() + BREACH_SECONDS
    for _ in range(needed):
        try:
            if is_breach(code(drafts, code.generator(int(rng.integers(2**31))))):
                return
        except ContractError:
            return
        if chance < CERTAIN and clock.now() > end:
            return
    raise NoEvidenceError(f"{needed:,} ordinary calls contradict a traced one, in which {error}")
