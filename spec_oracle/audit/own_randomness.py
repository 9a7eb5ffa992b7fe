"""Whether a rule takes all of its random numbers from its decisions: asked before anything is enumerated.

A rule that draws by itself is enumerated as if it did not, so that its distribution would be invented. The
same call, on requests of all of the audit's instances, is made twice with the same decisions, while numpy,
``random`` and torch are watched (`spec_oracle.exact.interception.own_draws`). The contract is broken if a
line of the user's code asks one of them for a number, or if the two calls emit different tokens: whatever
generator is hidden in the rule. If that changes what is emitted on a share s of all requests, n requests are
all emitted alike with probability (1 - s)^n: 1e-23 for s = 5 %, 3e-5 for s = 1 %, at n = 1,024.

What is drawn once and kept is no randomness of a call: a call before, on other rows, is not watched.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Final, TypeAlias

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import DEPTH, cases_on_trees, sampled_trees
from spec_oracle.audit.instances import instances_for, panel
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.arithmetic import Arithmetic, arithmetic
from spec_oracle.exact.call import bound_to_instance, call_verifier, checked_emissions, converted, fresh_state
from spec_oracle.exact.interception.own_draws import watched_draws
from spec_oracle.statistics.streams import stream
from spec_oracle.threads import raising
from verifiers import AnyVerifier, Drafts, ModelBound
from verifiers.sampling import SamplingDecisions

Call: TypeAlias = Callable[[], Integers]
"""A call of a rule that is prepared: it returns the emitted tokens, int [n]."""

_random: Final = np.random.Generator.random
"""As it is while generators are watched."""

_REQUESTS: Final = 128
"""Requests on each instance, and each kind of drafts."""

_DO: Final = (
    "take every random decision from `decisions`; a function that samples by itself is audited under the "
    "sampler contract, as verify(draft_tokens, draft_probs, target_probs, generator)"
)
_DO_ON_TREES: Final = (
    "take every random decision from `decisions`, or, if it samples by itself, make it a tree sampler: "
    "verify_tree(tokens, parents, draft_probs, target_probs, generator), with the same accepts"
)


def own_randomness(subject: RuleSubject, context: Context) -> str:
    """Return what shows that a rule has random numbers besides its decisions, and what to do; "" for nothing.

    "" also where it raises or returns no verdict: checks say so.
    """
    prepared_in = partial(_prepared, subject)
    emitted = list[Integers]()
    try:
        prepared_in(replace(context, seed=context.seed + 1))()
        calls = [prepared_in(context), prepared_in(context, backwards=True)]
    except SpecOracleError:
        return ""
    with watched_draws(subject.array, context.seed) as watched, suppress(SpecOracleError):
        emitted += [call() for call in calls]
    if watched.lines:
        return _said("it draws random numbers by itself", watched.lines[0], subject)
    if len(emitted) < 2 or np.array_equal(emitted[0], emitted[1]):
        return ""
    if watched.indirect:
        return _said("it draws random numbers by itself", watched.indirect[0], subject)
    why = "it draws random numbers by itself, or keeps something between calls"
    return _said(f"the same call with the same decisions emits other tokens: {why}", subject.place, subject)


def _prepared(subject: RuleSubject, context: Context, *, backwards: bool = False) -> Call:
    """Prepare calls on drafts of every instance: its paths, and one kind of trees.

    Of one instance for a rule that knows its models. The last draft comes first if ``backwards``: a rule that
    decides by how often it was called is then at another number for each.
    """
    rng, chosen = stream(context.seed, "own-randomness"), arithmetic(array=subject.array)
    like = next(iter(instances_for(context, subject.num_paths).values()))
    paths = like.num_paths if subject.num_paths > 1 else 1
    toys = [*panel(like.vocab_size, like.draft_length, paths, context.seed).values()]
    if isinstance(subject.rule, ModelBound):
        toys = toys[:1]
    drawn = [(toy, subject.paths(toy)) for toy in toys]
    if subject.on_trees:
        small = panel(like.vocab_size, min(like.draft_length, DEPTH), 1, context.seed)
        _, of_one_kind = next(groupby(cases_on_trees(subject.on_trees, small), key=lambda case: case.kind))
        drawn += [(case.instance, case.drafting) for case in of_one_kind]
    several = [
        (converted(sampled_trees(*one, _REQUESTS, rng), chosen), _decisions(rng.spawn(1)[0], chosen))
        for one in drawn
    ]
    order = slice(None, None, -1 if backwards else 1)

    def call() -> Integers:
        with raising():
            rule = bound_to_instance(subject.rule, toys[0].floats, chosen)
            emitted = [_emitted(rule, *one, chosen) for one in several[order]]
            return np.concatenate(emitted[order])

    return call


def _emitted(rule: AnyVerifier, drafts: Drafts, decisions: SamplingDecisions, chosen: Arithmetic) -> Integers:
    """Return the tokens that a call emits, int [n]."""
    verdict, _ = call_verifier(rule, drafts, decisions, fresh_state(rule, drafts.batch))
    return checked_emissions(verdict, drafts, chosen)[1].reshape(-1)


def _decisions(rng: np.random.Generator, chosen: Arithmetic) -> SamplingDecisions:
    """Return a source that decides in every call that is prepared so as in the others."""
    return SamplingDecisions(lambda like: chosen.from_numpy(_random(rng, tuple(like.shape))))


def _said(what: str, place: str, subject: RuleSubject) -> str:
    do = _DO_ON_TREES if subject.on_trees else _DO
    return f"{what}{f' (at {place})' * bool(place)}: {do}"
