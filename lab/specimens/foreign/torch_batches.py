"""Batched torch verifiers under the sampler contract, with the random idioms of the engines people run."""

from functools import partial
from typing import Any

import torch

from lab.specimens.foreign.rows import Array
from lab.specimens.specimen import itself, specimen

torch_specimen = partial(specimen, function=itself, array="torch", prefix="torch-")


def _ratios(x: Array, q: Array, p: Array) -> Array:
    drafted = x[..., None]
    return (p[:, : x.shape[1]].gather(2, drafted) / q.gather(2, drafted))[..., 0]


def _length(accepted: Array) -> Array:
    return accepted.int().cumprod(dim=1).sum(dim=1)


def _residuals(q: Array, p: Array) -> Array:
    """Return (p - q)+ at the drafts, p where nothing is left (or q is NaN), p at the bonus, [B, L+1, V]."""
    left = (p[:, :-1] - q).clamp(min=0)
    left = torch.where(left.sum(dim=-1, keepdim=True) > 0, left, p[:, :-1])
    return torch.cat([left, p[:, -1:]], dim=1)


def _emit(x: Array, tau: Array, extra: Array) -> tuple[Array, Array]:
    position = torch.arange(x.shape[1] + 1)[None]
    drafts = torch.cat([x, torch.full_like(x[:, :1], -1)], dim=1)
    tail = torch.where(position == tau[:, None], extra[:, None], torch.full_like(drafts, -1))
    return torch.where(position < tau[:, None], drafts, tail), tau


def _row(values: Array, tau: Array) -> Array:
    return values[torch.arange(len(tau)), tau]


@torch_specimen("control", declared="token")
def multinomial_correction(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Uniforms for all positions, one multinomial draw."""
    u = torch.rand(x.shape, generator=generator, dtype=torch.float64)
    tau = _length(u < _ratios(x, q, p))
    extra = torch.multinomial(_row(_residuals(q, p), tau), 1, generator=generator)[:, 0]
    return _emit(x, tau, extra)


@torch_specimen("control", declared="token")
def race_at_every_position(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Corrections for all positions by races of in-place exponential noise, merged by masks."""
    tau = _length(torch.rand_like(_ratios(x, q, p)) < _ratios(x, q, p))
    weights = _residuals(q, p)
    noise = torch.empty_like(weights)
    noise.exponential_(1.0, generator=generator)
    recovered = weights.div_(noise).argmax(dim=-1)
    chosen = torch.arange(recovered.shape[1])[None] == tau[:, None]
    return _emit(x, tau, recovered.mul(chosen).sum(dim=1))


@torch_specimen("control", declared="token")
def race_with_shared_noise(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """One vector of exponentials per request, used at every position; one winner is emitted."""
    u = torch.rand(x.shape, dtype=torch.float64)
    tau = _length(u * q.gather(2, x[..., None])[..., 0] < p[:, :-1].gather(2, x[..., None])[..., 0])
    noise = torch.empty(q.shape[0], 1, q.shape[2], dtype=q.dtype).exponential_(generator=generator)
    recovered = (_residuals(q, p) / noise).max(dim=-1).indices
    return _emit(x, tau, recovered.gather(1, tau[:, None])[:, 0])


@torch_specimen("control", declared="token")
def gumbel_with_logits(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Log of the residual plus Gumbel noise from uniforms."""
    tau = _length(torch.rand_like(_ratios(x, q, p)).log() < _ratios(x, q, p).log())
    u = torch.rand(q.shape[0], q.shape[2], generator=generator, dtype=torch.float64).clamp(min=1e-30)
    noise = -torch.log(-torch.log(u))
    return _emit(x, tau, (_row(_residuals(q, p), tau).log() + noise).argmax(dim=-1))


@torch_specimen("control", declared="token")
def inverse_cdf_search(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Inversion by searchsorted; a second uniform for the token."""
    tau = _length(torch.rand_like(_ratios(x, q, p)) < _ratios(x, q, p))
    cumulative = _row(_residuals(q, p), tau).cumsum(dim=-1, dtype=torch.float64)
    u = torch.rand(len(x), 1, generator=generator, dtype=torch.float64) * cumulative[:, -1:]
    return _emit(x, tau, torch.searchsorted(cumulative, u, right=True).clamp(max=q.shape[2] - 1)[:, 0])


@torch_specimen("C3", "joint")
def accept_uniform_inverts_residual(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Invert the residual at the uniform of the accept test."""
    u = torch.rand(x.shape, generator=generator, dtype=q.dtype)
    tau = _length(u < _ratios(x, q, p))
    cumulative = _row(_residuals(q, p), tau).cumsum(dim=-1)
    scaled = _row(torch.cat([u, torch.rand(len(x), 1, dtype=q.dtype)], dim=1), tau) * cumulative[:, -1]
    return _emit(x, tau, (cumulative > scaled[:, None]).int().argmax(dim=-1))


@torch_specimen("C8", "joint")
def one_uniform_per_request(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Use one uniform at all positions."""
    u = torch.rand(len(x), 1, generator=generator, dtype=q.dtype).expand(x.shape)
    tau = _length(u < _ratios(x, q, p))
    return _emit(x, tau, torch.multinomial(_row(_residuals(q, p), tau), 1)[:, 0])


@torch_specimen("B3", "joint")
def floored_residual(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Put a floor of 1e-3 under the residual."""
    tau = _length(torch.rand(x.shape, generator=generator, dtype=q.dtype) < _ratios(x, q, p))
    return _emit(x, tau, torch.multinomial(_row(_residuals(q, p), tau).clamp(min=1e-3), 1)[:, 0])
