"""The check `bad-input` of rules: what they emit after extreme uniforms, and for broken input.

Rules are called on drafts with every kind of siblings that they accept. Valid drafts, those without a token
included, must give tokens that the target gives a positive probability, whatever the uniforms. Broken
distributions, ids and trees may be refused with an exception, though not by a call without end; what is
returned instead must still be a place whose way leads to the root, tokens of the vocabulary, and, for every
healthy request, tokens that are possible. One failure is proof.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import SampledDrafts
from spec_oracle.audit.failing_inputs import part, with_inputs
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, failed, not_asked, passed
from spec_oracle.audit.rule.subject import UNIFORMS, RuleSubject, verdicts
from spec_oracle.audit.sampler.bad_input import EDGES, SPOILT, Judged, how_to_accept_broken, strike
from spec_oracle.audit.saved_inputs import as_drafts
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.errors import InvalidInputError
from spec_oracle.threads import CallEndedError, at_most
from verifiers import EMPTY, ROOT, Drafts, Paths, Siblings
from verifiers.drafts import parents_of_paths
from verifiers.rows import TreeRows

_REQUESTS: Final = 32
_LARGEST: Final = 1 - 2.0**-53


class UnusualCall(NamedTuple):
    """What is special, the drafts, and the requests that must stay inside the target's support."""

    name: str
    drafts: Drafts
    judged: Judged
    may_refuse: bool = True


def bad_input(subject: RuleSubject, context: Context) -> CheckResult:
    """Judge what comes of extreme uniforms and of input that is no law, for every law of siblings."""
    if subject.never_called_alone:
        return not_asked(subject.never_called_alone)
    rng, toy = context.stream("tree/bad-input"), panel(3, 3, subject.num_paths, context.seed)["zeros"]
    wrong = dict[str, tuple[str, dict[str, Any]]]()
    for kind, drafting in subject.one_of_each(toy).items():
        healthy = _healthy(SampledDrafts(toy, drafting).sample(_REQUESTS, rng))
        uniforms = rng.random((healthy.batch, UNIFORMS))
        limit = _limit(subject, healthy, uniforms)
        asked = [(case, uniforms) for case in _cases(healthy, drafting.siblings)]
        everyone = np.ones(healthy.batch, dtype=bool)
        for _ in range(effort.BAD_INPUT_EDGE_ROUNDS):
            edges = rng.choice([0.0, 0.5, _LARGEST], size=uniforms.shape)
            edges = np.where(edges == 0.5, rng.random(edges.shape), edges)
            asked.append((UnusualCall(EDGES, healthy, everyone, may_refuse=False), edges))
        for case, given in asked:
            call: dict[str, Any] = {"drafts": case.drafts, "uniforms": given}
            call |= {"judged": case.judged, "may_refuse": case.may_refuse}
            if case.name not in wrong and (says := _complaint(subject, **call, limit=limit)):
                wrong[case.name] = f"{says} ({kind})", call
    if not wrong:
        detail = "broken input is refused, or every emitted token has a positive probability"
        return passed(detail, how=How.REPLAYED)
    listed = "; ".join(f"{name}: {says}" for name, (says, _) in wrong.items())
    says, call = next(iter(wrong.values()))
    found = failed(listed, how=How.REPLAYED, do=how_to_accept_broken(subject.name, [*wrong]))
    return with_inputs(found, "one_verification", subject, context, 0.0, call, says)


@part
def one_verification(
    subject: RuleSubject,
    context: Context,
    rate: float,
    *,
    drafts: Drafts | Paths,
    uniforms: Floats,
    judged: Judged,
    may_refuse: bool,
) -> CheckResult:
    """Judge one call; it may raise if it ``may_refuse`` its input, and only requests ``judged`` [B] count."""
    del context, rate
    limit = effort.BAD_INPUT_SECONDS
    if says := _complaint(subject, as_drafts(drafts), uniforms, judged, may_refuse=may_refuse, limit=limit):
        return failed(says, how=How.REPLAYED)
    return passed("what the call returns is possible", how=How.REPLAYED)


def _healthy(sampled: Drafts) -> Drafts:
    """Strike tokens out of target rows: a first child of every other request, token 0 of all rows.

    So there are drafts with p(x) = 0 < q(x), and the id that code falls back to is impossible, too.
    """
    target, batch = sampled.target.dense().copy(), sampled.batch
    strike(target[:, 0], np.where(np.arange(batch) % 2 == 0, sampled.tokens[:, 0], -1))
    for row in range(sampled.places + 1):
        strike(target[:, row], np.zeros(batch, dtype=np.int64))
    rows = TreeRows(sampled.draft.dense()), TreeRows(target)
    return Drafts(sampled.tokens, sampled.parents, *rows, sampled.num_paths)


