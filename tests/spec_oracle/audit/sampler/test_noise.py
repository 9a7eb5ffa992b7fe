"""Engines that take accept uniforms and exponential noise as arguments: row by row beside the token rule."""

from dataclasses import dataclass

import numpy as np
import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import How
from spec_oracle.audit.sampler.reference import assembled, decided, weights_after
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import SamplerCode

torch = pytest.importorskip("torch")


@dataclass(frozen=True)
class Engine:
    """The token rule by a race; ``bias`` is added to the accept uniforms, ``late`` to the last time."""

    bias: float = 0.0
    late: float = 0.0
    reads_draft: bool = True

    def __call__(self, tokens, draft, target, generator):
        uniforms = torch.rand(tokens.shape, generator=generator, dtype=torch.float64)
        times = torch.empty(len(tokens), target.shape[2], dtype=torch.float64)
        return self.with_noise(tokens, draft, target, uniforms, times.exponential_(generator=generator))

    def with_noise(self, tokens, draft, target, uniforms, times):
        tokens, draft, target, uniforms, times = (t.numpy() for t in (tokens, draft, target, uniforms, times))
        any_last = np.zeros((len(tokens), 1))
        _, tau = decided("token", tokens, draft, target, np.hstack([uniforms + self.bias, any_last]))
        delays = times + self.late * (np.arange(times.shape[1]) == times.shape[1] - 1)
        weights = weights_after(draft, target, tau, np.ones(len(tau)))
        emitted = assembled(tokens, tau, (weights / delays).argmax(axis=1))
        return tuple(torch.from_numpy(array) for array in emitted)


def joint_of(engine, budget):
    code = SamplerCode(engine, "torch")
    subject = SamplerSubject("mine", code, traceable=False, randomness=engine)
    return result_of("joint", subject, Context(rate=5e-7, budget=budget))


def test_the_right_rule_passes_by_its_own_noise():
    check = joint_of(Engine(), 20.0)
    assert check.status is Status.PASSED
    assert check.how is How.REPLAYED
    assert check.findings.smallest_detectable_tv <= 0.02
    assert check.measured.draws < 5000


@pytest.mark.parametrize("engine", [Engine(bias=-0.1), Engine(late=0.5)], ids=["uniforms", "noise"])
def test_a_wrong_distribution_is_found_by_samples(engine):
    """Rows differ, which is no defect by itself; a false alarm of the samples has the chance 5e-7."""
    check = joint_of(engine, 20.0)
    assert check.status is Status.FAILED
    assert check.how is How.SAMPLED


def test_right_code_that_uses_its_noise_otherwise_is_judged_by_samples():
    class Otherwise(Engine):
        def with_noise(self, tokens, draft, target, uniforms, times):
            return super().with_noise(tokens, draft, target, 1 - uniforms, times)

    check = joint_of(Otherwise(), 8.0)
    assert check.status is Status.PASSED
    assert check.how is How.SAMPLED
    assert "rows differ from the rule's under the same random numbers" in check.remarks.notes[0]
