"""The text of a server that contradicts plain decoding the most, and how to ask for it."""

import json
import shlex

import numpy as np
from numpy.typing import NDArray

from spec_oracle.adapters.servers.apis import Ask, Token
from spec_oracle.audit.reports import TextCounterexample
from spec_oracle.audit.server.served import Served
from spec_oracle.audit.server.tree import IMPOSSIBLE, PlainTree
from spec_oracle.contracts.server import Server
from spec_oracle.statistics import clopper_pearson, offending_cells

LEVEL = 0.05
"""Chance that any of the intervals misses."""


def counterexample(served: Served, tree: PlainTree, counts: NDArray[np.int64]) -> TextCounterexample | None:
    """Return the cell that is most certainly wrong; None where none is by itself."""
    worst = next(iter(offending_cells(counts, tree.law, alpha=LEVEL)), None)
    if worst is None:
        return None
    texts, leaf = served.texts, tree.leaves[worst.outcome]
    (number, tokens), is_other = leaf
    is_text, count = bool(tree.is_text[worst.outcome]), worst.count
    if leaf == IMPOSSIBLE:
        number, tokens = next(text for text in texts.found if tree.cell(*text) == worst.outcome)
        is_other, is_text, count = False, True, texts.found.count((number, tokens))
    # Within the texts after its prompt, as a reader would count.
    prompts = len(served.server.prompts) if number >= 0 else 1
    draws = len(texts.after(number)) if number >= 0 else int(counts.sum())
    shown = (*tokens, None) if is_other else tokens
    expected = worst.expected_probability * prompts
    return shown_text(served, number, shown, expected, (count, draws), is_prefix=not is_text)


def shown_text(
    served: Served,
    number: int,
    tokens: tuple[Token | None, ...],
    expected: float,
    seen: tuple[int, int],
    *,
    is_prefix: bool,
) -> TextCounterexample:
    """Return what was ``seen``, (so many, of so many) after a prompt, -1 for any, and how to ask for it."""
    count, draws = seen
    lower, upper = clopper_pearson(np.array([count, draws - count]), LEVEL)
    return TextCounterexample(
        prompt=served.server.prompts[number] if number >= 0 else "any of them",
        tokens=tokens,
        is_prefix=is_prefix,
        expected=expected,
        seen=count / draws,
        lower=float(lower[0]),
        upper=float(upper[0]),
        draws=draws,
        reproduce=curl(served.server, max(number, 0), served.plan.tokens),
    )


def curl(server: Server, number: int, tokens: int) -> str:
    """Return a command line that draws one text; a key stays in its variable."""
    request = server.api.request(Ask(server.prompts[number], tokens), server.sampling)
    variable = server.client.key_variable
    return " ".join(
        [
            f"curl -s {shlex.quote(server.client.url + request.path)} -H 'Content-Type: application/json'",
            *[f'-H "Authorization: Bearer ${variable}"'] * bool(variable),
            f"-d {shlex.quote(json.dumps(request.body))}",
        ]
    )
