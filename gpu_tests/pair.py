"""The pair of models that the suite decodes with: named ones, or a random target and its own first layers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from spec_oracle.language_models import LanguageModel, Truncation, first_layers, load_language_model

FIELDS = (
    *("vocab_size", "hidden_size", "intermediate_size"),
    *("num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
)
NETWORKS = {"small": (257, 64, 128, 4, 4, 2), "large": (151_936, 2048, 8192, 12, 32, 8)}
"""Sizes of random networks; the large one has 1.4 billion parameters, of which 0.6 billion are embeddings."""

OVERLAP, ENTROPY = 0.75, 2.5
"""Of rows of a random pair, on average: probability that the token rule accepts, nats of the target."""

TEXT = (
    "The capital of France is a city on the river Seine, and the first of its bridges was built of stone. "
    "Water boils at one hundred degrees at the level of the sea; on a mountain it takes less heat than that."
)


@dataclass(frozen=True)
class Pair:
    """Target and draft, prompts of unlike lengths, and the sizes of the runs.

    ``requests`` texts of ``tokens`` are judged a rule; ``few_requests`` of ``few_tokens`` are compared with
    others. ``number_type`` is the torch type of the rows that rules read, ``memory`` bytes or None.
    """

    name: str
    target: LanguageModel
    draft: LanguageModel
    words: tuple[int, ...]
    number_type: Any
    requests: int
    tokens: int
    draft_length: int
    num_paths: int = 2
    few_requests: int = 4
    few_tokens: int = 12
    memory: float | None = None

    @property
    def is_random(self) -> bool:
        return self.target.tokenizer is None

    @property
    def device(self) -> Any:
        return self.target.device

    @property
    def vocab_size(self) -> int:
        return int(self.target.network.config.vocab_size)

    def prompts(self, count: int) -> list[list[int]]:
        """Return unlike prompts of 2 to 8 tokens."""
        size = len(self.words)
        starts = [(5 * number) % size for number in range(count)]
        return [
            [self.words[(start + step * (1 + number // size)) % size] for step in range(2 + number % 7)]
            for number, start in enumerate(starts)
        ]

    def generator(self, seed: int) -> torch.Generator:
        return torch.Generator(self.device).manual_seed(seed)

    def rows_bytes(self, requests: int, paths: int | None = None) -> int:
        """Return the bytes of the rows of both models that one call of verification reads."""
        rows = (paths or self.num_paths) * (2 * self.draft_length + 1)
        return requests * rows * self.vocab_size * torch.finfo(self.number_type).bits // 8

    @property
    def batch(self) -> int:
        """Requests at once: all, or as many as fit in ``memory``."""
        if self.memory is None:
            return self.requests
        # While rows are made, logits, float64 probabilities and their sums are held beside them.
        one = PEAK_OVER_ROWS * self.rows_bytes(1) * 64 / torch.finfo(self.number_type).bits
        return max(1, min(self.requests, int(self.memory / one)))


PEAK_OVER_ROWS = 5
"""Peak memory of a call over that of its rows in float64, rounded up; the table shows both."""


def random_network(size: str, device: Any, dtype: torch.dtype) -> Any:
    """Return a random network whose rows depend on the whole context, as those of trained ones do.

    Embeddings are as large as what attention adds, and attention is sharp: freshly initialised networks
    nearly ignore the order of their tokens.
    """
    config = LlamaConfig(
        **dict(zip(FIELDS, NETWORKS[size], strict=True)),
        max_position_embeddings=512,
        initializer_range=0.9 / NETWORKS[size][1] ** 0.5,
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id")),
    )
    torch.manual_seed(1)
    with torch.device(device):
        torch.set_default_dtype(dtype)
        try:
            network = LlamaForCausalLM(config).eval()
        finally:
            torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        network.base_model.embed_tokens.weight.normal_(0, 1)
        for layer in network.base_model.layers:
            layer.self_attn.q_proj.weight.mul_(3)
    return network


def random_pair(size: str, device: Any, dtype: torch.dtype) -> tuple[LanguageModel, LanguageModel]:
    """Return a random target and its first three quarters of layers, both at one temperature.

    What the other layers add is scaled until the models have `OVERLAP` at the temperature of `ENTROPY`.
    """
    network = random_network(size, device, dtype)
    count = 3 * network.config.num_hidden_layers // 4
    drafter = first_layers(network, count)
    ids = torch.randint(network.config.vocab_size, (4, 16), generator=_seeded()).to(device)
    late = [
        weight
        for layer in network.base_model.layers[count:]
        for weight in (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight)
    ]
    whole = [weight.detach().clone() for weight in late]

    def logits(model: Any) -> Any:
        with torch.inference_mode():
            return model(input_ids=ids, use_cache=False).logits[:, 4:].double()

    def overlap(factor: float) -> tuple[float, float]:
        with torch.no_grad():
            for weight, own in zip(late, whole, strict=True):
                weight.copy_(own * factor)
        target = logits(network)
        temperature = _bisected(lambda value: -_entropy(target / value), -ENTROPY, 1e-3, 1e2)
        p, q = (Truncation(temperature=temperature).probabilities(one) for one in (target, logits(drafter)))
        return float(torch.minimum(p, q).sum(-1).mean()), temperature

    factor = _bisected(lambda value: overlap(value)[0], OVERLAP, 1e-3, 4.0, steps=12)
    _, temperature = overlap(factor)
    return LanguageModel(network, temperature=temperature), LanguageModel(drafter, temperature=temperature)


def _bisected(
    falling: Callable[[float], float], value: float, low: float, high: float, steps: int = 25
) -> float:
    """Return where a falling function of positive numbers has a value."""
    for _ in range(steps):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if falling(middle) > value else (low, middle)
    return high


def _entropy(logits: Any) -> float:
    log_p = logits.log_softmax(-1)
    return float(-(log_p.exp() * log_p).sum(-1).mean())


def random_sizes(device: str, size: str | None) -> tuple[str, dict[str, Any]]:
    """Return the network and the sizes of runs: those of a GPU and of a CPU unless ``size`` says which."""
    size = size or ("large" if torch.device(device).type == "cuda" else "small")
    if size == "large":
        return size, {"requests": 64, "tokens": 72, "draft_length": 4}
    return size, {"requests": 128, "tokens": 27, "few_tokens": 8, "draft_length": 3}


def load_pair(
    device: str,
    dtype: str,
    *,
    target: str | None,
    draft: str | None,
    size: str | None,
    memory: float | None = None,
) -> Pair:
    """Return the named pair, or the random one; a named target is drafted by nine tenths of its layers."""
    number_type = getattr(torch, dtype)
    if torch.device(device).type == "cuda":
        # In 16 bits torch prefers cuDNN's attention, which builds a plan for every new length of a text.
        torch.backends.cuda.enable_cudnn_sdp(False)
    if target is None:
        size, sizes = random_sizes(device, size)
        models = random_pair(size, device, number_type)
        words = torch.randint(models[0].network.config.vocab_size, (41,), generator=_seeded()).tolist()
        return Pair(f"random {size} network", *models, tuple(words), number_type, memory=memory, **sizes)
    model = load_language_model(target, device=device, dtype=dtype)
    draft = draft or f"{target}:layers={9 * model.network.config.num_hidden_layers // 10}"
    drafter = load_language_model(draft, device=device, dtype=dtype)
    on_gpu = torch.device(device).type == "cuda"
    sizes = {"requests": 64, "tokens": 72 if on_gpu else 56, "draft_length": 4}
    words = tuple(model.encode(TEXT))
    return Pair(f"{target}, drafted by {draft}", model, drafter, words, number_type, memory=memory, **sizes)


def shorter(pair: Pair, requests: int, tokens: int) -> Pair:
    """Return the pair with fewer and shorter texts."""
    return replace(pair, requests=requests, tokens=tokens)


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(3)
