"""Engines of transformers' `generate` for studies: all drafters, options and architectures that fit a toy.

Block proposers, which draft several tokens in one pass, come with checkpoints; here they have random weights.
Layers attend, slide, convolve, recur, or are hybrid.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest import mock

from spec_oracle.third_party.engines import hugging_face as product
from spec_oracle.third_party.engines.hugging_face import (
    DRAFT_LENGTH,
    ENDS,
    HIDDEN,
    LAYERS,
    LOOKUP_PROMPT,
    PROMPT,
    SIZES,
    VOCAB,
    Arguments,
    DecodingOption,
    Drafter,
    Module,
    Tensor,
    TransformersEngine,
    configured,
    randomised,
    with_arguments,
)

if TYPE_CHECKING:
    from transformers import Gemma4TextConfig, PreTrainedTokenizerFast
    from transformers.modeling_outputs import BaseModelOutput

Settings: TypeAlias = dict[str, Any]
"""Arguments of a configuration, whose class checks them."""

_HYBRID: Settings = {"num_hidden_layers": 2, "head_dim": 4, "experts_implementation": "eager"}
_GATED: Settings = {"linear_num_value_heads": 2, "linear_num_key_heads": 1, "linear_conv_kernel_dim": 3}
_GATED |= {"linear_key_head_dim": 4, "linear_value_head_dim": 4}
_MAMBA: Settings = {"num_hidden_layers": 2, "num_heads": 2, "head_dim": 8, "expand": 2, "state_size": 4}
_MAMBA |= {"n_groups": 1, "conv_kernel": 3, "chunk_size": 4, "hidden_size": HIDDEN}


def model_of(seed: int, layers: int, vocab_size: int = VOCAB, architecture: str = "Llama") -> Module:
    """Return a model of an architecture with random weights in float64; hybrid ones have two layers."""
    return randomised(ARCHITECTURES[architecture](layers, vocab_size), seed)


def _made(layers: int, vocab_size: int, *, name: str, config: str = "", **settings: object) -> Module:
    """Return a model by its name in transformers; `ImportError` where the version has no such one."""
    import transformers

    sizes = {**SIZES, **ENDS, "vocab_size": vocab_size, "num_hidden_layers": layers, **settings}
    try:
        kind, configuration = (
            getattr(transformers, some) for some in (f"{name}ForCausalLM", config or f"{name}Config")
        )
    except AttributeError as error:
        raise ImportError(str(error)) from None
    return kind(configuration(**sizes))


def _gemma(layers: int, vocab_size: int) -> Module:
    from transformers import Gemma4ForCausalLM

    return Gemma4ForCausalLM(gemma_config(layers, vocab_size))


def gemma_config(layers: int, vocab_size: int, **more: object) -> "Gemma4TextConfig":
    """Return the configuration of a Gemma 4 whose last layer has full attention."""
    from transformers import Gemma4TextConfig

    none = ENDS | dict.fromkeys(("hidden_size_per_layer_input", "vocab_size_per_layer_input"), 0)
    sizes = {**SIZES, **none, "vocab_size": vocab_size, "num_hidden_layers": layers}
    kinds = ["sliding_attention"] * (layers - 1) + ["full_attention"]
    return Gemma4TextConfig(**sizes, head_dim=HIDDEN, global_head_dim=HIDDEN, layer_types=kinds, **more)


def _layers(first: str) -> Settings:
    return {**_HYBRID, "layer_types": [first, "full_attention"]}


ARCHITECTURES: Mapping[str, Callable[[int, int], Module]] = {
    "Llama": partial(_made, name="Llama"),
    "Mistral": partial(_made, name="Mistral", sliding_window=3),
    "Gemma 4": _gemma,
    "Gemma 3": partial(
        _made, name="Gemma3", config="Gemma3TextConfig", sliding_window=3, **_layers("sliding_attention")
    ),
    "LFM2": partial(_made, name="Lfm2", conv_L_cache=3, block_auto_adjust_ff_dim=False, **_layers("conv")),
    "LFM3": partial(_made, name="Lfm3", conv_L_cache=3, **_layers("conv")),
    "MiniMax": partial(
        _made,
        name="MiniMax",
        num_local_experts=2,
        num_experts_per_tok=1,
        block_size=4,
        **_layers("linear_attention"),
    ),
    "Qwen3-Next": partial(
        _made, name="Qwen3Next", mlp_only_layers=[0, 1], **_GATED, **_layers("linear_attention")
    ),
    "Mamba 2": partial(_made, name="Mamba2", attn_implementation="eager", **_MAMBA),
    "RecurrentGemma": partial(
        _made,
        name="RecurrentGemma",
        lru_width=HIDDEN,
        attention_window_size=4,
        intermediate_size=16,
        block_types=["recurrent", "attention"],
        num_hidden_layers=2,
        head_dim=4,
    ),
}
"""(layers, tokens) -> a model. Sliding windows see 3 tokens; convolutions see 3."""

LONGER = 3
"""Drafts of the generators that draft more."""


def _assistant(model: Module, architecture: str, of: str = "", **settings: object) -> Drafter:
    draft = model_of(2, 1, model.config.vocab_size, of or architecture)
    return with_arguments({"assistant_model": configured(draft, **settings)})


def _other_tokenizer(_: Module, architecture: str, *, listed: str) -> Drafter:
    """Let the assistant have the tokens in another order, and one more; ``listed`` is how it lists them.

    Fast tokenizers list theirs in any order, another one every time.
    """
    draft = configured(model_of(2, 1, VOCAB + 1, architecture))
    # What is made of tokenizers is kept by them, the assistant's head included: every engine has its own.
    tokenizers = {"tokenizer": tokenizer_of("abc"), "assistant_tokenizer": tokenizer_of("cabd", listed)}
    return with_arguments({"assistant_model": draft, **tokenizers})


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
    return with_arguments(arguments)


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

    return with_arguments({"assistant_model": randomised(DecoderBlock(), 4), "speculation_type": "dflash"})


def _gemma_assistant(model: Module, _: str) -> Drafter:
    """Draft by an assistant that reads the target's hidden states and keys."""
    from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM

    layers = model.config.num_hidden_layers
    shared = gemma_config(layers, VOCAB, num_kv_shared_layers=layers)
    config = Gemma4AssistantConfig(text_config=shared, backbone_hidden_size=HIDDEN)
    return with_arguments({"assistant_model": configured(randomised(Gemma4AssistantForCausalLM(config), 2))})


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


