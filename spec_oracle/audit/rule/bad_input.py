"""The check `bad-input` of rules: what they emit after extreme uniforms, and for broken input.

Rules are called as samplers, and on the trees that they accept. Valid trees, those without a token included,
must give tokens that the target gives a positive probability, whatever the uniforms. Broken distributions,
ids and trees may be refused with an exception, though not by a call without end; what is returned instead
must still be a place whose way leads to the root, tokens of the vocabulary, and, for every healthy request,
tokens that are possible. One failure is proof.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, Status, failed, not_asked, passed
from spec_oracle.audit.rule.draftings import DEPTH, SampledDrafts, label, one_of_each
from spec_oracle.audit.rule.subject import UNIFORMS, RuleSubject, verdicts
from spec_oracle.audit.sampler.bad_input import EDGES, SPOILT, Judged, on_broken_input, strike
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.threads import CallEndedError, at_most
from verifiers import EMPTY, ROOT, Drafts, Siblings


@dataclass(frozen=True)
class Trees:
    """Draft trees as arrays, which may be broken: ids, parents, and both models' rows [B, N+1, V]."""

    tokens: Integers
    parents: Integers
    draft_probs: Floats
    target_probs: Floats

    @classmethod
    def of(cls, drafts: Drafts) -> "Trees":
        """Return the arrays of drafts."""
        return cls(drafts.tokens, drafts.parents, drafts.draft.dense(), drafts.target.dense())

    @property
    def drafts(self) -> Drafts:
        """The drafts, as a rule takes them."""
        return Drafts.of_tree(self.tokens, self.parents, self.draft_probs, self.target_probs)

    @property
    def batch(self) -> int:
        """Number of requests, B."""
        return len(self.tokens)

    @property
    def places(self) -> int:
        """Number of places for drafted tokens, N."""
        return int(self.tokens.shape[1])

    @property
    def vocab_size(self) -> int:
        """Number of tokens, V."""
        return int(self.target_probs.shape[2])


Case: TypeAlias = tuple[str, Trees, Judged]
"""What is broken, the draft trees, and the requests that must stay inside the target's support."""

_LARGEST = 1 - 2.0**-53


def bad_input(subject: RuleSubject, context: Context) -> CheckResult:
    """Judge what comes of extreme uniforms and of input that is no law: as a sampler, then on trees."""
    if subject.never_called_alone:
        return not_asked(subject.never_called_alone)
    as_sampler = on_broken_input(subject, context)
    if as_sampler.status is not Status.PASSED or not subject.on_trees:
        return as_sampler
    on_trees = _on_trees(subject, context)
    return on_trees if on_trees.status is Status.FAILED else as_sampler


def _on_trees(subject: RuleSubject, context: Context) -> CheckResult:
    """Judge a rule on broken trees and extreme uniforms, for every law of siblings that it accepts."""
    rng, toy = context.stream("tree/bad-input"), panel(3, DEPTH, 1, context.seed)["zeros"]
    wrong = dict[str, str]()
    for drafting in one_of_each(subject.on_trees, DEPTH).values():
        drawn = SampledDrafts(toy, drafting).sample(effort.BAD_INPUT_LEAST_REQUESTS, rng)
        healthy = _with_impossible_drafts(Trees.of(drawn))
        uniforms = rng.random((healthy.batch, UNIFORMS))
        limit = _limit(subject, healthy, uniforms)
        asked: list[tuple[Case, Floats, bool]] = [
            *((case, uniforms, True) for case in _broken(healthy, drafting.siblings)),
            *((case, uniforms, False) for case in _without_tokens(healthy)),
        ]
        everyone = np.ones(healthy.batch, dtype=bool)
        for _ in range(effort.BAD_INPUT_EDGE_ROUNDS):
            edges = rng.choice([0.0, 0.5, _LARGEST], size=uniforms.shape)
            edges = np.where(edges == 0.5, rng.random(edges.shape), edges)
            asked.append(((EDGES, healthy, everyone), edges, False))
        for (name, trees, judged), given, may_refuse in asked:
            says = _complaint(subject, trees, given, limit, judged, may_refuse=may_refuse)
            if says:
                wrong.setdefault(name, f"{says} ({label(drafting.siblings)})")
    if wrong:
        return failed("; ".join(f"{name}: {says}" for name, says in wrong.items()), how=How.REPLAYED)
    return passed("", how=How.REPLAYED)


def _with_impossible_drafts(drafts: Trees) -> Trees:
    """Strike tokens out of target rows: a first child of every other request, token 0 of all rows.

    So there are drafts with p(x) = 0 < q(x), and the id that code falls back to is impossible, too.
    """
    target, batch = drafts.target_probs.copy(), drafts.batch
    strike(target[:, 0], np.where(np.arange(batch) % 2 == 0, drafts.tokens[:, 0], -1))
    for row in range(drafts.places + 1):
        strike(target[:, row], np.zeros(batch, dtype=np.int64))
    return replace(drafts, target_probs=target)


