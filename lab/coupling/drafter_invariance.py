"""Drafter invariance: with the same noise, another drafter leads to the same text.

A rule that reads the uniforms of its drafts (`lab.coupling.list_coupling`) may promise more than the
target's distribution. *Strong* invariance: the text is a function of the uniforms and the target. *Weak*
invariance: given the drafts and the uniforms, the probabilities q count for nothing. Both are settled by
running the rule twice on the same noise. One request that differs is a proof; n requests that agree would
have shown a difference on a share s of all noise with probability 1 − (1 − s)^n.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lab.coupling.list_coupling import CoupledVerifier, NextRows, coupled_drafts
from spec_oracle.arrays import Booleans, Floats, Integers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.call import checked_emissions
from spec_oracle.toy import Instance, ToyModel
from verifiers import Drafts


@dataclass(frozen=True)
class DrafterInvariance:
    """The ``texts`` int [D, B, T] of D drafters on the noise of B requests."""

    texts: Integers

    @property
    def differing(self) -> Integers:
        """The requests whose text depends on the drafter."""
        return np.flatnonzero((self.texts != self.texts[:1]).any(axis=(0, 2)))

    @property
    def holds(self) -> bool:
        """Whether all drafters led to the same texts."""
        return not len(self.differing)

    def smallest_share(self, power: float = 0.999) -> float:
        """Return the share of all noise on which a difference would have shown with probability ``power``."""
        return smallest_share(self.texts.shape[1], power)


def smallest_share(requests: int, power: float = 0.999) -> float:
    """Return the share of all noise that ``requests`` would have met with probability ``power``."""
    return float(1 - (1 - power) ** (1 / requests))


def drafter_invariance(
    verifier: CoupledVerifier, instance: Instance, drafters: Sequence[ToyModel], uniforms: Floats
) -> DrafterInvariance:
    """Compare the texts to which the drafter of ``instance`` and each of ``drafters`` lead on the same noise.

    ``uniforms`` as in `coupled_text`. Raises `InvalidInputError` for no drafter.
    """
    if not drafters:
        raise InvalidInputError("drafters: expected at least one to compare with that of the instance")
    every = [instance, *(replace(instance, draft=draft) for draft in drafters)]
    return DrafterInvariance(np.stack([coupled_text(verifier, one, uniforms) for one in every]))


def reads_draft_probs(
    verifier: CoupledVerifier, instance: Instance, other: ToyModel, uniforms: Floats
) -> Booleans:
    """Return whether a call emits other tokens when its q, not its drafts, become those of ``other``, [B].

    ``uniforms`` [B, K, L+1, V], of one call. All False is weak drafter invariance on this noise.
    """
    drafts = toy_drafts(instance, uniforms)
    paths = drafts.paths
    rows = [_rows_of(other)(paths.tokens[:, :, :depth]) for depth in range(instance.draft_length)]
    exchanged = Drafts.of_paths(paths.tokens, np.stack(rows, axis=2), paths.target_probs)
    differs = _emitted(verifier, drafts, uniforms) != _emitted(verifier, exchanged, uniforms)
    changed: Booleans = differs.any(axis=1)
    return changed


def coupled_text(verifier: CoupledVerifier, instance: Instance, uniforms: Floats) -> Integers:
    """Return texts of T tokens, int [B, T], decoded by call after call of ``verifier``.

    ``uniforms`` [B, K, T + L, V] in (0, 1) belong to positions of the text: what a call did not get to is
    read again by the next one. That is harmless, as calls end by what lies before. Raises `VerdictError` for
    what is no emission, and `InvalidInputError` for uniforms of another shape.
    """
    vocab, length = instance.vocab_size, instance.draft_length
    if uniforms.ndim != 4 or uniforms.shape[1] != instance.num_paths or uniforms.shape[3] != vocab:
        expected = f"[B, {instance.num_paths}, T + {length}, {vocab}]"
        raise InvalidInputError(f"uniforms: expected shape {expected}, got {uniforms.shape}")
    text = np.full((len(uniforms), uniforms.shape[2] + 1), -1)
    lengths = np.zeros(len(uniforms), dtype=np.int64)
    tokens = uniforms.shape[2] - length
    for position in range(tokens):
        here = np.flatnonzero(lengths == position)
        if not len(here):
            continue
        noise = uniforms[here, :, position : position + length + 1]
        drafts = toy_drafts(instance, noise, text[here, :position])
        emitted = _emitted(verifier, drafts, noise)
        # The padding is overwritten by the next call.
        text[here, position : position + length + 1] = emitted
        lengths[here] += (emitted >= 0).sum(axis=1)
    return text[:, :tokens]


def toy_drafts(instance: Instance, uniforms: Floats, before: Integers | None = None) -> Drafts:
    """Return the drafts that ``uniforms`` [B, K, L+1, V] lead to after the texts ``before`` [B, n], or none.

    The rows have the number type of ``uniforms``.
    """
    draft, target = (_rows_of(one, before, uniforms.dtype) for one in (instance.draft, instance.target))
    return coupled_drafts(draft, target, uniforms)


def _emitted(verifier: CoupledVerifier, drafts: Drafts, uniforms: Floats) -> Integers:
    return checked_emissions(verifier.verify(drafts, uniforms), drafts, NUMPY)[1]


def _rows_of(model: ToyModel, before: Integers | None = None, dtype: npt.DTypeLike = np.float64) -> NextRows:
    """Return what reads the rows of ``model`` after the texts ``before`` [B, n] and after paths [B, K, d]."""

    def rows(paths: Integers) -> Floats:
        batch, number, _ = paths.shape
        shared = np.zeros((batch, 0), dtype=np.int64) if before is None else before
        context = np.concatenate([np.repeat(shared[:, None], number, axis=1), paths], axis=2)
        context = context[:, :, max(0, context.shape[2] - model.order) :]
        index = np.zeros((batch, number), dtype=np.int64)
        for token in np.moveaxis(context, 2, 0):
            index = index * model.vocab_size + token
        found: Floats = model.floats.levels[context.shape[2]][index].astype(dtype, copy=False)
        return found

    return rows
