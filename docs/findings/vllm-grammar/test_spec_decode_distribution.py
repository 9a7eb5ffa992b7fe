"""For tests/v1/structured_output of vLLM: what is sampled where a grammar rejects a sampled draft."""

from types import SimpleNamespace

import pytest
import torch

from vllm.platforms import current_platform
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.rejection_sampler import rejection_sample
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar

DEVICE = current_platform.device_type
VOCAB_SIZE = 4
NUM_REQUESTS = 20_000
ALLOWED = [0, 1]
TARGET = [0.3, 0.3, 0.2, 0.2]  # before the grammar; 0.5 and 0.5 behind it
DRAFT = [0.4, 0.1, 0.25, 0.25]


class OneTokenGrammar(StructuredOutputGrammar):
    """Allows the same tokens at every position."""

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        return self.validate_tokens(tokens) == tokens

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        valid = []
        for token in tokens:
            if token not in ALLOWED:
                break
            valid.append(token)
        return valid

    def rollback(self, num_tokens: int) -> None:
        pass

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        bitmask[batch_index] = sum(1 << token for token in ALLOWED)

    def is_terminated(self) -> bool:
        return False

    def reset(self):
        pass


@pytest.fixture(scope="module", autouse=True)
def kernels():
    current_platform.register_triton_kernel_overrides()  # as a worker does


@pytest.fixture
def manager() -> StructuredOutputManager:
    made = StructuredOutputManager(
        SimpleNamespace(
            parallel_config=SimpleNamespace(distributed_executor_backend="uni"),
            scheduler_config=SimpleNamespace(max_num_seqs=1),
            model_config=SimpleNamespace(skip_tokenizer_init=True, is_diffusion=False),
            structured_outputs_config=SimpleNamespace(enable_in_reasoning=False),
            num_speculative_tokens=1,
        )
    )
    made.backend = SimpleNamespace(
        allocate_token_bitmask=lambda rows: torch.full((rows, 1), -1, dtype=torch.int32)
    )
    return made


def scheduled(manager: StructuredOutputManager, drafts: list[int]) -> tuple[list[int], torch.Tensor]:
    """Return the drafts that are verified, and the logits of their rows and of the one behind them."""
    request = SimpleNamespace(
        use_structured_output=True,
        prompt_token_ids=[0],
        structured_output_request=SimpleNamespace(
            grammar=OneTokenGrammar(), reasoning_ended=None, reasoner=None
        ),
    )
    kept = manager.validate_tokens(request, drafts)
    bitmask = torch.from_numpy(manager.grammar_bitmask({"0": request}, ["0"], {"0": kept}))
    allowed = (bitmask >> torch.arange(VOCAB_SIZE)) & 1 == 1
    return kept, torch.tensor(TARGET).log().where(allowed, -float("inf"))


def sampled_tokens(drafts: list[int], logits: torch.Tensor, count: int) -> torch.Tensor:
    """Return the first token of `count` equal requests with these drafts."""
    bonus_tokens = logits[-1].softmax(-1).multinomial(count, replacement=True)
    if not drafts:
        return bonus_tokens
    metadata = SamplingMetadata(
        temperature=torch.ones(count, device=DEVICE),
        all_greedy=False,
        all_random=True,
        top_p=None,
        top_k=None,
        generators={},
        max_num_logprobs=None,
        no_penalties=True,
        prompt_token_ids=None,
        frequency_penalties=torch.zeros(count),
        presence_penalties=torch.zeros(count),
        repetition_penalties=torch.ones(count),
        output_token_ids=[[]] * count,
        allowed_token_ids_mask=None,
        bad_words_token_ids={},
        logitsprocs=None,
    )
    return rejection_sample(
        torch.tensor(drafts * count, dtype=torch.int32, device=DEVICE),
        [1] * count,
        1,
        torch.arange(1, count + 1, dtype=torch.int32, device=DEVICE),
        torch.tensor([DRAFT] * count, device=DEVICE),
        logits[:1].repeat(count, 1).to(DEVICE),
        bonus_tokens.to(DEVICE, torch.int32).unsqueeze(1),
        metadata,
    )[:, 0].cpu()


def test_tokens_follow_the_target_distribution_where_sampled_drafts_are_invalid(
    manager: StructuredOutputManager,
):
    torch.manual_seed(0)
    tokens = []
    for draft, share in enumerate(DRAFT):
        kept, logits = scheduled(manager, [draft])
        tokens.append(sampled_tokens(kept, logits, round(share * NUM_REQUESTS)))
    counts = torch.cat(tokens).long().bincount(minlength=VOCAB_SIZE)
    assert counts[2:].sum() == 0
    # By chance, a share that is 0.5 differs by 0.02 in one run of 10^8.
    assert abs(counts[0] / NUM_REQUESTS - 0.5) < 0.02
