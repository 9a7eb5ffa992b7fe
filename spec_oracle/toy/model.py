"""Toy language models: a table of next-token rows, small enough for every text to be enumerated."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf
from numbers import Rational
from typing import Final, SupportsFloat, TypeAlias

import numpy as np

from spec_oracle.arrays import Floats, Numbers
from spec_oracle.errors import InvalidInputError
from spec_oracle.validation import is_whole, require_positive, require_whole

Context: TypeAlias = tuple[int, ...]
Number: TypeAlias = float | Fraction
Row: TypeAlias = Sequence[SupportsFloat | str]
"""Numbers of any library, or texts such as "1/3"."""

MAX_BYTES = 2**32
"""What the rows of one pair of toy models may take. Their laws and their draft tuples come on top."""

FLOAT_BYTES, RATIONAL_BYTES = 8, 100
"""Of one probability, the object of a small fraction included."""

SUM_TOLERANCE = 1e-9
"""How far a row may be from one before it is refused; what is nearer is rescaled (exactly, for rationals)."""


def context_text(context: Context) -> str:
    """Return the file notation of a context: its tokens joined by commas, "" for the empty one."""
    return ",".join(map(str, context))


def parse_context(text: str) -> Context:
    """Return the context that `context_text` wrote; raises `InvalidInputError` on anything else."""
    if not text:
        return ()
    try:
        return tuple(int(token) for token in text.split(","))
    except ValueError:
        raise InvalidInputError(f"context {_shown(text)}: expected token numbers joined by commas") from None


_MOST_SHOWN: Final = 60
"""Characters of a value that an error shows."""

MOST_CHARACTERS: Final = 1_000
"""Of the text of one number."""

MOST_EXPONENT: Final = 400
"""Of ten, in the text of one number: a rational has all its digits, and floats end before."""


def read_rational(text: str) -> Fraction:
    """Return the number that a text such as "1/3" or "0.25" spells.

    Raises ValueError for a text that is no number, or is too long; its message completes a sentence.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"has {len(text):,} characters, more than the {MOST_CHARACTERS:,} that are read")
    exponent = re.search(r"[eE]([-+]?\d[\d_]*)\s*$", text)
    if exponent and abs(int(exponent[1])) > MOST_EXPONENT:
        raise ValueError(f"has an exponent beyond {MOST_EXPONENT}")
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError("is not a number") from None


def _number(value: SupportsFloat | str, where: str) -> Number:
    """Return ``value`` as an exact fraction where it is exact, else as a float."""
    shown = f"{where}: {_shown(value)}"
    if isinstance(value, bool):
        raise InvalidInputError(f"{shown} is not a number")
    try:
        number = read_rational(value) if isinstance(value, str) else _exact_or_float(value)
    except (TypeError, ValueError) as error:
        why = str(error) if isinstance(value, str) else "is not a number"
        raise InvalidInputError(f"{shown} {why}") from None
    if isinstance(number, float) and not np.isfinite(number):
        raise InvalidInputError(f"{shown} is not finite")
    if number < 0:
        raise InvalidInputError(f"{shown} is negative")
    return number


def _exact_or_float(value: SupportsFloat) -> Number:
    return Fraction(value) if isinstance(value, Rational) else float(value)


def _shown(value: object) -> str:
    """Return a value as text that fits in a line; Python writes no integers of thousands of digits."""
    try:
        text = str(value) if isinstance(value, Rational) else repr(value)
    except ValueError:
        return "an integer of thousands of digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def checked_row(row: Row, vocab_size: int, where: str) -> list[Number]:
    """Return ``row`` as numbers that sum to one; raise `InvalidInputError` naming ``where`` otherwise."""
    if isinstance(row, str) or not hasattr(row, "__len__"):
        raise InvalidInputError(f"{where}: expected a list of {vocab_size} probabilities, got {row!r}")
    if len(row) != vocab_size:
        raise InvalidInputError(f"{where}: has {len(row)} entries, expected {vocab_size}")
    numbers = [_number(value, f"{where}, token {token}") for token, value in enumerate(row)]
    for token, number in enumerate(numbers):
        if number > 1 + SUM_TOLERANCE:  # floats end before rationals do
            raise InvalidInputError(f"{where}, token {token}: {_shown(row[token])} is more than 1")
    if not all(isinstance(number, Fraction) for number in numbers):
        numbers = [float(number) for number in numbers]
    total = sum(numbers)
    if not -SUM_TOLERANCE <= total - 1 <= SUM_TOLERANCE:
        raise InvalidInputError(f"{where}: row sums to {float(total):.12g}, expected 1")
    return [number / total for number in numbers]