def _sequence_stops() -> dict[str, object]:
    """Return arguments that end a text after the tokens 2, 1."""
    import torch
    from transformers import StoppingCriteria, StoppingCriteriaList

    class EndsWith(StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Tensor, scores: Tensor, **_: object) -> Tensor:
            del scores
            return torch.stack([(row[-2:] == torch.tensor([2, 1])).all() for row in input_ids])

    return {"stopping_criteria": StoppingCriteriaList([EndsWith()])}


def _string_stops() -> dict[str, object]:
    """Return arguments that end a text after the tokens 2, 1, which are the string "cb"."""
    return {"stop_strings": ["cb"], "tokenizer": tokenizer_of("abcdef")}


def _third_is_one(batch: int, ids: Tensor) -> list[int]:
    """Allow token 1 alone as third token of a text (with its prompt), any token elsewhere."""
    del batch
    return [1] if len(ids) == LAYERS + 1 else [*range(VOCAB)]


TWO = {"top_k": 2}
LAYERED = ("Gemma 3", "LFM2", "LFM3", "MiniMax", "Qwen3-Next", "Mamba 2", "RecurrentGemma")
"""Architectures with sliding, convolutional, recurrent or hybrid layers."""
STOP = {"eos_token_id": 2, "pad_token_id": 0}

