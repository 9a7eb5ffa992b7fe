"""What drafts for transformers' `generate`: all generators of candidates that a small model can drive.

Block proposers, which draft several tokens in one pass, come with checkpoints; here they have random weights.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest import mock

from spec_oracle.third_party.engines.hugging_face_models import (
    HIDDEN,
    SIZES,
    VOCAB,
    Module,
    gemma_config,
    randomised,
    small_model,
)

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast
    from transformers.modeling_outputs import BaseModelOutput

Tensor: TypeAlias = "torch.Tensor"
Arguments: TypeAlias = dict[str, object]
Drafter: TypeAlias = Callable[[], AbstractContextManager[Arguments]]
"""A context in which `generate` drafts, if it is handed the arguments that it yields."""


DRAFT_LENGTH = 2
LONGER = 3
"""Drafts of the generators that draft more."""


def _assistant(model: Module, architecture: str, of: str = "", **settings: object) -> Drafter:
    draft = small_model(2, 1, model.config.vocab_size, of or architecture)
    return _always({"assistant_model": _configured(draft, **settings)})


def _configured(draft: Module, **settings: object) -> Module:
    fixed = {"num_assistant_tokens": DRAFT_LENGTH, "assistant_confidence_threshold": 0.0}
    for name, value in {**fixed, "num_assistant_tokens_schedule": "constant", **settings}.items():
        setattr(draft.generation_config, name, value)
    return draft


def _other_tokenizer(_: Module, architecture: str, *, listed: str) -> Drafter:
    """Let the assistant have the tokens in another order, and one more; ``listed`` is how it lists them.

    Fast tokenizers list theirs in any order, another one every time.
    """
    draft = _configured(small_model(2, 1, VOCAB + 1, architecture))
    # What is made of tokenizers is kept by them, the assistant's head included: every engine has its own.
    tokenizers = {"tokenizer": tokenizer_of("abc"), "assistant_tokenizer": tokenizer_of("cabd", listed)}
    return _always({"assistant_model": draft, **tokenizers})


def tokenizer_of(letters: str, listed: str = "") -> "PreTrainedTokenizerFast":
    """Return a tokenizer whose tokens are these letters, in their order; ``listed`` is how it lists them."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({letter: i for i, letter in enumerate(letters)}, unk_token=letters[0]))
    # A space is no token: what marks spaces is renamed where two tokenizers differ in it.
    letter = pre_tokenizers.Split(Regex("."), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), letter])
    made.decoder = decoders.Fuse()

    class Listing(PreTrainedTokenizerFast):  # type: ignore[misc]
        def get_vocab(self) -> dict[str, int]:
            return {letter: letters.index(letter) for letter in listed or letters}

    return Listing(tokenizer_object=made)


def _with_arguments(_: Module, __: str, **arguments: object) -> Drafter:
    return _always(arguments)


def _always(arguments: Arguments) -> Drafter:
    """Hand over the same arguments every time; copies of an engine have their own assistant."""
    always: Drafter = partial(nullcontext, arguments)  # type: ignore[assignment]  # an overload
    return always


def _multi_token_prediction(model: Module, _: str) -> Drafter:
    """Let two more layers of the model each draft a token."""
    from transformers.modeling_layers import MtpModel

    model.config.num_mtp_layers = DRAFT_LENGTH
    own = [parameter.clone() for parameter in model.parameters()]
    layers = randomised(MtpModel(model, DRAFT_LENGTH), 3)
    for parameter, value in zip(model.parameters(), own, strict=True):
        parameter.copy_(value)  # head and embedding are the model's own

    @contextmanager
    def drafting() -> Iterator[Arguments]:
        with mock.patch.object(MtpModel, "from_pretrained", return_value=layers):
            yield {"use_mtp": True}

    return drafting


def _diffusion(_: Module, __: str) -> Drafter:
    """Draft a block at once from the model's hidden states, which a cache of its own keeps."""
    import torch
    from transformers import GenerationConfig, LlamaConfig
    from transformers.cache_utils import DFlashCache  # noqa: F401  # older versions have none
    from transformers.modeling_outputs import BaseModelOutput

    class DecoderBlock(torch.nn.Module):  # type: ignore[misc]
        device = torch.device("cpu")
        generation_config = GenerationConfig()

        def __init__(self) -> None:
            super().__init__()
            self.config = LlamaConfig(**SIZES, vocab_size=VOCAB, num_hidden_layers=1)
            self.config.target_layer_ids = [0, 1]
            self.config.block_size, self.config.mask_token_id = DRAFT_LENGTH + 1, 0
            self.seen, self.own = torch.nn.Linear(2 * HIDDEN, HIDDEN), torch.nn.Linear(HIDDEN, HIDDEN)

        def forward(
            self, noise_embeds: Tensor, context_hidden_states: Tensor, **rest: Any
        ) -> "BaseModelOutput":
            cache = rest["cache" if "cache" in rest else "past_key_values"]  # from 5.24 on, and before
            states = torch.cat([self.seen(context_hidden_states), noise_embeds], dim=1)[:, None]
            keys, _ = cache.update(states, states, 0)
            places = rest["position_ids"][:, -noise_embeds.shape[1] :, None].to(keys.dtype).cos()
            return BaseModelOutput(self.own(noise_embeds) + keys[:, 0].mean(dim=1, keepdim=True) + places / 3)

    return _always({"assistant_model": randomised(DecoderBlock(), 4), "speculation_type": "dflash"})


def _gemma_assistant(model: Module, _: str) -> Drafter:
    """Draft by an assistant that reads the target's hidden states and keys."""
    from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM

    layers = model.config.num_hidden_layers
    shared = gemma_config(layers, VOCAB, num_kv_shared_layers=layers)
    config = Gemma4AssistantConfig(text_config=shared, backbone_hidden_size=HIDDEN)
    return _always({"assistant_model": _configured(randomised(Gemma4AssistantForCausalLM(config), 2))})


TARGETS: Mapping[str, str] = {"Gemma 4 assistant": "Gemma 4"}
"""Architectures that only one generator drafts for: only a Gemma 4 tells its assistant what it needs."""

GENERATORS: Mapping[str, Callable[[Module, str], Drafter]] = {
    "assistant": _assistant,
    "adaptive assistant": partial(
        _assistant, num_assistant_tokens_schedule="heuristic", num_assistant_tokens=1
    ),
    "unsure assistant": partial(_assistant, assistant_confidence_threshold=0.6),
    "assistant, longer drafts": partial(_assistant, num_assistant_tokens=LONGER),
    "lookup": partial(_with_arguments, prompt_lookup_num_tokens=DRAFT_LENGTH),
    "lookup, longer drafts": partial(_with_arguments, prompt_lookup_num_tokens=LONGER),
    "early exit": partial(_with_arguments, assistant_early_exit=1),
    "other tokenizer": partial(_other_tokenizer, listed="cabd"),
    "other tokenizer, unsorted": partial(_other_tokenizer, listed="dbac"),
    "multi-token prediction": _multi_token_prediction,
    "block diffusion": _diffusion,
    "Gemma 4 assistant": _gemma_assistant,
    "LFM2 assistant": partial(_assistant, of="LFM2"),
    "Qwen3-Next assistant": partial(_assistant, of="Qwen3-Next"),
    "Mamba 2 assistant": partial(_assistant, of="Mamba 2"),
    "RecurrentGemma assistant": partial(_assistant, of="RecurrentGemma"),
}
"""(model, its architecture) -> what drafts for it; `ImportError` where the version has no such one."""
