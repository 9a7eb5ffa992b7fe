"""One path of every request as arrays, for the parts of rules, which read draft trees."""

from typing import TypeAlias

from verifiers import Drafts, Rows
from verifiers.arrays import Array, namespace
from verifiers.interface import Path

Chain: TypeAlias = tuple[Path, Rows, Rows]
"""A path, and the rows of the target and of the draft along it."""


def chain_of(target: Array, draft: Array, tokens: Array) -> Chain:
    """Return the chain of arrays: target [B, L+1, V], draft [B, L, V], tokens int [B, L]."""
    drafts = Drafts.of_paths(tokens[:, None], draft[:, None], target[:, None])
    return drafts.first_path(), drafts.target, drafts.draft


def first_path(drafts: Drafts) -> tuple[Array, Array, Array]:
    """Return the first of K paths as arrays: target [B, L+1, V], draft [B, L, V], tokens int [B, L].

    Raises `InvalidInputError` for drafts that are not paths of one length.
    """
    paths = drafts.paths
    return paths.target_probs[:, 0], paths.draft_probs[:, 0], paths.tokens[:, 0]


def along(rows: Array, tokens: Array) -> Array:
    """Return the entries [B, L] of rows [B, L, V] or [B, L+1, V] at tokens int [B, L]."""
    rows = rows[:, : tokens.shape[1]]
    return namespace(rows).take_along_axis(rows, tokens[:, :, None], axis=-1)[:, :, 0]
