"""Experiment: greedy block verification with carry-over on the path that balanced selection selects."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.chains import chain_of
from lab.studies.count_law import CountedSelection, Floats, Ints, counted_selection, posterior_after
from verifiers import DecisionSource, Drafts, Paths, State, Verdict
from verifiers.arrays import divide, normalised, pick
from verifiers.parts.balanced_selection import chances_at
from verifiers.parts.path import draw_correction, last_success, residual
from verifiers.rules.greedy_multipath_carry import greedy_stop_chances


@dataclass(frozen=True)
class _Layers:
    """Debts of B requests as in `greedy_multipath_carry`, oldest first; the last is that of this very call.

    ``ratio`` [B, D], law of the path over target (joint masses); ``posterior`` [B, D, K] of the count;
    ``remaining`` int [B, D], tokens left of the layer's block.
    """

    ratio: Floats
    posterior: Floats
    remaining: Ints

    def at(self, token: Ints, given: Floats, joint: Floats) -> "_Layers":
        """Move on along ``token`` int [B]; rows ``given`` [B, D, V] and ``joint`` [B, D, K, V]."""
        request = np.arange(len(token))
        step = divide(joint.sum(axis=2)[request, :, token], given[request, :, token], otherwise=0)
        posterior = [posterior_after(joint[:, d], token) for d in range(joint.shape[1])]
        return _Layers(self.ratio * step, np.stack(posterior, axis=1), self.remaining - 1)


@dataclass(frozen=True)
class _Node:
    """One node of the selected path: its layers, what each sees, and this call's path law and target."""

    layers: _Layers
    given: Floats  # [B, D, V]
    joint: Floats  # [B, D, K, V]

    @property
    def target(self) -> Floats:
        """The row that is owed to this call, [B, V]."""
        return self.given[:, -1]

    @property
    def law(self) -> Floats:
        """The row of this call's path law, [B, V]."""
        law: Floats = self.joint[:, -1].sum(axis=1)
        return law

    @property
    def surplus(self) -> Floats:
        """Target over path law, joint masses of this call, [B]."""
        surplus: Floats = divide(np.ones(len(self.given)), self.layers.ratio[:, -1], otherwise=0)
        return surplus


class CarriedBlockVerifier:
    """Accept w(v) = min(p(v), sbar(v)) on the selected path; owe (p - w) to the rest of the block.

    The carry-over of `verifiers.rules.greedy_multipath_carry` with the law sbar of `count_law` in place of
    the highest path's. Lossless over the text of all calls.
    """

    def initial_state(self, batch: int) -> State:  # noqa: ARG002  # part of the interface
        """Return the fresh state of any number of requests."""
        return ()

    def verify(self, drafts: Drafts, decisions: DecisionSource, state: State) -> tuple[Verdict, State]:
        """Verify a batch against the targets that ``state`` still owes; return the state of the next call."""
        paths, request = drafts.paths, np.arange(drafts.batch)
        present = np.ones(paths.tokens.shape[:2], dtype=bool)
        path = request * 0
        layers = _with_own(state, paths)
        nodes = []
        for depth in range(paths.draft_length):
            draft = normalised(paths.draft_probs[request, path, depth])
            given, joint, selection = _seen(paths.target_probs[request, path, depth], draft, layers)
            nodes.append(_Node(layers, given, joint))
            tokens = paths.tokens[:, :, depth]
            plan = selection.plan_for(present.sum(axis=1))
            path = decisions.categorical(chances_at(plan, request, tokens, present))
            token = pick(tokens, path)
            present = present & (tokens == token[:, None])
            layers = layers.at(token, given, joint)
        end = divide(np.ones(drafts.batch), layers.ratio[:, -1], otherwise=0)
        stops = [greedy_stop_chances(node.target, node.law, node.surplus) for node in nodes]
        # Where the surplus is one to rounding, a chance may exceed one by as much.
        success = np.minimum(np.stack([*stops, end], axis=1), 1)
        tau = decisions.categorical(last_success(success))
        target = np.stack([*(node.target for node in nodes), pick(paths.target_probs, path)[:, -1]], axis=1)
        law = np.stack([node.law for node in nodes], axis=1)
        scale = np.stack([*(node.surplus for node in nodes), end], axis=1)
        chain = chain_of(target, law, pick(paths.tokens, path))
        next_token = draw_correction(*chain, tau, pick(scale, tau), decisions)
        return Verdict.on_paths(drafts, path, tau, next_token), _next_state(nodes, tau, next_token)


def _with_own(state: State, given: Paths) -> _Layers:
    """Return the layers of ``state``, L - 1 idle ones where it is fresh, and this call's own."""
    batch, paths, length = given.tokens.shape
    ratio, posterior, remaining = state or (
        np.zeros((batch, length - 1)),
        np.zeros((batch, length - 1, paths)),
        np.zeros((batch, length - 1), dtype=np.int64),
    )
    all_paths = np.zeros((batch, 1, paths))
    all_paths[..., -1] = 1
    return _Layers(
        np.concatenate([ratio, np.ones((batch, 1))], axis=1),
        np.concatenate([posterior, all_paths], axis=1),
        np.concatenate([remaining, np.full((batch, 1), length)], axis=1),
    )


def _seen(target: Floats, draft: Floats, layers: _Layers) -> tuple[Floats, Floats, CountedSelection]:
    """Return the row given to each layer [B, D, V], its joint laws [B, D, K, V], and this call's selection.

    ``target`` and ``draft`` [B, V] are p and q at the context; every layer still active owes the next one
    the residual of what it was given.
    """
    given, joint = [], []
    for d in range(layers.ratio.shape[1]):
        selection = counted_selection(target, draft, layers.posterior.shape[2])
        given.append(target)
        joint.append(selection.given(layers.posterior[:, d]))
        left = normalised(residual(target, layers.ratio[:, d : d + 1] * joint[d].sum(axis=1)))
        target = np.where(layers.remaining[:, d : d + 1] > 0, left, target)
    return np.stack(given, axis=1), np.stack(joint, axis=1), selection


def _next_state(nodes: list[_Node], tau: Ints, next_token: Ints) -> State:
    """Return the layers after the emission, the oldest dropped; after a bonus token nothing is owed."""
    length = len(nodes)
    at = np.minimum(tau, length - 1)

    def gather(values: list[NDArray[Any]]) -> Any:
        return pick(np.stack(values, axis=1), at)

    layers = _Layers(
        gather([node.layers.ratio for node in nodes]),
        gather([node.layers.posterior for node in nodes]),
        gather([node.layers.remaining for node in nodes]),
    )
    given, joint = gather([node.given for node in nodes]), gather([node.joint for node in nodes])
    moved = layers.at(next_token, given, joint)
    remaining = np.where((tau == length)[:, None], 0, moved.remaining)
    return moved.ratio[:, 1:], moved.posterior[:, 1:], remaining[:, 1:]
