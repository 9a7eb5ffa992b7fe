"""Long texts of a server, token by token: each against the row of plain decoding after what came before it.

A text of many tokens is one of too many for a cell of its own. But let u be uniform on the part of [0, 1]
that the row gives to the token that came, tokens in order of probability. If the text is the target's, all u
are uniform and independent, whatever the rows. A law that favours likely tokens shows in u; a call that
repeats the randomness of another one, in pairs of u some tokens apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spec_oracle.adapters.servers.apis import Token
from spec_oracle.audit.server.one_token import PlainRows
from spec_oracle.audit.server.served import Sample
from spec_oracle.contracts.server import Context

TENTHS = 10
THIRDS = 3


@dataclass
class Uniforms:
    """The u of texts drawn so far: counts by tenths, and of pairs by thirds, [distance - 1, 9].

    First tokens are left out: nothing speculates on them.
    """

    rows: PlainRows
    distances: int
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.tenths = np.zeros(TENTHS, dtype=np.int64)
        self.pairs = np.zeros((self.distances, THIRDS**2), dtype=np.int64)
        self._slack = 0.0

    def add(self, texts: Sequence[Context]) -> None:
        """Add texts; asks for the rows of all their contexts at once."""
        self.rows.fetch((n, tokens[:end]) for n, tokens in texts for end in range(1, len(tokens)))
        for number, tokens in texts:
            u = np.array(self._of(number, tokens))
            self.tenths += np.bincount((u * TENTHS).astype(np.int64), minlength=TENTHS)
            thirds = (u * THIRDS).astype(np.int64)
            for distance in range(1, min(self.distances, len(u) - 1) + 1):
                # Every other run of ``distance`` tokens, so that no u is in two pairs.
                first = np.flatnonzero(np.arange(len(u) - distance) // distance % 2 == 0)
                both = thirds[first] * THIRDS + thirds[first + distance]
                self.pairs[distance - 1] += np.bincount(both, minlength=THIRDS**2)

    def _of(self, number: int, tokens: tuple[Token, ...]) -> list[float]:
        """Return the u of a text, up to the first context whose row is not known."""
        found = []
        for end in range(1, len(tokens)):
            row = self.rows.row((number, tokens[:end]))
            if row is None:
                break
            place = row.index(tokens[end])
            masses = np.append(row.probabilities, row.other)
            low = float(masses[:place].sum()) if place >= 0 else 1 - row.other
            width = float(masses[place])
            # A token that the row rules out is put at the very end, where it does the most harm.
            found.append(min(low + width * self.rng.random(), np.nextafter(1, 0)))
            self._slack = max(self._slack, row.slack + TENTHS * row.other_error)
        return found

    def marginal(self) -> Sample:
        """Return the counts by tenths, their law, and what errors of rows explain."""
        return self.tenths, np.full(TENTHS, 1 / TENTHS), np.full(TENTHS, self._slack)

    def at(self, distance: int) -> Sample:
        """Return the counts of pairs that many tokens apart, their law, and what errors of rows explain."""
        cells = THIRDS**2
        return self.pairs[distance - 1], np.full(cells, 1 / cells), np.full(cells, 2 * self._slack)
