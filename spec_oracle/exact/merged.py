"""The law of what a verifier emits that walks down the draft tree: one run for each node.

Below a node only the number of paths that pass it matters, so states of different drafts are merged: each
node is one call of the verifier on drafts of length 1. The serving code is what is enumerated, but that it
walks (`Traits.walks`) is taken on trust.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from spec_oracle.arrays import Integers, Numbers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.arithmetic import Arithmetic
from spec_oracle.exact.call import BATCH_BYTES, checked_emissions, no_mass
from spec_oracle.exact.drafting import draft_law, multiset_law
from spec_oracle.exact.enumeration import ScriptedDecisions, enumerate_branches
from spec_oracle.toy import Instance
from verifiers import Drafts, Traits, Verifier


def walked_masses(
    verifier: Verifier, traits: Traits, instance: Instance, chosen: Arithmetic
) -> list[Numbers]:
    """Return the mass of each emission of n tokens, flat [V^n], n = 1..L+1, for a verifier that walks.

    All nodes of a depth are run at once; the state of a walk is its node and how many paths pass there.
    Raises `InvalidInputError` where the verifier is seen not to walk.
    """
    vocab, length = instance.vocab_size, instance.draft_length
    rows = [chosen.prepare(instance.target.rows(depth)) for depth in range(length + 1)]
    masses = no_mass(instance, rows[0])
    reached = {instance.num_paths: rows[0][:, 0] * 0 + 1}
    for depth in range(length):
        below = [masses[depth] * 0 for _ in range(instance.num_paths + 1)]
        level = rows[depth], chosen.prepare(instance.draft.rows(depth))
        for paths, mass in reached.items():
            for node, token, count, weight in node_steps(verifier, traits, level, mass, paths, chosen):
                child = node * vocab + token
                np.add.at(masses[depth], child[count == 0], weight[count == 0])
                for followers in range(1, paths + 1):
                    here = count == followers
                    np.add.at(below[followers], child[here], weight[here])
        reached = {paths: mass for paths, mass in enumerate(below) if (mass > 0).any()}
    for mass in reached.values():
        masses[length] += (mass[:, None] * rows[length]).reshape(-1)
    return masses


def node_steps(  # noqa: PLR0917
    verifier: Verifier,
    traits: Traits,
    level: tuple[Numbers, Numbers],
    mass: Numbers,
    num_paths: int,
    chosen: Arithmetic,
) -> Iterator[tuple[Integers, Integers, Integers, Numbers]]:
    """Run the verifier on drafts of one token at every node that ``num_paths`` paths pass.

    ``level`` holds the target's and the draft's rows [N, V] of the nodes, ``mass`` [N] is that of being
    there. Yields, for batches of R branches, [R] each: the node, the emitted token, how many paths go on with
    it, and the weight. Drafts are drawn as ``traits`` say. Raises `InvalidInputError` as `walked_masses`, and
    for too many draft tuples.
    """
    target, draft = level
    law_at = multiset_law if traits.any_order else draft_law
    nodes = np.flatnonzero(mass > 0)
    laws = [law_at([draft[node : node + 1]], num_paths, traits.drafting) for node in nodes]
    tokens = np.concatenate([law.tokens for law in laws])
    node_of = np.repeat(nodes, [len(law.tokens) for law in laws])
    weight = np.concatenate([law.probability for law in laws]) * mass[node_of]
    bonus = target * 0  # what would follow an accepted token: one outcome, so that nothing branches on it
    bonus[:, 0] += 1
    both = np.stack([target, bonus], axis=1)

    def run(rows: Integers, decisions: ScriptedDecisions) -> Any:
        each = np.broadcast_to(node_of[rows][:, None], (len(rows), num_paths))
        drafts = Drafts(
            chosen.from_numpy(tokens[rows]),
            chosen.probabilities(draft[each][:, :, None]),
            chosen.probabilities(both[each]),
        )
        verdict = verifier.verify(drafts, decisions)
        return checked_emissions(verdict, drafts, chosen)

    max_rows = max(64, BATCH_BYTES // (24 * num_paths * target.shape[1]))
    for branches in enumerate_branches(run, weight, max_rows=max_rows, arithmetic=chosen):
        tau, emitted = branches.result
        followers = (tokens[branches.rows, :, 0] == emitted[:, :1]).sum(axis=1)
        if ((tau > 0) != (followers > 0)).any():
            raise InvalidInputError(
                "walks: the verifier stops at a token that a path goes on with; it must not declare walks"
            )
        yield node_of[branches.rows], emitted[:, 0], followers, branches.weight
