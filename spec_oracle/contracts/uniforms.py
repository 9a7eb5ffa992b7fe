"""Functions that take their uniforms as an argument, and how they fit the sampler contract."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from spec_oracle.contracts.sampler import SamplerFunction


def takes_uniforms(function: Callable[..., Any]) -> bool:
    """Whether a function declares, by the name of its fourth parameter, that it takes uniforms."""
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # code without a signature, such as compiled functions
        return False
    return parameters[3:4] == ["uniforms"]


def drawing_uniforms(function: SamplerFunction) -> SamplerFunction:
    """Return code that takes uniforms as a function of the sampler contract: the generator draws them."""

    def verify(tokens: Any, draft: Any, target: Any, generator: Any) -> tuple[Any, Any]:
        shape = (tokens.shape[0], tokens.shape[1] + 1)
        if isinstance(tokens, np.ndarray):
            return function(tokens, draft, target, generator.random(shape))
        import torch

        return function(tokens, draft, target, torch.rand(shape, generator=generator, dtype=torch.float64))

    return verify
