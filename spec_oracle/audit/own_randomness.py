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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Final, ParamSpec, TypeAlias, TypeVar

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import DEPTH, cases_on_trees, sampled_trees
from spec_oracle.audit.instances import instances_for, panel
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.arithmetic import Arithmetic, arithmetic
from spec_oracle.exact.call import bound_to_instance, call_verifier, checked_emissions, converted, fresh_state
from spec_oracle.exact.interception import edge_draws
from spec_oracle.exact.interception.edge_draws import drawn_from
from spec_oracle.exact.interception.sources import Ordinary
from spec_oracle.places import is_users, running_at
from spec_oracle.statistics.streams import stream
from spec_oracle.threads import raising
from verifiers import AnyVerifier, Drafts, ModelBound
from verifiers.sampling import SamplingDecisions

P = ParamSpec("P")
R = TypeVar("R")

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


class _WatchedDraws(Ordinary):
    """A `Source` of ordinary numbers that notes the ``lines`` of the user's code which ask for them.

    Lines that call another package, which asks for them, are ``indirect``: a solver may start at random.
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
        (self.lines if is_direct else self.indirect).append(running_at(frame))


_INTERCEPTION: Final = str(Path(edge_draws.__file__).parent)
_OF_RANDOMNESS: Final = ("numpy", "torch")
"""Packages through which the user's code asks for random numbers."""


@lru_cache(maxsize=4096)
def _passes_on(filename: str) -> bool:
    """Whether a source file is ours, or of a library that is asked for random numbers."""
    parts = Path(filename).parts
    package = parts[parts.index("site-packages") + 1] if "site-packages" in parts else ""
    return filename.startswith((__file__, _INTERCEPTION, "<")) or package in _OF_RANDOMNESS


@contextmanager
def watched_draws(array: str = "numpy", seed: int = 0) -> Iterator[_WatchedDraws]:
    """Watch which code asks for random numbers; what it gets comes from a stream of the watch's own."""
    watched = _WatchedDraws(seed)
    with drawn_from(watched, array, seed):
        yield watched
