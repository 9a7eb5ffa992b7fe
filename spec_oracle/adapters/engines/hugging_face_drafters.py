"""What drafts for transformers' `generate`: all generators of candidates that a small model can drive.

Block proposers, which draft several tokens in one pass, come with checkpoints; here they have random weights.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeAlias
from unittest import mock

Module: TypeAlias = Any
Tensor: TypeAlias = Any
Arguments: TypeAlias = dict[str, Any]
Drafter: TypeAlias = Callable[[], AbstractContextManager[Arguments]]
"""A context in which `generate` drafts, if it is handed the arguments that it yields."""


VOCAB = 3
DRAFT_LENGTH = 2
_HIDDEN = 8
_SIZES: dict[str, Any] = {"hidden_size": _HIDDEN, "intermediate_size": 8, "max_position_embeddings": 64}
_SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 1, "attn_implementation": "sdpa"}


def small_model(seed: int, layers: int, vocab_size: int = VOCAB, sliding_window: int | None = None) -> Module:
    """Return a Llama, or with a sliding window a Mistral, with random weights in float64."""
    from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    sizes = {**_SIZES, **ends, "vocab_size": vocab_size, "num_hidden_layers": layers}
    if sliding_window is None:
        return _randomised(LlamaForCausalLM(LlamaConfig(**sizes)), seed)
    return _randomised(MistralForCausalLM(MistralConfig(**sizes, sliding_window=sliding_window)), seed)


def _randomised(module: Module, seed: int) -> Module:
    """Give a module random weights, always the same ones, and return it."""
    import torch

    module = module.to(torch.float64).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.normal_(std=0.45, generator=generator)
    return module


def _assistant(model: Module, sliding_window: int | None, **settings: Any) -> Drafter:
    draft = small_model(2, 1, model.config.vocab_size, sliding_window)
    return _always({"assistant_model": _configured(draft, **settings)})


def _configured(draft: Module, **settings: Any) -> Module:
    fixed = {"num_assistant_tokens": DRAFT_LENGTH, "assistant_confidence_threshold": 0.0}
    for name, value in {**fixed, "num_assistant_tokens_schedule": "constant", **settings}.items():
        setattr(draft.generation_config, name, value)
    return draft


def _other_tokenizer(_: Module, sliding_window: int | None, *, listed: str) -> Drafter:
    """Let the assistant have the tokens in another order, and one more; ``listed`` is how it lists them.

    Fast tokenizers list theirs in any order, another one every time.
    """
    draft = _configured(small_model(2, 1, VOCAB + 1, sliding_window))
    # What is made of tokenizers is kept by them, the assistant's head included: every engine has its own.
    tokenizers = {"tokenizer": _tokenizer("abc"), "assistant_tokenizer": _tokenizer("cabd", listed)}
    return _always({"assistant_model": draft, **tokenizers})


def _tokenizer(letters: str, listed: str = "") -> Any:
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


def _with_arguments(_: Module, __: int | None, **arguments: Any) -> Drafter:
    return _always(arguments)


def _always(arguments: Arguments) -> Drafter:
    """Hand over the same arguments every time; copies of an engine have their own assistant."""
    always: Drafter = partial(nullcontext, arguments)  # type: ignore[assignment]  # an overload
    return always


def _multi_token_prediction(model: Module, _: int | None) -> Drafter:
    """Let two more layers of the model each draft a token."""
    from transformers.modeling_layers import MtpModel

    model.config.num_mtp_layers = DRAFT_LENGTH
    own = [parameter.clone() for parameter in model.parameters()]
    layers = _randomised(MtpModel(model, DRAFT_LENGTH), 3)
    for parameter, value in zip(model.parameters(), own, strict=True):
        parameter.copy_(value)  # head and embedding are the model's own

    @contextmanager
    def drafting() -> Iterator[Arguments]:
        with mock.patch.object(MtpModel, "from_pretrained", return_value=layers):
            yield {"use_mtp": True}

    return drafting


def _diffusion(_: Module, __: int | None) -> Drafter:
    """Draft a block at once from the model's hidden states, which a cache of its own keeps."""
    import torch
    from transformers import GenerationConfig, LlamaConfig
    from transformers.cache_utils import DFlashCache  # noqa: F401  # older versions have none
    from transformers.modeling_outputs import BaseModelOutput

    class Block(torch.nn.Module):  # type: ignore[misc]
        device = torch.device("cpu")
        generation_config = GenerationConfig()

        def __init__(self) -> None:
            super().__init__()
            self.config = LlamaConfig(**_SIZES, vocab_size=VOCAB, num_hidden_layers=1)
            self.config.target_layer_ids = [0, 1]
            self.config.block_size, self.config.mask_token_id = DRAFT_LENGTH + 1, 0
            self.seen, self.own = torch.nn.Linear(2 * _HIDDEN, _HIDDEN), torch.nn.Linear(_HIDDEN, _HIDDEN)

        def forward(
            self, noise_embeds: Tensor, context_hidden_states: Tensor, past_key_values: Any, **rest: Tensor
        ) -> Any:
            states = torch.cat([self.seen(context_hidden_states), noise_embeds], dim=1)[:, None]
            keys, _ = past_key_values.update(states, states, 0)
            places = rest["position_ids"][:, -noise_embeds.shape[1] :, None].to(keys.dtype).cos()
            return BaseModelOutput(self.own(noise_embeds) + keys[:, 0].mean(dim=1, keepdim=True) + places / 3)

    return _always({"assistant_model": _randomised(Block(), 4), "speculation_type": "dflash"})


