"""List coupling: its races, what it reads, both array libraries, and the exact emission law."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch

from lab.coupling.coupling import coupled_emission_law
from lab.coupling.list_coupling import LIST_COUPLING, STRONG_LIST_COUPLING, coupled_drafts, race
from spec_oracle.statistics.goodness_of_fit import goodness_of_fit_by_g
from spec_oracle.toy import Instance
from verifiers import InvalidInputError

RULES = (LIST_COUPLING, STRONG_LIST_COUPLING)
RATE = 1e-9


def rows_of(model, library=np.asarray):
    """Return what reads the rows of a toy model after paths of one request after another."""

    def rows(paths):
        found = [[model.floats.conditional(path) for path in request] for request in paths.tolist()]
        return library(np.array(found).reshape(*paths.shape[:2], model.vocab_size))

    return rows


def drafted(instance, uniforms, library=np.asarray):
    return coupled_drafts(rows_of(instance.draft, library), rows_of(instance.target, library), uniforms)


def noise(instance, batch, seed):
    shape = (batch, instance.num_paths, instance.draft_length + 1, instance.vocab_size)
    return np.random.default_rng(seed).random(shape)


def by_definition(instance, uniforms, *, all_race):
    """Return what one request emits, and how many of its drafts count: (1) and (2), token by token."""
    noise = -np.log(uniforms)
    paths = []
    for path in range(instance.num_paths):
        drafts = ()
        for depth in range(instance.draft_length):
            with np.errstate(divide="ignore"):
                times = noise[path, depth] / instance.draft.floats.conditional(drafts)
            drafts += (int(np.argmin(times)),)
        paths.append(drafts)
    emitted, active = (), list(range(instance.num_paths))
    for depth in range(instance.draft_length + 1):
        racing = range(instance.num_paths) if all_race else active
        with np.errstate(divide="ignore"):
            times = noise[list(racing), depth] / instance.target.floats.conditional(emitted)
        emitted += (int(np.argmin(times.min(axis=0))),)
        active = [path for path in active if paths[path][: depth + 1] == emitted]
        if not active:
            break
    return emitted


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("paths", [1, 3])
def test_emitted_tokens_are_those_of_the_definition(rule, paths):
    instance = Instance.random(3, 2, num_paths=paths, kind="sparse", seed=paths)
    uniforms = noise(instance, 300, 1)
    emitted = rule.verify(drafted(instance, uniforms), uniforms).emitted
    for request, mine in zip(uniforms, emitted.tolist(), strict=True):
        expected = by_definition(instance, request, all_race=rule.all_race)
        assert tuple(token for token in mine if token >= 0) == expected


def test_with_one_path_both_are_gumbel_coupling():
    instance = Instance.random(4, 3, seed=2)
    uniforms = noise(instance, 500, 3)
    drafts = drafted(instance, uniforms)
    one, other = (rule.verify(drafts, uniforms) for rule in RULES)
    np.testing.assert_array_equal(one.emitted, other.emitted)
    accepted = one.emitted[:, :-1] == drafts.paths.tokens[:, 0]
    np.testing.assert_array_equal(one.num_accepted, np.cumprod(accepted, axis=1).sum(axis=1))


@pytest.mark.parametrize("rule", RULES)
def test_torch_decides_as_numpy_does(rule):
    instance = Instance.random(5, 3, num_paths=3, seed=4)
    uniforms = noise(instance, 200, 5)
    ours = drafted(instance, uniforms)
    theirs = drafted(instance, torch.from_numpy(uniforms), torch.from_numpy)
    assert theirs.tokens.tolist() == ours.tokens.tolist()
    mine, other = rule.verify(ours, uniforms), rule.verify(theirs, torch.from_numpy(uniforms))
    assert other.emitted.tolist() == mine.emitted.tolist()
    assert other.node.tolist() == mine.node.tolist()


@pytest.mark.parametrize("rule", RULES)
def test_a_request_is_decided_by_its_own_noise(rule):
    instance = Instance.random(3, 2, num_paths=2, seed=6)
    uniforms = noise(instance, 40, 7)
    together = rule.verify(drafted(instance, uniforms), uniforms).emitted
    for request in range(40):
        alone = uniforms[request : request + 1]
        assert rule.verify(drafted(instance, alone), alone).emitted.tolist() == [together[request].tolist()]


def test_noise_of_a_path_that_left_is_read_only_where_all_paths_race():
    instance = Instance.random(3, 1, num_paths=2, seed=8)
    uniforms = noise(instance, 2000, 9)
    drafts = drafted(instance, uniforms)
    left = drafts.paths.tokens[:, 1, 0] != LIST_COUPLING.verify(drafts, uniforms).emitted[:, 0]
    other = uniforms.copy()
    other[left, 1, 1] = np.random.default_rng(10).random((left.sum(), 3))
    weak, strong = (
        (rule.verify(drafts, uniforms).emitted != rule.verify(drafts, other).emitted).any() for rule in RULES
    )
    assert (weak, strong) == (False, True)


def test_the_accepted_prefix_is_on_the_path_that_is_reported():
    instance = Instance.random(3, 3, num_paths=3, seed=11)
    uniforms = noise(instance, 500, 12)
    drafts = drafted(instance, uniforms)
    for rule in RULES:
        verdict = rule.verify(drafts, uniforms)
        some = np.flatnonzero(verdict.node >= 0)
        path = verdict.node[some] % 3
        times = -np.log(uniforms[some, path, 0]) / instance.draft.floats.conditional(())
        assert (drafts.paths.tokens[some, path, 0] == times.argmin(axis=1)).all()


@pytest.mark.parametrize("uniform", [0.0, 1e-320, 0.5, np.nextafter(1.0, 0.0), 1.0])
def test_an_index_of_weight_zero_never_wins(uniform):
    weights = np.array([[0.0, 0.25, 0.0, 0.75], [0.0, 0.0, 1.0, 0.0]])
    for dtype in (np.float32, np.float64):
        won = race(weights.astype(dtype), np.full((2, 4), uniform))
        assert (weights[[0, 1], won] > 0).all()


def test_rows_in_rationals_race_as_floats_do():
    weights = [[Fraction(1, 3), Fraction(2, 3), Fraction(0)]] * 100
    uniforms = np.random.default_rng(13).random((100, 3))
    exact = race(np.array(weights, dtype=object), uniforms)
    np.testing.assert_array_equal(exact, race(np.array(weights, dtype=float), uniforms))


def test_uniforms_of_another_shape_are_refused():
    instance = Instance.random(3, 2, num_paths=2, seed=15)
    uniforms = noise(instance, 5, 16)
    drafts = drafted(instance, uniforms)
    with pytest.raises(InvalidInputError, match=r"expected shape \[B, K, L\+1, V\] = \(5, 2, 3, 3\)"):
        LIST_COUPLING.verify(drafts, uniforms[:, :, :2])


def emissions(rule, instance, law, batch=30_000):
    """Return a G test of what ``rule`` emits against ``law``, at 1e-9."""
    uniforms = noise(instance, batch, 18)
    emitted = rule.verify(fast_drafts(instance, uniforms), uniforms).emitted
    outcomes = [*itertools.chain(*(itertools.product(range(3), repeat=n) for n in (1, 2, 3)))]
    number = {outcome + (-1,) * (3 - len(outcome)): i for i, outcome in enumerate(outcomes)}
    counts = np.bincount([number[tuple(row)] for row in emitted.tolist()], minlength=len(outcomes))
    return goodness_of_fit_by_g(counts, [float(law.probabilities.get(o, 0)) for o in outcomes], alpha=RATE)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("paths", [1, 2, 3])
def test_emissions_have_the_exact_distribution(rule, paths):
    """Six G tests at 1e-9: false-alarm rate 6e-9; each detects a total variation of 0.05 with power 0.999."""
    instance = Instance.random(3, 2, num_paths=paths, seed=17 + paths).rounded(12)
    result = emissions(rule, instance, coupled_emission_law(instance, all_race=rule.all_race))
    assert result.passed
    assert result.smallest_detectable_tv < 0.05


class PathsWithTheLargestDraftRace:
    """List coupling, but the paths that race are chosen by what they drafted at the same position."""

    def verify(self, drafts, uniforms):
        tokens = drafts.paths.tokens
        largest = tokens == tokens.max(axis=1, keepdims=True)
        chosen = np.concatenate([largest, np.ones_like(largest[:, :, :1])], axis=2)
        return LIST_COUPLING.verify(drafts, np.where(chosen[..., None], uniforms, 0.0))


def test_paths_that_race_by_their_drafts_of_the_same_position_are_lossy():
    instance = Instance.random(3, 2, num_paths=2, seed=19).rounded(12)
    law = coupled_emission_law(instance)
    assert not emissions(PathsWithTheLargestDraftRace(), instance, law).passed
    uniforms = noise(instance, 30_000, 20)
    first = PathsWithTheLargestDraftRace().verify(fast_drafts(instance, uniforms), uniforms).emitted[:, 0]
    target = instance.target.levels[0][0].astype(float)
    assert not goodness_of_fit_by_g(np.bincount(first, minlength=3), target, alpha=RATE).passed


def fast_drafts(instance, uniforms):
    """Return the drafts with rows looked up for all requests at once."""

    def rows(model):
        levels = [level.astype(float) for level in model.levels]

        def read(paths):
            index = np.zeros(paths.shape[:2], dtype=int)
            for token in np.moveaxis(paths, 2, 0):
                index = index * instance.vocab_size + token
            return levels[paths.shape[2]][index]

        return read

    return coupled_drafts(rows(instance.draft), rows(instance.target), uniforms)
