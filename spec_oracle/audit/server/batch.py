"""Parts of the check `batch` for servers: equal requests at once, and requests beside other traffic."""

from collections import Counter
from functools import partial

from spec_oracle.adapters.servers.apis import Ask
from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.results import CheckResult, Status, failed
from spec_oracle.audit.server.batch import beside_other_traffic, within_volleys
from spec_oracle.audit.server.near_texts import PAIRS, far_texts, first_prompt, judged_pairs, told, volleys
from spec_oracle.audit.server.served import Served
from spec_oracle.audit.server.subject import ServerSubject
from spec_oracle.statistics import homogeneity

TIME = 0.05
"""Share of the budget, of either part."""

BESIDE = 2000
"""Texts beside other traffic: with as many alone they find a total variation of 0.2."""

COARSEST = 0.3
"""Total variation that must be found for a pass."""


def within_volleys(served: Served, alpha: float, budget: float) -> CheckResult:
    """Judge whether equal requests sent at once are independent, at every distance in their order."""
    width = served.server.client.limits.concurrency
    if width < 2:
        return CheckResult("", Status.NOT_RUN, "needs requests at once: --concurrency 2 or more")
    found = volleys(served, lambda: [first_prompt(served)] * width, 2 * PAIRS // width, TIME * budget)

    texts = {text for volley in found for text in volley}
    if len(texts) == 1 and not served.is_certain:
        return failed(f"all {width * len(found)} texts are the same", draws=width * len(found), alpha=alpha)

    def at(distance: int, rate: float) -> CheckResult:
        # Every other run of ``distance`` requests, so that no text is in two pairs.
        first = [i for i in range(width - distance) if i // distance % 2 == 0]
        near = [(texts[i], texts[i + distance]) for texts in found for i in first]
        return judged_pairs(f"texts of requests at once, {distance} apart", near, served, rate)

    return first_failure(alpha, *(partial(at, distance) for distance in range(1, width)))


def beside_other_traffic(served: Served, alpha: float, budget: float) -> CheckResult:
    """Judge whether texts have the same law beside other requests: hotter, greedy, longer, seeded ones."""
    server, tokens, heat = served.server, served.plan.tokens, served.server.sampling.temperature
    first, last = server.prompts[0], server.prompts[-1]
    others = [
        Ask(last, 3 * tokens, temperature=2 * heat),
        Ask(first, tokens, seed=7, temperature=heat / 10),
        Ask(last, 1),
    ]
    ours = max(1, server.client.limits.concurrency // 2)
    asks = [first_prompt(served), *others] * ours
    found = volleys(served, lambda: asks, -(-BESIDE // ours), TIME * budget)
    beside = Counter(text for texts in found for text in texts[:: 1 + len(others)])
    alone = Counter(far_texts(served))
    both = sorted(beside | alone, key=repr)  # not in the order in which they came: that tells the sample
    fit = homogeneity([beside[text] for text in both], [alone[text] for text in both], alpha=alpha)
    return told("texts beside other traffic", fit, COARSEST)


# WAY @BATCH.way(ServerSubject, of_a_true_law=True)
def batch(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge whether requests served at once are independent, and have the law that they have alone."""
    return first_failure(
        alpha,
        lambda rate: within_volleys(subject.served, rate, context.budget),
        lambda rate: beside_other_traffic(subject.served, rate, context.budget),
    )
