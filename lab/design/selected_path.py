"""Tokens per call of rules that select one path and verify it as a block, from the law of that path.

With s the law of the selected path, block verification passes a prefix c with C(c), where C(()) = 1 and

    C(c y) = min(p(y|c) C(c), s(c y)),        tokens per call = sum of C over all prefixes            (block)

(docs/theory.md, "Budgets and the optimum"). The rows of s are those of the rules' own code, asked for once a
node instead of once a draft tuple.
"""

from collections import defaultdict
from typing import Any

import numpy as np

from lab.design.models import Models
from lab.design.walks import Steps
from spec_oracle.arrays import Numbers
from spec_oracle.efficiency.trees import FanOuts
from verifiers.arrays import divide, minimum_one
from verifiers.parts.path_order import child_alpha, highest_path_row, ranks
from verifiers.rules.lookahead_multipath_block import (
    LookaheadMultipathBlockVerifier,
    divide_further,
    divide_root,
)


def block_tokens(models: Models, rows: list[Numbers]) -> Any:
    """Return the tokens per call of block verification of a path of law s, ``rows[d]`` [V^d, V] = s(.|c)."""
    law = passed = tokens = models.one
    for target, row in zip(models.target, rows, strict=False):
        law = (law[:, None] * row).reshape(-1)
        passed = np.minimum((passed[:, None] * target).reshape(-1), law)
        tokens = tokens + passed.sum()
    return tokens[0]


def draft_rows(models: Models, shape: FanOuts) -> list[Numbers]:
    """Return the rows of a single path, which is the draft's."""
    return list(models.draft[: shape.levels])


def highest_rows(models: Models, shape: FanOuts) -> list[Numbers]:
    """Return the rows of the highest of K paths behind a stem (`greedy_multipath_block`)."""
    assert shape.num_paths is not None
    alpha, rows = models.one * 0, []
    for depth in range(shape.levels):
        target, draft = models.target[depth], models.draft[depth]
        if depth < shape.delay:
            rows.append(draft)
            alpha = np.repeat(alpha, models.vocab_size)
            continue
        rank = ranks(target, draft)
        rows.append(highest_path_row(draft, rank, alpha, shape.num_paths))
        node, token = _children(draft)
        alpha = child_alpha(draft[node], rank[node], alpha[node], token)
    return rows


def lookahead_rows(models: Models, shape: FanOuts) -> list[Numbers]:
    """Return the rows of the path of the lowest rank among K behind a stem (`lookahead_multipath_block`)."""
    assert shape.num_paths is not None
    rows, below = [], None
    for depth in range(shape.levels):
        target, draft = models.target[depth], models.draft[depth]
        if depth < shape.delay:
            rows.append(draft)
            continue
        if below is None:
            steps = LookaheadMultipathBlockVerifier.steps
            division = divide_root(target, draft, shape.num_paths, steps)
        else:
            division = divide_further(target, draft, below)
        rows.append(draft * division.rate(np.arange(len(draft))))
        below = division.child(*_children(draft), divide(target, draft, otherwise=0).reshape(-1))
    return rows


def _children(rows: Numbers) -> tuple[Any, Any]:
    """Return the node and the token of every child of the nodes of ``rows`` [N, V], in order."""
    node, token = np.divmod(np.arange(rows.size), rows.shape[1])
    return node, token


def balanced_tokens(steps: Steps, shape: FanOuts, models: Models) -> Any:
    """Return the tokens per call of balanced multi-path block on any shape with independent drafts.

    ``steps`` are those of balanced selection, not tested. The count c of a selected token is made part of the
    token: its chance given the token is the same for the target and for s, so (block) holds with weights w
    along the path, w' = min(1, w p(x) / s(x)).
    """
    tokens = models.one[0]
    start: tuple[Any, ...] = (np.zeros(1, dtype=np.int64), models.one, models.one)
    reached = {1: start}  # by copies: the node, the chance to select it, and w
    for depth, fan_out in enumerate(shape.fan_outs):
        below: dict[int, list[Any]] = defaultdict(list)
        for copies, (node, mass, weight) in reached.items():
            law = steps(depth, copies * fan_out)
            ratio = divide(models.target[depth], law.sum(axis=2), otherwise=0)[node]
            passing = minimum_one(weight[:, None] * ratio).reshape(-1)
            child = (node[:, None] * models.vocab_size + np.arange(models.vocab_size)).reshape(-1)
            for count in range(1, law.shape[2]):
                selected = (mass[:, None] * law[node, :, count]).reshape(-1)
                here = np.asarray(selected * passing > 0, dtype=bool)
                below[count].append((child[here], selected[here], passing[here]))
                tokens = tokens + (selected * passing).sum()
        reached = {
            count: tuple(map(np.concatenate, zip(*parts, strict=True))) for count, parts in below.items()
        }
    return tokens