@dataclass(frozen=True, eq=False)
class ToyModel:
    """A Markov model of order ``order`` over ``vocab_size`` tokens.

    ``levels[d]`` holds the rows of all contexts of d tokens, [V^d, V], in lexicographic order; d = 0..order.
    A longer context is cut to its last ``order`` tokens. Entries are float64, or `Fraction` in object arrays.
    """

    vocab_size: int
    levels: tuple[Numbers, ...]

    @property
    def order(self) -> int:
        """Length in tokens of the longest context that has rows of its own."""
        return len(self.levels) - 1

    @property
    def is_exact(self) -> bool:
        """Whether the probabilities are rationals."""
        return all(level.dtype == object for level in self.levels)

    @cached_property
    def exact(self) -> "ToyModel":
        """The same model in rationals: floats become the binary fractions they are, rescaled to sum one."""
        if self.is_exact:
            return self
        require_memory(self.vocab_size, self.order, exact=True)
        return ToyModel(self.vocab_size, tuple(_exact_level(level) for level in self.levels))

    @cached_property
    def floats(self) -> "ToyModel":
        """The same model in float64."""
        if all(level.dtype != object for level in self.levels):
            return self
        return ToyModel(self.vocab_size, tuple(level.astype(np.float64) for level in self.levels))

    @classmethod
    def from_conditionals(
        cls,
        conditionals: Mapping[Context, Row] | Mapping[str, Row],
        *,
        order: int | None = None,
        name: str = "model",
    ) -> "ToyModel":
        """Build from rows by context (tuples, or file notation such as "0,2").

        The vocabulary size is the length of the row of the empty context. ``order`` defaults to the longest
        context given. Raises `InvalidInputError` naming ``name``, the context and the value for a missing or
        superfluous context, and for rows that are not probabilities.

        >>> model = ToyModel.from_conditionals({"": ["1/3", "2/3"], "0": ["1/2", "1/2"], "1": [0, 1]})
        >>> model.probability((0, 1)), model.joint(2).tolist()[0]
        (Fraction(1, 6), Fraction(1, 6))
        """
        if not isinstance(conditionals, Mapping):
            raise InvalidInputError(f"{name}: expected rows by context, got {conditionals!r:.80}")
        rows = {parse_context(key) if isinstance(key, str) else key: row for key, row in conditionals.items()}
        if () not in rows:
            raise InvalidInputError(f'{name}: context "" is missing')
        root = rows[()]
        if isinstance(root, str) or not hasattr(root, "__len__") or len(root) < 1:
            raise InvalidInputError(f'{name}, context "": expected a list of probabilities, got {root!r}')
        vocab = len(root)
        depth = max(map(len, rows)) if order is None else require_whole(order, "order", 0)
        levels = []
        for length in range(depth + 1):
            level = []
            for context in np.ndindex(*(vocab,) * length):
                where = f'{name}, context "{context_text(context)}"'
                if context not in rows:
                    raise InvalidInputError(f"{where}: is missing")
                level.append(checked_row(rows[context], vocab, where))
            levels.append(level)
        for context in rows:
            where = f'{name}, context "{context_text(context)}"'
            if len(context) > depth:
                raise InvalidInputError(f"{where}: longer than {depth} tokens")
            if not all(0 <= token < vocab for token in context):
                raise InvalidInputError(f"{where}: token outside 0..{vocab - 1}")
        return cls(vocab, tuple(map(_level_array, levels)))

    @classmethod
    def from_levels(cls, levels: Sequence[Floats], *, name: str = "model") -> "ToyModel":
        """Build from float rows per context length, ``levels[d]`` [V^d, V]; rows are rescaled to sum one."""
        if not len(levels):
            raise InvalidInputError(f"{name}: expected the rows of at least one context length, got none")
        levels = [_float_level(level, f"{name}, contexts of {d} tokens") for d, level in enumerate(levels)]
        vocab = levels[0].shape[-1]
        for length, level in enumerate(levels):
            if level.shape != (vocab**length, vocab):
                expected = f"expected shape {(vocab**length, vocab)}, got {level.shape}"
                raise InvalidInputError(f"{name}, contexts of {length} tokens: {expected}")
            totals = level.sum(axis=1)
            bad = ~(np.isfinite(level).all(axis=1) & (level >= 0).all(axis=1))
            bad |= ~(np.abs(totals - 1) <= SUM_TOLERANCE)
            if bad.any():
                index = int(np.argmax(bad))
                context = tuple(map(int, np.unravel_index(index, (vocab,) * length))) if length else ()
                checked_row(level[index].tolist(), vocab, f'{name}, context "{context_text(context)}"')
        return cls(vocab, tuple(level / level.sum(axis=1, keepdims=True) for level in levels))

    @classmethod
    def context_free(cls, row: Row, *, order: int = 0, name: str = "model") -> "ToyModel":
        """Build the model that draws every token from the same ``row``."""
        vocab = len(row) if hasattr(row, "__len__") else 1
        checked = checked_row(row, vocab, f'{name}, context ""')
        require_memory(vocab, require_whole(order, "order", 0))
        return cls(vocab, tuple(_level_array([checked] * vocab**length) for length in range(order + 1)))

    @classmethod
    def random(
        cls, vocab_size: int, order: int, *, seed: int | np.random.Generator = 0, concentration: float = 1.0
    ) -> "ToyModel":
        """Draw every row from a symmetric Dirichlet law with the given concentration."""
        require_memory(require_whole(vocab_size, "vocab_size"), require_whole(order, "order", 0))
        if not isinstance(seed, np.random.Generator):
            require_whole(seed, "seed", 0)
        rng = np.random.default_rng(seed)
        alpha = np.full(vocab_size, require_positive(concentration, "concentration"))
        return cls.from_levels([rng.dirichlet(alpha, size=vocab_size**length) for length in range(order + 1)])

    def rounded(self, denominator: int) -> "ToyModel":
        """Return the model with every probability a multiple of 1/denominator (largest remainders)."""
        require_whole(denominator, "denominator")
        require_memory(self.vocab_size, self.order, exact=True)
        levels = tuple(_rounded_rows(level, denominator) for level in self.floats.levels)
        return ToyModel(self.vocab_size, levels)

    def index(self, context: Sequence[int]) -> tuple[int, int]:
        """Return (d, i) such that ``levels[d][i]`` is the row of ``context``."""
        tokens = [self._token(token) for token in context]
        kept = tokens[len(tokens) - min(len(tokens), self.order) :]
        position = 0
        for token in kept:
            position = position * self.vocab_size + token
        return len(kept), position

    def _token(self, token: int) -> int:
        if not (is_whole(token) and 0 <= token < self.vocab_size):
            raise InvalidInputError(f"context: token {token!r} outside 0..{self.vocab_size - 1}")
        return int(token)

    def conditional(self, context: Sequence[int]) -> Numbers:
        """Return the next-token row after ``context``, [V]."""
        length, position = self.index(context)
        row: Numbers = self.levels[length][position]
        return row

    def probability(self, sequence: Sequence[int]) -> Number:
        """Return the joint probability of ``sequence`` from the empty context."""
        mass: Number = self.levels[0][0, 0] * 0 + 1
        for i, token in enumerate(sequence):
            mass = mass * self.conditional(sequence[:i])[self._token(token)]
        return mass

    def rows(self, length: int) -> Numbers:
        """Return the rows of all contexts of ``length`` tokens, [V^length, V], beyond the order too."""
        if 0 <= length <= self.order:
            return self.levels[length]
        require_memory(self.vocab_size, require_whole(length, "length", 0), exact=self.is_exact)
        return np.tile(self.levels[self.order], (self.vocab_size ** (length - self.order), 1))

    def joint(self, length: int) -> Numbers:
        """Return the law of the first ``length`` tokens, flat [V^length] in lexicographic order."""
        require_whole(length, "length", 0)
        law = self.levels[0][:1, 0] * 0 + 1
        for d in range(length):
            law = (law[:, None] * self.rows(d)).reshape(-1)
        return law

    def after(self, context: Sequence[int]) -> "ToyModel":
        """Return the model of what follows ``context``."""
        if not len(context):
            return self
        levels = []
        for length in range(self.order + 1):
            kept = tuple(context)[len(context) - min(len(context), max(self.order - length, 0)) :]
            depth, start = self.index(kept)
            block = self.vocab_size**length
            levels.append(self.levels[depth + length][start * block : (start + 1) * block])
        return ToyModel(self.vocab_size, tuple(levels))


