"""vLLM for CPUs as a whole: what stands in for its operators while it is traced, and its verdicts."""

import json
from itertools import chain
from unittest import mock

import pytest

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]  # of what vLLM imports

GREEDY = [False, False, True, False]
LENGTHS = [2, 3, 1, 0]
VOCAB = 5


def rows(generator, *shape):
    import torch

    return torch.randn(*shape, VOCAB, generator=generator).mul(2).softmax(-1)


@pytest.mark.parametrize("reads_draft", [True, False])
def test_torch_code_decides_like_the_operators_that_it_stands_in_for(reads_draft):
    import torch
    from vllm.utils import cpu_triton_utils as fused

    from spec_oracle.third_party.engines import vllm_operators as ours

    generator = torch.Generator().manual_seed(0)
    ends, count = torch.tensor(LENGTHS).cumsum(0).int(), sum(LENGTHS)
    emitted = set()
    for _ in range(300):
        target, draft = rows(generator, count), rows(generator, count) if reads_draft else None
        drafted = torch.randint(VOCAB, (count,), generator=generator, dtype=torch.int32)
        inverse = torch.empty(len(LENGTHS), VOCAB).exponential_(generator=generator).reciprocal()
        found = [torch.empty_like(drafted) for _ in range(2)]
        given = ends, drafted, draft, target, inverse, VOCAB
        fused._sample_recovered_tokens_kernel_impl(found[0], *given, NO_DRAFT_PROBS=not reads_draft)
        ours.sample_recovered_tokens(found[1], *given)
        assert found[0].tolist() == found[1].tolist()

        bonus = torch.randint(VOCAB, (len(LENGTHS), 1), generator=generator)
        uniforms = torch.rand(count, generator=generator).double()  # the operator rounds to float32
        outputs = [torch.full((len(LENGTHS), 4), -1, dtype=torch.int32) for _ in range(2)]
        given = ends, drafted, draft, target, bonus, found[0], uniforms, torch.tensor(GREEDY), 3, VOCAB
        fused._rejection_random_sample_kernel_impl(outputs[0], *given, NO_DRAFT_PROBS=not reads_draft)
        ours.rejection_random_sample(outputs[1], *given)
        assert outputs[0].tolist() == outputs[1].tolist()
        emitted.update((row >= 0).sum().item() for row in outputs[0])
    assert emitted == {0, 1, 2, 3, 4}


def test_sampling_by_torch_has_the_distribution_of_the_fused_operator():
    """Their random numbers are made differently: 20,000 samples of each are compared with the row."""
    import torch
    from scipy import stats
    from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler

    logits, sampler = torch.tensor([0.3, -1.0, 1.2, 0.0]), TopKTopPSampler()
    for sample in (sampler.forward_cpu, sampler.forward_native):
        torch.manual_seed(0)
        tokens, _ = sample(logits.repeat(20_000, 1), {}, None, None)
        expected = 20_000 * logits.softmax(0).double().numpy()
        counts = torch.bincount(tokens, minlength=4).double().numpy()
        assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-4


def test_draft_positions_get_the_value_of_their_request():
    import torch

    from spec_oracle.third_party.engines import vllm_operators as ours

    given, ends = torch.tensor([0.5, 0.0, 2.0]), torch.tensor([2, 3, 3], dtype=torch.int32)
    output = torch.full((3,), float("nan"))
    ours.expand(output, given, ends, 0, 1)
    assert output.tolist() == [0.5, 0.5, 1.0]


@pytest.mark.parametrize(
    ("name", "verdict"), [("vllm-generate", "lossy"), ("vllm-generate-repaired", "lossless")]
)
def test_the_engine_is_lossless_once_its_memory_is_written(name, verdict):
    from spec_oracle.audit import AuditOptions, audit

    (found,) = audit(name, options=AuditOptions(checks=["joint"], budget=15.0)).subjects
    assert found.verdict.value == verdict


