"""Which shapes are tried, and in which order: first every value of every axis, then every pair of values.

Defects of shape need one condition (V above 65,536), or two (a bonus token at an odd length in float32),
seldom three. A few dozen shapes have every value of every axis: these come first, since a value that was
never tried leaves an audit open. All pairs of values fit into a few hundred shapes, where their product has
millions. In the first part cheap shapes come first, but one of the largest is early: code that fails there
should fail at once. In the second, those come first that have most new pairs for what they cost
(`spec_oracle.audit.shapes.pairs`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from spec_oracle.audit.shapes.axes import AXES, OPTIONS, Axes, AxisValue, Shape, needs_others
from spec_oracle.audit.shapes.pairs import MOST_OF_A_BATCH, MOST_POSITIONS, Pairs, Untried, cost, pairs_of

MOST_NUMBERS: Final = 6_000_000
"""Most probabilities that are handed over in one call."""

_FEW: Final = 3
"""Requests of the batches with optional arguments, at most, of which every value is tried."""

_MANY: Final = 8
"""Requests from which on a batch is large: it comes with short drafts of few tokens first."""

_LARGE: Final = 1_000
"""Tokens from which on a vocabulary comes with short drafts, alone, and with rows of few possible tokens."""

_HUGE: Final = 32_768
"""Tokens from which on it comes with one draft."""

_USUAL: Final = ("float64", "float32")

_EARLY: Final = 4
"""How many shapes come before one of the largest vocabulary."""

_OF_FEW_TOKENS: Final = ("special", "zero")
"""Kinds of rows with few possible tokens: these are the first at large vocabularies."""


@dataclass(frozen=True)
class Design:
    """The shapes in the order in which they are tried; ``axes`` are the values, by axis.

    The first ``of_values`` shapes have every value of every axis; up to ``early`` follow rows of the largest
    vocabularies that are not sparse.
    """

    shapes: tuple[Shape, ...]
    of_values: int
    early: int
    axes: Axes

    @property
    def pairs(self) -> Pairs:
        """All pairs of values that occur in a shape."""
        return pairs_of(self.shapes, self.axes)


@lru_cache(maxsize=32)
def design(most_numbers: int = MOST_NUMBERS, **fewer: tuple[AxisValue, ...]) -> Design:
    """Return shapes that have every value of every axis, then shapes that have all pairs of values.

    ``fewer`` are axes by name, with the values that a subject takes, or that are of interest. Where the
    arrays would have more than ``most_numbers`` probabilities the draft is shorter.
    """
    axes = {**AXES, **fewer}
    if max(axes["batch"]) == 1:
        axes = {
            name: tuple(v for v in values if not needs_others(name, v)) or values[:1]
            for name, values in axes.items()
        }
    listed = [*_of_values(axes), *_of_options(axes)]
    affordable = [_affordable(shape, axes, most_numbers) for shape in listed]
    first = _ordered([*affordable, *_lost(axes, affordable)])
    interesting = [_affordable(shape, axes, most_numbers) for shape in _of_special_interest(axes)]
    early = dict.fromkeys((*first, *interesting))
    untried = Untried(axes, most_numbers)
    for shape in early:
        untried.take(shape)
    return Design((*early, *untried.shapes()), len(first), len(early), axes)


def _ordered(shapes: Iterable[Shape]) -> list[Shape]:
    """Return the shapes in the order of their cost, but for one of the largest, which is early."""
    ordered = sorted(dict.fromkeys(shapes), key=cost)
    if len(ordered) > _EARLY:
        large = max(range(len(ordered)), key=lambda number: (ordered[number].vocab_size, -number))
        ordered.insert(_EARLY, ordered.pop(max(large, _EARLY)))
    return ordered


def _of_values(axes: Axes) -> Iterable[Shape]:
    """Yield shapes that have every value: no two sizes are large together.

    Large batches come with the smallest vocabularies and one draft, long drafts with the next ones in small
    batches, the longest first, large vocabularies with one or two drafts of one request.
    """
    vocabularies = sorted(axes["vocab_size"])
    many = sorted((size for size in axes["batch"] if size > _MANY), reverse=True)
    few = sorted((size for size in axes["batch"] if size <= _MANY), reverse=True) or [min(axes["batch"])]
    lengths = sorted(axes["draft_length"])
    lengths = [lengths[-1], *lengths[:-1]]
    kinds = list(axes["kind"])
    sparse = [kind for kind in _OF_FEW_TOKENS if kind in kinds] or kinds
    least = sorted(axes["draft_length"])[:2]
    small = sum(vocab < _LARGE for vocab in vocabularies)
    count = max(len(many) + max(len(few), len(lengths)), len(vocabularies), *map(len, axes.values()))
    types = [*axes["dtype"]]
    usual = [dtype for dtype in types if dtype in _USUAL] or types
    for number in range(count):
        vocab = vocabularies[number % len(vocabularies)]
        is_large, place = vocab >= _LARGE, number - len(many)
        rows = sparse if is_large else kinds
        is_shortest = place < 0 or vocab >= _HUGE
        short = least[0] if is_shortest else least[number % len(least)]
        length = lengths[place] if 0 <= place < len(lengths) else short
        yield Shape(
            vocab_size=vocab,
            draft_length=length,
            batch=many[number] if place < 0 else few[min(place, len(few) - 1)],
            kind=rows[(number - small * is_large) % len(rows)],
            dtype=types[place] if 0 <= place < len(types) else usual[number % len(usual)],
            num_paths=axes["num_paths"][place if 0 <= place < len(axes["num_paths"]) else 0],
            place=axes["place"][(number + 1) % len(axes["place"])],
            layout=axes["layout"][number % len(axes["layout"])],
            ids=axes["ids"][number // 2 % len(axes["ids"])],
        )


def _of_options(axes: Axes) -> Iterable[Shape]:
    """Yield shapes that have every value of every optional argument, at small sizes and at large ones.

    Drafts are long at the small ones; at the large ones the vocabulary is the largest of which a few requests
    may be handed over, and few tokens are possible.
    """
    options = {name: axes[name] for name in OPTIONS if name in axes}
    vocabularies, lengths = (sorted(axes[name]) for name in ("vocab_size", "draft_length"))
    several = [size for size in axes["batch"] if size <= _FEW] or [min(axes["batch"])]
    small = [vocab for vocab in vocabularies if vocab < _LARGE] or vocabularies[:1]
    sizes = MOST_OF_A_BATCH // (max(several) * (2 * lengths[:2][-1] + 1))
    large = [vocab for vocab in vocabularies if vocab <= sizes] or vocabularies[:1]
    sparse = [kind for kind in _OF_FEW_TOKENS if kind in axes["kind"]] or list(axes["kind"])
    for number in range(max(map(len, options.values()), default=0)):
        # Shifted, since the last values, the request itself, are more likely to hide what others do.
        chosen = {
            name: values[(number + shift) % len(values)]
            for shift, (name, values) in enumerate(options.items())
        }
        usual = {name: axes[name][0] for name in ("num_paths", "dtype", "layout", "ids")}
        rows = {"place": axes["place"][number % len(axes["place"])], "batch": max(several), **usual, **chosen}
        for vocab, length, kinds in (
            (small[(5 + number) % len(small)], lengths[-1 - number % len(lengths)], axes["kind"]),
            (large[-1], lengths[:2][-1], sparse),
        ):
            yield Shape(vocab, length, kind=kinds[number % len(kinds)], **rows)


def _lost(axes: Axes, shapes: Sequence[Shape]) -> Iterable[Shape]:
    """Yield shapes with the values of which arrays are always too large, where a subject takes few others."""
    least = {
        name: values[0] if name == "place" or name in OPTIONS else min(values)
        for name, values in axes.items()
    }
    several = min((size for size in axes["batch"] if size > 1), default=1)
    for name, values in axes.items():
        known = {getattr(shape, name) for shape in shapes}
        for value in (value for value in values if value not in known):
            least["batch"] = several if needs_others(name, value) else min(axes["batch"])
            yield Shape(**{**least, name: value})


def _of_special_interest(axes: Axes) -> Iterable[Shape]:
    """Yield what comes before the other pairs: rows of the largest vocabularies that are not sparse."""
    for number, kind in enumerate(("spread", "near", "flat", "special")):
        if kind in axes["kind"]:
            yield Shape(
                vocab_size=sorted(axes["vocab_size"])[-1 - number % min(2, len(axes["vocab_size"]))],
                draft_length=min(axes["draft_length"]),
                kind=kind,
                **{name: axes[name][0] for name in ("num_paths", "place", "layout", "ids")},
                batch=min(axes["batch"]),
                dtype=axes["dtype"][number % 2 % len(axes["dtype"])],
            )


def _affordable(shape: Shape, axes: Axes, most_numbers: int) -> Shape:
    """Return the shape with a smaller batch, or a shorter draft, where it has too many numbers.

    Alone a request has one place, and no others are this or that.
    """
    batches, lengths = (sorted(axes[name], reverse=True) for name in ("batch", "draft_length"))
    for length in (one for one in lengths if one < shape.draft_length):
        if shape.batch * shape.num_paths * (shape.draft_length + 1) > MOST_POSITIONS:
            shape = replace(shape, draft_length=length)
    for batch in (one for one in batches if one < shape.batch):
        if shape.numbers > min(most_numbers, MOST_OF_A_BATCH):
            shape = replace(shape, batch=batch)
    for length in (one for one in lengths if one < shape.draft_length):
        if shape.numbers > most_numbers:
            shape = replace(shape, draft_length=length)
    if shape.batch > 1:
        return shape
    first = {name: axes[name][0] for name in axes if needs_others(name, getattr(shape, name))}
    return replace(shape, **first)