def required_bytes(vocab_size: int, draft_length: int, *, exact: bool = False) -> float:
    """Return the bytes of a target's and a draft's rows after all contexts, of up to L and L - 1 tokens.

    These are 2 (V + ... + V^L) + V^(L+1) numbers; ``exact`` for rationals. Infinite where floats end.

    >>> required_bytes(3, 4) / 2**10, required_bytes(40, 6) / 2**30
    (3.7734375, 1283.303...)
    """
    try:
        last = float(vocab_size) ** (draft_length + 1)
    except OverflowError:
        return inf
    shorter = (last - vocab_size) / (vocab_size - 1) if vocab_size > 1 else draft_length
    return (2 * shorter + last) * (RATIONAL_BYTES if exact else FLOAT_BYTES)


def require_memory(vocab_size: int, draft_length: int, *, exact: bool = False) -> None:
    """Raise `InvalidInputError` for sizes whose rows would take more than `MAX_BYTES`."""
    needed = required_bytes(vocab_size, draft_length, exact=exact)
    if needed > MAX_BYTES:
        raise InvalidInputError(
            f"vocab_size {vocab_size}, draft_length {draft_length}: the rows after all contexts would need "
            f"{needed / 2**30:,.0f} GiB, more than the {MAX_BYTES / 2**30:.0f} GiB allowed; take smaller ones"
        )


