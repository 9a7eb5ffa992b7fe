"""The rows of target and draft at every token of finished texts, by passes of their own, without a cache.

Rows of a whole vocabulary stay on the device. What statistics need of them are a few cells a token: the most
likely tokens one by one, all others by their ratio of q to p. Any cells are right that are known before the
token comes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gpu_tests.pair import Pair
from spec_oracle.language_models import CachedModel, LanguageModel, Truncation
from spec_oracle.statistics.token_tests import LARGEST_RATIO

LIKELIEST, LEVELS = 24, 10
"""Tokens with a cell of their own, and cells of others on each side of p = q, half a power of two wide."""

CHUNK_BYTES = {"cpu": 2**27, "cuda": 2**29}


@dataclass(frozen=True)
class Places:
    """Rows at T places of some texts: ``target`` and ``draft`` float64 [T, V], ``came`` int [T] the tokens.

    ``sizes`` are the numbers of places of each text.
    """

    target: Any
    draft: Any
    came: Any
    sizes: list[int]


def second_pass(
    pair: Pair, prompts: Any, texts: Any, truncation: Truncation
) -> Iterator[tuple[slice, Places]]:
    """Yield the rows at every token, as many texts at a time as fit, and which texts they are."""
    longest = max(len(prompt) + len(text) for prompt, text in zip(prompts, texts, strict=True))
    largest = CHUNK_BYTES[pair.device.type] // (8 * longest * pair.vocab_size)
    for start in range(0, len(texts), max(1, largest)):
        some = slice(start, start + max(1, largest))
        rows = [_rows(model, prompts[some], texts[some], truncation) for model in (pair.target, pair.draft)]
        came = torch.tensor([token for text in texts[some] for token in text], device=pair.device)
        yield some, Places(*rows, came, [len(text) for text in texts[some]])


def _rows(model: LanguageModel, prompts: Any, texts: Any, truncation: Truncation) -> Any:
    """Return the rows [T, V] before each token of the texts; padding on the right is read by none of them."""
    whole = [[*prompt, *text] for prompt, text in zip(prompts, texts, strict=True)]
    longest = max(map(len, whole))
    ids = torch.tensor([one + [0] * (longest - len(one)) for one in whole], device=model.device)
    number = [row for row, text in enumerate(texts) for _ in text]
    place = [
        len(prompt) - 1 + step
        for prompt, text in zip(prompts, texts, strict=True)
        for step in range(len(text))
    ]
    with torch.inference_mode():
        logits = model.network(input_ids=ids, use_cache=False).logits
        index = (torch.tensor(number, device=ids.device), torch.tensor(place, device=ids.device))
        return truncation.probabilities(logits[index] / model.temperature)


def cells(target: Any, draft: Any) -> Any:
    """Return the cell of every token, int [T, V]: 0.. for the most likely ones, then by q over p.

    Tokens without mass under the target have a cell of their own, the last one but none.
    """
    count = min(LIKELIEST, target.shape[1] - 1)
    level = (
        (2 * torch.log2(draft / target)).nan_to_num(nan=0.0).clamp(-LEVELS, LEVELS).round().to(torch.int64)
    )
    cell = level + LEVELS + count
    cell = torch.where(target > 0, cell, torch.full_like(cell, count + 2 * LEVELS + 1))
    names = target.topk(count, dim=1).indices
    ranks = torch.arange(count, device=cell.device).expand_as(names)
    return cell.scatter(1, names, torch.where(target.gather(1, names) > 0, ranks, cell.gather(1, names)))


def mass_by_cell(rows: Any, cell: Any) -> Any:
    """Return the mass of every cell, [T, C]."""
    count = min(LIKELIEST, rows.shape[1] - 1) + 2 * LEVELS + 2
    return rows.new_zeros((len(rows), count)).scatter_add(1, cell, rows)


@dataclass(frozen=True)
class Rounding:
    """How far rows of two correct computations differ, measured at ``places`` places of finished texts.

    The rows of a cached pass in pieces, with rejected tokens masked, in the number type of the run, against
    those of one pass. ``rows`` is their total variation, ``ratio`` what bets on q/p gain by it over their
    stake, ``sums`` how far rounded rows of target and draft are from a sum of 1: the mean over a text, of the
    text where it is largest, since evidence adds up over texts. ``largest`` is the largest total variation
    at one place. ``flips`` is the probability that a uniform finds another token by inversion, a mean.
    """

    places: int
    rows: float
    ratio: float
    sums: float
    flips: float
    largest: float

    def doubt(self, draft_length: int) -> float:
        """Return how far the next token's distribution may be off, total variation.

        Rules that divide by rows without normalising them pass their sums on, once a drafted token.
        """
        return self.rows + (draft_length + 1) * self.sums


def measured_rounding(pair: Pair, prompts: Any, texts: Any, truncation: Truncation) -> Rounding:
    """Read finished texts in pieces as the loop does, and compare the rows with those of a second pass."""
    by_text, largest = [], 0.0
    rng = np.random.default_rng(5)
    for some, places in second_pass(pair, prompts, texts, truncation):
        pieces = _in_pieces(pair, prompts[some], texts[some], truncation, rng)
        rounded = pieces.to(pair.number_type).double()
        draft = places.draft.to(pair.number_type).double()
        excess = (rounded.sum(1) - 1).abs() + (draft.sum(1) - 1).abs()
        rounded = rounded / rounded.sum(1, keepdim=True)
        apart = (rounded - places.target).abs().sum(1) / 2
        flips = 1 - chance_of_one_token(rounded, places.target)
        every = torch.stack([apart, _surplus(rounded, places), excess, flips])
        by_text += [one.mean(dim=1).cpu().numpy() for one in every.split(places.sizes, dim=1)]
        largest = max(largest, float(apart.max()))
    rows, ratio, sums, _ = np.max(by_text, axis=0).tolist()
    flips = float(np.mean(by_text, axis=0)[3])
    return Rounding(sum(map(len, texts)), rows, ratio, sums, flips, largest)


def chance_of_one_token(rows: Any, others: Any) -> Any:
    """Return [T] the probability that a uniform finds the same token of two rows [T, V] by inversion."""
    ends, other_ends = rows.cumsum(1), others.cumsum(1)
    first = torch.maximum(ends - rows, other_ends - others)
    return (torch.minimum(ends, other_ends) - first).clamp(min=0).sum(1).clamp(max=1)


def _surplus(rounded: Any, places: Places) -> Any:
    """Return [T] what `Bet` gains at most from rows that are rounded, over what it stakes."""
    cell = cells(places.target, places.draft)
    mine, p, q = (mass_by_cell(rows, cell) for rows in (rounded, places.target, places.draft))
    ratio = torch.where(p > 0, q / p, torch.zeros_like(p)).clamp(max=LARGEST_RATIO)
    ratio = ratio / (p * ratio).sum(1, keepdim=True)
    least = ratio.clamp(max=1)
    found = []
    for over in (ratio - 1, least - (p * least).sum(1, keepdim=True)):
        gained = ((mine - p).abs() * over.abs()).sum(1) / (p * over.abs()).sum(1)
        found.append(gained.nan_to_num())
    return torch.maximum(*found)


def _in_pieces(pair: Pair, prompts: Any, texts: Any, truncation: Truncation, rng: Any) -> Any:
    """Return the target's rows [T, V] from a cache that grew in calls; a random part of each was rejected."""
    length = pair.draft_length
    reader = CachedModel(pair.target, prompts)
    sizes = torch.tensor([len(text) for text in texts], device=pair.device)
    longest = max(map(len, texts))
    padded = torch.tensor([list(text) + [0] * (longest + length + 1 - len(text)) for text in texts])
    padded = padded.to(pair.device)
    rows = torch.zeros((len(texts), longest, pair.vocab_size), dtype=torch.float64, device=pair.device)
    place = torch.zeros_like(sizes)
    every, steps = torch.arange(len(texts), device=pair.device), torch.arange(length + 1, device=pair.device)
    while int(place.min()) < longest:
        here = place[:, None] + steps
        tokens = padded.gather(1, here.clamp(max=padded.shape[1] - 1))
        law = truncation.probabilities(reader.read(tokens[:, :length]))
        inside = here < sizes[:, None]
        rows[every[:, None].expand_as(here)[inside], here[inside]] = law[inside]
        tau = torch.from_numpy(rng.integers(0, length + 1, len(texts))).to(pair.device)
        counts = torch.ones((len(texts), 1), dtype=torch.bool, device=pair.device)
        reader.go_on(steps[:length] >= tau[:, None], tokens.gather(1, tau[:, None]), counts)
        place = torch.minimum(place + tau + 1, torch.full_like(place, longest))
    return torch.cat([rows[number, :size] for number, size in enumerate(sizes.tolist())])
