"""A completion and what is reported of it: tokens, log-probabilities, drafts; and how it was sampled.

A token is its id. Of a server that shows no ids, the letters of a completion stand for tokens. A prompt is
text, or token ids.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from spec_oracle.errors import InvalidInputError

Token: TypeAlias = int | str
Prompt: TypeAlias = str | tuple[int, ...]

Prefix: TypeAlias = tuple[int, tuple[Token, ...]]
"""The number of a prompt, and tokens after it."""


@dataclass(frozen=True)
class Sampling:
    """How completions are sampled: ``top_k`` 0 and ``top_p`` 1 filter nothing; ``fields`` are sent too."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    fields: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise InvalidInputError(
                f"temperature: expected a positive number, got {self.temperature}; at 0 nothing is sampled"
            )
        if self.top_k < 0:
            raise InvalidInputError(f"top_k: expected at least 0, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise InvalidInputError(f"top_p: expected a number in (0, 1], got {self.top_p}")


@dataclass(frozen=True)
class Reported:
    """What an answer reports of one token: its id and log-probability, None without, and those listed."""

    token: Token | None
    log: float | None
    logs: Mapping[Token, float]


@dataclass(frozen=True)
class Completion:
    """One answer.

    ``tokens`` of the ``text``; ``ended`` if the model ended it, not the limit. ``reported``: the
    log-probabilities of its tokens, in order. ``drafted`` and ``accepted`` tokens, None where not reported.
    ``finish`` is why it ended, "length" for the limit; ``counted`` is how many tokens the answer counts.
    ``is_doubtful``: see `spec_oracle.servers.client.client`.
    """

    tokens: tuple[Token, ...]
    ended: bool
    text: str = ""
    reported: tuple[Reported, ...] = ()
    drafted: int | None = None
    accepted: int | None = None
    finish: str = ""
    counted: int | None = None
    is_doubtful: bool = False

    @property
    def logs(self) -> Mapping[Token, float] | None:
        """Log-probabilities listed of the first token, None without."""
        return self.reported[0].logs if self.reported and self.reported[0].logs else None
