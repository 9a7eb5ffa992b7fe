"""The law of what a verifier emits that walks down the draft tree: one run for each node.

Below a node only the number of paths that pass it matters, so states of different drafts are merged: each
node is one call of the verifier on drafts of length 1. The serving code is what is enumerated, but that it
walks (`Traits.walks`) is taken on trust.
"""

from collections.abc import Iterator
from functools import partial
from math import factorial, prod

import numpy as np

from spec_oracle.arrays import Integers, Numbers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.arithmetic import Arithmetic
from spec_oracle.exact.call import BATCH_BYTES, checked_emissions, no_mass
from spec_oracle.exact.drafting import draft_paths, next_draft_law, require_few_drafts
from spec_oracle.exact.enumeration import ScriptedDecisions, enumerate_branches
from spec_oracle.toy import Instance
from verifiers import ROOT, Drafts, Siblings, Verifier
from verifiers.rows import TableRows


def walked_masses(
    verifier: Verifier, siblings: Siblings, instance: Instance, chosen: Arithmetic, *, any_order: bool
) -> list[Numbers]:
    """Return the mass of each emission of n tokens, flat [V^n], n = 1..L+1, for a verifier that walks.

    All nodes of a depth are run at once; the state of a walk is its node and how many paths pass there.
    ``any_order``: drafts that differ in their order only are run once. Raises `InvalidInputError` where the
    verifier is seen not to walk.
    """
    vocab, length = instance.vocab_size, instance.draft_length
    rows = [chosen.prepare(instance.target.rows(depth)) for depth in range(length + 1)]
    masses = no_mass(instance, rows[0])
    reached = {instance.num_paths: rows[0][:, 0] * 0 + 1}
    steps = partial(node_steps, verifier, siblings, chosen=chosen, any_order=any_order)
    for depth in range(length):
        below = [masses[depth] * 0 for _ in range(instance.num_paths + 1)]
        level = rows[depth], chosen.prepare(instance.draft.rows(depth))
        for paths, mass in reached.items():
            for node, token, count, weight in steps(level, mass, paths):
                child = node * vocab + token
                np.add.at(masses[depth], child[count == 0], weight[count == 0])
                for followers in range(1, paths + 1):
                    here = count == followers
                    np.add.at(below[followers], child[here], weight[here])
        reached = {paths: mass for paths, mass in enumerate(below) if (mass > 0).any()}
    for mass in reached.values():
        masses[length] += (mass[:, None] * rows[length]).reshape(-1)
    return masses


def node_steps(
    verifier: Verifier,
    siblings: Siblings,
    level: tuple[Numbers, Numbers],
    mass: Numbers,
    num_paths: int,
    *,
    chosen: Arithmetic,
    any_order: bool,
) -> Iterator[tuple[Integers, Integers, Integers, Numbers]]:
    """Run the verifier on drafts of one token at every node that ``num_paths`` paths pass.

    ``level`` holds the target's and the draft's rows [N, V] of the nodes, ``mass`` [N] is that of being
    there. Yields, for batches of R branches, [R] each: the node, the emitted token, how many paths go on with
    it, and the weight. Raises `InvalidInputError` as `walked_masses`, and for too many drafts.
    """
    target, draft = level
    node_of, tokens, weight = _drafts_at(draft, mass, num_paths, siblings, any_order=any_order)
    bonus = target[:1] * 0  # what would follow an accepted token: one outcome, so that nothing branches on it
    bonus[:, 0] += 1
    rows_of = [chosen.probabilities(rows) for rows in (draft, np.concatenate([target, bonus]))]

    def run(rows: Integers, decisions: ScriptedDecisions) -> tuple[Integers, Integers]:
        here = node_of[rows][:, None]
        below = np.full((len(rows), num_paths), len(target))
        drafted, in_target, in_draft = (
            chosen.from_numpy(ids)
            for ids in (tokens[rows], np.hstack([here, below]), np.hstack([here, 0 * below]))
        )
        draft_rows, target_rows = TableRows(rows_of[0], in_draft), TableRows(rows_of[1], in_target)
        drafts = Drafts(drafted, 0 * drafted + ROOT, draft_rows, target_rows, num_paths)
        return checked_emissions(verifier.verify(drafts, decisions), drafts, chosen)

    max_rows = max(64, BATCH_BYTES // (24 * num_paths * target.shape[1]))
    for branches in enumerate_branches(run, weight, max_rows=max_rows, arithmetic=chosen):
        tau, emitted = branches.result
        followers = (tokens[branches.rows] == emitted[:, :1]).sum(axis=1)
        if ((tau > 0) != (followers > 0)).any():
            raise InvalidInputError(
                "walks: the verifier stops at a token that a path goes on with; it must not declare walks"
            )
        yield node_of[branches.rows], emitted[:, 0], followers, branches.weight


def _drafts_at(
    rows: Numbers, mass: Numbers, count: int, siblings: Siblings, *, any_order: bool
) -> tuple[Integers, Integers, Numbers]:
    """Return all drafts at nodes of ``mass`` [N]: the node [T], ``count`` tokens [T, count], the mass [T].

    With ``any_order`` independent drafts come once in whatever order, with the mass of all orders.
    """
    sorted_only = any_order and siblings in {Siblings.INDEPENDENT, Siblings.PATHS}
    node = np.flatnonzero(mass > 0)
    tokens, weight = np.zeros((len(node), 0), dtype=np.int64), mass[node]
    for slot in range(count):
        here = np.ones((len(node), count), dtype=bool)
        law = next_draft_law(siblings, rows[node], tokens, here, slot)
        possible = law > 0
        if sorted_only and slot:
            possible = possible & (np.arange(rows.shape[1]) >= tokens[:, -1:])
        draft, token = np.nonzero(possible)
        require_few_drafts(len(draft), rows.shape[1], draft_paths(count, 1, siblings).shape)
        weight = weight[draft] * law[draft, token]
        node, tokens = node[draft], np.column_stack([tokens[draft], token])
    if sorted_only:
        orders = [factorial(count) // prod(map(factorial, np.bincount(row).tolist())) for row in tokens]
        weight = weight * np.array(orders)
    return node, tokens, weight
