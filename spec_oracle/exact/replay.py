"""The law of code that takes its uniforms as an argument: it is integrated over the cube of uniforms.

What such code returns is constant on regions of the cube of its uniforms, and for verifiers the regions are
mostly boxes: each comparison has one uniform on one side. A box whose corners and centre get the same label
is taken as constant. Any other box is cut where the label changes along one of its edges (found by
bisection), so box-shaped regions are found to the last digits, and oblique ones are approached from both
sides. Settled boxes are probed at independent random points, and cut again where a probe disagrees, until a
whole round agrees. The two errors that remain are reported (docs/theory.md, "Enumeration").
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from spec_oracle.arrays import Booleans, Floats, Integers
from spec_oracle.errors import InvalidInputError

Label: TypeAlias = tuple[int, ...]

LARGEST_UNIFORM = 1 - 2.0**-24
"""The largest float32 below one; a float64 nearer to one might be rounded to one by the code."""

_MAX_DIMENSIONS = 8
_TOLERANCE = 1e-7
_BISECTIONS = 34
_TRIM = 1e-6
_CELLS_PER_STEP = 4096
_INITIAL_CELLS = 1024


@dataclass(frozen=True)
class ReplayedLaw:
    """Probability by label, with bounds on the error.

    ``unresolved``: volume of the cube that was not assigned to regions with certainty; rigorous except for
    what `unseen` covers. ``unseen``: with confidence 1 - alpha the regions that no probe met have no
    more volume.
    """

    probabilities: dict[Label, float]
    unresolved: float
    unseen: float

    @property
    def error_bound(self) -> float:
        """Bound on the total variation to the code's exact law, at confidence 1 - alpha."""
        return self.unresolved + self.unseen


class _Boxes(NamedTuple):
    """Boxes: corners [N, d], label (-1: mixed), a point inside [N, d].

    ``trimmed``: made by a cut right beside a face.
    """

    low: Floats
    high: Floats
    label: Integers
    probe: Floats
    trimmed: Booleans

    def at(self, where: Any) -> "_Boxes":
        return _Boxes(*(part[where] for part in self))

    @property
    def volume(self) -> Floats:
        volume: Floats = np.prod(self.high - self.low, axis=1)
        return volume


def replayed_law(
    function: Callable[[Floats], Any],
    dimensions: int,
    *,
    num_probes: int = 200_000,
    alpha: float = 1e-6,
    seed: int = 0,
    max_evaluations: int = 20_000_000,
) -> ReplayedLaw:
    """Return the law of ``function(uniforms)`` for independent uniforms on [0, 1).

    ``function`` maps float64 [N, dimensions] to integer labels [N] or [N, k], row by row and without state; N
    varies. Refinement ends when the mixed boxes have volume `_TOLERANCE` together, or after about
    ``max_evaluations`` rows. Raises `InvalidInputError` for dimensions outside 1..8.
    """
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise InvalidInputError(f"dimensions: expected 1..{_MAX_DIMENSIONS}, got {dimensions}")
    subject = _Integrand(function)
    rng = np.random.default_rng(seed)
    mixed, settled = _sorted_out(subject, _grid(dimensions))
    rounds, unseen = 0, 1.0
    while subject.evaluations < max_evaluations:
        mixed, settled = _refined(subject, mixed, settled, max_evaluations)
        rounds += 1
        if not len(settled.low):
            break
        suspicious = _probe(subject, settled, num_probes, rng)
        if not suspicious.any():
            # Rounds are a sequence of tests: the k-th one may spend alpha / (k (k + 1)).
            unseen = -math.log(alpha / (rounds * (rounds + 1))) / num_probes
            break
        mixed, settled = _joined(mixed, settled.at(suspicious)), settled.at(~suspicious)
    # What is mixed, or lost in gaps, is shared out in proportion.
    weights = np.bincount(settled.label, weights=settled.volume)
    assigned = float(weights.sum())
    shares = zip(subject.labels, weights.tolist(), strict=False)
    probabilities = {label: weight / assigned for label, weight in shares if weight > 0}
    return ReplayedLaw(probabilities, max(1 - assigned, 0.0), min(unseen, 1.0))


class _Integrand:
    """The code under test with its ``labels`` numbered in order of appearance."""

    def __init__(self, function: Callable[[Floats], Any]) -> None:
        self._function = function
        self.labels: dict[Label, int] = {}
        self.evaluations = 0

    def __call__(self, points: Floats) -> Integers:
        """Return the label number of each point: [..., d] gives [...]."""
        flat = points.reshape(-1, points.shape[-1])
        answers = np.asarray(self._function(flat)).reshape(len(flat), -1)
        self.evaluations += len(flat)
        codes = _codes(answers.astype(np.int64))
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        rows = answers[first].astype(int).tolist()
        numbers = [self.labels.setdefault(tuple(row), len(self.labels)) for row in rows]
        return np.array(numbers, dtype=np.int64)[inverse.reshape(points.shape[:-1])]


