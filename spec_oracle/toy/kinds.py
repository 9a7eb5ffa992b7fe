"""Random target and draft models of several kinds: each hides or shows other families of defects."""

from collections.abc import Callable

import numpy as np

from spec_oracle.arrays import Floats
from spec_oracle.errors import InvalidInputError

Rows = Floats
Kind = Callable[[int, int, np.random.Generator, float], tuple[Rows, Rows]]


def _dirichlet(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> Rows:
    return rng.dirichlet(np.full(vocab, concentration), size=count)


def _independent(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> tuple[Rows, Rows]:
    """Target and draft rows drawn apart."""
    return _dirichlet(vocab, count, rng, concentration), _dirichlet(vocab, count, rng, concentration)


def _zipf(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> tuple[Rows, Rows]:
    """Zipf-like rows, each over its own order of the tokens; the draft is flatter."""
    ranks = np.argsort(rng.random((count, vocab)), axis=1) + 1.0
    target, draft = ranks ** -(1.0 / concentration), ranks ** -(0.5 / concentration)
    return target / target.sum(1, keepdims=True), draft / draft.sum(1, keepdims=True)


def _reversed(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> tuple[Rows, Rows]:
    """The draft ranks the tokens the other way round: acceptance is rare, residuals are large."""
    target = np.sort(_dirichlet(vocab, count, rng, concentration), axis=1)
    order = np.argsort(rng.random((count, vocab)), axis=1)
    return np.take_along_axis(target, order, 1), np.take_along_axis(target[:, ::-1], order, 1)


def _disjoint(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> tuple[Rows, Rows]:
    """No token in common: nothing may be accepted."""
    if vocab < 2:
        raise InvalidInputError(f"vocab_size: disjoint supports need at least 2 tokens, got {vocab}")
    target, draft = _independent(vocab, count, rng, concentration)
    side = np.argsort(rng.random((count, vocab)), axis=1) < (vocab + 1) // 2
    target, draft = np.where(side, target, 0.0), np.where(side, 0.0, draft)
    return target / target.sum(1, keepdims=True), draft / draft.sum(1, keepdims=True)


def _point_mass(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> tuple[Rows, Rows]:
    """A deterministic draft, as n-gram and greedy drafters are."""
    target = _dirichlet(vocab, count, rng, concentration)
    return target, np.eye(vocab)[rng.integers(vocab, size=count)]


def _equal(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> tuple[Rows, Rows]:
    """The draft is the target: everything must be accepted."""
    target = _dirichlet(vocab, count, rng, concentration)
    return target, target.copy()


def _sparse(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> tuple[Rows, Rows]:
    """Rows with zeros in both models, as top-k and top-p leave them."""
    target, draft = _independent(vocab, count, rng, concentration)
    return _thinned(target, rng), _thinned(draft, rng)


def _thinned(rows: Rows, rng: np.random.Generator) -> Rows:
    dropped = (rng.random(rows.shape) < 0.3) & (rows < rows.max(1, keepdims=True))
    kept = np.where(dropped, 0.0, rows)
    thinned: Rows = kept / kept.sum(1, keepdims=True)
    return thinned


KINDS: dict[str, Kind] = {
    "dirichlet": _independent,
    "zipf": _zipf,
    "reversed": _reversed,
    "disjoint": _disjoint,
    "point-mass": _point_mass,
    "equal": _equal,
    "sparse": _sparse,
}
