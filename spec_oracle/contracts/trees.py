"""Draft trees in the forms of engines, made from the parents of the tree sampler contract.

Engines number the root 0 and place i of the contract i + 1: N + 1 nodes. Arrays are of the library of the
arguments, integers int64. An empty place is a node that none leads to. See docs/guide/from-your-signature.md.
"""

from verifiers import EMPTY, ROOT
from verifiers.arrays import Array, arange_like, filled, kept, namespace, pick
from verifiers.errors import InvalidInputError


def with_root(tokens: Array) -> Array:
    """Return tokens [B, N] with a token before the tree, 0, and 0 for what is no id: [B, N+1]."""
    xp = namespace(tokens)
    return xp.concat([filled(tokens[:, :1], 0), kept(tokens >= 0, tokens)], axis=1)


def parents_with_root(parents: Array) -> Array:
    """Return the node above each node, int [B, N+1]: -1 above the root, -2 for an empty place."""
    xp = namespace(parents)
    nodes = xp.where(parents >= ROOT, parents + 1, EMPTY)
    return xp.concat([filled(parents[:, :1], ROOT), nodes], axis=1)


def first_child(parents: Array) -> Array:
    """Return the first child of each node, int [B, N+1], -1 for none: ``retrieve_next_token``."""
    above = parents_with_root(parents)
    nodes = arange_like(above, above.shape[1])
    return _first(above[:, None, :] == nodes[None, :, None])


def next_sibling(parents: Array) -> Array:
    """Return the sibling after each node, int [B, N+1], -1 for none: ``retrieve_next_sibling``."""
    above = parents_with_root(parents)
    nodes = arange_like(above, above.shape[1])
    is_later = (nodes[:, None] < nodes[None, :])[None]
    return _first((above[:, None, :] == above[:, :, None]) & (above >= 0)[:, :, None] & is_later)


def ancestors(parents: Array) -> Array:
    """Return whether a node, on axis 1, is below another, on axis 2, or the same: bool [B, N+1, N+1].

    These are the nodes that its query attends to: a tree mask.
    """
    above, xp = parents_with_root(parents), namespace(parents)
    nodes = arange_like(above, above.shape[1])
    is_above = xp.broadcast_to((nodes[:, None] == nodes[None, :])[None], (*above.shape, above.shape[1]))
    node = xp.broadcast_to(nodes[None, :], above.shape)
    for _ in range(above.shape[1]):
        node = xp.where(node > 0, xp.take_along_axis(above, kept(node > 0, node), axis=1), node)
        is_above = is_above | ((nodes[None, None, :] == node[:, :, None]) & (node >= 0)[:, :, None])
    return is_above


def depths(parents: Array) -> Array:
    """Return how many tokens are on the way to each node, its own included, int [B, N+1]; 0 for the root."""
    xp = namespace(parents)
    return xp.sum(xp.astype(ancestors(parents), xp.int64), axis=2) - 1


def from_node(tokens: Array, parents: Array, node: Array, next_token: Array) -> tuple[Array, Array]:
    """Return what is emitted where ``node`` int [B], 0 for the root, is the last one that was accepted.

    Raises `InvalidInputError` for a negative node: places of the contract begin at the root with -1.
    """
    if bool((node < 0).any()):
        raise InvalidInputError(
            "node: expected 0 for the root and i + 1 for place i, found a negative number"
        )
    xp, above = namespace(tokens), parents_with_root(parents)
    ids, reversed_ = with_root(tokens), list[Array]()
    count = pick(depths(parents), node)
    for _ in range(tokens.shape[1]):
        reversed_.append(pick(ids, node))
        node = kept(node > 0, pick(above, node))
    columns = xp.stack([*reversed_[::-1], next_token], axis=1)
    width = columns.shape[1]
    shift = (arange_like(count, width)[None, :] - count[:, None] - 1) % width
    emitted = xp.take_along_axis(columns, shift, axis=1)
    return xp.where(arange_like(count, width)[None, :] <= count[:, None], emitted, -1), count


def _first(is_one: Array) -> Array:
    """Return the first index of the last axis that is one, -1 for none."""
    xp = namespace(is_one)
    return xp.where(xp.any(is_one, axis=-1), xp.argmax(xp.astype(is_one, xp.int64), axis=-1), -1)