def _codes(rows: Integers) -> Integers:
    """Return one number for each of the ``rows`` [N, k], equal for equal rows: cheap to sort."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    spans = [int(b) - int(a) + 1 for a, b in zip(low, high, strict=True)]
    if math.prod(spans) >= 2**62:
        return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    codes: Integers = np.ravel_multi_index(tuple((rows - low).T), spans)
    return codes


def _grid(dimensions: int) -> _Boxes:
    """Cut the cube into equal boxes."""
    per_axis = max(1, min(16, int(_INITIAL_CELLS ** (1 / dimensions))))
    edges = np.linspace(0, LARGEST_UNIFORM, per_axis + 1)
    low = np.array(list(itertools.product(edges[:-1], repeat=dimensions)))
    high = np.array(list(itertools.product(edges[1:], repeat=dimensions)))
    return _fresh(low, high, np.zeros(len(low), dtype=bool))


def _fresh(low: Floats, high: Floats, trimmed: Booleans) -> _Boxes:
    return _Boxes(low, high, np.full(len(low), -1), (low + high) / 2, trimmed)


def _corners(cells: _Boxes) -> Floats:
    """Return the corners [N, 2^d, d]; bit k of a corner's number says whether it is high on axis k."""
    dimensions = cells.low.shape[1]
    is_high = (np.arange(2**dimensions)[:, None] >> np.arange(dimensions)) & 1
    return np.where(is_high[None], cells.high[:, None], cells.low[:, None])


def _sorted_out(subject: _Integrand, cells: _Boxes) -> tuple[_Boxes, _Boxes]:
    """Split cells into mixed and settled ones."""
    points = np.concatenate([_corners(cells), cells.probe[:, None]], axis=1)
    labels = subject(points)
    settled = (labels == labels[:, :1]).all(axis=1)
    cells = cells._replace(label=np.where(settled, labels[:, 0], -1))
    return cells.at(~settled), cells.at(settled)


def _joined(first: _Boxes, second: _Boxes) -> _Boxes:
    pairs: Any = zip(first, second, strict=True)
    return _Boxes(*map(np.concatenate, pairs))


def _refined(
    subject: _Integrand, mixed: _Boxes, settled: _Boxes, max_evaluations: int
) -> tuple[_Boxes, _Boxes]:
    """Cut mixed cells, the largest first, until little is mixed or the evaluations are spent."""
    while mixed.volume.sum() > _TOLERANCE and subject.evaluations < max_evaluations:
        order = np.argsort(-mixed.volume)
        chosen, rest = mixed.at(order[:_CELLS_PER_STEP]), mixed.at(order[_CELLS_PER_STEP:])
        still_mixed, newly_settled = _sorted_out(subject, _cut(subject, chosen))
        mixed, settled = _joined(rest, still_mixed), _joined(settled, newly_settled)
    return mixed, settled


def _cut(subject: _Integrand, cells: _Boxes) -> _Boxes:
    """Cut each cell in two where the label changes along an edge.

    A change right beside a face is trimmed off. If the rest has such a change again, its boundary is oblique
    and leaves through an edge of the cell: then the cell is halved across its longest axis.
    """
    start, axis = _changing_edge(cells, subject(_corners(cells)))
    rows = np.arange(len(cells.low))
    near, far = cells.low[rows, axis], cells.high[rows, axis]
    below, above = _breakpoint(subject, start, axis, near, far)
    trimmed = np.minimum(below - near, far - above) < _TRIM * (far - near)
    halved = trimmed & cells.trimmed
    axis = np.where(halved, (cells.high - cells.low).argmax(axis=1), axis)
    middle = (cells.low[rows, axis] + cells.high[rows, axis]) / 2
    left_high, right_low = cells.high.copy(), cells.low.copy()
    left_high[rows, axis] = np.where(halved, middle, below)
    right_low[rows, axis] = np.where(halved, middle, above)
    low, high = np.concatenate([cells.low, right_low]), np.concatenate([left_high, cells.high])
    children = _fresh(low, high, np.tile(trimmed & ~halved, 2))
    return children.at((high > low).all(axis=1))


def _breakpoint(
    subject: _Integrand, start: Floats, axis: Integers, below: Floats, above: Floats
) -> tuple[Floats, Floats]:
    """Return an interval around a change of label on the segment from ``start`` along the axis.

    What lies in the interval is lost: a share of 2^-34 of the cell.
    """
    rows = np.arange(len(start))
    first = subject(start)
    for _ in range(_BISECTIONS):
        middle = (below + above) / 2
        points = start.copy()
        points[rows, axis] = middle
        same = subject(points) == first
        below, above = np.where(same, middle, below), np.where(same, above, middle)
    return below, above


def _changing_edge(cells: _Boxes, labels: Integers) -> tuple[Floats, Integers]:
    """Return a segment across each cell, as its low end and its axis, on which the label changes.

    The segment is the edge on the axis with most changes. If no two corners differ, it runs through the
    probe, on the longest axis, from the cell's lower face.
    """
    dimensions = cells.low.shape[1]
    corner = np.arange(2**dimensions)
    along = [(labels != labels[:, corner ^ (1 << k)]) & (corner >> k & 1 == 0) for k in range(dimensions)]
    changes = np.stack(along, axis=1)  # [N, d, 2^d]
    counts = changes.sum(axis=2)
    axis = np.where(counts.max(axis=1) > 0, counts.argmax(axis=1), (cells.high - cells.low).argmax(axis=1))
    rows = np.arange(len(labels))
    edge = changes[rows, axis].argmax(axis=1)
    start = np.where(counts.max(axis=1)[:, None] > 0, _corners(cells)[rows, edge], cells.probe)
    start[rows, axis] = cells.low[rows, axis]
    return start, axis


def _probe(subject: _Integrand, cells: _Boxes, count: int, rng: np.random.Generator) -> Booleans:
    """Probe settled cells at points uniform on their union; return which cells a probe contradicts."""
    volume = cells.volume
    index = rng.choice(len(volume), size=count, p=volume / volume.sum())
    points = cells.low[index] + (cells.high - cells.low)[index] * rng.random((count, cells.low.shape[1]))
    wrong = subject(points) != cells.label[index]
    contradicted = np.zeros(len(volume), dtype=bool)
    contradicted[index[wrong]] = True
    cells.probe[index[wrong]] = points[wrong]
    return contradicted
