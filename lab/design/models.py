"""Both models of an instance on the whole tree of contexts, in the numbers that figures are computed in."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spec_oracle.arrays import Numbers
from spec_oracle.exact.arithmetic import Arithmetic, arithmetic
from spec_oracle.toy import Instance


@dataclass(frozen=True, eq=False)
class Models:
    """``target[d]`` and ``draft[d]`` [V^d, V]: the rows after d tokens of ``instance``, d = 0..L - 1.

    Floats, or the fast rationals of ``chosen``.
    """

    target: tuple[Numbers, ...]
    draft: tuple[Numbers, ...]
    chosen: Arithmetic
    instance: Instance

    @classmethod
    def of(cls, instance: Instance, *, exact: bool = False) -> "Models":
        """Return the models of an instance, in floats or in rationals."""
        chosen, numbers = arithmetic(exact=exact), instance.exact if exact else instance.floats
        levels = range(instance.draft_length)
        target = (chosen.prepare(numbers.target.rows(depth)) for depth in levels)
        draft = (chosen.prepare(numbers.draft.rows(depth)) for depth in levels)
        return cls(tuple(target), tuple(draft), chosen, instance)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, V."""
        return int(self.target[0].shape[1])

    @property
    def depth(self) -> int:
        """Number of levels that tokens may be drafted for, L."""
        return len(self.target)

    @cached_property
    def widest(self) -> int:
        """The most drafts that are distinct at every node that the target may reach."""
        counts = [(level > 0).sum(axis=1) for level in self.draft]
        here = [np.asarray(mass > 0, dtype=bool) for mass in self.reachable]
        return min(int(count[mask].min()) for count, mask in zip(counts, here, strict=True))

    @cached_property
    def reachable(self) -> tuple[Numbers, ...]:
        """Mass 1 for each context of d tokens that the target may emit, 0 for others, [V^d], d = 0..L - 1."""
        masses = [self.one, *joint(self.target)[:-1]]
        return tuple(mass * 0 + (mass > 0) for mass in masses)

    @property
    def one(self) -> Numbers:
        """Probability mass 1 at the root, [1]."""
        mass: Numbers = self.target[0][:, 0] * 0 + 1
        return mass


def joint(rows: tuple[Numbers, ...]) -> list[Numbers]:
    """Return the probability of each context of d tokens, [V^d] for d = 1..L, from ``rows[d]`` [V^d, V]."""
    masses, mass = [], rows[0][:, 0] * 0 + 1
    for level in rows:
        mass = (mass[:, None] * level).reshape(-1)
        masses.append(mass)
    return masses
