"""Small random models for transformers: attention, sliding windows, recurrent and hybrid layers."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import torch
    from transformers import Gemma4TextConfig

Module: TypeAlias = "torch.nn.Module"
Settings: TypeAlias = dict[str, Any]
"""Arguments of a configuration, whose class checks them."""

VOCAB = 3
HIDDEN = 8
SIZES: Settings = {"hidden_size": HIDDEN, "intermediate_size": 8, "max_position_embeddings": 128}
SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 1, "attn_implementation": "sdpa"}
_ENDS: Settings = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
_HYBRID: Settings = {"num_hidden_layers": 2, "head_dim": 4, "experts_implementation": "eager"}
_GATED: Settings = {"linear_num_value_heads": 2, "linear_num_key_heads": 1, "linear_conv_kernel_dim": 3}
_GATED |= {"linear_key_head_dim": 4, "linear_value_head_dim": 4}
_MAMBA: Settings = {"num_hidden_layers": 2, "num_heads": 2, "head_dim": 8, "expand": 2, "state_size": 4}
_MAMBA |= {"n_groups": 1, "conv_kernel": 3, "chunk_size": 4, "hidden_size": HIDDEN}


def small_model(seed: int, layers: int, vocab_size: int = VOCAB, architecture: str = "Llama") -> Module:
    """Return a model of an architecture with random weights in float64; hybrid ones have two layers."""
    return randomised(ARCHITECTURES[architecture](layers, vocab_size), seed)


def randomised(module: Module, seed: int) -> Module:
    """Give a module random weights, always the same ones, and return it."""
    import torch

    module = module.to(torch.float64).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.normal_(std=0.45, generator=generator)
    return module


def _made(layers: int, vocab_size: int, *, name: str, config: str = "", **settings: object) -> Module:
    """Return a model by its name in transformers; `ImportError` where the version has no such one."""
    import transformers

    sizes = {**SIZES, **_ENDS, "vocab_size": vocab_size, "num_hidden_layers": layers, **settings}
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

    none = _ENDS | dict.fromkeys(("hidden_size_per_layer_input", "vocab_size_per_layer_input"), 0)
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