def _cases(healthy: Drafts, law: Siblings) -> Iterator[UnusualCall]:
    """Yield broken input: in each, every fourth request has a broken row of the root, or a broken place.

    A q that is off must not harm other requests; one that is NaN tells nothing, and then the target alone
    must decide. Of K paths the first tokens are broken together; their parents cannot be. Then follow valid
    trees without a token: in every fourth request, and in all of them.
    """
    sound, everyone = np.arange(healthy.batch) % 4 != 0, np.ones(healthy.batch, dtype=bool)
    for kind, spoil in SPOILT.items():
        for name in ("draft", "target"):
            spoilt = getattr(healthy, name).dense().copy()
            spoil(spoilt[::4, 0])
            judged = everyone if (kind, name) == ("NaN", "draft") else sound
            spoilt_rows: Any = {name: TreeRows(spoilt)}
            yield UnusualCall(f"{kind} {name} probabilities", replace(healthy, **spoilt_rows), judged)
    vocab, places, paths = healthy.vocab_size, healthy.places, healthy.num_paths
    # Ids wrap to every token but 0 in code that takes them modulo V.
    beyond = 1 + np.arange(len(sound[::4])) % (vocab - 1)
    if paths is not None:
        tokens = _with_first(healthy.tokens, vocab + beyond, paths)
        parents = parents_of_paths(tokens.reshape(healthy.batch, -1, paths).transpose(0, 2, 1))
        yield UnusualCall("drafted id beyond V", replace(healthy, tokens=tokens, parents=parents), sound)
        return
    for name, ids in (("drafted id beyond V", vocab + beyond), ("negative drafted id", beyond - vocab - 1)):
        yield UnusualCall(name, replace(healthy, tokens=_with_first(healthy.tokens, ids)), sound)
    if law is Siblings.DISTINCT:
        equal = healthy.tokens.copy()
        equal[::4, 1] = np.where(healthy.parents[::4, 1] == ROOT, equal[::4, 0], equal[::4, 1])
        yield UnusualCall(
            "equal siblings where distinct ones are said", replace(healthy, tokens=equal), everyone
        )
    for name, parent in (
        ("parent that does not exist", places),
        ("parent after its child", places - 1),
        ("place that is its own parent", 0),
        ("negative number for a parent", EMPTY - 1),
        ("child of an empty place", EMPTY),
    ):
        yield UnusualCall(name, replace(healthy, parents=_with_first(healthy.parents, parent)), sound)
    for name, step in (("trees without a token beside others", 4), ("trees without a token", 1)):
        parents = healthy.parents.copy()
        parents[::step] = EMPTY
        yield UnusualCall(name, replace(healthy, parents=parents), everyone, may_refuse=False)


def _with_first(array: Integers, values: Integers | int, places: int = 1) -> Integers:
    """Return an array [B, N] with other values at the first place, or places, of every fourth request."""
    changed = array.copy()
    changed[::4, :places] = np.reshape(values, (-1, 1))
    return changed


def _limit(subject: RuleSubject, healthy: Drafts, uniforms: Floats) -> float:
    """Return how many seconds a call may take, from what one on valid input takes."""
    started = time.monotonic()
    with suppress(ContractError, SubjectRaisedError):
        verdicts(subject, healthy, uniforms)
    return effort.BAD_INPUT_SECONDS + effort.BAD_INPUT_SLOWER * (time.monotonic() - started)


def _complaint(
    subject: RuleSubject,
    drafts: Drafts,
    uniforms: Floats,
    judged: Judged,
    *,
    may_refuse: bool,
    limit: float,
) -> str:
    """Return what is wrong with a call, "" if nothing is."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(), at_most(limit):
            warnings.simplefilter("ignore")
            found = verdicts(subject, drafts, uniforms)
    except CallEndedError as error:
        return str(error)
    except (SubjectRaisedError, InvalidInputError) as error:
        return "" if may_refuse else str(error)
    except ContractError as error:
        return str(error)
    return _impossible(drafts, found, judged)


def _impossible(drafts: Drafts, found: Integers, judged: Judged) -> str:
    """Name the first request that emits what is no emission, or a token to which its row gives no mass."""
    rows = drafts.target.dense()
    laws = np.isfinite(rows).all(axis=-1) & (rows >= 0).all(axis=-1) & (abs(rows.sum(axis=-1) - 1) < 1e-9)
    for request, (last, following) in enumerate(found.tolist()):
        places = _way(drafts.parents[request].tolist(), last)
        if places is None:
            return f"request {request} accepted place {last}, from which no way leads to the root"
        tokens = [*drafts.tokens[request, places[1:]].tolist(), following]
        for position, (place, token) in enumerate(zip(places, tokens, strict=True)):
            if not 0 <= token < drafts.vocab_size:
                return f"request {request} emitted {token}, which is no token of the vocabulary"
            if judged[request] and laws[request, place + 1] and not rows[request, place + 1, token]:
                return (
                    f"request {request} emitted token {token} at position {position}, "
                    "although the target gives it probability 0"
                )
    return ""


def _way(parents: list[int], last: int) -> list[int] | None:
    """Return the places from the root to one of them, None where no way leads there."""
    way = [last]
    while way[0] != ROOT:
        above = parents[way[0]]
        if not ROOT <= above < len(parents) or above in way:
            return None
        way.insert(0, above)
    return way