def test_the_steps_of_the_engine_are_its_calls_and_a_request_can_be_ended():
    from spec_oracle.contracts.engine import EnoughError
    from spec_oracle.third_party.engines.vllm import VllmEngine

    engine, calls = VllmEngine("draft model, greedy", draft_length=2, repaired=True), []
    found = engine.steps(engine.prompts[0], 12, 1, calls.append)
    assert [*chain(*calls)] == found
    assert len(found) == 12
    assert len(calls[0]) == 1  # the prompt's call drafts nothing
    assert {1, 2, 3} >= {len(emitted) for emitted in calls}
    assert 0 <= engine.accepted - sum(len(emitted) - 1 for emitted in calls) <= 2  # the last call is cut

    def enough(_):
        raise EnoughError

    with pytest.raises(EnoughError):
        engine.steps(engine.prompts[0], 12, None, enough)
    assert len(engine.generate(engine.prompts[0], 3)) == 3


def test_the_log_probabilities_that_it_reports_are_the_models():
    from spec_oracle.audit import AuditOptions, audit

    (found,) = audit("vllm-generate-repaired", options=AuditOptions(checks=["logprobs"])).subjects
    assert [check.status.value for check in found.checks if check.name == "logprobs"] == ["passed"]


@pytest.mark.parametrize("option", ["sampling", "repetition penalty", "grammar", "greedy"])
def test_rows_along_a_completion_are_those_of_its_contexts(option):
    import torch

    from lab.vllm_options import OPTIONS
    from spec_oracle.third_party.engines.vllm import VllmEngine

    engine = VllmEngine("n-gram", OPTIONS[option])
    (prompt,) = engine.prompts
    completion = engine.generate_plain(prompt, 40, 1)
    rows = [engine.next_token_probs([*prompt, *completion[:end]]) for end in range(len(completion))]
    torch.testing.assert_close(engine.rows_along(prompt, completion), rows, atol=1e-6, rtol=0)


def recorded(path, drafter, option="sampling", count=2):
    """Return the acceptance of 8 requests at a time, and the engine that served them."""
    from lab.vllm_options import OPTIONS
    from spec_oracle.acceptance import acceptance
    from spec_oracle.acceptance.log import read_calls
    from spec_oracle.acceptance.recorder import recorded_vllm_calls
    from spec_oracle.third_party.engines.vllm import VllmEngine

    engine = VllmEngine(drafter, OPTIONS[option], draft_length=3, repaired=True)
    engine.generate(engine.prompts[0], 2)  # its warm-up verifies drafts of its own
    drafted = accepted = 0
    with recorded_vllm_calls(path):
        for batch in range(count):
            engine.generate_batch([engine.prompts[0]] * 8, 100, [batch * 8 + place for place in range(8)])
            drafted, accepted = drafted + engine.drafted, accepted + engine.accepted
    found = acceptance(read_calls(path.read_text().splitlines()))
    assert (found.drafted, found.accepted) == (drafted, accepted)  # as vLLM itself counts them
    return found


@pytest.mark.parametrize(
    ("drafter", "option"),
    [
        ("n-gram", "sampling"),
        ("draft model, greedy", "top-k and top-p"),
        ("draft model, sampled", "top-k and top-p"),
    ],
)
def test_recorded_counts_agree_with_the_token_rule(drafter, option, tmp_path):
    found = recorded(tmp_path / "log", drafter, option, count=2)
    assert "token" in found.fitting
    assert found.calls > 300
    is_sampled = drafter == "draft model, sampled"
    certain = {q for line in (tmp_path / "log").read_text().splitlines() for q in json.loads(line)["q"]} == {
        1
    }
    assert certain != is_sampled


def test_a_greedy_request_accepts_what_its_record_says(tmp_path):
    found = recorded(tmp_path / "log", "draft model, greedy", "greedy", count=1)
    assert found.rules[0].expected == found.reported > 0


def test_a_sampler_that_accepts_5_percent_less_is_named(tmp_path):
    import torch
    from vllm.v1.sample import rejection_sampler

    uniforms = rejection_sampler.generate_uniform_probs

    def larger(*arguments):
        found = uniforms(*arguments)
        return found.where(found < 0.95, torch.inf) / 0.95

    with mock.patch.object(rejection_sampler, "generate_uniform_probs", larger):
        found = recorded(tmp_path / "log", "draft model, sampled", count=4)
    assert found.disagrees
    assert abs(found.factor[0] - 0.95) < 0.03
