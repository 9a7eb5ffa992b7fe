"""Multi-path verifiers under the sampler contract, right and wrong, as walks down the tree of drafts.

Arrays of one request: x int [K, L], q [K, L, V], p [K, L+1, V]. At a node a step sees the drafted children in
the order of their paths, and both rows; it returns the token of this position.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from lab.specimens.foreign.rows import Array, draw, residual
from lab.specimens.specimen import specimen
from spec_oracle.contracts import SamplerFunction

Step: TypeAlias = Callable[[list[int], Array, Array, Any], int]


def by_steps(step: Step) -> SamplerFunction:
    """Walk down the tree of every request with this step."""

    def one(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
        paths, emitted = list(range(len(x))), []
        for i in range(x.shape[1]):
            token = step([int(x[k, i]) for k in paths], q[paths[0], i], p[paths[0], i], rng)
            emitted.append(token)
            paths = [k for k in paths if x[k, i] == token]
            if not paths:
                return emitted
        return [*emitted, draw(p[paths[0], -1], rng)]

    def verify(tokens: Array, draft: Array, target: Array, generator: Any) -> tuple[Array, Array]:
        emitted = [one(*request, generator) for request in zip(tokens, draft, target, strict=True)]
        padded = np.full((len(tokens), tokens.shape[2] + 1), -1)
        for row, text in zip(padded, emitted, strict=True):
            row[: len(text)] = text
        return padded, np.array([len(text) - 1 for text in emitted])

    return verify


def walked(own: Callable[[Array], Array]) -> SamplerFunction:
    """Return recursive rejection in which a request has a generator of its own, with the seed of ``own``."""
    one = by_steps(recursive_rejection)

    def verify(tokens: Array, draft: Array, target: Array, generator: Any) -> tuple[Array, Array]:
        seeds = own(generator.integers(2**62, size=len(tokens)))
        results = [
            one(tokens[b : b + 1], draft[b : b + 1], target[b : b + 1], np.random.default_rng(int(seed)))
            for b, seed in enumerate(seeds)
        ]
        emitted, accepted = (np.concatenate(parts) for parts in zip(*results, strict=True))
        return emitted, accepted

    return verify


walk = partial(specimen, function=by_steps, num_paths=2)


def _normalised(weights: Array) -> Array:
    return weights / weights.sum()


@walk("control")
def recursive_rejection(children: list[int], q: Array, p: Array, rng: Any) -> int:
    """Test siblings in turn; every rejection leaves the residual for the next."""
    for x in children:
        if rng.random() * q[x] < p[x]:
            return x
        p = _normalised(residual(p, q))
    return draw(p, rng)


@walk("G3", "joint")
def residual_not_updated(children: list[int], q: Array, p: Array, rng: Any) -> int:
    """Test every sibling against the same target."""
    for x in children:
        if rng.random() * q[x] < p[x]:
            return x
    return draw(residual(p, q), rng)


@walk("control")
def distinct_siblings(children: list[int], q: Array, p: Array, rng: Any) -> int:
    """Drop repeated siblings, which leaves draws without replacement: q loses every rejected token."""
    for x in dict.fromkeys(children):
        if rng.random() * q[x] < p[x]:
            return x
        p = _normalised(residual(p, q))
        q = np.where(np.arange(len(q)) == x, 0, q)
        q = q / max(q.sum(), 1e-300)
    return draw(p, rng)


@walk("G2", "joint")
def draft_not_renormalised(children: list[int], q: Array, p: Array, rng: Any) -> int:
    """Drop repeated siblings, but test the next one with the q of the first draw."""
    for x in dict.fromkeys(children):
        if rng.random() * q[x] < p[x]:
            return x
        p = _normalised(residual(p, q))
    return draw(p, rng)


@walk("control")
def certain_siblings(children: list[int], q: Array, p: Array, rng: Any) -> int:
    """Take siblings for certain: accept with p(x), strike x out, renormalise."""
    for x in dict.fromkeys(children):
        if rng.random() < p[x]:
            return x
        p = _normalised(np.where(np.arange(len(p)) == x, 0, p))
    return draw(p, rng)


@walk("G4", "joint")
def target_not_renormalised(children: list[int], q: Array, p: Array, rng: Any) -> int:
    """Strike a rejected sibling out of p without renormalising."""
    for x in dict.fromkeys(children):
        if rng.random() < p[x]:
            return x
        p = np.where(np.arange(len(p)) == x, 0, p)
    return draw(p, rng)


@walk("G1", "joint")
def sample_for_each_candidate(children: list[int], q: Array, p: Array, rng: Any) -> int:
    """Give every candidate a target sample of its own: more candidates, more lottery tickets."""
    for x in children:
        token = draw(p, rng)
        if token == x:
            return token
    return token


@walk("control")
def k_seq(children: list[int], q: Array, p: Array, rng: Any) -> int:
    """Accept siblings with min(1, p / (rho q)), rho as small as the target allows."""
    return _k_seq(children, q, p, _smallest_rho(len(children), q, p), rng)


@walk("mutant", "exact")
def k_seq_of_low_rho(children: list[int], q: Array, p: Array, rng: Any) -> int:
    """Round rho down by a tenth of a percent: a little more is accepted than the target has."""
    return _k_seq(children, q, p, max(1.0, 0.999 * _smallest_rho(len(children), q, p)), rng)


def _smallest_rho(count: int, q: Array, p: Array) -> float:
    """Solve 1 - (1 - b)^n = rho b with b = sum min(p / rho, q), from above."""
    low, high = 1.0, float(count)
    for _ in range(60):
        middle = (low + high) / 2
        accepted = np.minimum(p / middle, q).sum()
        low, high = (low, middle) if 1 - (1 - accepted) ** count <= middle * accepted else (middle, high)
    return high


def _k_seq(children: list[int], q: Array, p: Array, rho: float, rng: Any) -> int:
    for x in children:
        if rng.random() * rho * q[x] < p[x]:
            return x
    served = np.minimum(p / rho, q)
    accepted = served.sum()
    share = (1 - (1 - accepted) ** len(children)) / accepted if accepted > 0 else 0.0
    return draw(np.maximum(p - share * served, 0), rng)


@specimen("C11", "batch", num_paths=2, function=walked)
def shared_at_distance_2_by_paths(seeds: Array) -> Array:
    """Requests 2 apart share their numbers, with several paths: groups of four keep two sets."""
    request = np.arange(len(seeds))
    return seeds[request - 2 * (request // 2 % 2)]


@specimen("control", num_paths=2, function=walked)
def own_seeds_by_paths(seeds: Array) -> Array:
    """Every request has a generator of its own, with several paths."""
    return seeds