def _gemma(seed: int, layers: int, vocab_size: int, _: int | None) -> Module:
    """Return a Gemma 4 with random weights in float64: only such a one tells an assistant what it needs."""
    from transformers import Gemma4ForCausalLM

    return _randomised(Gemma4ForCausalLM(_gemma_config(layers, vocab_size)), seed)


def _gemma_config(layers: int, vocab_size: int, **more: Any) -> Any:
    from transformers import Gemma4TextConfig

    none = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    none |= dict.fromkeys(("hidden_size_per_layer_input", "vocab_size_per_layer_input"), 0)
    sizes = {**_SIZES, **none, "vocab_size": vocab_size, "num_hidden_layers": layers}
    kinds = ["sliding_attention"] * (layers - 1) + ["full_attention"]
    return Gemma4TextConfig(**sizes, head_dim=_HIDDEN, global_head_dim=_HIDDEN, layer_types=kinds, **more)


def _gemma_assistant(model: Module, _: int | None) -> Drafter:
    """Draft by an assistant that reads the target's hidden states and keys."""
    from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM

    layers = model.config.num_hidden_layers
    shared = _gemma_config(layers, VOCAB, num_kv_shared_layers=layers)
    config = Gemma4AssistantConfig(text_config=shared, backbone_hidden_size=_HIDDEN)
    return _always({"assistant_model": _configured(_randomised(Gemma4AssistantForCausalLM(config), 2))})


TARGETS: Mapping[str, Callable[..., Module]] = {"Gemma 4 assistant": _gemma}
"""Models that only one generator drafts for; all others draft for `small_model`."""

GENERATORS: Mapping[str, Callable[[Module, int | None], Drafter]] = {
    "assistant": _assistant,
    "adaptive assistant": partial(
        _assistant, num_assistant_tokens_schedule="heuristic", num_assistant_tokens=1
    ),
    "unsure assistant": partial(_assistant, assistant_confidence_threshold=0.6),
    "lookup": partial(_with_arguments, prompt_lookup_num_tokens=DRAFT_LENGTH),
    "early exit": partial(_with_arguments, assistant_early_exit=1),
    "other tokenizer": partial(_other_tokenizer, listed="cabd"),
    "other tokenizer, unsorted": partial(_other_tokenizer, listed="dbac"),
    "multi-token prediction": _multi_token_prediction,
    "block diffusion": _diffusion,
    "Gemma 4 assistant": _gemma_assistant,
}
"""(model, its sliding window) -> what drafts for it; `ImportError` where the version has no such one."""