def _rounded_rows(rows: Floats, denominator: int) -> Numbers:
    scaled = rows * denominator
    units = np.floor(scaled).astype(int)
    missing = denominator - units.sum(axis=1, keepdims=True)
    units += np.argsort(np.argsort(units - scaled, axis=1, kind="stable"), axis=1) < missing
    exact = np.frompyfunc(lambda unit: Fraction(int(unit), denominator), 1, 1)
    return np.asarray(exact(units), dtype=object)


def _float_level(level: Floats, where: str) -> Floats:
    try:
        rows = np.asarray(level, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{where}: expected rows of numbers, got {level!r:.80}") from None
    if rows.ndim != 2:
        raise InvalidInputError(f"{where}: expected shape [V^d, V], got {rows.shape}")
    return rows


def _level_array(rows: Sequence[Sequence[Number]]) -> Numbers:
    exact = all(isinstance(number, Fraction) for row in rows for number in row)
    return np.array(rows, dtype=object if exact else np.float64)


def _exact_level(level: Numbers) -> Numbers:
    exact = np.empty(level.shape, dtype=object)
    for i, row in enumerate(level):
        numbers = [Fraction(float(value)) if not isinstance(value, Fraction) else value for value in row]
        total = sum(numbers)
        exact[i] = [number / total for number in numbers]
    return exact
