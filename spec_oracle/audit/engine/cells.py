"""Texts as cells of a known law, for tests of draws: one cell a text, or, with many tokens, equal bins.

Where texts are too many, every token is put into one of a few bins of equal mass: with the tokens in order
of probability, u = (mass before the token) + (a fresh uniform) * (its own mass) is uniform under plain
decoding, given all that came before, so that the bins of a text are independent and uniform. What a defect
moves between likely and unlikely tokens moves mass between bins.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.engine.laws import law_of_rows
from spec_oracle.contracts.engine import EngineCode, Text

MOST_CELLS = 300
_BINS = 3


@dataclass(frozen=True)
class TextCells:
    """The law [C] of the cells of texts, and the cell of each; the last one is for impossible texts."""

    law: NDArray[np.float64]
    cell: Callable[[Text], int]
    texts: tuple[Text, ...] = ()
    """The text of each cell, where there is one a cell."""


def text_cells(code: EngineCode, prompt: Text, tokens: int, rng: np.random.Generator) -> TextCells:
    """Return the cells of texts of at most ``tokens`` tokens; ``rng`` draws the places within bins."""
    if code.vocab_size**tokens <= MOST_CELLS:
        law = law_of_rows(code, prompt, tokens)
        return listed_cells(law)
    uniform = np.full(_BINS**tokens, float(_BINS) ** -tokens)
    return TextCells(np.append(uniform, 0.0), lambda text: _binned(code, prompt, text, tokens, rng))


def listed_cells(law: dict[Text, float]) -> TextCells:
    """Return one cell for every text of a law."""
    number = {text: cell for cell, text in enumerate(law)}
    masses = np.array([*law.values(), 0.0])
    return TextCells(masses / masses.sum(), lambda text: number.get(text, len(number)), tuple(law))


def _binned(code: EngineCode, prompt: Text, text: Text, tokens: int, rng: np.random.Generator) -> int:
    ended = [code.is_ended(text[:length]) for length in range(1, len(text) + 1)]
    if any(ended[:-1]) or (len(text) < tokens and ended[-1:] != [True]):
        return int(_BINS**tokens)
    cell = 0
    for position in range(tokens):
        place = rng.random()
        if position < len(text):
            row, token = code.row(prompt + text[:position]), text[position]
            if row[token] == 0:
                return int(_BINS**tokens)
            before = row[(row > row[token]) | ((row == row[token]) & (np.arange(len(row)) < token))].sum()
            place = before + place * row[token]
        cell = cell * _BINS + min(int(place * _BINS), _BINS - 1)
    return cell
