"""Engines that are handed their coins and clocks: beside the token rule, row by row."""

from dataclasses import dataclass

import numpy as np
import pytest
from spec_oracle.audit.subjects.function import FunctionSubject

from spec_oracle.audit import Status
from spec_oracle.audit.context import Bench
from spec_oracle.audit.reports import Evidence
from spec_oracle.audit.sampler.coins import BY_COINS, assembled, weights_after
from spec_oracle.audit.table import CHECKS
from spec_oracle.contracts import SamplerCode

torch = pytest.importorskip("torch")


@dataclass(frozen=True)
class Engine:
    """The token rule by coins and clocks; ``bias`` is added to the coins, ``late`` to the last clock."""

    bias: float = 0.0
    late: float = 0.0
    reads_draft: bool = True

    def __call__(self, tokens, draft, target, generator):
        coins = torch.rand(tokens.shape, generator=generator, dtype=torch.float64)
        times = torch.empty(len(tokens), target.shape[2], dtype=torch.float64)
        return self.with_noise(tokens, draft, target, coins, times.exponential_(generator=generator))

    def with_noise(self, tokens, draft, target, coins, times):
        tokens, draft, target, coins, times = (t.numpy() for t in (tokens, draft, target, coins, times))
        any_last = np.zeros((len(tokens), 1))
        _, tau = BY_COINS["token"](tokens, draft, target, np.hstack([coins + self.bias, any_last]))
        delays = times + self.late * (np.arange(times.shape[1]) == times.shape[1] - 1)
        weights = weights_after(draft, target, tau, np.ones(len(tau)))
        emitted = assembled(tokens, tau, (weights / delays).argmax(axis=1))
        return tuple(torch.from_numpy(array) for array in emitted)


def joint_of(engine, budget):
    subject = FunctionSubject("mine", SamplerCode(engine, "torch"), follow=False, raced=engine)
    bench = Bench(alpha=5e-7, budget=budget)
    return CHECKS["joint"].outcome(subject, bench), bench.findings


def test_the_right_rule_passes_by_its_own_noise():
    check, findings = joint_of(Engine(), 20.0)
    assert check.status is Status.PASSED
    assert findings.evidence is Evidence.REPLAYED
    assert findings.smallest_detectable_tv <= 0.02
    assert check.draws < 5000


@pytest.mark.parametrize("engine", [Engine(bias=-0.1), Engine(late=0.5)], ids=["coins", "clocks"])
def test_what_differs_in_law_is_found_by_the_rows(engine):
    check, findings = joint_of(engine, 20.0)
    assert check.status is Status.FAILED
    assert findings.evidence is Evidence.REPLAYED


def test_right_code_that_uses_its_noise_otherwise_is_judged_by_draws():
    class Otherwise(Engine):
        def with_noise(self, tokens, draft, target, coins, times):
            return super().with_noise(tokens, draft, target, 1 - coins, times)

    check, findings = joint_of(Otherwise(), 20.0)
    assert check.status is Status.PASSED
    assert findings.evidence is Evidence.STATISTICAL
    assert "rows differ from the rule under the same uniforms" in findings.notes[0]
