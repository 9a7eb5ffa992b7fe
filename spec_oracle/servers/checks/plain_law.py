"""The check `plain-law`: one-token samples of a server follow the probabilities that it reports.

Its completions are judged by these. Where samples follow others, nothing can be said of completions.
"""

from functools import partial

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, Status, inconclusive, not_asked
from spec_oracle.audit.sampling import judge_looks
from spec_oracle.contracts.completion import Prefix, Token
from spec_oracle.servers.checks.bins import Binned, log_error
from spec_oracle.servers.checks.conclusion import result_of
from spec_oracle.servers.checks.subject import NEEDS_PROBABILITIES, ServerSubject


def plain_law(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge samples after the prompts and after likely first tokens."""
    if not subject.server.listed:
        return not_asked(NEEDS_PROBABILITIES)
    reported, rng = subject.distributions, context.stream("server/plain-law")
    known = [(prefix, law) for prefix in reported.near() if (law := reported.after(prefix)) is not None]
    if not known:
        few = "the server reports too few probabilities to know what it samples from"
        return inconclusive(f"{few}; use --top-k, or temperature 1")
    bins: dict[tuple[Prefix, Token | None], int] = {}
    masses: list[float] = []
    errors: list[float] = []
    for prefix, law in known:
        for token, mass in [*zip(law.tokens, law.probabilities, strict=True), (None, law.other)]:
            bins[prefix, token] = len(masses)
            masses.append(float(mass))
            errors.append(law.other_error if token is None else mass * np.expm1(law.slack))
    expected, slack = np.array(masses) / len(known), log_error(np.array(masses), np.array(errors))
    counts = np.zeros(len(masses), dtype=np.int64)

    def sample(count: int) -> None:
        chosen = rng.integers(len(known), size=count)
        for prefix, token in reported.samples([known[place][0] for place in chosen]):
            counts[bins.get((prefix, token), bins[prefix, None])] += 1

    sampled = Binned(sample, lambda: (counts.copy(), expected, slack))
    count, can_be_detected = sampled.needed(subject.plan.coarse, context.rate)
    decision = judge_looks(
        sampled,
        rate=context.rate,
        count=count,
        seconds=context.budget,
        progress=partial(subject.server.tell, "plain-law"),
    )
    uncertain = "" if can_be_detected else reported.uncertainty
    what = f"one token after {len(known)} prefixes, probabilities {reported.reading}"
    result = result_of(what, decision, subject.plan.coarse, context.rate, uncertain)
    if result.status is Status.PASSED and reported.drafted:
        detail = f"{reported.drafted} tokens were drafted for one-token requests: not target-only decoding"
        return inconclusive(detail, alpha=result.measured.alpha, draws=result.measured.draws)
    return result
