"""Exact law of block verification: whole batches, beside a plain recursion branch by branch.

    python benchmarks/enumeration.py

Both give the same law; the ratio of their times is what vectorising is worth.
"""

import time
from itertools import product

import numpy as np

import verifiers
from spec_oracle.exact import emission_law
from spec_oracle.toy import Instance

SIZES = ((3, 3), (4, 4), (6, 4))


def recursion(instance):
    """Return the emission law of block verification, computed one path and one outcome at a time."""
    target, draft, length = instance.target.floats, instance.draft.floats, instance.draft_length
    law = {}
    for path in product(range(instance.vocab_size), repeat=length):
        p = [target.conditional(path[:i]) for i in range(length + 1)]
        q = [draft.conditional(path[:i]) for i in range(length)]
        weights, mass = [1.0], 1.0
        for i, token in enumerate(path):
            mass *= q[i][token]
            weights.append(min(1.0, weights[-1] * p[i][token] / q[i][token]))
        for tau in range(length, -1, -1):
            if tau == length:
                stop, row = weights[-1], p[-1]
            else:
                row = np.maximum(weights[tau] * p[tau] - q[tau], 0)
                below = row.sum() + 1 - weights[tau]
                stop = row.sum() / below if below > 0 else 1.0
            if stop > 0 and row.sum() > 0:
                for token, share in enumerate(row / row.sum()):
                    emission = (*path[:tau], token)
                    law[emission] = law.get(emission, 0.0) + mass * stop * share
            mass *= 1 - stop
    return law


def best_of(runs, function):
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - started)
    return min(times), result


def main():
    print("| V | L | paths | recursion ms | enumeration ms | ratio | rationals ms |")
    print("| --: | --: | --: | --: | --: | --: | --: |")
    for vocab, length in SIZES:
        instance = Instance.random(vocab, length, seed=0)
        plain, expected = best_of(3, lambda i=instance: recursion(i))
        batched, law = best_of(3, lambda i=instance: emission_law(verifiers.get("block"), i))
        gap = max(abs(law.probabilities.get(text, 0.0) - mass) for text, mass in expected.items())
        assert gap < 1e-12, gap
        short = instance.rounded(64)
        exact, _ = best_of(1, lambda i=short: emission_law(verifiers.get("block"), i, exact=True))
        print(
            f"| {vocab} | {length} | {vocab**length} | {1e3 * plain:.1f} | {1e3 * batched:.1f} "
            f"| {plain / batched:.0f} | {1e3 * exact:.0f} |"
        )


if __name__ == "__main__":
    main()
