"""Balanced selection against other one-step rules: time and acceptance, as a Markdown table.

    OMP_NUM_THREADS=1 python benchmarks/balanced_selection.py [--vocab-sizes 1000 50257 151936] > table.md

Rows are Zipf-like pairs: target logits -1.1 log(rank) plus noise, draft logits the same plus more noise, both
at a temperature and cut to their own top k. Times are CPU milliseconds of one call for one request on one
core, the least of five. Acceptance is the probability that a draft is accepted by the rule's own test. LP is
the transport from multisets of drafts to tokens, solved by HiGHS, for up to 6,000 multisets.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

from verifiers.arrays import normalised
from verifiers.parts.balanced_selection import balanced_plan
from verifiers.parts.path_order import highest_path_row, ranks
from verifiers.parts.residual import residual
from verifiers.rules.k_seq import smallest_rho

Row = NDArray[np.float64]
TEMPERATURES = (0.6, 1.0, 1.4)
TOP_K = (10, 100, 1000, None)
NUM_DRAFTS = (2, 4, 8)
MAX_MULTISETS = 6_000
REPEATS = 5


def zipf_pair(vocab_size: int, temperature: float, top_k: int | None, seed: int = 0) -> tuple[Row, Row]:
    """Return target and draft rows [V], probability mass."""
    rng = np.random.default_rng(seed)
    target = -1.1 * np.log(np.arange(2.0, vocab_size + 2)) + 0.6 * rng.standard_normal(vocab_size)
    draft = target + 0.7 * rng.standard_normal(vocab_size)
    return _row(target / temperature, top_k), _row(draft / temperature, top_k)


def _row(logits: Row, top_k: int | None) -> Row:
    mass = np.exp(logits - logits.max())
    if top_k is not None:
        mass[np.argsort(-mass)[top_k:]] = 0
    return mass / mass.sum()


def k_seq_acceptance(p: Row, q: Row, n: int) -> float:
    """1 - (1 - beta)^n at the best rho."""
    rho = smallest_rho(p[None], q[None], np.array([n]))[0]
    return float(1 - (1 - np.minimum(p / rho, q).sum()) ** n)


def recursive_rejection_acceptance(p: Row, q: Row, n: int) -> float:
    """One less the product of the rejection probabilities of n tests in turn."""
    missed = 1.0
    for _ in range(n):
        missed *= max(0.0, 1 - float(np.minimum(p, q).sum()))
        p = normalised(residual(p, q))
    return 1 - missed


def highest_ratio_acceptance(p: Row, q: Row, n: int) -> float:
    """Selection as in GBV (the draft of highest p/q), then the token rule."""
    law = highest_path_row(q[None], ranks(p[None], q[None]), np.zeros(1), n)[0]
    return float(np.minimum(p, law).sum())


def linear_program_acceptance(p: Row, q: Row, n: int) -> float:
    """The best acceptance of any rule: the largest flow from multisets of drafts to the tokens they hold."""
    support = np.flatnonzero(q)
    mass, row, column, wanted = [], [], [], []
    for multiset in combinations_with_replacement(range(len(support)), n):
        orders = factorial(n) // prod(factorial(multiset.count(x)) for x in set(multiset))
        for x in set(multiset):
            row.append(len(mass))
            column.append(len(wanted))
            wanted.append(x)
        mass.append(orders * np.prod(q[support[list(multiset)]]))
    rows = np.concatenate([row, len(mass) + np.array(wanted)])
    columns = np.concatenate([column, np.arange(len(wanted))])
    limits = np.concatenate([mass, p[support]])
    matrix = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(limits), len(wanted)))
    result = linprog(-np.ones(len(wanted)), A_ub=matrix.tocsr(), b_ub=limits, method="highs")
    return -float(result.fun)


def timed(call: Callable[[], object], repeats: int = REPEATS) -> tuple[float, object]:
    """Return the least CPU time in milliseconds, and the result."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = call()
        times.append(1e3 * (time.process_time() - start))
    return min(times), result


def table(vocab_size: int) -> Iterator[str]:
    """Yield the table's lines for one vocabulary."""
    for top_k in TOP_K:
        if top_k is not None and top_k >= vocab_size:
            continue
        for temperature in TEMPERATURES:
            p, q = zipf_pair(vocab_size, temperature, top_k)
            for n in NUM_DRAFTS:
                yield line(p, q, n, f"{vocab_size} | {top_k or '-'} | {temperature} | {n}")


def line(p: Row, q: Row, n: int, label: str) -> str:
    """Measure every rule on one pair of rows."""
    count = np.array([n])
    spent, plan = timed(lambda: balanced_plan(p[None], q[None], count))
    cells = [label, f"{plan.levels.optimum[0]:.6f}", f"{spent:.1f}", f"{abs(plan.shortfall[0]):.0e}"]
    support = np.count_nonzero(q)
    if comb(support + n - 1, n) <= MAX_MULTISETS:
        spent, value = timed(lambda: linear_program_acceptance(p, q, n), 1)
        cells += [f"{spent:.0f}", f"{value:.6f}"]
    else:
        cells += ["-", "-"]
    for rule in (k_seq_acceptance, recursive_rejection_acceptance, highest_ratio_acceptance):
        spent, value = timed(lambda rule=rule: rule(p, q, n), 2)
        cells += [f"{spent:.1f}", f"{value:.4f}"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocab-sizes", type=int, nargs="+", default=[1000, 50257, 151936])
    sizes = parser.parse_args().vocab_sizes
    names = ["V", "top k", "T", "n", "alpha*", "balanced ms", "shortfall", "LP ms", "LP"]
    names += ["K-SEQ ms", "K-SEQ", "recursive ms", "recursive", "GBV ms", "GBV"]
    print("| " + " | ".join(names) + " |")
    print("|" + " --: |" * len(names))
    for vocab_size in sizes:
        for text in table(vocab_size):
            print(text, flush=True)


if __name__ == "__main__":
    main()
