"""The recorder of transformers: its logs hold what was verified, and show what its rule accepts."""

from functools import wraps
from unittest import mock

import pytest

torch = pytest.importorskip("torch")
utils = pytest.importorskip("transformers.generation.utils")

from spec_oracle.adapters.engines.hugging_face_models import small_model  # noqa: E402
from spec_oracle.adapters.recorder import VERIFICATION, recorded_calls  # noqa: E402
from spec_oracle.contracts.acceptance_log import read_calls  # noqa: E402
from spec_oracle.efficiency.acceptance import acceptance  # noqa: E402
from spec_oracle.errors import InvalidInputError  # noqa: E402

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
    """Return two small models over 12 tokens, the second drafting for the first."""
    return small_model(1, 2, 12), small_model(1, 1, 12)


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


@pytest.mark.lm
@pytest.mark.filterwarnings("ignore")
def test_smollm2(tmp_path):
    """100 calls each of a right rule and of one that accepts 90 %: minutes on one core."""
    from spec_oracle.language_models import load_language_model

    target, draft = load_language_model("smollm2"), load_language_model("smollm2:layers=20")
    texts = ("Once upon a time", "Water boils at", "The capital of France is")
    prompts = [target.encode(text) for text in texts]
    torch.manual_seed(1)
    models = target.network, draft.network
    assert not acceptance(record(tmp_path / "right.jsonl", *models, prompts, 100)).disagrees
    with strict(0.9):
        assert acceptance(record(tmp_path / "strict.jsonl", *models, prompts, 100)).disagrees
