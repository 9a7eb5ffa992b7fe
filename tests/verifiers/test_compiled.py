"""Rules compiled by `torch.compile` emit what the eager ones do, on every cell of a fine grid.

A rule for one path asks for two decisions, so its law is the area of the regions of a square. The compiled
and the eager code agree at the centre of each of 4,096 cells after each draft, which is far finer than the
regions are here.
"""

import numpy as np
import pytest

from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.call import DraftTable, drafting_on
from spec_oracle.toy import Instance
from verifiers import Siblings

torch = pytest.importorskip("torch")

from lab.benchmarks.verification import on_uniforms  # noqa: E402  # after the check for torch

CELLS = 64

pytestmark = [
    pytest.mark.nightly,  # the compiler of C++ takes its time
    pytest.mark.filterwarnings("ignore"),  # of the compiler
    pytest.mark.parametrize("rule", ["token", "block"]),
    pytest.mark.parametrize("dtype", ["float32", "bfloat16"]),
]


def test_a_compiled_rule_emits_what_the_eager_one_does(rule, dtype):
    verify = on_uniforms(rule)
    toy = Instance.random(3, 2, seed=5)
    table = DraftTable(toy, drafting_on(toy, Siblings.INDEPENDENT), arithmetic(array="torch", dtype=dtype))
    centres = (np.arange(CELLS) + 0.5) / CELLS
    square = np.stack(np.meshgrid(centres, centres), axis=-1).reshape(-1, 2)
    rows = np.repeat(np.arange(len(table.law.tokens)), len(square))
    paths = table.paths(rows)
    uniforms = torch.from_numpy(np.tile(square, (len(table.law.tokens), 1)))
    given = paths.tokens, paths.draft_probs, paths.target_probs, uniforms
    for compiled, eager in zip(torch.compile(verify)(*given), verify(*given), strict=True):
        assert torch.equal(compiled, eager)
        assert len(eager.unique()) == 3


def test_compiled_kernels_move_at_most_twice_the_bytes_of_the_rows(rule, dtype):
    from lab.benchmarks.compiled_traffic import compiled_traffic  # imports the compiler, which warns

    moved, least = compiled_traffic(rule, getattr(torch, dtype))
    assert {"token": 0.2, "block": 1}[rule] < moved / least < {"token": 0.4, "block": 1.6}[rule]
