"""Tokens per call of UniVer (2605.04543) among top drafts and a sampled one (`verifiers.rules.univer`).

Children are judged as those of `traversal`: first the sampled one, of law q' given the top ones, then each
top one as a certain draft. After the sampled child was refused, what is left of target and weight does not
depend on which token it was. So a node has one child for each token that may be sampled, and the top ones.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from lab.design.models import Models
from lab.design.traversal import Offers
from spec_oracle.arrays import Numbers
from spec_oracle.efficiency.trees import FanOuts
from verifiers.arrays import divide, minimum_one, positive_part
from verifiers.rules.top_draft import sampled_law


def univer_tokens(shape: FanOuts, models: Models) -> Any:
    """Return the tokens per call; a node has no more drafts than tokens that the draft may sample there."""
    tokens = models.one[0]
    at = Offers(np.zeros(1, dtype=np.int64), models.one, models.one)
    for depth, fan_out in enumerate(shape.fan_outs):
        at = Offers.joined(list(_children(models, depth, at, fan_out)))
        tokens = tokens + (at.mass * at.weight).sum()
    return tokens


def _children(models: Models, depth: int, at: Offers, fan_out: int) -> Iterator[Offers]:
    """Yield the offered children of nodes with ``fan_out`` drafts: the sampled ones, then each top one."""
    target, draft = models.target[depth][at.node], models.draft[depth][at.node]
    vocab, row = draft.shape[1], np.arange(len(draft))
    law = sampled_law(draft, np.full(len(draft), fan_out))
    entered = minimum_one(at.weight[:, None] * divide(target, law, otherwise=0))
    node, token = np.nonzero(np.asarray(law > 0, dtype=bool))
    mass = at.mass[node] * law[node, token]
    yield Offers(at.node[node] * vocab + token, entered[node, token], mass)
    refused = at.mass * (law * (1 - entered)).sum(axis=1)
    target, weight = _left(target, law, at.weight)
    for top in np.argsort(-draft, axis=1, kind="stable").T[: fan_out - 1]:
        entered = minimum_one(weight * target[row, top])
        yield Offers(at.node * vocab + top, entered, refused)
        refused = refused * (1 - entered)
        certain = target * 0
        certain[row, top] += 1
        target, weight = _left(target, certain, weight)


def _left(target: Numbers, law: Numbers, weight: Numbers) -> tuple[Numbers, Numbers]:
    """Return what is left of the target [S, V] and the weight [S] after a refused child of this ``law``."""
    left = positive_part(weight[:, None] * target - law)
    surplus = left.sum(axis=1)
    shrunk = np.where((surplus > 0)[:, None], divide(left, surplus[:, None], otherwise=0), target)
    return shrunk, divide(surplus, surplus + (1 - weight), otherwise=1)
