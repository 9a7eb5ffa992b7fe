"""Random target and draft models of several kinds: each hides or shows other families of defects."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from spec_oracle.errors import InvalidInputError
from spec_oracle.toy.model import ToyModel
from spec_oracle.toy.size import require_memory
from spec_oracle.validation import require_one_of, require_positive, require_share, require_whole

Rows = NDArray[np.float64]
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


def random_models(
    kind: str,
    vocab_size: int,
    draft_length: int,
    rng: np.random.Generator,
    *,
    concentration: float = 1.0,
    agreement: float = 0.0,
) -> tuple[ToyModel, ToyModel]:
    """Draw a target and a draft with other rows after every context.

    ``concentration`` > 0 makes rows flat (large) or peaked (small). ``agreement`` in [0, 1] mixes the target
    into the draft: 0 leaves them as drawn, 1 makes them equal. Raises `InvalidInputError` for other values
    and for sizes that do not fit in memory.
    """
    require_one_of(kind, "kind", KINDS)
    require_memory(require_whole(vocab_size, "vocab_size"), require_whole(draft_length, "draft_length"))
    require_positive(concentration, "concentration")
    require_share(agreement, "agreement")
    target_levels, draft_levels = [], []
    for length in range(draft_length + 1):
        target, draft = KINDS[kind](vocab_size, vocab_size**length, rng, concentration)
        target_levels.append(target)
        draft_levels.append(agreement * target + (1 - agreement) * draft)
    return (
        ToyModel.from_levels(target_levels, name="target"),
        ToyModel.from_levels(draft_levels[:-1], name="draft"),
    )