OPTIONS: Mapping[str, DecodingOption] = {
    **product.OPTIONS,
    "temperature": DecodingOption({"temperature": 0.6}),
    "top-k": DecodingOption(TWO),
    "min-p": DecodingOption({"min_p": 0.3}),
    "typical": DecodingOption({"typical_p": 0.8}),
    "epsilon": DecodingOption({"epsilon_cutoff": 0.15}),
    "no repeated pairs": DecodingOption({"no_repeat_ngram_size": 2}),
    "sequence bias": DecodingOption({"sequence_bias": {(1, 2): -2.0, (0,): 0.7}}),
    "suppressed token": DecodingOption({"suppress_tokens": [0]}),
    "forced token": DecodingOption({"prefix_allowed_tokens_fn": _third_is_one}),
    "two stop tokens": DecodingOption(STOP | {"eos_token_id": [1, 2]}, stop_tokens=(1, 2)),
    "least length": DecodingOption(STOP | {"min_length": 4}, stop_tokens=(2,)),
    "stop sequence": DecodingOption({"stopping": _sequence_stops}, stop_sequences=((2, 1),)),
    "stop string": DecodingOption({"stopping": _string_stops}, stop_sequences=((2, 1),)),
    "greedy": DecodingOption({"do_sample": False}),
    "temperature of 0": DecodingOption({"temperature": 0.0}),
    "eta": DecodingOption({"eta_cutoff": 0.15}),
    "top-h": DecodingOption({"top_h": 0.9}),
    "bad words": DecodingOption({"bad_words_ids": [[1, 2], [2, 0]]}),
    "suppressed at first": DecodingOption({"begin_suppress_tokens": [1]}, from_prompt=True),
    "forced first token": DecodingOption({"forced_bos_token_id": 2}, prompt=(0,), from_prompt=True),
    "forced last token": DecodingOption(
        STOP | {"forced_eos_token_id": 2}, stop_tokens=(2,), from_prompt=True
    ),
    "least new tokens": DecodingOption(STOP | {"min_new_tokens": 2}, stop_tokens=(2,), from_prompt=True),
    "length penalty": DecodingOption(
        STOP | {"exponential_decay_length_penalty": (1, 1.5)}, stop_tokens=(2,), from_prompt=True
    ),
    "penalty on the prompt": DecodingOption({"encoder_repetition_penalty": 1.7}, from_prompt=True),
    "no pairs of the prompt": DecodingOption({"encoder_no_repeat_ngram_size": 2}, from_prompt=True),
    "guidance": DecodingOption({"guidance_scale": 1.5}, from_prompt=True),
    "renormalised": DecodingOption({"renormalize_logits": True, "top_p": 0.8, "remove_invalid_values": True}),
    "prefill in chunks": DecodingOption(TWO | {"prefill_chunk_size": 2}, prompt=(0, 1, 2, 0, 1)),
    "prompt of one token": DecodingOption(TWO, prompt=(0,)),
    "prompt of 70 tokens": DecodingOption(TWO, prompt=(0, 1, 2, 2, 1) * 14),
    "without a cache": DecodingOption(TWO | {"use_cache": False}),
    "many at once": DecodingOption(
        STOP | {"temperature": 0.8, "top_k": 2, "top_p": 0.9, "repetition_penalty": 1.3, "min_new_tokens": 2},
        stop_tokens=(2,),
        from_prompt=True,
    ),
    "static cache": DecodingOption({"cache_implementation": "static"}),
    "quantised cache": DecodingOption(
        {"cache_implementation": "quantized", "cache_config": {"backend": "fp8"}}
    ),
    "sliding window": DecodingOption(TWO),
    **{name: DecodingOption(TWO) for name in LAYERED},
}


ARCHITECTURE_OF: Mapping[str, str] = {"sliding window": "Mistral"} | {name: name for name in LAYERED}
"""Architectures by the options that are for these; others are for Llama."""


def engine_of(drafter: str, option: str, vocab_size: int = VOCAB) -> TransformersEngine:
    """Return the engine with a drafter under an option, both by name; errors as of `GENERATORS`."""
    chosen = OPTIONS[option]
    architecture = TARGETS.get(drafter, ARCHITECTURE_OF.get(option, "Llama"))
    model = model_of(1, LAYERS, vocab_size, architecture)
    prompt = LOOKUP_PROMPT if drafter.startswith("lookup") else PROMPT
    return TransformersEngine(model, GENERATORS[drafter](model, architecture), chosen, prompt)
