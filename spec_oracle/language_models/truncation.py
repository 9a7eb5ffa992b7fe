"""From logits to the law that is sampled from: temperature, then top-k, then top-p."""

from dataclasses import dataclass
from typing import Any

from spec_oracle.errors import InvalidInputError

Tensor = Any


@dataclass(frozen=True)
class Truncation:
    """The sampling parameters of a request; the same ones cut the target and the draft.

    ``temperature`` > 0 divides the logits. ``top_k`` keeps the k likeliest tokens, ``top_p`` the fewest
    likeliest ones whose mass reaches top_p (at least one token); None keeps all. Tokens of equal logits keep
    the order of their numbers. Raises `InvalidInputError` for values outside their range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise InvalidInputError(f"temperature: expected a positive number, got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise InvalidInputError(f"top_k: expected at least 1, got {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InvalidInputError(f"top_p: expected a number in (0, 1], got {self.top_p}")

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the law, float64 [..., V], of the tokens with these logits [..., V], of any precision."""
        scaled = logits.double() / self.temperature
        if self.top_k is not None and self.top_k < scaled.shape[-1]:
            scaled = scaled.masked_fill(~_likeliest(scaled, self.top_k), -float("inf"))
        law = scaled.softmax(dim=-1)
        return law if self.top_p is None else _nucleus(law, self.top_p)


def _likeliest(logits: Tensor, count: int) -> Tensor:
    """Return which ``count`` tokens are kept, bool [..., V]; no sort, an order of magnitude faster."""
    least = logits.topk(count, dim=-1).values[..., -1:]
    above, level = logits > least, logits == least
    room = count - above.sum(dim=-1, keepdim=True)
    return above | (level & (level.cumsum(dim=-1) <= room))


def _nucleus(law: Tensor, mass: float) -> Tensor:
    """Return ``law`` [..., V] cut to the fewest likeliest tokens that reach ``mass``."""
    ordered, order = law.sort(dim=-1, descending=True, stable=True)
    # A token stays if those before it fall short of the mass; so the first one always does.
    kept = ordered * (ordered.cumsum(dim=-1) - ordered < mass)
    return law.new_zeros(law.shape).scatter(-1, order, kept / kept.sum(dim=-1, keepdim=True))
