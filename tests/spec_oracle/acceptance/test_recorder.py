"""The recorders: their logs hold what an engine verified, and show what its rule accepts."""

import json
import sys
from functools import wraps
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest import mock

import numpy as np
import pytest

import verifiers

torch = pytest.importorskip("torch")
utils = pytest.importorskip("transformers.generation.utils")

from spec_oracle.acceptance import acceptance  # noqa: E402
from spec_oracle.acceptance.log import read_calls  # noqa: E402
from spec_oracle.acceptance.recorder import VERIFICATION, Recorder, recorded_calls, recorded_vllm_calls  # noqa: E402
from spec_oracle.errors import InvalidInputError  # noqa: E402
from spec_oracle.language_models import load_language_model  # noqa: E402
from spec_oracle.language_models.decoding import decode  # noqa: E402
from spec_oracle.third_party.engines.hugging_face import small_model  # noqa: E402
from tests.spec_oracle.acceptance.logs import with_counts  # noqa: E402
from tests.strategies import at_night  # noqa: E402

PROMPTS = Path(__file__).parents[3] / "docs" / "prompts.txt"
UNIFORMS = torch.rand_like


def strict(factor):
    """Return the verification of transformers, accepting ``factor`` times as often."""
    verify = getattr(utils, VERIFICATION)

    @wraps(verify)
    def verified(*arguments, **keywords):
        def larger(like):
            uniforms = UNIFORMS(like)
            return uniforms.where(uniforms < factor, torch.inf) / factor

        with mock.patch.object(torch, "rand_like", larger):
            return verify(*arguments, **keywords)

    return mock.patch.object(utils, VERIFICATION, verified)


def record(path, target, draft, prompts, count, **arguments):
    """Decode after prompts, in turn, until so many calls are recorded; return these calls."""
    number = 0
    with recorded_calls(path) as recorder:
        while recorder.calls < count:
            recorder.prompt = number % len(prompts)
            ids = torch.tensor([prompts[recorder.prompt]])
            target.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                assistant_model=draft,
                pad_token_id=0,
                top_k=0,
                **{"do_sample": True, "max_new_tokens": 40, **arguments},
            )
            number += 1
    return read_calls(path.read_text().splitlines())


@pytest.fixture(scope="module")
def pair():
    """Return two small models over 12 tokens, the second drafting four tokens at a time for the first."""
    target, draft = small_model(1, 2, 12), small_model(1, 1, 12)
    draft.generation_config.num_assistant_tokens = 4
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0
    return target, draft


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("calls", "factor"), [(100, 0.7), *at_night((400, 0.9))])
def test_right_counts_agree_and_too_few_do_not(pair, calls, factor, tmp_path):
    torch.manual_seed(0)
    prompts = [[0, 1], [5, 2, 3], [7]]
    right = acceptance(record(tmp_path / "right.jsonl", *pair, prompts, calls))
    assert (right.disagrees, right.prompts) == (False, 3)
    assert right.accepted > calls / 4
    with strict(factor):
        wrong = acceptance(record(tmp_path / "strict.jsonl", *pair, prompts, calls))
    assert wrong.disagrees
    assert abs(wrong.factor[0] - factor) < 0.1


@pytest.mark.filterwarnings("ignore")
def test_greedy_decoding_is_not_recorded(pair, tmp_path):
    def decode():
        with recorded_calls(tmp_path / "none.jsonl"):
            pair[0].generate(torch.tensor([[0]]), assistant_model=pair[1], max_new_tokens=5, do_sample=False)

    with pytest.raises(InvalidInputError, match="needs an assistant_model and do_sample=True"):
        decode()


LENGTHS = [3, 0, 2, 1]
GREEDY = [False, False, True, False]


def standing_for_vllm(factor=1.0, generator=None):
    """Put a function of its signature into the place of vLLM's, which accepts ``factor`` times as often."""

    def rejection_sample(  # noqa: PLR0917  # the order of vLLM
        draft_token_ids,
        num_draft_tokens,
        max_spec_len,
        cu_num_draft_tokens,
        draft_probs,
        target_logits,
        bonus_token_ids,
        sampling_metadata,
        **_,
    ):
        output = torch.full((len(num_draft_tokens), max_spec_len + 1), -1)
        for row, length, end, temperature in zip(
            output,
            num_draft_tokens,
            cu_num_draft_tokens.tolist(),
            sampling_metadata.temperature.tolist(),
            strict=True,
        ):
            for at, place in enumerate(range(end - length, end)):
                token = int(draft_token_ids[place])
                q = 1.0 if draft_probs is None else draft_probs[place, token]
                chance = factor * min(1.0, float(target_logits[place].softmax(-1)[token] / q))
                if temperature == 0:
                    chance = float(target_logits[place].argmax() == token)
                if token < 0 or torch.rand((), generator=generator) >= chance:
                    row[at] = 0
                    break
                row[at] = token
            else:
                row[length] = 1
        target_logits.zero_()  # vLLM may overwrite them
        return output

    module = ModuleType("vllm.v1.sample.rejection_sampler")
    module.rejection_sample = rejection_sample
    names = ("vllm", "vllm.v1", "vllm.v1.sample")
    return mock.patch.dict(
        sys.modules, {**{name: ModuleType(name) for name in names}, module.__name__: module}
    )


def step(logits, draft_probs, tokens, *, greedy=GREEDY, lengths=LENGTHS):
    """Verify drafts of four requests, as vLLM's sampler does."""
    from vllm.v1.sample import rejection_sampler

    temperature = torch.tensor([0.0 if one else 1.0 for one in greedy])
    return rejection_sampler.rejection_sample(
        torch.tensor(tokens),
        lengths,
        max(lengths),
        torch.tensor(lengths).cumsum(0),
        draft_probs,
        logits.clone(),
        torch.zeros(len(lengths), 1),
        sampling_metadata=SimpleNamespace(all_greedy=all(greedy), temperature=temperature),
    )


