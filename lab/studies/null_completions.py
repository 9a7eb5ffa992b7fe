"""False alarms of long completions that are right: `python -m lab.studies.null_completions --count 2000`.

Each audit samples the tokens of right completions, no server between: next-token distributions, and those of
a draft model, are random, others at every token; what is "reported" may be off by a known noise. The evidence
is looked at after every round, as an audit does: a look that reaches a rate is a false alarm. Prints how many
there were at each rate.
"""

import argparse
import time
from collections import Counter
from typing import Final

import numpy as np

from spec_oracle.statistics import clopper_pearson
from spec_oracle.statistics.long_completions import Scored, TokenEvidence, joined, point_masses

RATES: Final = (0.5, 0.1, 0.01)
ORDERS: Final = ("p/q", "n-gram")
VOCAB: Final = 12
LENGTH: Final = 64
AT_ONCE: Final = 4
NOISE: Final = 0.01


def completion(rng: np.random.Generator, noise: float) -> Scored:
    """Return a right completion; what is assumed of its distributions is off by ``noise`` nats at most."""
    p = rng.dirichlet(np.full(VOCAB, 0.5), LENGTH)
    p = -np.sort(-p, axis=1)
    q = 0.5 * p + 0.5 * rng.dirichlet(np.full(VOCAB, 0.5), LENGTH)
    reached = np.cumsum(p, axis=1)
    came = (rng.random((LENGTH, 1)) * reached[:, -1:] > reached).sum(axis=1)
    shown = p * np.exp(rng.uniform(-noise, noise, p.shape))
    proposed = [int(one) if one < VOCAB else None for one in rng.integers(3 * VOCAB, size=LENGTH)]
    drafts = {"p/q": q, "n-gram": point_masses(proposed, VOCAB)}
    return Scored(shown / shown.sum(axis=1, keepdims=True), came, drafts, np.expm1(2 * noise) / 2)


def smallest_p_value(number: int, rounds: int) -> float:
    """Return the smallest p-value of all looks of one audit; every other one has noise."""
    rng = np.random.default_rng([number, 30])
    evidence = TokenEvidence(ORDERS, rng)
    for _ in range(rounds):
        evidence.add(joined([completion(rng, NOISE * (number % 2)) for _ in range(AT_ONCE)]))
    return evidence.p_value


def main() -> None:
    """Run so many audits, and print the false alarms at each rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3, help="looks, 4 more completions before each")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no audit after that")
    options = parser.parse_args()
    end, done, alarms = time.monotonic() + options.seconds, 0, Counter[float]()
    for number in range(options.count):
        if time.monotonic() > end:
            break
        least = smallest_p_value(number, options.rounds)
        alarms.update(rate for rate in RATES if least <= rate)
        done += 1
    print(f"{done:,} audits of right completions, {options.rounds * AT_ONCE} of {LENGTH} tokens each:")  # noqa: T201
    for rate in RATES:
        _, upper = clopper_pearson(np.array([alarms[rate], done - alarms[rate]]), 1e-6)
        within = "within" if alarms[rate] <= rate * done else "above"
        found = f"{alarms[rate]} false alarms, {within} {rate * done:,.0f}; at most {upper[0]:.3g} a run"
        print(f"rate {rate:g}: {found}")  # noqa: T201


if __name__ == "__main__":
    main()
