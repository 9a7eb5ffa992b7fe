"""Torch code in the place of vLLM's fused C++ operators, while an audit traces; else they run as they ship.

Each function takes the arguments of what it stands in for, in `vllm.utils.cpu_triton_utils`, and writes the
same into ``output``. B requests have N drafted tokens, which end at ``ends``, [B].
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from spec_oracle.exact.interception.run import active_run

if TYPE_CHECKING:
    import torch

Tensor: TypeAlias = "torch.Tensor"


class _Counts(Protocol):
    drafted: int
    accepted: int


@dataclass(frozen=True)
class Mode:
    """What the patched vLLM does in a block, besides its own.

    ``repaired``: temperature, top-k and top-p of draft positions are written, where the shipped operator does
    not. A request emits ``forced`` tokens, if any, in place of sampled ones; its next-token distributions,
    [V] each, are added to ``rows``. ``counts`` counts drafted and accepted tokens as vLLM's scheduler does.
    ``on_emitted`` is called with what a step emits for the only request, before drafts for the next step are
    made: so an enumeration that ends with this step need not run every draft of the next one.
    """

    repaired: bool = False
    forced: Sequence[int] = ()
    rows: list[Tensor] = field(default_factory=list)
    counts: _Counts | None = None
    on_emitted: Callable[[list[int]], None] | None = None


_mode: ContextVar[Mode] = ContextVar("mode", default=Mode())  # noqa: B039  # never changed


@contextmanager
def during(**changes: Any) -> Iterator[Mode]:
    """Change fields of the mode inside the block; counts begin at zero."""
    token = _mode.set(replace(_mode.get(), **changes))
    if counts := changes.get("counts"):
        counts.drafted = counts.accepted = 0
    try:
        yield _mode.get()
    finally:
        _mode.reset(token)


@cache
def install() -> None:
    """Patch vLLM once: each operator is chosen at its call."""
    from vllm.platforms import current_platform
    from vllm.utils import cpu_triton_utils as fused
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.sample import sampler
    from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    def is_traced() -> bool:
        return active_run.get() is not None

    def choose(where: object, name: str, ours: Callable[..., object], when: Callable[[], bool]) -> None:
        theirs = getattr(where, name)

        @wraps(theirs)
        def chosen(*given: object, **named: object) -> object:
            return (ours if when() else theirs)(*given, **named)

        setattr(where, name, chosen)

    platform = type(current_platform)  # its second search for kernels, for a second engine, fails on numba's
    platform.register_triton_kernel_overrides = staticmethod(cache(platform.register_triton_kernel_overrides))
    choose(fused, "_rejection_random_sample_kernel_impl", rejection_random_sample, is_traced)
    choose(fused, "_sample_recovered_tokens_kernel_impl", sample_recovered_tokens, is_traced)
    choose(sampler, "batched_count_greater_than", _ranks, is_traced)
    choose(fused, "_expand_kernel_impl", expand, lambda: _mode.get().repaired)
    choose(TopKTopPSampler, "forward_cpu", TopKTopPSampler.forward_native, is_traced)
    choose(TopKTopPSampler, "forward_cpu", _emit_forced, lambda: bool(_mode.get().forced))
    stats = Scheduler.make_spec_decoding_stats

    def counting(*given: object, num_draft_tokens: int, num_accepted_tokens: int, **named: object) -> object:
        mode = _mode.get()
        if mode.counts is not None and mode.on_emitted is None:
            mode.counts.drafted += num_draft_tokens
            mode.counts.accepted += num_accepted_tokens
        numbers = {"num_draft_tokens": num_draft_tokens, "num_accepted_tokens": num_accepted_tokens}
        return stats(*given, **numbers, **named)

    Scheduler.make_spec_decoding_stats = counting
    propose = GPUModelRunner.propose_draft_token_ids

    def proposing(*given: Any) -> object:
        sampled, spec_decode_metadata, mode = given[2], given[7], _mode.get()
        if mode.on_emitted is not None:
            (row,) = sampled if isinstance(sampled, list) else sampled.tolist()
            emitted = [token for token in row if token >= 0]
            if spec_decode_metadata is not None and mode.counts is not None:
                mode.counts.drafted += sum(spec_decode_metadata.num_draft_tokens)
                mode.counts.accepted += len(emitted) - 1
            mode.on_emitted(emitted)
        return propose(*given)

    GPUModelRunner.propose_draft_token_ids = proposing


def _ranks(logprobs: Tensor, chosen: Tensor) -> Tensor:
    """Return the rank of the chosen token in each row; vLLM's is compiled, which cannot be traced."""
    return (logprobs >= chosen).sum(-1)


def _emit_forced(
    _: object, logits: Tensor, __: object, top_k: "Tensor | None", top_p: "Tensor | None"
) -> tuple[Tensor, None]:
    import torch
    from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

    mode = _mode.get()
    mode.rows.append(apply_top_k_top_p(logits.double(), top_k, top_p).softmax(-1)[0])
    return torch.tensor([mode.forced[len(mode.rows) - 1]] * len(logits)), None


def expand(
    output: Tensor, given: Tensor, ends: Tensor, replace_from: float, replace_to: float, *_: object
) -> None:
    """Write each request's value, ``replace_to`` for ``replace_from``, once per drafted token."""
    written = given.where(given != replace_from, replace_to)
    output.copy_(written[_requests(ends)])


def _requests(ends: Tensor) -> Tensor:
    """Return the request of every drafted token, [N]."""
    import torch

    return torch.repeat_interleave(ends.diff(prepend=ends.new_zeros(1)))


def sample_recovered_tokens(  # noqa: PLR0917  # the order of the operator
    output: Tensor,
    ends: Tensor,
    draft_tokens: Tensor,
    draft_probs: "Tensor | None",
    target_probs: Tensor,
    inverse_noise: Tensor,
    *_: object,
) -> None:
    """Sample the residual at every drafted token, as a race by the request's exponential noise, [B, V]."""
    import torch

    if draft_probs is None:
        drafted = torch.arange(target_probs.shape[1]) == draft_tokens.unsqueeze(1)
        residual = target_probs.masked_fill(drafted, 0.0)
    else:
        residual = (target_probs - draft_probs).clamp(min=0)
    output.copy_((residual * inverse_noise[_requests(ends)]).argmax(-1))


def rejection_random_sample(  # noqa: PLR0917  # the order of the operator
    output: Tensor,
    ends: Tensor,
    draft_tokens: Tensor,
    draft_probs: "Tensor | None",
    target_probs: Tensor,
    bonus_tokens: Tensor,
    recovered_tokens: Tensor,
    uniforms: Tensor,
    is_greedy: Tensor,
    *_: object,
) -> None:
    """Accept drafted tokens with min(1, p/q) until one is rejected, for which a recovered one is emitted.

    Uniforms are float64 here; the operator that ships rounds them to float32 first. Padding, -1, is rejected
    as by vLLM's Triton kernel; the operator that ships may accept it.
    """
    start = 0
    for request, end in enumerate(ends.tolist()):
        if not is_greedy[request]:
            for at in range(start, end):
                token = int(draft_tokens[at])
                q = 1.0 if draft_probs is None else float(draft_probs[at, token])
                if token < 0 or q <= 0 or not target_probs[at, token] / q >= uniforms[at]:
                    output[request, at - start] = recovered_tokens[at]
                    break
                output[request, at - start] = token
            else:
                output[request, end - start] = bonus_tokens[request, 0]
        start = end
