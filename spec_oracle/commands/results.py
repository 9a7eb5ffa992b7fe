"""How what a verification function returns, or writes into buffers, becomes the contract's result."""

from collections.abc import Mapping, Sequence

from spec_oracle.commands.names import ACCEPTED_PLACES, COUNT, NEXT, OUTPUT, Role, words_of
from spec_oracle.commands.source import Returned

_COUNTS = frozenset(("num", "n", "count", "counts", "length", "lengths", "tau"))
_NEXT = frozenset(("next", "bonus", "recovered", "corrected", "correction", "last", "new"))
_NODES = frozenset(("node", "leaf"))
_UNCLEAR = frozenset(("index", "mask"))
_MORE_THAN_ACCEPTED = frozenset(("emit", "sample", "output", "generated", "new"))
"""Words of a number of tokens that counts the one after the accepted tokens, too."""


def result_of(returned: Sequence[Returned], written: Mapping[Role, str], array: str, layout: str) -> str:
    """Return the expression that makes the contract's result of ``output``; "" where that is not clear.

    ``written``: the parameters by role, of which a function that returns nothing writes into some. In the
    layout "one request" the result is a list of the tokens that it emits.
    """
    of_one = layout == "one request"
    if array == "numpy" and not of_one:
        return ""
    if not returned:
        return "" if of_one else _of_buffers(written)
    return _of_trees(returned) if layout == "tree" else _of_values(returned, of_one=of_one)


def _of_values(returned: Sequence[Returned], *, of_one: bool) -> str:
    """Return the result of a function that returns values, of paths."""
    tokens, counts, nexts = _sorted(returned)
    if len(tokens) > 1 or len(counts) > 1 or any(_UNCLEAR & set(words_of(one.expression)) for one in tokens):
        return ""
    token, after = (found[0].access if found else "" for found in (tokens, nexts))
    if of_one:
        return _of_one(token, counts, after)
    if not counts:
        return f"from_padded({token or after})" if len(returned) == 1 else ""
    accepted = _accepted(counts[0], "draft_tokens.shape[1]")
    return (
        f"from_lengths({token}, {accepted})" if token else f"from_accepted(draft_tokens, {accepted}, {after})"
    )


def _sorted(returned: Sequence[Returned]) -> tuple[list[Returned], list[Returned], list[Returned]]:
    """Return the values that are tokens, numbers of tokens, and the token after the accepted ones."""
    tokens, counts, nexts = list[Returned](), list[Returned](), list[Returned]()
    for one in returned:
        words = set(words_of(one.expression))
        is_count = words & _COUNTS or ("accept" in words and "token" not in words)
        (counts if is_count else nexts if words & _NEXT else tokens).append(one)
    return tokens, counts, nexts


def _of_one(token: str, counts: Sequence[Returned], after: str) -> str:
    """Return the list of the emitted tokens of one request."""
    if not counts:
        return f"[*{token}, {after}]" if token and after else token or after
    accepted = _accepted(counts[0], "len(draft_tokens)")
    if not token:
        return f"[*draft_tokens[:{accepted}], {after}]" if after else ""
    emitted = accepted.removesuffix(" - 1") if accepted.endswith(" - 1") else f"{accepted} + 1"
    return f"{token}[: {emitted}]"


def _accepted(count: Returned, length: str) -> str:
    """Return the number of accepted tokens, of drafts of that length."""
    words = set(words_of(count.expression))
    if words & {"reject", "rejected"}:
        return f"{length} - {count.access}"
    is_more = count.expression.endswith("+ 1") or (words & _MORE_THAN_ACCEPTED and "draft" not in words)
    return f"{count.access} - 1" if is_more else count.access


def _of_trees(returned: Sequence[Returned]) -> str:
    """Return the result of a function of trees: tokens and their number, or the last accepted node."""
    nodes = [one for one in returned if _NODES & set(words_of(one.expression))]
    if len(returned) == len(nodes) + 1 == 2:
        (after,) = (one for one in returned if one not in nodes)
        return f"from_node(tokens, parents, {nodes[0].access}, {after.access})"
    tokens, counts, nexts = _sorted(returned)
    if len(tokens) == len(counts) == 1 and not nexts:
        return f"from_lengths({tokens[0].access}, {_accepted(counts[0], '')})"
    return f"from_padded({tokens[0].access})" if len(tokens) == len(returned) == 1 else ""


def _of_buffers(written: Mapping[Role, str]) -> str:
    """Return the result of a function that writes into its arguments."""
    count, after, output, places = (written.get(role, "") for role in (COUNT, NEXT, OUTPUT, ACCEPTED_PLACES))
    if count and after and places:
        return f"from_lengths({after}[{places}.long()], {count})"
    if output:
        return f"from_lengths({output}, {count})" if count else f"from_padded({output})"
    return f"from_accepted(draft_tokens, {count}, {after})" if count and after else ""
