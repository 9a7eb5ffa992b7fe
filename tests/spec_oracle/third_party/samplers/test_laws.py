"""Each engine follows the law of the rule it declares; the ones known to be faulty do not.

Sampled and enumerated, against the exact law of the declared rule: emissions of every length, so both the
text and the accepted length are tested. Everything but transformers needs what `make engines` installs and
fetches, and fails without.
"""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import verifiers  # noqa: E402  # after the check for torch
from spec_oracle.audit.draws import sampled_drafts  # noqa: E402
from spec_oracle.audit.registry import known, names  # noqa: E402
from spec_oracle.audit.sampler.keyed_noise import pair_by_keys  # noqa: E402
from spec_oracle.audit.sampler.paired_with_rule import PairedRows  # noqa: E402
from spec_oracle.audit.sampler.reference import pair_by_noise  # noqa: E402
from spec_oracle.audit.sampler.tracer import traced_law  # noqa: E402
from spec_oracle.contracts import SamplerCode  # noqa: E402
from spec_oracle.exact import EmissionLaw, emission_law  # noqa: E402
from spec_oracle.statistics import goodness_of_fit_by_g  # noqa: E402
from spec_oracle.toy import Instance  # noqa: E402
from verifiers.parts.path import acceptance_ratios, block_weights, chain, residual, stop_chances  # noqa: E402
from verifiers.sampling import invert_cdf  # noqa: E402

ALPHA = 1e-6
CHUNK = 1000

ONE = Instance.random(3, 1, seed=1)
SPARSE = Instance.random(3, 2, seed=2, kind="sparse")
LONG = Instance.random(3, 4, seed=3, kind="sparse")
BLOCK = Instance.random(3, 3, seed=33)
REVERSED = Instance.random(4, 2, seed=4, kind="reversed")

FAULTY = {
    f"vllm-ascend-{rule}"
    for rule in (
        "block",
        "block-ngram",
        "block@0.13.0",
        "block-ngram@0.13.0",
        "block@0.18.0",
        "block@0.19.1rc1",
        "block@0.20.2rc1",
        "block@0.23.0",
    )
}
SAMPLERS = [name for name in names() if known(name).rule]
HUGGING_FACE = [name for name in SAMPLERS if not known(name).wheel]
LOSSY = [name for name in SAMPLERS if known(name).declared_lossy]
INTERPRETED = [name for name in SAMPLERS if "triton" in known(name).requires]
INTERCEPTED = [name for name in SAMPLERS if known(name).is_traceable]
CHAINS = ["sglang-chain", "sglang-chain-block"]
KEYED = [name for name in SAMPLERS if name.startswith("vllm-v2")]
RACED = [name for name in SAMPLERS if name.startswith("vllm-v1")]


def needing(names):
    """Parametrise by engine: those that read wheels are marked."""
    marked = pytest.mark.engines
    return pytest.mark.parametrize(
        "name",
        [pytest.param(n, marks=marked if known(n).wheel else ()) for n in names],
    )


def drafts(instance: Instance, batch: int, seed: int):
    drawn = sampled_drafts(instance, batch, np.random.default_rng(seed))
    rows = (drawn.draft_probs[:, 0], drawn.target_probs[:, 0])
    return torch.from_numpy(drawn.tokens[:, 0]), *(torch.from_numpy(row).float() for row in rows)


def declared_law(name, instance: Instance) -> EmissionLaw:
    return emission_law(verifiers.get(known(name).rule_at(instance.draft_length)), instance)


