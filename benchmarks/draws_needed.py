"""Draws needed to find a total variation of 0.01 in a uniform law over 16 outcomes, at alpha 1e-9.

The defect is the spread one: every other outcome too likely by 2 %, the rest too rare by 2 %. It is the least
favourable defect of its size. Run with ``python benchmarks/draws_needed.py``; takes a few seconds.
"""

import numpy as np

from spec_oracle.statistics import (
    draws_needed_by_chi_square,
    draws_needed_by_e_process,
    draws_needed_by_finite_sample_g,
    draws_needed_by_g,
    draws_needed_by_total_variation,
    log_e_value,
)

ALPHA = 1e-9
LAW = np.full(16, 1 / 16)
LOOK_EVERY = 1_000
RUNS = 200
ASYMPTOTIC_G = "yardstick 423,000 (power from the limit law; ours is guaranteed)"


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


def print_fixed(tv, yardsticks):
    by_test = {
        "chi-square": draws_needed_by_chi_square,
        "G": draws_needed_by_g,
        "total variation (guaranteed)": draws_needed_by_total_variation,
        "finite-sample G (guaranteed)": draws_needed_by_finite_sample_g,
        "e-process, by then": draws_needed_by_e_process,
    }
    for name, draws_needed in by_test.items():
        print(f"  {name:<30}{draws_needed(tv, LAW, alpha=ALPHA):>10,}   {yardsticks.get(name, '')}")


def main():
    rng = np.random.default_rng(0)
    print("V = 16, spread defect, alpha 1e-9; yardsticks from a survey of existing methods")
    for tv, yardsticks, dirichlet in (
        (0.01, {"chi-square": "yardstick 299,000", "finite-sample G (guaranteed)": ASYMPTOTIC_G}, 460_000),
        (0.05, {"chi-square": "yardstick 11,900"}, 14_500),
    ):
        print(f"TV {tv}: draws for 99.9 % power")
        print_fixed(tv, yardsticks)
        stopped = stopping_times(tv, rng)
        print(
            f"  e-process, {RUNS} runs: mean {stopped.mean():,.0f}, 90th percentile "
            f"{np.quantile(stopped, 0.9):,.0f}, largest {stopped.max():,}; "
            f"yardstick, uniform Dirichlet prior: mean {dirichlet:,}"
        )


if __name__ == "__main__":
    main()
