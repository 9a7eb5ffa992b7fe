"""Pictures of reports as inline SVG, in the colours of the page: accepted lengths, trees of texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from spec_oracle.audit.reports import InstanceFigures
from spec_oracle.efficiency import Sweep
from spec_oracle.report.table import short
from spec_oracle.toy import Instance

_WIDTH, _HEIGHT, _FOOT = 150, 84, 14
_ROW, _INDENT, _BARS, _LINE = 24, 14, 96, 352
_ROWS = 60
"""Rows of a tree that a reader still follows."""

_EQUAL = 1e-9

_FOUND, _FAINT = "var(--found, #4269d0)", "var(--line, #8886)"


def _svg(width: int, height: int, told: str, body: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(told)}" fill="currentColor" '
        f'font-size="11" font-family="system-ui, sans-serif">{body}</svg>'
    )


def length_chart(figures: InstanceFigures) -> str:
    """Return the law of the accepted length on one instance: a bar as found, a mark as the rule has it."""
    bars = []
    step = _WIDTH / len(figures.accepted_length)
    tall = _HEIGHT - _FOOT - 2
    for tau, mass in enumerate(figures.accepted_length):
        left, height = tau * step + step * 0.15, tall * mass
        bars.append(
            f'<rect x="{left:.1f}" y="{_HEIGHT - _FOOT - height:.1f}" width="{step * 0.7:.1f}" '
            f'height="{height:.1f}" fill="{_FOUND}"/>'
            f'<text x="{(tau + 0.5) * step:.1f}" y="{_HEIGHT - 3}" text-anchor="middle">{tau}</text>'
        )
    for tau, mass in enumerate(figures.of_rule):
        level = _HEIGHT - _FOOT - tall * mass
        bars.append(
            f'<line x1="{tau * step + 2:.1f}" x2="{(tau + 1) * step - 2:.1f}" y1="{level:.1f}" '
            f'y2="{level:.1f}" stroke="currentColor" stroke-width="2"/>'
        )
    told = ", ".join(f"{tau}: {100 * mass:.1f} %" for tau, mass in enumerate(figures.accepted_length))
    base = _HEIGHT - _FOOT
    axis = f'<line x1="0" x2="{_WIDTH}" y1="{base}" y2="{base}" stroke="{_FAINT}"/>'
    return _svg(_WIDTH, _HEIGHT, f"accepted tokens, {told}", axis + "".join(bars))


def sweep_chart(sweep: Sweep) -> str:
    """Return tokens per call while K or L grows: the optimum as a thick line, the verifier's below it."""
    top = max(*sweep.optimum, *sweep.block_efficiency)
    across = [40 + 220 * i / max(len(sweep.at) - 1, 1) for i in range(len(sweep.at))]
    told, parts = [], [f'<line x1="20" x2="280" y1="130" y2="130" stroke="{_FAINT}"/>']
    for x, at, tokens, best in zip(across, sweep.at, sweep.block_efficiency, sweep.optimum, strict=True):
        told.append(f"{at}: {tokens:.3f} of {best:.3f}")
        parts.append(f'<text x="{x:.0f}" y="146" text-anchor="middle">{at}</text>')
    for values, colour, stroke, above in (
        (sweep.optimum, "currentColor", 4, -7),
        (sweep.block_efficiency, _FOUND, 2, 15),
    ):
        down = [20 + 90 * (top - value) / (top - 1) for value in values]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{stroke}"/>')
        parts += [
            f'<text x="{x:.0f}" y="{y + above:.1f}" fill="{colour}" text-anchor="middle">{value:.3f}</text>'
            for x, y, value in zip(across, down, values, strict=True)
        ]
    return _svg(300, 150, f"tokens per call, {', '.join(told)}", "".join(parts))


@dataclass(frozen=True)
class _Node:
    """A text, or the beginning of one: its mass as expected and as found, and the gap below it."""

    context: tuple[int, ...]
    expected: Any
    actual: Any
    gap: float


def text_tree(instance: Instance, actual: Sequence[Any]) -> str:
    """Return the tree of texts as rows: the mass of each beginning, as the target has it and as found.

    What is right is not followed further down, nor, in large trees, what is nearly right.
    """
    levels = _levels(instance, actual)
    threshold = _EQUAL
    while len(nodes := list(_visible(levels, (), threshold))) > _ROWS:
        threshold = max(2 * threshold, 1e-4)
    indent = _INDENT * (len(levels) - 1) + 30
    rows = "".join(_row(node, number, indent) for number, node in enumerate(nodes))
    told = "tree of texts with expected and actual masses"
    return _svg(_LINE + indent - 86, _ROW * len(nodes), told, rows)


def _levels(instance: Instance, found: Sequence[Any]) -> list[dict[tuple[int, ...], _Node]]:
    """Return the nodes by context, level by level from the root to the whole texts."""
    vocab, depth = instance.vocab_size, instance.draft_length + 1
    shape = (vocab,) * depth
    expected = instance.exact.target.joint(depth).reshape(shape)
    actual = np.array(found, dtype=object).reshape(shape)
    gaps = abs(actual - expected).astype(float)
    levels: list[dict[tuple[int, ...], _Node]] = []
    for _ in range(depth + 1):
        nodes = {at: _Node(at, expected[at], actual[at], gaps[at]) for at in np.ndindex(gaps.shape)}
        levels.insert(0, nodes)
        if gaps.ndim:
            expected, actual, gaps = (array.sum(axis=-1) for array in (expected, actual, gaps))
            expected, actual, gaps = map(np.asarray, (expected, actual, gaps))
    return levels


def _visible(
    levels: list[dict[tuple[int, ...], _Node]], context: tuple[int, ...], threshold: float
) -> Iterator[_Node]:
    """Yield a node and what differs below it, in the order of the rows."""
    node = levels[len(context)][context]
    yield node
    if len(context) + 1 < len(levels) and node.gap > threshold:
        for below in levels[len(context) + 1]:
            if below[:-1] == context:
                yield from _visible(levels, below, threshold)


def _row(node: _Node, number: int, indent: int) -> str:
    """Return one row: the last token at its depth, two bars, and the masses."""
    depth, top = len(node.context), number * _ROW
    differs = abs(float(node.actual) - float(node.expected)) > _EQUAL
    colour, kind = ("var(--bad)", "") if differs else (_FOUND, "muted")
    masses = f"{short(node.expected)} → {short(node.actual)}" if differs else short(node.expected)
    left = _INDENT * depth + 4
    stem = (
        f'<path d="M{left - _INDENT + 4} {top - 6}V{top + 12}H{left - 2}" fill="none" stroke="{_FAINT}"/>'
        if depth
        else ""
    )
    name = str(node.context[-1]) if depth else "∅"
    expected, actual = (max(float(mass), 0.0) * _BARS for mass in (node.expected, node.actual))
    return (
        f'{stem}<text x="{left}" y="{top + 16}" font-weight="600">{name}</text>'
        f'<rect x="{indent}" y="{top + 5}" width="{expected:.1f}" height="6" opacity=".5"/>'
        f'<rect x="{indent}" y="{top + 12}" width="{actual:.1f}" height="6" fill="{colour}"/>'
        f'<text x="{indent + _BARS + 8}" y="{top + 16}" class="{kind}">{escape(masses)}</text>'
    )