def test_every_request_of_a_step_of_vllm_is_a_call_with_its_own_rows(tmp_path):
    generator, tokens = torch.Generator().manual_seed(0), [4, 0, 2, 1, 3, 2]
    logits = torch.randn(6, 5, generator=generator)
    logits[3, 1] = 9.0  # the first draft of the greedy request is its likeliest token, the second is not
    logits[4, 3] = -9.0
    draft = torch.randn(6, 5, generator=generator).softmax(-1)
    with standing_for_vllm(generator=generator), recorded_vllm_calls(tmp_path / "log") as recorder:
        recorder.prompt = "a"
        emitted = step(logits, draft, tokens)
        step(logits, None, [4, 0, -1, 1, 3, 2])
    first, greedy, last, *without = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert [first["drafted"], greedy["drafted"], last["drafted"]] == [[4, 0, 2], [1, 3], [2]]
    assert [one["accepted"] for one in (first, greedy, last)] == [
        int((emitted[request] >= 0).sum()) - 1 for request in (0, 2, 3)
    ]
    target = logits.double().softmax(-1)
    np.testing.assert_allclose(first["p"], [target[0, 4], target[1, 0], target[2, 2]])
    np.testing.assert_allclose(first["q"], [draft[0, 4], draft[1, 0], draft[2, 2]])
    np.testing.assert_allclose(last["largest"], [target[5].max()])
    assert (greedy["p"], greedy["q"], greedy["entropy"], greedy["accepted"]) == ([1, 0], [1, 1], [0, 0], 1)
    assert [one["q"] for one in without] == [[1, 1], [1, 1], [1]]  # a padded draft cannot be accepted
    assert [one["drafted"] for one in without] == [[4, 0], [1, 3], [2]]
    assert {one["prompt"] for one in (first, greedy, last, *without)} == {"a"}


@pytest.mark.parametrize(
    ("factor", "reads_draft"), [(1.0, True), (0.95, False), *at_night((1.0, False), (0.95, True))]
)
def test_counts_of_vllm_agree_and_5_percent_too_few_do_not(factor, reads_draft, tmp_path):
    generator = torch.Generator().manual_seed(1)
    with standing_for_vllm(factor, generator), recorded_vllm_calls(tmp_path / "log"):
        for _ in range(300):
            logits = torch.randn(6, 5, generator=generator) * (1 if reads_draft else 4)
            draft = (logits + 0.3 * torch.randn(6, 5, generator=generator)).softmax(-1)
            tokens = (draft if reads_draft else logits.softmax(-1)).multinomial(1, generator=generator)[:, 0]
            step(logits, draft if reads_draft else None, tokens.tolist(), greedy=[False] * 4)
    found = acceptance(read_calls((tmp_path / "log").read_text().splitlines()))
    assert (found.calls, found.drafted) == (900, 1800)
    assert found.disagrees == (factor < 1)
    assert abs(found.factor[0] - factor) < 0.02


def test_vllm_that_verifies_nothing_here_or_has_another_function_is_refused(tmp_path):
    def record(change=lambda _: None):
        with standing_for_vllm():
            change(sys.modules["vllm.v1.sample.rejection_sampler"])
            with recorded_vllm_calls(tmp_path / "none"):
                pass

    with pytest.raises(InvalidInputError, match="VLLM_ENABLE_V1_MULTIPROCESSING=0"):
        record()
    with pytest.raises(
        InvalidInputError, match=r"this version of vllm does not have rejection_sample\(draft"
    ):
        record(lambda module: setattr(module, "rejection_sample", lambda draft_token_ids: draft_token_ids))


class Recorded:
    """The token rule, writing every call of a batch to a recorder."""

    traits = verifiers.Traits(single_path=True)

    def __init__(self, recorder):
        self.recorder = recorder

    def verify(self, drafts, decisions):
        verdict = verifiers.get("token").verify(drafts, decisions)
        paths = drafts.paths
        arrays = (paths.tokens, paths.target_probs, paths.draft_probs)
        for accepted, tokens, target, draft in zip(verdict.num_accepted.tolist(), *arrays, strict=True):
            self.recorder.write(tokens[0].tolist(), accepted, target[0].numpy(), draft[0].numpy())
        return verdict


@pytest.mark.lm
def test_500_calls_of_smollm2(tmp_path):
    """Two minutes on one core; the draft model is the same network at temperature 1.4."""
    target, draft = load_language_model("smollm2"), load_language_model("smollm2:temperature=1.4")
    prompts = [target.encode(line) for line in PROMPTS.read_text("utf-8").splitlines() if line] * 3
    sizes = {"max_new_tokens": 60, "draft_length": 4, "generator": torch.Generator().manual_seed(7)}
    with (tmp_path / "calls.jsonl").open("w", encoding="utf-8") as file:
        decode(Recorded(Recorder(file)), target, draft, prompts, **sizes)
    calls = read_calls((tmp_path / "calls.jsonl").read_text("utf-8").splitlines())
    assert len(calls.lengths) > 450
    found = acceptance(calls)
    assert (found.exit_code, found.fitting) == (0, ("token",))
    wrong = acceptance(with_counts(calls, np.random.default_rng(1), factor=0.97))
    assert (wrong.exit_code, wrong.fitting) == (1, ())
    assert abs(wrong.factor[0] - 0.97) < 0.02
