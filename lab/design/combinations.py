"""The combinations of a drafting and a rule that are compared, and who published them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lab.design import traversal
from lab.design.balanced import balanced_steps
from lab.design.canonical import canonical_steps
from lab.design.in_turn import TESTS, steps_in_turn
from lab.design.models import Models
from lab.design.selected_path import balanced_tokens, block_tokens, draft_rows, highest_rows, lookahead_rows
from lab.design.univer import univer_tokens
from lab.design.walks import Steps, TooManyDraftsError, steps_of, walked_tokens
from spec_oracle.audit.subjects import named_verifier
from spec_oracle.efficiency import is_lossless
from spec_oracle.efficiency.trees import DraftTrees, FanOuts
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from verifiers import AnyVerifier, Siblings, StatefulVerifier, accepts_of, traits_of

TokensOn = Callable[[FanOuts], Any]
"""Tokens per call on a tree of this shape."""

MAX_DRAFT_TREES = 20_000
"""Draft trees of a shape on which a rule of the user is enumerated, at most."""

COMPARED = (Siblings.INDEPENDENT, Siblings.DISTINCT, Siblings.TOP_AND_SAMPLED)
"""How drafts are drawn that are compared."""

OURS = ("balanced_multipath_block", "lookahead_multipath_block")
"""Rules of this project."""

LEFT_OUT = {
    "sample_and_match": "its drafts are made with the randomness of the rule",
    **dict.fromkeys(
        ("greedy_block", "greedy_multipath_carry", "block_transport"),
        "it owes part of the target to later calls",
    ),
}
"""Built-in rules that are not compared, and why."""


@dataclass(frozen=True)
class Combination:
    """A rule, how its drafts are drawn, and the shapes it takes: "path", "paths" (K behind a stem) or "any".

    Of rules of the user, "all" are any and a single path, "whole paths" those without a stem.

    ``figure`` makes what computes its tokens per call on given models, for all shapes.
    """

    rule: str
    drafting: Siblings
    takes: str
    figure: Callable[[Models], TokensOn]

    @property
    def ours(self) -> bool:
        """Whether the rule is of this project."""
        return self.rule in OURS

    def suits(self, shape: FanOuts, widest: int) -> bool:
        """Say whether the rule takes the shape, and is no other rule there.

        A walk down a single path is the token rule, whatever it does with several drafts. More drafts than
        ``widest``, the tokens that may be sampled, are not distinct.
        """
        if self.takes == "whole paths":
            return shape.num_paths is not None and shape.delay in (0, shape.levels)
        if self.takes != "all" and (self.takes == "path" or shape.num_paths == 1):
            return self.takes == "path" and shape.num_paths == 1
        wide = self.drafting is not Siblings.INDEPENDENT and max(shape.fan_outs) > widest
        return not wide and (self.takes in ("any", "all") or shape.num_paths is not None)


def _walk(
    rule: str, steps: Callable[[Models], Steps], drafting: Siblings = Siblings.INDEPENDENT, takes: str = "any"
) -> Combination:
    def figure(models: Models) -> TokensOn:
        return partial(walked_tokens, steps(models), models=models)

    return Combination(rule, drafting, takes, figure)


def _enumerated(rule: str, drafting: Siblings) -> Combination:
    return _walk(rule, partial(steps_of, rule, drafting), drafting)


def _block(rule: str, rows: Callable[[Models, FanOuts], list[Any]], takes: str = "paths") -> Combination:
    def figure(models: Models) -> TokensOn:
        return lambda shape: block_tokens(models, rows(models, shape))

    return Combination(rule, Siblings.INDEPENDENT, takes, figure)


def _traversal(drafting: Siblings) -> Combination:
    def figure(models: Models) -> TokensOn:
        return partial(traversal.traversal_tokens, models=models, drafting=drafting)

    return Combination("traversal", drafting, "any", figure)


def _univer(models: Models) -> TokensOn:
    return partial(univer_tokens, models=models)


def _balanced(models: Models) -> TokensOn:
    return partial(balanced_tokens, balanced_steps(models, tested=False), models=models)


COMBINATIONS = (
    _walk("token", partial(steps_in_turn, "naive"), takes="path"),
    _block("block", draft_rows, takes="path"),
    *(_walk(rule, partial(steps_in_turn, rule)) for rule in TESTS),
    _walk("canonical", canonical_steps),
    _walk("global_resolution", partial(balanced_steps, tested=True)),
    _traversal(Siblings.INDEPENDENT),
    _block("greedy_multipath_block", highest_rows),
    Combination("balanced_multipath_block", Siblings.INDEPENDENT, "any", _balanced),
    _block("lookahead_multipath_block", lookahead_rows),
    _enumerated("nss", Siblings.DISTINCT),
    _enumerated("recursive_rejection_distinct", Siblings.DISTINCT),
    _traversal(Siblings.DISTINCT),
    _enumerated("top_draft", Siblings.TOP_AND_SAMPLED),
    Combination("univer", Siblings.TOP_AND_SAMPLED, "any", _univer),
)


def combinations_of(rules: list[str] | None) -> tuple[Combination, ...]:
    """Return the combinations of the named rules, of all with None; raises `InvalidInputError` for others.

    Names with a colon, ``package.module:object``, are rules of the user.
    """
    known = list(dict.fromkeys(one.rule for one in COMBINATIONS))
    foreign = [rule for rule in rules or () if ":" in rule]
    for rule in (one for one in rules or () if one not in foreign):
        if rule in LEFT_OUT:
            raise InvalidInputError(f"--verifier: {rule} cannot be compared here: {LEFT_OUT[rule]}")
        if rule not in known:
            raise InvalidInputError(f"--verifier: expected one of {', '.join(known)}; got {rule!r}")
    ours = (one for one in COMBINATIONS if not rules or one.rule in rules)
    return (*ours, *(one for rule in foreign for one in _foreign(rule)))


def _foreign(name: str) -> Iterator[Combination]:
    """Yield a rule of the user with each law of siblings that it accepts: every tree is enumerated."""
    rule = named_verifier(name)
    if isinstance(rule, StatefulVerifier):
        raise InvalidInputError(f"--verifier: {name} cannot be compared here: {LEFT_OUT['greedy_block']}")
    takes = "whole paths" if traits_of(rule).paths_only else "all"
    laws = accepts_of(rule)
    for law in Siblings:
        drafting = Siblings.INDEPENDENT if law is Siblings.PATHS else law
        is_new = law is drafting or drafting not in laws
        if law in laws and is_new and drafting in COMPARED:
            yield Combination(name, drafting, takes, partial(_enumerated_on, name, rule, law))


def _enumerated_on(name: str, rule: AnyVerifier, law: Siblings, models: Models) -> TokensOn:
    """Return what enumerates a rule on every tree of a shape; raises `InvalidInputError` for a lossy one."""

    def tokens(shape: FanOuts) -> Any:
        if models.vocab_size**shape.tokens > MAX_DRAFT_TREES:
            raise TooManyDraftsError(f"{name}: more than {MAX_DRAFT_TREES:,} draft trees of {shape}")
        if traits_of(rule).paths_only:
            paths = replace(models.instance, draft_length=shape.levels, num_paths=shape.num_paths or 1)
            found = emission_law(rule, paths)
        else:
            found = DraftTrees(shape, law).law(name, rule, models.instance)
        if not is_lossless(found.total_variation):
            off = f"total variation {found.total_variation:.2g} on {shape}"
            raise InvalidInputError(f"--verifier: {name} is lossy ({off}): no optimum bounds it")
        return found.block_efficiency

    return tokens
