"""The recorder of transformers: its logs hold what was verified, and show what its rule accepts."""

from functools import wraps
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import verifiers

torch = pytest.importorskip("torch")
utils = pytest.importorskip("transformers.generation.utils")

from spec_oracle.adapters.engines.hugging_face_models import small_model  # noqa: E402
from spec_oracle.adapters.recorder import VERIFICATION, Recorder, recorded_calls  # noqa: E402
from spec_oracle.contracts.acceptance_log import read_calls  # noqa: E402
from spec_oracle.decoding import decode  # noqa: E402
from spec_oracle.efficiency.acceptance import acceptance  # noqa: E402
from spec_oracle.errors import InvalidInputError  # noqa: E402
from spec_oracle.language_models import load_language_model  # noqa: E402
from tests.spec_oracle.efficiency.logs import with_counts  # noqa: E402

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
def test_right_counts_agree_and_10_percent_too_few_do_not(pair, tmp_path):
    torch.manual_seed(0)
    prompts = [[0, 1], [5, 2, 3], [7]]
    calls = record(tmp_path / "right.jsonl", *pair, prompts, 400)
    found = acceptance(calls)
    assert (found.disagrees, found.prompts) == (False, 3)
    assert found.accepted > 100
    with strict(0.9):
        wrong = acceptance(record(tmp_path / "strict.jsonl", *pair, prompts, 400))
    assert wrong.disagrees
    assert abs(wrong.factor[0] - 0.9) < 0.05


@pytest.mark.filterwarnings("ignore")
def test_greedy_decoding_is_not_recorded(pair, tmp_path):
    def decode():
        with recorded_calls(tmp_path / "none.jsonl"):
            pair[0].generate(torch.tensor([[0]]), assistant_model=pair[1], max_new_tokens=5, do_sample=False)

    with pytest.raises(InvalidInputError, match="needs an assistant_model and do_sample=True"):
        decode()


class Recorded:
    """The token rule, writing every call of a batch to a recorder."""

    traits = verifiers.Traits(single_path=True)

    def __init__(self, recorder):
        self.recorder = recorder

    def verify(self, drafts, decisions):
        verdict = verifiers.get("token").verify(drafts, decisions)
        arrays = (drafts.tokens, drafts.target_probs, drafts.draft_probs)
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
