"""The check `calls`: is the text of several calls the target's? No call remembers or repeats another one."""

import numpy as np

from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.results import CheckResult, Status, failed
from spec_oracle.audit.server.long_texts import TENTHS, Uniforms
from spec_oracle.audit.server.served import UNKNOWN_ROWS, Texts, looked_at
from spec_oracle.audit.server.subject import ServerSubject
from spec_oracle.statistics import draws_needed_by_g, goodness_of_fit_by_g, split

LONGER = 4
"""How many times longer than the texts of `joint` those of a server are."""


DISTANCES = 6
"""Tokens between pairs whose independence is judged: calls are about that far apart."""


PAIRS_TV = 0.1
"""Total variation of such pairs that must be found, or twice that where texts are short."""


SERVER_TIME = 0.1
"""Share of a server's budget."""


# WAY @CALLS.way(ServerSubject, of_a_true_law=True)
def calls(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge long texts token by token, and whether tokens some way apart are independent."""
    served = subject.served
    if context.is_plain_law_open:
        return CheckResult("", Status.INCONCLUSIVE, UNKNOWN_ROWS)
    texts = Texts(served.server, LONGER * served.plan.tokens, context.seed, seeded=served.plan.seeded)
    uniforms = Uniforms(served.rows, DISTANCES, np.random.default_rng([context.seed, 5]))
    # Four of ten tokens are the first of a pair at least, whatever the distance.
    needed = max(
        draws_needed_by_g(served.plan.coarse, np.full(TENTHS, 1 / TENTHS), alpha=split(alpha, 4)),
        5 * draws_needed_by_g(PAIRS_TV, uniforms.at(1)[1], alpha=split(alpha, 2 * DISTANCES)) // 2,
    )

    def draw(tokens: int) -> None:
        before = len(texts.found)
        texts.draw(-(-tokens // texts.length))
        uniforms.add(texts.found[before:])

    def marginal(rate: float) -> CheckResult:
        looks = looked_at(
            draw,
            uniforms.marginal,
            count=needed,
            seconds=SERVER_TIME * context.budget,
            alpha=rate,
            progress=lambda done, of: served.server.progress("calls", done, of),
        )
        return looks.result(f"tokens 2 to {texts.length} of {len(texts.found)} texts", 2 * served.plan.coarse)

    def pairs(rate: float) -> CheckResult:
        fits = {
            distance: goodness_of_fit_by_g(counts, law, alpha=split(rate, DISTANCES), slack=slack)
            for distance in range(1, DISTANCES + 1)
            for counts, law, slack in [uniforms.at(distance)]
            if counts.any()
        }
        if not fits:
            return CheckResult("", Status.INCONCLUSIVE, "no text is long enough for pairs of tokens")
        distance = min(fits, key=lambda distance: fits[distance].p_value)
        fit, what = fits[distance], f"tokens {distance} apart, the worst of {len(fits)} distances"
        if not fit.passed:
            return failed(f"{what}: {fit}", alpha=rate)
        coarsest = max(fit.smallest_detectable_tv for fit in fits.values())
        status = Status.PASSED if coarsest <= 2 * PAIRS_TV else Status.INCONCLUSIVE
        return CheckResult("", status, f"{what}: {fit}; at any distance it finds {coarsest:.3g}", rate)

    return first_failure(alpha, marginal, pairs)
