"""Whether a rule takes all of its random numbers from its decisions: asked before anything is enumerated.

A rule that draws by itself is enumerated as if it did not, so that its distribution would be invented. The
same call, on requests of all of the audit's instances, is made twice with the same decisions, while numpy,
``random`` and torch are watched (`spec_oracle.exact.interception.own_draws`). The contract is broken if a
line of the user's code asks one of them for a number, or if the two calls emit different tokens: whatever
generator is hidden in the rule. If that changes what is emitted on a share s of all requests, n requests are
all emitted alike with probability (1 - s)^n: 1e-23 for s = 5 %, 3e-5 for s = 1 %, at n = 1,024.

What is drawn once and kept is no randomness of a call: a call before, on other rows, is not watched.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import Final, TypeAlias, TypeVar

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.instances import instances_for, panel
from spec_oracle.audit.rule.draftings import DEPTH, SampledTrees, draftings
from spec_oracle.audit.rule.subject import TreeSubject, VerifierSubject
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.arithmetic import Arithmetic, arithmetic
from spec_oracle.exact.call import bound_to_instance, call_verifier, checked_emissions, fresh_state
from spec_oracle.exact.interception.own_draws import line_that_draws, watched_draws
from spec_oracle.exact.tree_emission import checked_tree_verdict
from spec_oracle.threads import raising
from spec_oracle.toy import Instance
from verifiers import ModelBound
from verifiers.arrays import map_fields
from verifiers.sampling import SamplingDecisions

Call: TypeAlias = Callable[[], Integers]
"""A call of a rule that is prepared: it returns the emitted tokens, int [B, N]."""

Record = TypeVar("Record")

_REQUESTS: Final = 128
"""Requests on each instance."""

_DO: Final = (
    "take every random decision from `decisions`; a function that samples by itself is audited under the "
    "sampler contract, as verify(draft_tokens, draft_probs, target_probs, generator)"
)


def own_randomness(subject: VerifierSubject | TreeSubject, context: Context) -> str:
    """Return what shows that a rule has random numbers besides its decisions, and what to do; "" for nothing.

    "" also where it raises or returns no verdict: checks say so.
    """
    prepared_in: Callable[[Context], Call]
    if isinstance(subject, VerifierSubject):
        prepared_in = partial(_of_verifier, subject)
    else:
        prepared_in = partial(_of_tree, subject)
    emitted = list[Integers]()
    try:
        prepared_in(replace(context, seed=context.seed + 1))()
        calls = [prepared_in(context), prepared_in(context)]
    except SpecOracleError:
        return ""
    with watched_draws(subject.array, context.seed) as watched, suppress(SpecOracleError):
        emitted += [call() for call in calls]
    if watched.lines:
        return _said("it draws random numbers by itself", watched.lines[0])
    if len(emitted) < 2 or np.array_equal(emitted[0], emitted[1]):
        return ""
    if line := line_that_draws(lambda: prepared_in(context)) or next(iter(watched.indirect), ""):
        return _said("it draws random numbers by itself", line)
    why = "it draws random numbers by itself, or keeps something between calls"
    return _said(f"the same call with the same decisions emits other tokens: {why}", subject.place)


def _of_verifier(subject: VerifierSubject, context: Context) -> Call:
    """Prepare a call on drafts of every instance; of one instance for a rule that knows its models."""
    toys = _toys(context, subject.num_paths)
    rng = context.stream("own-randomness")
    chosen = arithmetic(array=subject.array)
    if isinstance(subject.verifier, ModelBound):
        toys = toys[:1]
    drafts = _joined([sampled_drafts(toy, _REQUESTS, rng, subject.drafting) for toy in toys])
    handed, decisions = map_fields(chosen.from_numpy, drafts), _decisions(rng, chosen)

    def call() -> Integers:
        with raising():
            rule = bound_to_instance(subject.verifier, toys[0].floats, chosen)
            verdict, _ = call_verifier(rule, handed, decisions, fresh_state(rule, drafts.batch))
            return checked_emissions(verdict, drafts, chosen)[1]

    return call


def _of_tree(subject: TreeSubject, context: Context) -> Call:
    """Prepare a call on draft trees of every instance."""
    toys = _toys(context, 1, deepest=DEPTH)
    rng = context.stream("own-randomness")
    chosen = arithmetic(array=subject.array)
    drafting = next(iter(draftings(subject.accepts, toys[0].draft_length).values()))
    tables = [SampledTrees(toy, drafting) for toy in toys]
    drafts = _joined([table.drafts(table.sample(_REQUESTS, rng)) for table in tables])
    handed, decisions = map_fields(chosen.from_numpy, drafts), _decisions(rng, chosen)

    def call() -> Integers:
        with raising():
            verdict = subject.rule.verify_tree(handed, decisions)
            checked_tree_verdict(verdict, handed, chosen)
            emitted: Integers = chosen.to_numpy(verdict.emitted)
            return emitted

    return call


def _toys(context: Context, num_paths: int, deepest: int | None = None) -> Sequence[Instance]:
    """Return the audit's own instances, of the size of those on which the rule is enumerated."""
    like = next(iter(instances_for(context, num_paths).values()))
    length = min(like.draft_length, deepest or like.draft_length)
    return [*panel(like.vocab_size, length, like.num_paths if num_paths > 1 else 1, context.seed).values()]


def _joined(parts: Sequence[Record]) -> Record:
    """Return one batch of all the requests."""
    names = [field.name for field in fields(parts[0])]  # type: ignore[arg-type]
    return type(parts[0])(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _decisions(rng: np.random.Generator, chosen: Arithmetic) -> SamplingDecisions:
    """Return a source that decides in every call that is prepared so as in the others."""
    return SamplingDecisions(lambda like: chosen.from_numpy(rng.random(tuple(like.shape))))


def _said(what: str, place: str) -> str:
    return f"{what}{f' (at {place})' * bool(place)}: {_DO}"
