"""Whether a rule takes all of its random numbers from its decisions: asked before anything is enumerated.

A rule that draws by itself is enumerated as if it did not, so that its distribution would be invented. The
same call, on requests of all of the audit's instances, is made twice with the same decisions, while numpy,
``random`` and torch are watched: seeds are ignored, so that code whose random numbers count does something
else when it is called again. The contract is broken if a
line of the user's code asks one of them for a number, or if the two calls emit different tokens: whatever
generator is hidden in the rule. If that changes what is emitted on a share s of all requests, n requests are
all emitted alike with probability (1 - s)^n: 1e-23 for s = 5 %, 3e-5 for s = 1 %, at n = 1,024.

What is drawn once and kept is no randomness of a call: a call before, on other rows, is not watched.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Final, ParamSpec, TypeVar

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import DEPTH, cases_on_trees, sampled_trees
from spec_oracle.audit.instances import instances_for, panel
from spec_oracle.audit.rule.replay import UNIFORMS, verdicts
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.call import bound_to_instance
from spec_oracle.exact.interception import edge_draws
from spec_oracle.exact.interception.sources import Ordinary
from spec_oracle.places import is_users, running_at
from spec_oracle.statistics.streams import stream
from spec_oracle.threads import raising
from verifiers import ModelBound

P = ParamSpec("P")
R = TypeVar("R")

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
    found, watched = list[Integers](), _WatchedDraws(context.seed)
    try:
        _prepared(subject, replace(context, seed=context.seed + 1))()
        calls = [_prepared(subject, context), _prepared(subject, context, backwards=True)]
    except SpecOracleError:
        return ""
    with edge_draws.drawn_from(watched, subject.array, context.seed), suppress(SpecOracleError):
        found += [call() for call in calls]
    do = _DO_ON_TREES if subject.on_trees else _DO
    what, places = "it draws random numbers by itself", watched.lines
    if not places:
        if len(found) < 2 or np.array_equal(found[0], found[1]):
            return ""
        places = watched.indirect
    if not places:
        why = f"{what}, or keeps something between calls"
        what, places = f"the same call with the same decisions emits other tokens: {why}", [subject.place]
    return f"{what}{f' (at {places[0]})' * bool(places[0])}: {do}"


def _prepared(subject: RuleSubject, context: Context, *, backwards: bool = False) -> Callable[[], Integers]:
    """Prepare calls on drafts of every instance, its paths and one kind of trees, that return their verdicts.

    Of one instance for a rule that knows its models. The last draft comes first if ``backwards``: a rule that
    decides by how often it was called is then at another number for each.
    """
    rng = stream(context.seed, "own-randomness")
    like = next(iter(instances_for(context, subject.num_paths).values()))
    paths = like.num_paths if subject.num_paths > 1 else 1
    toys = [*panel(like.vocab_size, like.draft_length, paths, context.seed).values()]
    if isinstance(subject.rule, ModelBound):
        toys = toys[:1]
    drawn = [(toy, subject.paths(toy)) for toy in toys]
    if subject.on_trees:
        small = panel(like.vocab_size, min(like.draft_length, DEPTH), 1, context.seed)
        first = next(cases_on_trees(subject.on_trees, small))
        drawn += [(toy, first.drafting) for toy in small.values()]
    given = [(sampled_trees(*one, _REQUESTS, rng), rng.random((_REQUESTS, UNIFORMS))) for one in drawn]
    order = slice(None, None, -1 if backwards else 1)

    def call() -> Integers:
        with raising():
            rule = bound_to_instance(subject.rule, toys[0].floats, arithmetic(array=subject.array))
        found = [verdicts(rule, subject.array, *one) for one in given[order]]
        return np.concatenate(found[order])

    return call


class _WatchedDraws(Ordinary):
    """A `Source` of ordinary numbers that notes the first of the user's ``lines`` that ask for them.

    Of lines that call another package, which asks for them, the first is ``indirect``: a solver may start at
    random.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.lines: list[str] = []
        self.indirect: list[str] = []

    def multiple(self, first: int, last: int) -> int:
        """Note the line, and draw."""
        self._note()
        return super().multiple(first, last)

    def integer(self, count: int) -> int:
        """Note the line, and draw."""
        self._note()
        return super().integer(count)

    def other(self, name: str, real: Callable[P, R]) -> Callable[P, R]:  # noqa: ARG002  (part of the interface)
        """Return the real function, which notes the line first."""

        def noted(*arguments: P.args, **keywords: P.kwargs) -> R:
            self._note()
            return real(*arguments, **keywords)

        return noted

    def _note(self) -> None:
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  (the documented way to walk one's own stack)
        while frame is not None and _passes_on(frame.f_code.co_filename):
            frame = frame.f_back
        is_direct = frame is not None and is_users(frame.f_code.co_filename)
        known = self.lines if is_direct else self.indirect
        if not known:
            known.append(running_at(frame))


_INTERCEPTION: Final = str(Path(edge_draws.__file__).parent)
_OF_RANDOMNESS: Final = ("numpy", "torch")
"""Packages through which the user's code asks for random numbers."""


@lru_cache(maxsize=4096)
def _passes_on(filename: str) -> bool:
    """Whether a source file is ours, or of a library that is asked for random numbers."""
    parts = Path(filename).parts
    package = parts[parts.index("site-packages") + 1] if "site-packages" in parts else ""
    return filename.startswith((__file__, _INTERCEPTION, "<")) or package in _OF_RANDOMNESS
