"""Multi-path block rules at full vocabularies: time of one request, side by side.

    OMP_NUM_THREADS=1 python benchmarks/multipath_block.py > table.md

K = 4 paths of L = 4 tokens drawn from Zipf-like pairs of rows, temperature 1, no top k, another pair at every
node, float32 as a model gives them. The paths part at the first token, so that they share nothing but the
root: 13 nodes. CPU milliseconds on one core, the least of seven rounds in which the rules take turns; the
last column is the median over rounds of the time over that of `balanced_multipath_block`.
"""

import time

import numpy as np
from numpy.typing import NDArray

import verifiers
from verifiers import Drafts, Verifier, numpy_decisions

REFERENCE = "balanced_multipath_block"
RULES = ("block", "greedy_multipath_block", "global_resolution", REFERENCE, "lookahead_multipath_block")
VOCAB_SIZES = (50_257, 151_936)
PATHS, LENGTH, ROUNDS = 4, 4, 7


def zipf_pairs(count: int, vocab_size: int) -> NDArray[np.float32]:
    """Return target and draft rows [count, 2, V]."""
    rng = np.random.default_rng(0)
    target = -1.1 * np.log(np.arange(2.0, vocab_size + 2)) + 0.6 * rng.standard_normal((count, vocab_size))
    draft = target + 0.7 * rng.standard_normal((count, vocab_size))
    rows = np.exp(np.stack([target, draft], axis=1))
    return (rows / rows.sum(axis=-1, keepdims=True)).astype(np.float32)


def drafts(vocab_size: int) -> Drafts:
    """Return one request whose paths part at the first token."""
    rows = zipf_pairs(PATHS * (LENGTH + 1), vocab_size).reshape(1, PATHS, LENGTH + 1, 2, vocab_size)
    rows[:, :, 0] = rows[:, :1, 0]
    rng = np.random.default_rng(1)
    # The largest of q / exponential is a draw from q; at the root the four largest, so that they differ.
    order = np.argsort(-rows[0, :, :LENGTH, 1] / rng.exponential(size=(PATHS, LENGTH, vocab_size)), axis=-1)
    tokens = order[:, :, 0]
    tokens[:, 0] = order[0, 0, :PATHS]
    return Drafts(tokens[None], rows[:, :, :LENGTH, 1], rows[:, :, :, 0])


def milliseconds(rule: Verifier, given: Drafts) -> float:
    """Return the CPU time of one call."""
    started = time.process_time()
    rule.verify(given, numpy_decisions(np.random.default_rng(2)))
    return 1e3 * (time.process_time() - started)


def main() -> None:
    """Print the table."""
    print("| V | rule | ms | / balanced |")
    print("| --: | --- | --: | --: |")
    for vocab_size in VOCAB_SIZES:
        given = drafts(vocab_size)
        rules = [verifiers.get(name) for name in RULES]
        times = np.array([[milliseconds(rule, given) for rule in rules] for _ in range(ROUNDS)])
        ratios = np.median(times / times[:, [RULES.index(REFERENCE)]], axis=0)
        for name, least, ratio in zip(RULES, times.min(axis=0), ratios, strict=True):
            print(f"| {vocab_size:,} | `{name}` | {least:.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
