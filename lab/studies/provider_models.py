"""What a provider may serve in place of the model that it names: other weights, temperatures, prompts."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from spec_oracle.language_models import first_layers

MARK = "THE PROMPT"


@dataclass(frozen=True)
class Served:
    """What is served: a network, at a temperature, with a watermark, and with what prompts begin."""

    network: Any
    temperature: float = 1.0
    watermark: float = 0.0
    before: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()

    def logits(self, ids: torch.Tensor, keep: int, **more: Any) -> torch.Tensor:
        """Return float64 [B, keep, V] after the last ``keep`` tokens of ids [B, T]."""
        found = self.network(ids, logits_to_keep=keep, **more).logits.double() / self.temperature
        if self.watermark:
            vocab = torch.arange(found.shape[-1])
            mixed = (vocab * 2654435761 + ids[:, -keep:, None] * 40503) >> 7
            found += self.watermark * (mixed & 1)  # half of the tokens, by the one before
        return found

    def prompt(self, ids: Sequence[int]) -> list[int]:
        """Return the tokens of a prompt as they are served."""
        return [*self.before, *ids, *self.behind]


def rounded(network: Any, round_: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Return a copy whose weights of attention and feed-forward layers are rounded, [rows, columns] each."""
    copied = copy.deepcopy(network)
    with torch.no_grad():
        for layer in copied.base_model.layers:
            for module in layer.modules():
                if isinstance(module, torch.nn.Linear):
                    module.weight.copy_(torch.from_numpy(round_(module.weight.float().numpy())))
    return copied


def by_gguf(kind: str, weights: np.ndarray) -> np.ndarray:
    """Round weights by a type of GGUF."""
    import gguf

    of = gguf.GGMLQuantizationType[kind]
    found: np.ndarray = gguf.quants.dequantize(gguf.quants.quantize(weights, of), of)
    return found


def to_bits(bits: int, weights: np.ndarray) -> np.ndarray:
    """Round blocks of 32 weights to so many bits, between the least and the largest."""
    blocks = weights.reshape(-1, 32)
    least, most = blocks.min(axis=1, keepdims=True), blocks.max(axis=1, keepdims=True)
    step = np.maximum((most - least) / (2**bits - 1), 1e-12)
    found = least + step * np.round((blocks - least) / step)
    return np.asarray(found.reshape(weights.shape), dtype=np.float32)


def with_8_bit_keys(network: Any) -> Any:
    """Return a copy whose keys and values are rounded to 8 bits, e4m3, as they are computed."""
    copied = copy.deepcopy(network)
    for layer in copied.base_model.layers:
        for module in (layer.self_attn.k_proj, layer.self_attn.v_proj):
            module.register_forward_hook(lambda *at: at[2].to(torch.float8_e4m3fn).to(at[2].dtype))
    return copied


def served(network: Any, tokenizer: Any) -> Iterator[tuple[str, Served]]:
    """Yield what is served by name, one after another: each copy is dropped before the next is made."""
    yield "the same weights in bfloat16", Served(copy.deepcopy(network).to(torch.bfloat16))
    yield "weights in 8 bits (Q8_0)", Served(rounded(network, partial(by_gguf, "Q8_0")))
    yield "keys and values in 8 bits (e4m3)", Served(with_8_bit_keys(network))
    yield "weights in 4 bits (Q4_0)", Served(rounded(network, partial(by_gguf, "Q4_0")))
    for bits in (3, 2):
        yield f"weights in {bits} bits", Served(rounded(network, partial(to_bits, bits)))
    for temperature in (1.02, 1.1):
        yield f"temperature {temperature:g}", Served(network, temperature=temperature)
    for bias in (0.5, 2.0):
        yield f"watermark, {bias:g} nats on half of the tokens", Served(network, watermark=bias)
    last = network.config.num_hidden_layers
    for layers in (last - 1, 2 * last // 3):
        yield f"another model: {layers} of {last} layers", Served(first_layers(network, layers))
    if tokenizer is not None:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": MARK}], add_generation_prompt=True, tokenize=False
        )
        before, behind = (tuple(tokenizer(part).input_ids) for part in text.split(MARK))
        yield "another template: the chat's", Served(network, before=before, behind=behind)
