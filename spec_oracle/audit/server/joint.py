"""The law of texts that a server sends, against the law of plain decoding by its own one-token rows."""

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spec_oracle.adapters.servers.metrics import Drafts
from spec_oracle.audit.context import Context
from spec_oracle.audit.reports import Evidence
from spec_oracle.audit.results import Findings, NoEvidenceError, Status
from spec_oracle.audit.server.counterexample import counterexample
from spec_oracle.audit.server.plain_texts import are_rows_to_blame
from spec_oracle.audit.server.served import UNKNOWN_ROWS, Looks, Sample, Served, looked_at
from spec_oracle.audit.server.tree import PlainTree, plain_tree
from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics import draws_needed_by_g, offending_cells, total_variation_interval
from spec_oracle.statistics.cells import MIN_EXPECTED

TIME = 0.6
"""Share of the budget for these texts."""

BLAMED = "one-token draws contradict the probabilities that the server shows as much: these are wrong"

PILOT = 64
"""Texts by which the pace is known, and the tokens that end texts; they count as draws."""

PROVEN = 1e-6
"""Chance that the total variation is less than is said to be proven."""

SMALLEST = 0.004
"""Probability of a cell, below which cells are not worth the draws that more of them cost."""

USUAL_CELLS = [0.01] * 100
"""A law like those of trees, by which the size of the tree is planned before it is known."""


def by_tree(served: Served, context: Context, alpha: float) -> Findings:
    """Draw texts of the plan's length, and judge them by the tree of the likely tokens."""
    server, plan, texts = served.server, served.plan, served.texts
    if not server.listed:
        raise NoEvidenceError("the server shows no probabilities")
    if context.is_plain_law_open:
        raise NoEvidenceError(UNKNOWN_ROWS)
    before, seconds, start = server.drafts(), TIME * context.budget, time.monotonic()
    texts.draw(PILOT)
    pace = PILOT / (time.monotonic() - start)
    planned = plan.requests or draws_needed_by_g(plan.detect, USUAL_CELLS, alpha=alpha / 2)
    smallest = max(SMALLEST, MIN_EXPECTED / min(planned, max(PILOT, pace * seconds)))
    tree = plain_tree(served.rows, plan.tokens, smallest)

    def sample() -> Sample:
        nonlocal tree
        if tree.ends != server.ends:  # a token that ends texts was seen for the first time
            tree = plain_tree(served.rows, plan.tokens, smallest)
        return texts.counts(tree), tree.law, tree.slack

    try:
        count = plan.requests or draws_needed_by_g(plan.detect, tree.law, alpha=alpha / 2, slack=tree.slack)
    except InvalidInputError:  # the rows leave more than that open, however many texts there are
        count = planned
    looks = looked_at(
        texts.draw,
        sample,
        count=count,
        seconds=seconds,
        alpha=alpha,
        progress=lambda done, of: server.progress("joint", done, of),
    )
    findings = _findings(served, tree, looks, served.drafts_since(before))
    left = seconds - (time.monotonic() - start)
    if looks.fit.passed or not are_rows_to_blame(served.rows, tree, texts.counts(tree), left, context.seed):
        return findings
    detail = f"{BLAMED} ({findings.joint.detail})"
    context.plain_law = replace(findings.joint, status=Status.INCONCLUSIVE, detail=detail)
    return Findings(context.plain_law, Evidence.NONE)


def _findings(served: Served, tree: PlainTree, looks: Looks, drafts: Drafts) -> Findings:
    counts, texts = served.texts.counts(tree), served.texts
    proven = _proven(tree, counts)
    detectable = looks.fit.smallest_detectable_tv + served.doubt
    result = looks.result(f"texts of {tree.length} tokens", np.inf)
    return Findings(
        served.joint(result, proven, detectable, drafts, float(tree.law[tree.depth >= 2].sum())),
        Evidence.STATISTICAL,
        total_variation=proven,
        smallest_detectable_tv=detectable if np.isfinite(detectable) else None,
        text=None if looks.fit.passed else counterexample(served, tree, counts),
        scope=(
            *_scope(served, tree, drafts),
            f"{len(texts.found)} texts, {texts.doubtful} after a failed attempt",
        ),
    )


def _proven(tree: PlainTree, counts: NDArray[np.int64]) -> float:
    """Return a lower confidence bound of the total variation: by all cells together, or by the worst one."""
    worst = [
        max(cell.lower - cell.expected_probability, cell.expected_probability - cell.upper)
        for cell in offending_cells(counts, tree.law, alpha=PROVEN)
    ]
    together = total_variation_interval(counts, tree.law, alpha=PROVEN).lower
    return max(0.0, max([together, *worst]) - float(tree.law @ np.expm1(tree.slack)) / 2)


def _scope(served: Served, tree: PlainTree, drafts: Drafts) -> tuple[str, ...]:
    server, rows, sampling = served.server, served.rows, served.server.sampling
    depth = float(tree.law @ np.minimum(tree.depth, tree.length))
    whole = float(tree.law[tree.is_text].sum())
    filters = (
        f"temperature {sampling.temperature:g}, top-k {sampling.top_k or 'off'}, top-p {sampling.top_p:g}"
    )
    told = (
        ""
        if drafts.drafted is None
        else f"{drafts.drafted:.0f} tokens drafted, {drafts.accepted:.0f} accepted"
    )
    return (
        f"texts of {tree.length} tokens after {len(server.prompts)} prompts, {filters}, {server.api.name}",
        f"{len(tree.law)} cells: texts told apart for {depth:.2f} tokens on average, {whole:.1%} to the end",
        f"{rows.asked} rows of one-token requests, {rows.reading}, right to {rows.error:.1g} nats",
        *filter(None, [told]),
    )
