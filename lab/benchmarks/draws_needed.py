"""Draws that tests need to find a defect in a uniform law over 16 outcomes."""

import numpy as np

from lab.benchmarks.measure import table
from spec_oracle.statistics import draws_needed_by_g, draws_needed_by_joint_e_process, log_e_value

ALPHA = 1e-9
LAW = np.full(16, 1 / 16)
LOOK_EVERY = 1_000
RUNS = 200


def spread_defect(tv):
    return LAW * (1 + 2 * tv * np.where(np.arange(LAW.size) % 2 == 0, 1, -1))


def stopping_times(tv, rng):
    """Draws at which the e-process first reaches 1 / alpha, looked at every so many draws, int [RUNS]."""
    stopped = np.zeros(RUNS, dtype=np.int64)
    counts = np.zeros((RUNS, LAW.size), dtype=np.int64)
    while (running := stopped == 0).any():
        counts[running] += rng.multinomial(LOOK_EVERY, spread_defect(tv), size=int(running.sum()))
        alarmed = running & (log_e_value(counts, LAW) >= -np.log(ALPHA))
        stopped[alarmed] = counts[alarmed].sum(axis=1)
    return stopped


def fixed(tv):
    """Return the draws with which each test has found a defect of total variation ``tv``."""
    return {
        "G": draws_needed_by_g(tv, LAW, alpha=ALPHA),
        "e-process, by then": draws_needed_by_joint_e_process(tv, [LAW], alpha=ALPHA),
    }


def lines():
    yield "## Draws needed"
    yield ""
    yield f"""\
V = {LAW.size}; every other outcome too likely, the rest too rare by as much: the least favourable defect of
its size. alpha {ALPHA:g}, power 99.9 %; and {RUNS} runs of an e-process, looked at each {LOOK_EVERY:,} draws.
"""
    rng = np.random.default_rng(0)
    found = []
    for tv in (0.01, 0.05):
        stopped = stopping_times(tv, rng)
        found.append(
            fixed(tv)
            | {"e-process, mean": stopped.mean()}
            | {"e-process, 90th percentile": np.quantile(stopped, 0.9)}
        )
    yield from table(
        ["test", "TV 0.01", "TV 0.05"], ((name, *(of[name] for of in found)) for name in found[0])
    )