def emission_counts(name, instance: Instance, draws: int):
    """Return how often each emission came up, in the order of the concatenated masses of its law."""
    vocab, longest, engine = instance.vocab_size, instance.draft_length + 1, known(name).load()
    counts = [np.zeros(vocab**length, dtype=np.int64) for length in range(1, longest + 1)]
    torch.manual_seed(0)
    for seed in range(draws // CHUNK):
        given = drafts(instance, CHUNK, seed)
        kept = [tensor.clone() for tensor in given]
        tokens, accepted = engine(*given, None)
        assert all(torch.equal(now, then) for now, then in zip(given, kept, strict=True))
        for row, tau in zip(tokens.tolist(), accepted.tolist(), strict=True):
            assert row[tau + 1 :] == [-1] * (longest - tau - 1)
            counts[tau][np.ravel_multi_index(row[: tau + 1], (vocab,) * (tau + 1))] += 1
    return np.concatenate(counts)


def enumerated_law(name, instance: Instance) -> EmissionLaw:
    """Return the engine's exact law, from every draft and every outcome of its unmodified random calls."""
    return traced_law(SamplerCode(known(name).load(), "torch"), instance)


def goodness_of_fit(name, instance: Instance, draws: int):
    law = np.concatenate(declared_law(name, instance).masses)
    return goodness_of_fit_by_g(emission_counts(name, instance, draws), law / law.sum(), alpha=ALPHA)


@needing([name for name in SAMPLERS if name not in FAULTY.union(LOSSY, INTERPRETED)])
@pytest.mark.parametrize("instance", [ONE, SPARSE, LONG, REVERSED], ids=["one", "sparse", "long", "reversed"])
def test_samples_of_a_sampler_follow_its_declared_law(name, instance):
    fit = goodness_of_fit(name, instance, 2000 if name in HUGGING_FACE else 5000)
    assert fit.passed, str(fit)


@needing([name for name in INTERCEPTED if name not in FAULTY.union(LOSSY)])
@pytest.mark.parametrize("instance", [ONE, SPARSE], ids=["one", "sparse"])
def test_the_traced_law_of_a_sampler_is_its_declared_one(name, instance):
    law, declared = enumerated_law(name, instance), declared_law(name, instance)
    tolerance = 1e-12 if known(name).is_float64 else 1e-6
    assert law.total_variation < tolerance
    for found, expected in zip(law.masses, declared.masses, strict=True):
        assert found == pytest.approx(expected, abs=tolerance)


@needing(["vllm-ascend-block", "vllm-ascend-block-ngram", "vllm-ascend-block@0.20.2rc1"])
def test_a_fair_coin_does_not_stay_fair_under_the_product_of_uniforms(name):
    coin = Instance.context_free([0.5, 0.5], [1.0, 0.0], draft_length=3)
    first = enumerated_law(name, coin).extended().sum(axis=(1, 2, 3))
    assert first[0] == pytest.approx(0.5 + math.log(2) / 4 + 3 * math.log(2) ** 2 / 16, abs=1e-6)


@needing(sorted(FAULTY))
def test_faulty_block_verification_is_caught_from_three_drafted_tokens_on(name):
    assert goodness_of_fit(name, REVERSED, 5000).passed
    assert not goodness_of_fit(name, BLOCK, 10_000).passed


@needing(LOSSY)
def test_rules_that_are_lossy_by_design_are_seen_to_be(name):
    assert not goodness_of_fit(name, REVERSED, 2000).passed


@needing(SAMPLERS)
def test_the_same_generator_gives_the_same_emissions(name):
    engine = known(name).load()
    given = drafts(SPARSE, 8, seed=0)
    first, second = (engine(*given, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert first[0].dtype == first[1].dtype == torch.int64
    assert (first[0].shape, first[1].shape) == ((8, 3), (8,))


def reads_the_draft(name):
    subject = known(name)
    return not subject.declared_lossy and subject.rule != "sample_and_match"


@needing([name for name in SAMPLERS if reads_the_draft(name)])
def test_an_equal_draft_is_accepted_whole(name):
    engine = known(name).load()
    tokens, accepted = engine(*drafts(Instance.random(3, 3, seed=5, kind="equal"), 8, seed=0), None)
    assert accepted.tolist() == [3] * 8
    assert (tokens >= 0).all()


def expected_of_chain(tokens, draft, target, uniforms, *, block: bool):
    """Return what the chain verifier must emit for given uniforms, one row: L coins and a final uniform."""
    length = tokens.shape[1]
    path = chain(tokens, target, draft)
    ratios = acceptance_ratios(*path)
    weights = block_weights(ratios)
    chances = stop_chances(*path, weights)[:, 1:] if block else ratios.clamp(max=1)
    success = (uniforms[:, :length] < chances)[0].tolist()
    if block:
        tau = max((i + 1 for i in range(length) if success[i]), default=0)
    else:
        tau = next((i for i in range(length) if not success[i]), length)
    scale = weights[0, tau] if block else 1.0
    row = target[:, tau] if tau == length else residual(scale * target[:, tau], draft[:, tau])
    return [*tokens[0, :tau].tolist(), int(invert_cdf(row, uniforms[:, length])), *[-1] * (length - tau)]


@needing(CHAINS)
def test_the_chain_verifier_emits_what_its_uniforms_demand(name):
    engine = known(name).load()
    given = drafts(BLOCK, 100, seed=1)
    uniforms = torch.rand((100, 4), generator=torch.Generator().manual_seed(1))
    tokens, _ = engine.with_uniforms(*given, uniforms)
    for row in range(100):
        one = [tensor[row : row + 1] for tensor in (*given, uniforms)]
        assert tokens[row].tolist() == expected_of_chain(*one, block=known(name).rule == "block")


@needing([*KEYED, *RACED])
def test_rows_are_what_the_rule_makes_of_the_same_noise(name):
    """Of coins and clocks that are handed over, or of those that we compute from the keys."""
    engine = known(name).load()
    pair = pair_by_noise(engine) if name in RACED else pair_by_keys(engine)
    for instance in (BLOCK, REVERSED):
        rows = PairedRows(instance)
        rows.add(pair, 16, np.random.default_rng(0))
        assert rows.differing == 0