def _broken(healthy: Trees, law: Siblings) -> Iterator[Case]:
    """Yield broken input: in each, every fourth request has a broken row of the root, or a broken place.

    A q that is off must not harm other requests; one that is NaN tells nothing, and then the target alone
    must decide.
    """
    sound, everyone = np.arange(healthy.batch) % 4 != 0, np.ones(healthy.batch, dtype=bool)
    for kind, spoil in SPOILT.items():
        for name, field in (("draft", "draft_probs"), ("target", "target_probs")):
            spoilt = getattr(healthy, field).copy()
            spoil(spoilt[::4, 0])
            judged = everyone if (kind, name) == ("NaN", "draft") else sound
            yield f"{kind} {name} probabilities", replace(healthy, **{field: spoilt}), judged
    vocab, places = healthy.vocab_size, healthy.places
    # Ids wrap to every token but 0 in code that takes them modulo V.
    beyond = 1 + np.arange(len(sound[::4])) % (vocab - 1)
    for name, token in (("drafted id beyond V", vocab + beyond), ("negative drafted id", beyond - vocab - 1)):
        yield name, _with_first(healthy, tokens=token), sound
    if law is Siblings.DISTINCT:
        equal = healthy.tokens.copy()
        equal[::4, 1] = np.where(healthy.parents[::4, 1] == ROOT, equal[::4, 0], equal[::4, 1])
        yield "equal siblings where distinct ones are said", replace(healthy, tokens=equal), everyone
    for name, parent in (
        ("parent that does not exist", places),
        ("parent after its child", places - 1),
        ("place that is its own parent", 0),
        ("negative number for a parent", EMPTY - 1),
        ("child of an empty place", EMPTY),
    ):
        yield name, _with_first(healthy, parents=parent), sound


def _with_first(healthy: Trees, **values: Any) -> Trees:
    """Return the trees with another value of the first place in every fourth request."""
    ((field, value),) = values.items()
    array = getattr(healthy, field).copy()
    array[::4, 0] = value
    return replace(healthy, **{field: array})


def _without_tokens(healthy: Trees) -> Iterator[Case]:
    """Yield valid trees without a token: in every fourth request, and in all of them."""
    everyone = np.ones(healthy.batch, dtype=bool)
    for name, step in (("trees without a token beside others", 4), ("trees without a token", 1)):
        parents = healthy.parents.copy()
        parents[::step] = EMPTY
        yield name, replace(healthy, parents=parents), everyone


def _limit(subject: RuleSubject, healthy: Trees, uniforms: Floats) -> float:
    """Return how many seconds a call may take, from what one on valid input takes."""
    started = time.monotonic()
    with suppress(ContractError, SubjectRaisedError):
        verdicts(subject, healthy.drafts, uniforms)
    return effort.BAD_INPUT_SECONDS + effort.BAD_INPUT_SLOWER * (time.monotonic() - started)


def _complaint(
    subject: RuleSubject,
    trees: Trees,
    uniforms: Floats,
    limit: float,
    judged: Judged,
    *,
    may_refuse: bool,
) -> str:
    """Return what is wrong with a call, "" if nothing is."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(), at_most(limit):
            warnings.simplefilter("ignore")
            found = verdicts(subject, trees.drafts, uniforms)
    except CallEndedError as error:
        return str(error)
    except SubjectRaisedError as error:
        return "" if may_refuse else str(error)
    except ContractError as error:
        return str(error)
    return _impossible(trees, found, judged)


def _impossible(trees: Trees, found: Integers, judged: NDArray[np.bool_]) -> str:
    """Name the first request that emits what is no emission, or a token to which its row gives no mass."""
    rows = trees.target_probs
    laws = np.isfinite(rows).all(axis=-1) & (rows >= 0).all(axis=-1) & (abs(rows.sum(axis=-1) - 1) < 1e-9)
    for request, (last, following) in enumerate(found.tolist()):
        place, token, on_the_way = last, following, set[int]()
        while True:
            if not 0 <= token < trees.vocab_size:
                return f"request {request} emitted {token}, which is no token of the vocabulary"
            if judged[request] and laws[request, place + 1] and not rows[request, place + 1, token]:
                return (
                    f"request {request} emitted token {token} after place {place}, "
                    "although the target gives it probability 0"
                )
            if place == ROOT:
                break
            on_the_way.add(place)
            token, place = trees.tokens[request, place], int(trees.parents[request, place])
            if not ROOT <= place < trees.places or place in on_the_way:
                return f"request {request} accepted place {last}, from which no way leads to the root"
    return ""
