"""Completions of batches of three and more requests, with seeds and without: part of the check `batch`.

Each request must have its own distribution, and the first and the last one, which are alike, must be
independent. All is sampled: such batches have too many outcomes to be run.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.engine.sampled import outcomes
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.rounds import judge_process, lower_bound
from spec_oracle.contracts import ContractError, raising
from spec_oracle.contracts.engine import as_list
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.exact.completions import Ids
from spec_oracle.statistics import EProcess

# Sizes of the larger batches of which `batch` takes samples, without seeds and with them.
ENGINE_LARGER_BATCHES: Final = (3, 5, 8)
ENGINE_LARGER_LOOK: Final = 25  # Batches of each of these sizes a look.
ENGINE_LARGER_SHARE: Final = 0.5  # Share of the budget that these samples may take.

TOKENS = effort.ENGINE_FIRST_TOKENS


def larger_batches(cases: Sequence[Case], context: Context, rate: float) -> CheckResult:
    """Judge batches of every size, half of them with seeds; each half and size has its part of the rate."""
    seed_all(context.seed)
    sizes, names = ENGINE_LARGER_BATCHES, list(dict.fromkeys(case.name for case in cases))
    own = [[case for case in cases if case.name == name] for name in names]
    designs = [
        LargerBatches(some, size, seeded) for some in own for size in sizes for seeded in (False, True)
    ]
    seconds = ENGINE_LARGER_SHARE * context.budget / len(designs)
    return first_failure(rate, *(partial(_judged, design, context, seconds) for design in designs))


class LargerBatches(NamedTuple):
    """Batches of one size, of one engine; all their requests have seeds, or none has one."""

    cases: Sequence[Case]
    size: int
    seeded: bool


def _judged(design: LargerBatches, context: Context, seconds: float, rate: float) -> CheckResult:
    """Judge batches of one design, whose last request is like the first one."""
    cases, size, seeded = design
    rng = context.stream("engine/batch/larger", size, int(seeded))
    kinds = [outcomes(case.code, case.prompt, TOKENS, rng) for case in cases]
    places = [*(place % len(cases) for place in range(size - 1)), 0]
    process = EProcess.against([*(kinds[kind].law for kind in places), kinds[0].law_of_pairs])
    code, prompts, end = cases[0].code, [cases[kind].prompt for kind in places], time.perf_counter() + seconds
    for _ in range(effort.ENGINE_ROUNDS):
        drawn = []
        for _ in range(ENGINE_LARGER_LOOK):
            seeds = rng.integers(2**31, size=size).tolist() if seeded else [None] * size
            with raising():
                returned = generated_together(code.engine, prompts, TOKENS, seeds)
            drawn.append([code.checked(one, TOKENS, "generate_batch") for one in returned])
        columns = list(zip(*drawn, strict=True))
        for place, kind in enumerate(places):
            found = [kinds[kind].outcome(one) for one in columns[place]]
            process = process.observe(np.bincount(found, minlength=len(kinds[kind].law)), place)
        pairs = kinds[0].pairs(columns[0], columns[-1])
        process = process.observe(np.bincount(pairs, minlength=len(kinds[0].law_of_pairs)), size)
        is_known = context.admitted is not None and lower_bound(process, rate) <= context.admitted
        if (process.p_value <= rate and not is_known) or time.perf_counter() > end:
            break
    what = f"completions of batches of {size} requests{', with seeds' * seeded}"
    return judge_process(what, process, rate)


def generated_together(
    engine: Any, prompts: Sequence[Ids], tokens: int, seeds: Sequence[int | None]
) -> list[list[Any]]:
    """Return what an engine generates together; raises `ContractError` for what cannot be a batch."""
    returned = as_list(engine.generate_batch([list(prompt) for prompt in prompts], tokens, list(seeds)))
    if len(returned) != len(prompts):
        raise ContractError(f"generate_batch returned {len(returned)} completions for {len(prompts)} prompts")
    return [as_list(completion) for completion in returned]
