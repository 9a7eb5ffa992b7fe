"""The check `model`: the served model is the reference's, as far as requests for one token show.

Nothing speculates on such requests. Where their distributions are others than the reference's already, the
model is another one (quantised, adapted, substituted), or its prompt, temperature or filters are: then
completions differ, too, and verification is not to blame.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.logprobs import Distribution
from spec_oracle.audit.results import Cause, CheckResult, How, Status, check_result, inconclusive, not_asked
from spec_oracle.contracts.completion import Prefix
from spec_oracle.servers.checks.distributions import DEVIATIONS, Distributions
from spec_oracle.servers.checks.reference import compare_completions
from spec_oracle.servers.checks.subject import Completions, ServerSubject
from spec_oracle.servers.contract import OutOfTimeError, prefixes_of

# Tokens after which the distributions of a server and of its reference are compared, and samples of one token
# where these are not reported.
SERVER_MODEL_TOKENS: Final = 200
SERVER_MODEL_SAMPLES: Final = 2000
SERVER_MODEL_TV: Final = 0.2  # Total variation of one token that they are planned for.

NAMED = "the served model is not the reference's: requests for one token, on which nothing speculates, differ"
"""Completes a verdict."""

EXPLAINS = "no speculation is needed to explain"


@dataclass
class Distances:
    """Total variations between distributions after the same tokens."""

    distances: list[float] = field(default_factory=list)
    seen: set[Prefix] = field(default_factory=set)

    def add(self, served: Distribution, reference: Distribution) -> None:
        """Add the distributions after one prefix.

        Tokens that only one of them lists are one cell, unless the other one lists all that it can sample.
        """
        p, q = (dict(zip(one.tokens, one.probabilities, strict=True)) for one in (served, reference))
        both = p.keys() & q.keys()
        known = (
            both | (p.keys() if not reference.other else set()) | (q.keys() if not served.other else set())
        )
        masses = np.array([[one.get(token, 0.0) for token in known] for one in (p, q)])
        rest = 1 - masses.sum(axis=1)
        self.distances.append(float(abs(masses[0] - masses[1]).sum() + abs(rest[0] - rest[1])) / 2)

    @property
    def mean(self) -> float:
        """Mean total variation a token."""
        return float(np.mean(self.distances))

    @property
    def half(self) -> float:
        """Half the width of its interval: other tokens of the same kind have another mean."""
        count = len(self.distances)
        return (
            float(DEVIATIONS * np.std(self.distances, ddof=1)) / math.sqrt(count) if count > 1 else math.inf
        )


def model(subject: ServerSubject, context: Context) -> CheckResult:
    """Compare distributions after the same tokens; samples of one token, where a server reports none."""
    reference = subject.reference
    if reference is None:
        return not_asked("no --reference server to compare its model with")
    if subject.server.listed and reference.listed:
        return by_distributions(subject, context)
    joint = context.results.get("joint")
    if joint is None or joint.status is not Status.FAILED:
        return not_asked("no difference from the reference server was found that a model could explain")
    return by_samples(subject, context)


def by_distributions(subject: ServerSubject, context: Context) -> CheckResult:
    """Compare both servers' distributions along completions of the first."""
    server, reference, detect = subject.server, subject.reference, subject.plan.detect
    assert reference is not None
    own, known = Distributions(server), subject.distributions
    own.logs, own.noise, own.reading = known.logs, known.noise, known.reading
    theirs = Distributions(replace(reference, prompts=server.prompts, listed=server.listed))
    along = Completions(server, effort.SERVER_LONG_TOKENS, (context.seed, "server/model"))
    apart = Distances()
    try:
        compare(own.near(), own, theirs, apart)
        while len(apart.distances) < SERVER_MODEL_TOKENS:
            completions = along.sample(1)
            for one in (own, theirs):
                one.fetch_along(completions)
            prefixes = [one for completion in completions for one in prefixes_of(completion, 1)]
            compare(prefixes, own, theirs, apart)
            server.tell("model", len(apart.distances), SERVER_MODEL_TOKENS)
    except OutOfTimeError:
        if not apart.distances:
            raise
    if not apart.distances:
        return inconclusive("too few probabilities are reported; use --top-k, or temperature 1")
    what = "next-token distributions of requests for one token"
    result = result_of_distances(what, apart, (own.relative_error + theirs.relative_error) / 2, detect)
    if not result.remarks.proviso:
        return result
    proviso = result.remarks.proviso + _of_its_own(context)
    return replace(result, remarks=replace(result.remarks, proviso=proviso))


def result_of_distances(what: str, apart: Distances, noise: float, detect: float) -> CheckResult:
    """Return the result: another model if distributions differ by more than ``noise`` and ``detect``."""
    tokens = len(apart.distances)
    detail = (
        f"{what} differ by {apart.mean:.2g} from the reference's, in total variation on average over "
        f"{tokens:,} tokens"
    )
    say = partial(check_result, draws=tokens, how=How.SAMPLED)
    if (least := apart.mean - apart.half - noise) > detect:
        return say(Status.FAILED, f"{detail}: {EXPLAINS} this", total_variation=least, proviso=NAMED)
    if apart.mean + apart.half <= detect:
        return say(Status.PASSED, f"{detail}; {detect:g} would show")
    doubt = f"+- {apart.half:.2g}"
    if noise > apart.half:
        doubt = f"up to {noise:.2g} of it are noise of equal requests"
    open_ = f"{detail}, {doubt}: not surely less than {detect:g}; raise --budget or --detect"
    return say(Status.INCONCLUSIVE, open_, cause=Cause.UNDECIDED if least > 0 else None)


def compare(prefixes: Iterable[Prefix], own: Distributions, theirs: Distributions, apart: Distances) -> None:
    """Add the distributions after prefixes that are new."""
    for prefix in prefixes:
        if prefix not in apart.seen:
            apart.seen.add(prefix)
            served, reference = own.after(prefix), theirs.after(prefix)
            if served is not None and reference is not None:
                apart.add(served, reference)


def by_samples(subject: ServerSubject, context: Context) -> CheckResult:
    """Compare samples of one token of servers whose completions differ: that is certain, its cause is not."""
    server, reference = subject.server, subject.reference
    assert reference is not None
    ours, theirs = (
        Completions(one, 1, (context.seed, f"server/model/{name}"))
        for name, one in (("served", server), ("reference", reference))
    )
    wanted = replace(subject.plan, detect=SERVER_MODEL_TV, requests=SERVER_MODEL_SAMPLES)
    found, *_ = compare_completions(ours, theirs, wanted, replace(context, rate=effort.SERVER_BLAME_RATE))
    if found.status is Status.FAILED:
        remarks = replace(found.remarks, proviso=NAMED)
        return replace(found, detail=f"{found.detail}: {EXPLAINS} why completions differ", remarks=remarks)
    if (found.findings.smallest_detectable_tv or math.inf) > effort.SERVER_ONE_TOKEN_TV:
        return replace(found, status=Status.INCONCLUSIVE, detail=f"{found.detail}; raise --budget")
    return found


def _of_its_own(context: Context) -> str:
    """Say whether completions are right for the served model, as far as `joint` knows."""
    said = {
        Status.PASSED: "; its completions follow its own distributions",
        Status.FAILED: "; its completions do not follow its own distributions either",
    }
    joint = context.results.get("joint")
    return said.get(joint.status, "") if joint is not None else ""
