"""Multi-path rules at full vocabularies: of a block, and of one step.

Rows are Zipf-like pairs: target logits -1.1 log(rank) plus noise, draft logits the same plus more noise, cut
to their own top k. Acceptance is the probability that a draft is accepted by the rule's own test.
"""

from functools import partial

import numpy as np

import verifiers
from lab.benchmarks.measure import in_turns, median, ratio, table
from verifiers import Drafts, numpy_decisions
from verifiers.arrays import normalised
from verifiers.parts.balanced_selection import balanced_plan
from verifiers.parts.path import residual
from verifiers.parts.path_order import highest_path_row, ranks
from verifiers.parts.ratio_levels import prefix_bounds, ratio_key, running_sum
from verifiers.rules.k_seq import smallest_rho

VOCAB_SIZES, TOP_K, NUM_DRAFTS = (1_000, 50_257, 151_936), (10, 100, None), (2, 4, 8)
PATHS, LENGTH, ROUNDS = 4, 4, 5
REFERENCE = "balanced_multipath_block"
RULES = ("block", "greedy_multipath_block", "global_resolution", REFERENCE, "lookahead_multipath_block")


def zipf_pairs(count, vocab_size, top_k=None):
    """Return target and draft rows [count, 2, V], probability mass."""
    rng = np.random.default_rng(0)
    target = -1.1 * np.log(np.arange(2.0, vocab_size + 2)) + 0.6 * rng.standard_normal((count, vocab_size))
    draft = target + 0.7 * rng.standard_normal((count, vocab_size))
    rows = np.exp(np.stack([target, draft], axis=1))
    if top_k is not None:
        rows[rows < np.sort(rows, axis=-1)[..., -top_k, None]] = 0
    return rows / rows.sum(axis=-1, keepdims=True)


def by_k_seq(p, q, n):
    """1 - (1 - beta)^n at the best rho."""
    rho = smallest_rho(p[None], q[None], np.array([n]))[0]
    return 1 - (1 - np.minimum(p / rho, q).sum()) ** n


def by_recursive_rejection(p, q, n):
    """One less the product of the rejection probabilities of n tests in turn."""
    missed = 1.0
    for _ in range(n):
        missed *= max(0.0, 1 - np.minimum(p, q).sum())
        p = normalised(residual(p, q))
    return 1 - missed


def by_highest_ratio(p, q, n):
    """Selection as in GBV (the draft of highest p/q), then the token rule."""
    law = highest_path_row(q[None], ranks(p[None], q[None]), np.zeros(1), n)[0]
    return np.minimum(p, law).sum()


def most_of_one_step(p, q, n):
    """alpha*: the least bound of a prefix of the tokens by p/q."""
    order = np.argsort(ratio_key(p, q))
    return prefix_bounds(*(running_sum(row[order][None]) for row in (p, q)), np.array([n])).min()


OTHERS = {"K-SEQ": by_k_seq, "recursive": by_recursive_rejection, "GBV": by_highest_ratio}


def one_step():
    """Yield V, top k, n, alpha*, the shortfall of balanced selection, milliseconds, others' acceptance."""
    for vocab_size in VOCAB_SIZES:
        for top_k in TOP_K:
            ((p, q),) = zipf_pairs(1, vocab_size, top_k)
            for n in NUM_DRAFTS:
                select = partial(balanced_plan, p[None], q[None], np.array([n]))
                times, plan = in_turns({"ours": select}, ROUNDS), select()
                most = most_of_one_step(p, q, n)
                short = most - np.minimum(p, plan.law[0]).sum()
                found = (most, *(rule(p, q, n) for rule in OTHERS.values()))
                best, *others = (f"{value:.4f}" for value in found)
                names = (f"{vocab_size:,}", str(top_k or "-"), str(n))
                yield *names, best, f"{abs(short):.0e}", median(times["ours"]), *others


def drafts(vocab_size):
    """Return one request whose paths part at the first token, so that they share the root alone."""
    rows = zipf_pairs(PATHS * (LENGTH + 1), vocab_size).reshape(1, PATHS, LENGTH + 1, 2, vocab_size)
    rows[:, :, 0] = rows[:, :1, 0]
    rng = np.random.default_rng(1)
    # The largest of q / exponential is a draw from q; at the root the four largest, so that they differ.
    order = np.argsort(-rows[0, :, :LENGTH, 1] / rng.exponential(size=(PATHS, LENGTH, vocab_size)), axis=-1)
    tokens = order[:, :, 0]
    tokens[:, 0] = order[0, 0, :PATHS]
    rows = rows.astype(np.float32)
    return Drafts.of_paths(tokens[None], rows[:, :, :LENGTH, 1], rows[:, :, :, 0])


def block_rules():
    """Yield V, rule, milliseconds, and the ratio to `balanced_multipath_block`."""
    for vocab_size in VOCAB_SIZES[1:]:
        given = drafts(vocab_size)
        decisions = numpy_decisions(np.random.default_rng(2))
        calls = {name: partial(verifiers.get(name).verify, given, decisions) for name in RULES}
        times = in_turns(calls, ROUNDS)
        for name in RULES:
            yield f"{vocab_size:,}", f"`{name}`", median(times[name]), ratio(times, name, REFERENCE)


def lines():
    yield "## Multi-path rules at full vocabularies"
    yield ""
    yield f"One request, {PATHS} paths of {LENGTH} tokens that share the root, no top k, float32, numpy:"
    yield ""
    yield from table(["V", "rule", "ms", "/ balanced"], block_rules())
    yield ""
    yield "Balanced selection of one of n drafts: its time, the best acceptance, alpha\\*, others':"
    yield ""
    heads = ["V", "top k", "n", "alpha\\*", "shortfall", "ms", *OTHERS]
    yield from table(heads, one_step())
