"""Rules by name, and whether a rule takes all of its random numbers from its decisions.

A rule that draws by itself is enumerated as if it did not, so that its distribution would be invented. Before
anything is enumerated, the same call, on requests of all of the audit's instances, is made twice with the
same decisions; the contract is broken if the two emit different tokens. If a generator hidden in the rule
changes what is emitted on a share s of all requests, n requests are all emitted alike with probability
(1 - s)^n: 1e-23 for s = 5 %, 3e-5 for s = 1 %, at n = 1,024.

What is drawn once and kept is no randomness of a call: a call before, on other rows, is not compared.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Final, TypeAlias

import numpy as np

import verifiers
from spec_oracle.arrays import Integers
from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import DEPTH, SampledDrafts, cases_on_trees
from spec_oracle.audit.instances import instances_for, panel
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.subjects import resolve_subject
from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.exact.arithmetic import Arithmetic, arithmetic
from spec_oracle.exact.call import bound_to_instance, call_verifier, checked_emissions, converted, fresh_state
from spec_oracle.statistics.streams import stream
from spec_oracle.threads import raising
from verifiers import AnyVerifier, Drafts, ModelBound
from verifiers.sampling import SamplingDecisions

Call: TypeAlias = Callable[[], Integers]
"""A call of a rule that is prepared: it returns the emitted tokens, int [n]."""

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


def named_verifier(name: str) -> AnyVerifier:
    """Return the built-in rule of that name, or the one that ``package.module:object`` is or makes.

    Raises `InvalidInputError` for a name that leads nowhere, or to something else, and for a rule that draws
    random numbers by itself: it cannot be enumerated.
    """
    if ":" not in name:
        return verifiers.get(name)
    found = resolve_subject(name)
    if not isinstance(found, RuleSubject):
        raise InvalidInputError(f"verifier: {name!r} has no verify(drafts, decisions)")
    if fault := own_randomness(found, Context()):
        raise InvalidInputError(f"verifier: {name}: {fault}")
    return found.rule


def own_randomness(subject: RuleSubject, context: Context) -> str:
    """Return what shows that a rule has random numbers besides its decisions, and what to do; "" for nothing.

    "" also where it raises or returns no verdict: checks say so.
    """
    try:
        _prepared(subject, replace(context, seed=context.seed + 1))()
        first, again = _prepared(subject, context), _prepared(subject, context, backwards=True)
        if np.array_equal(first(), again()):
            return ""
    except SpecOracleError:
        return ""
    why = "it draws random numbers by itself, or keeps something between calls"
    where = f" (at {subject.place})" if subject.place else ""
    do = _DO_ON_TREES if subject.on_trees else _DO
    return f"the same call with the same decisions emits other tokens: {why}{where}: {do}"


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
        (converted(SampledDrafts(*one).sample(_REQUESTS, rng), chosen), _decisions(rng.spawn(1)[0], chosen))
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
    return SamplingDecisions(lambda like: chosen.from_numpy(rng.random(tuple(like.shape))))
