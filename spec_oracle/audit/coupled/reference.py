"""Coupled rules by their definition, and whether code emits the same with the same uniforms.

The reference shares no code with the rules under audit. Drafts are not its matter: they are given. Arithmetic
of code under test may decide a race otherwise where two tokens are nearly level. Given the time t of the
winner, the next token arrives at a rate of R at most, R paths racing, and t is 1 / R on average: within a
relative distance d of it with probability d at most. So such races are rare, and they are counted.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

import verifiers
from spec_oracle.arrays import Booleans, Floats
from spec_oracle.audit.coupled.subject import PREFIX, Call, CoupledCode, requests
from spec_oracle.contracts import Emissions
from spec_oracle.statistics import DEFAULT_MISS
from spec_oracle.statistics.intervals import clopper_pearson
from spec_oracle.toy import Instance
from verifiers.rules.list_coupling import Invariance

NEAR: Final = 1e-5
"""Relative difference of two arrival times that rounding in float32 may turn around."""

GRID: Final = 2.0**-23
"""What rounding of a uniform to float32 may change in its −log."""


@dataclass(frozen=True)
class Compared:
    """Requests of which code and a rule emitted the same, but for ``near`` races; ``apart`` tells of another.

    ``share`` is a bound on the share of all noise on which they differ, and so on the total variation: with
    probability `DEFAULT_MISS` it is wrong.
    """

    requests: int
    near: int
    apart: str

    @property
    def share(self) -> float:
        """An upper confidence bound (Clopper and Pearson)."""
        counts = np.array([self.near, self.requests - self.near])
        return float(clopper_pearson(counts, 2 * DEFAULT_MISS)[1][0])


def compared(code: CoupledCode, rule: str, call: Call) -> Compared:
    """Run code and the built-in ``rule``, by its name in audits, on one batch of requests."""
    found = code(*call)
    expected, is_near = by_races(call, all_race=races_all(rule))
    differs = (found.tokens != expected.tokens).any(axis=1)
    apart = ""
    if (wrong := np.flatnonzero(differs & ~is_near)).size:
        one = int(wrong[0])
        apart = (
            f"{said(found, one)} where {rule} emits {said(expected, one)}, in {len(wrong):,} of "
            f"{len(differs):,} requests"
        )
    return Compared(len(differs), int((differs & is_near).sum()), apart)


def compared_on(  # noqa: PLR0917
    code: CoupledCode, rule: str, instance: Instance, batch: int, rng: np.random.Generator, dtype: str = ""
) -> Compared:
    """Compare on ``batch`` sampled requests of an instance; see `compared`."""
    return compared(code, rule, requests(instance, batch, rng, dtype or "float64"))


def races_all(rule: str) -> bool:
    """Whether all paths race in a built-in rule, by its name in audits."""
    return verifiers.coupled_rule(rule.removeprefix(PREFIX)).invariance is Invariance.STRONG


def said(emissions: Emissions, request: int) -> str:
    """Return what a person reads for what one request emits."""
    return ",".join(map(str, emissions.tokens[request, : emissions.lengths[request]].tolist()))


def by_races(call: Call, *, all_race: bool) -> tuple[Emissions, Booleans]:
    """Return what the races emit, formula (2) of `verifiers.rules.list_coupling`, and which were near, [B].

    At every place of every path token i arrives at −log(U_i) / p_i; the first one is emitted.
    """
    drafts, uniforms = call
    with np.errstate(divide="ignore"):
        noise = -np.log(uniforms.astype(np.float64))
    batch, _, places, _ = noise.shape
    everyone, is_near = np.arange(batch), np.zeros(batch, dtype=bool)
    active = np.ones(noise.shape[:2], dtype=bool)
    going = np.ones(batch, dtype=bool)
    tokens = np.full((batch, places), -1, dtype=np.int64)
    for place in range(places):
        row = drafts.target_probs[everyone, active.argmax(axis=1), place].astype(np.float64)
        racing = np.ones_like(active) if all_race else active
        first = np.where(racing[:, :, None], noise[:, :, place], np.inf).min(axis=1)
        token = _times(first, row).argmin(axis=1)
        latest = _times(first + GRID, row)[everyone, token] * (1 + NEAR)
        earliest = _times(first - GRID, row)
        earliest[everyone, token] = np.inf
        is_near |= going & (earliest.min(axis=1) <= latest)
        tokens[going, place] = token[going]
        if place < places - 1:
            matching = active & (drafts.tokens[:, :, place] == token[:, None])
            active = np.where(going[:, None] & matching.any(axis=1)[:, None], matching, active)
            going &= matching.any(axis=1)
    return Emissions(tokens, (tokens >= 0).sum(axis=1)), is_near


def _times(noise: Floats, row: Floats) -> NDArray[np.float64]:
    """Return when each token arrives: never where the target gives it no probability."""
    return np.divide(noise, row, out=np.full_like(noise, np.inf), where=row > 0)
