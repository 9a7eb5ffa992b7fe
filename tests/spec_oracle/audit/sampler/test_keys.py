"""Noise keyed by (seed, position): computed again, compared row by row, and over several calls."""

from dataclasses import dataclass

import numpy as np
import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.audit.instances import panel
from spec_oracle.audit.sampler.keyed_noise import by_keys, pair_by_keys
from spec_oracle.audit.sampler.paired_with_rule import PairedRows
from spec_oracle.audit.sampler.reference import decided
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.suite import result_of
from spec_oracle.third_party.samplers.vllm_v2 import murmur_uniform, philox_uniform
from tests.strategies import at_night
from verifiers import Paths

torch = pytest.importorskip("torch")

SECONDS = 60.0


@dataclass(frozen=True)
class Engine:
    """A rule by accept uniforms, keyed by the completion's length and the place in the draft."""

    rule: str
    step: int = 0
    block: bool = False
    reads_draft: bool = True
    accept_uniforms = staticmethod(philox_uniform)
    race_uniforms = staticmethod(murmur_uniform)

    def __call__(self, tokens, draft, target, generator):
        seeds = torch.randint(2**62, (len(tokens),), generator=generator)
        return self.with_seeds(tokens, draft, target, seeds, torch.zeros_like(seeds))

    def with_seeds(self, tokens, draft, target, seeds, positions):
        tokens, draft, target, seeds, positions = (
            t.numpy() for t in (tokens, draft, target, seeds, positions)
        )
        place = np.arange(tokens.shape[1])
        accept = philox_uniform(seeds[:, None], positions[:, None] * (1 + self.step) + place)
        last = murmur_uniform(seeds, positions, np.zeros_like(seeds))
        uniforms = np.concatenate([accept, last[:, None]], axis=1)
        emitted = decided(self.rule, tokens, draft, target, uniforms)
        return tuple(torch.from_numpy(array) for array in emitted)


@dataclass(frozen=True)
class Racing:
    """An engine that decides by the hashes as ours does."""

    block: bool = False
    reads_draft: bool = True
    accept_uniforms = staticmethod(philox_uniform)
    race_uniforms = staticmethod(murmur_uniform)
    __call__ = Engine.__call__

    def with_seeds(self, tokens, draft, target, seeds, positions):
        arrays = (t.numpy()[:, None] for t in (tokens, draft, target))
        emitted = by_keys(self)(Paths(*arrays), seeds.numpy(), positions.numpy())
        return torch.from_numpy(emitted.tokens), torch.from_numpy(emitted.lengths - 1)


def calls(engine, budget):
    """Return the result of the check `calls`, at a rate of 1e-7."""
    return result_of("calls", SamplerSubject.of_keys("mine", engine), Context(rate=5e-7, budget=budget))


def test_philox_follows_the_published_vectors():
    """Random123: counter and key zero give 6627e8d5 first; all ones give 408f276d."""
    zero = philox_uniform(np.array([0]), np.array([0]))
    assert zero == pytest.approx(0x6627E8D5 * 4.6566127342e-10, rel=1e-7)


def test_noise_is_uniform_and_differs_by_key():
    seeds = np.random.default_rng(0).integers(2**62, size=(2000, 1))
    for noise in (philox_uniform(seeds, np.arange(5)), murmur_uniform(seeds, np.arange(5), np.array([1]))):
        assert ((noise >= 0) & (noise < 1)).all()
        assert len(np.unique(noise)) > 9990
        assert abs(noise.mean() - 0.5) < 0.02


def test_block_verification_on_reused_positions_is_lossy_over_calls():
    check = calls(Engine("block"), SECONDS)
    assert (check.name, check.status) == ("calls", Status.FAILED)
    assert check.measured.draws < 2000


@pytest.mark.parametrize(
    "engine", [*at_night(Engine("token")), Engine("block", step=10)], ids=["token", "fresh keys"]
)
def test_block_verification_that_reads_each_position_once_passes(engine):
    assert calls(engine, 0.5).status is Status.PASSED


def test_the_texts_of_a_racing_engine_are_compared_with_its_rule():
    check = calls(Racing(), SECONDS)
    assert check.status is Status.PASSED
    assert "equal the rule's" in check.detail
    assert check.measured.draws < 100


def test_keys_that_come_again_are_found_though_calls_follow_the_rule():
    check = calls(Racing(block=True), SECONDS)
    assert check.status is Status.FAILED
    assert "rule" not in check.detail


def test_texts_that_differ_from_the_rules_are_judged_by_themselves():
    check = calls(Engine("token"), 1.0)
    assert check.status is Status.PASSED
    assert "rule" not in check.detail


def test_rows_of_another_race_differ():
    rows = PairedRows(panel(3, 2, 1, 0)["good-draft"])
    rows.add(pair_by_keys(Engine("token")), 200, np.random.default_rng(0))
    assert 0 < rows.differing < 200  # accept uniforms as expected, corrections by inversion and not by a race
