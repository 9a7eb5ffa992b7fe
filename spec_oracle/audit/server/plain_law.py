"""The check `plain-law`: one-token draws of a server follow the probabilities that it shows.

They are the law by which its texts are judged. Where draws follow another one, nothing can be said of texts.
"""

import numpy as np

from spec_oracle.adapters.servers.apis import Token
from spec_oracle.audit.context import Context, run_guarded
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.server.served import Served, looked_at, near_contexts
from spec_oracle.audit.server.subject import ServerSubject
from spec_oracle.audit.server.tree import log_error
from spec_oracle.contracts.server import Context
from spec_oracle.statistics import draws_needed_by_g

TIME = 0.1
"""Share of the budget."""


# WAY @PLAIN_LAW.way(ServerSubject)
def plain_law(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge draws after the prompts and after likely first tokens, and leave the result at the context."""
    context.plain_law = run_guarded(lambda: _judged(subject.served, context, alpha))
    return context.plain_law


def _judged(served: Served, context: Context, alpha: float) -> CheckResult:
    rows, server, rng = served.rows, served.server, np.random.default_rng([context.seed, 2])
    known = [(context, row) for context in near_contexts(rows) if (row := rows.row(context)) is not None]
    if not known:
        detail = "the probabilities shown do not give the law of draws; use --top-k, or temperature 1"
        return CheckResult("", Status.INCONCLUSIVE, detail)
    cells: dict[tuple[Context, Token | None], int] = {}
    masses: list[float] = []
    errors: list[float] = []
    for context, row in known:
        for token, mass in [*zip(row.tokens, row.probabilities, strict=True), (None, row.other)]:
            cells[context, token] = len(masses)
            masses.append(float(mass))
            errors.append(row.other_error if token is None else mass * np.expm1(row.slack))
    law, slack = np.array(masses) / len(known), log_error(np.array(masses), np.array(errors))
    counts = np.zeros(len(law), dtype=np.int64)

    def draw(count: int) -> None:
        chosen = rng.integers(len(known), size=count)
        for context, token in rows.draws([known[place][0] for place in chosen]):
            counts[cells.get((context, token), cells[context, None])] += 1

    looks = looked_at(
        draw,
        lambda: (counts, law, slack),
        count=draws_needed_by_g(served.plan.coarse, law, alpha=alpha / 2, slack=slack),
        seconds=TIME * context.budget,
        alpha=alpha,
        progress=lambda done, of: server.progress("plain-law", done, of),
    )
    result = looks.result(f"one-token draws after {len(known)} contexts, {rows.reading}", served.plan.coarse)
    if result.status is Status.PASSED and rows.drafted:
        detail = f"one-token requests drafted {rows.drafted} tokens: not known to be plain decoding"
        return CheckResult("", Status.INCONCLUSIVE, detail, result.alpha, result.draws)
    return result
