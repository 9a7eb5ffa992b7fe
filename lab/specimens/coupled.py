"""Faulty rules for coupled drafts, and right ones: they read the uniforms by which drafts were sampled."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from lab.specimens.specimen import specimen, specimens_of
from spec_oracle.arrays import Booleans, Floats, Integers
from verifiers import Drafts, Verdict
from verifiers.parts.residual import residual
from verifiers.rules.list_coupling import LIST_COUPLING, Invariance, race

Racing: TypeAlias = Callable[[Drafts, int, Booleans], Booleans]
"""(drafts, place, the active paths [B, K]) -> the paths that race there, [B, K]."""

Noise: TypeAlias = Callable[[Floats], Floats]
"""(uniforms of a path [B, L+1, V]) -> those that decide in their place."""


@dataclass(frozen=True)
class Rule:
    """A coupled rule that is a function; ``rule`` is the built-in one that it declares."""

    function: Callable[[Drafts, Floats], Verdict]
    invariance: Invariance = Invariance.NONE
    rule: str = ""

    def verify(self, drafts: Drafts, uniforms: Floats) -> Verdict:
        """Verify a batch of drafts by the uniforms [B, K, L+1, V] that sampled them."""
        return self.function(drafts, uniforms)


Weak = partial(Rule, invariance=Invariance.WEAK)


def races(racing: Racing, smallest: float = 2.0**-1000) -> Rule:
    """Return list coupling in which ``racing`` says who races, by the Gumbel trick.

    Smaller uniforms count as ``smallest``.
    """

    def verify(drafts: Drafts, uniforms: Floats) -> Verdict:
        requests = np.arange(drafts.batch)
        active = np.ones(uniforms.shape[:2], dtype=bool)
        tokens: list[Integers] = []
        for place in range(uniforms.shape[2]):
            with np.errstate(divide="ignore"):
                gumbel = -np.log(-np.log(np.maximum(uniforms[:, :, place], smallest)))
                row = np.log(drafts.target_probs[requests, active.argmax(axis=1), place])
            who = racing(drafts, place, active)
            tokens.append((np.where(who[:, :, None], gumbel, -np.inf).max(axis=1) + row).argmax(axis=1))
            if place < drafts.draft_length:
                matching = active & (drafts.tokens[:, :, place] == tokens[-1][:, None])
                active = np.where(matching.any(axis=1)[:, None], matching, active)
        return as_verdict(drafts, np.stack(tokens, axis=1))

    return Weak(verify)


def as_verdict(drafts: Drafts, tokens: Integers) -> Verdict:
    """Return the verdict of the path that drafted most of the tokens [B, L+1] that would be emitted."""
    matching = np.cumprod(drafts.tokens == tokens[:, None, :-1], axis=2).sum(axis=2)
    accepted, path = matching.max(axis=1), matching.argmax(axis=1)
    return Verdict(accepted, path, tokens[np.arange(len(tokens)), accepted], drafts.tokens)


def token_rule(accept: Noise, correct: Noise) -> Rule:
    """Return the token rule on the first path.

    Accept uniforms are the drafted tokens' entries of ``accept``; corrections race on ``correct``, and bonus
    tokens on the noise of their place, which drafted nothing.
    """

    def verify(drafts: Drafts, uniforms: Floats) -> Verdict:
        drafted, p, q = drafts.tokens[:, 0], drafts.target_probs[:, 0], drafts.draft_probs[:, 0]
        tests = (accept(uniforms[:, 0])[:, :-1], p[:, :-1], q)
        u, kept, mass = (np.take_along_axis(rows, drafted[:, :, None], axis=2)[:, :, 0] for rows in tests)
        accepted = np.cumprod(u * mass < kept, axis=1).sum(axis=1)
        rows = np.concatenate([residual(p[:, :-1], q), p[:, -1:]], axis=1)
        noise = np.concatenate([correct(uniforms[:, 0])[:, :-1], uniforms[:, 0, -1:]], axis=1)
        last = np.arange(len(rows)), accepted
        return Verdict(accepted, 0 * accepted, race(rows[last], noise[last]), drafts.tokens)

    return Rule(verify)


def as_it_is(uniforms: Floats) -> Floats:
    """Return the noise that drafted."""
    return uniforms


def low_bits(uniforms: Floats) -> Floats:
    """Return uniforms of the bits beyond the first 12, on which one draft in a thousand depends."""
    return uniforms * 2.0**12 % 1


def of_the_last_place(uniforms: Floats) -> Floats:
    """Return the noise of the place of the bonus token, for every place."""
    return np.broadcast_to(uniforms[:, -1:], uniforms.shape)


def all_active(drafts: Drafts, place: int, active: Booleans) -> Booleans:
    """Let the active paths race."""
    del drafts, place
    return active


def of_the_largest_draft(drafts: Drafts, place: int, active: Booleans) -> Booleans:
    """Let the active paths race that drafted the largest token at this place."""
    if place == drafts.draft_length:
        return active
    drafted = np.where(active, drafts.tokens[:, :, place], -1)
    return np.asarray(active & (drafted == drafted.max(axis=1, keepdims=True)))


def one_where_the_draft_is_sure(drafts: Drafts, place: int, active: Booleans) -> Booleans:
    """Let the first active path race alone where the draft gives one token more than half."""
    if place == drafts.draft_length:
        return active
    is_sure = drafts.draft_probs[:, :, place].max(axis=2) > 1 / 2
    return np.asarray(active & (~is_sure | (np.cumsum(active, axis=1) == 1)))


def itself(rule: Rule) -> Rule:
    """Return the rule."""
    return rule


several = partial(specimens_of, num_paths=2, coupled=itself)
several("joint")(
    coupled_token_accepts_by_draft_noise=(
        "C1: The token rule accepts by the uniform that drafted the token",
        token_rule(as_it_is, low_bits),
    ),
    coupled_token_corrects_by_draft_noise=(
        "C2: Corrections of the token rule race on the noise that drafted",
        token_rule(low_bits, as_it_is),
    ),
    coupled_races_chosen_by_drafts=(
        "C18: Of the active paths those race that drafted the largest token at the same place",
        races(of_the_largest_draft),
    ),
)
several("invariance")(
    coupled_weak_reads_q=(
        "C19: One path races alone where the draft is sure, and weak invariance is promised",
        races(one_where_the_draft_is_sure),
    ),
    coupled_strong_active_race=(
        "C19: Only active paths race, and strong invariance is promised",
        Rule(LIST_COUPLING.verify, Invariance.STRONG),
    ),
)
several("calls")(
    coupled_corrects_by_later_noise=(
        "C21: Corrections of the token rule race on the noise of the bonus token's place",
        token_rule(low_bits, of_the_last_place),
    )
)
several("bad-input")(
    coupled_zero_uniform_never_arrives=(
        "mutant: After uniforms of 0 no token arrives, and the first one is emitted",
        races(all_active, smallest=0.0),
    )
)
several()(
    coupled_by_gumbel=("control: List coupling by the Gumbel trick", races(all_active)),
    coupled_token_by_other_noise=(
        "control: The token rule by bits of the noise that sampled no draft, without any invariance",
        token_rule(low_bits, low_bits),
    ),
)


def faulty(catalogue_id: str, *detected_by: str, rule: str = "", **fields: Any) -> Callable[..., Any]:
    """Register a function of (drafts, uniforms) as a coupled rule, which declares ``rule``."""
    make = partial(Weak, rule=rule)
    return specimen(catalogue_id, *detected_by, prefix="coupled_", num_paths=2, coupled=make, **fields)


@faulty("C18", "joint")
def bonus_reuses_noise(drafts: Drafts, uniforms: Floats) -> Verdict:
    """The bonus token races on the noise of the last drafted place."""
    again = uniforms.copy()
    again[:, :, -1] = uniforms[:, :, -2]
    return LIST_COUPLING.verify(drafts, again)


@faulty("C20", "streams", "length", rule="coupled/list", beside=("invariance",))
def target_races_on_its_own(drafts: Drafts, uniforms: Floats) -> Verdict:
    """The target races on fresh noise of the global generator."""
    fresh = np.random.random_sample(uniforms.shape)  # noqa: NPY002
    return LIST_COUPLING.verify(drafts, fresh)


@faulty("C10", "batch")
def noise_of_another_request(drafts: Drafts, uniforms: Floats) -> Verdict:
    """The target of a request races on the noise of the request before it."""
    return LIST_COUPLING.verify(drafts, np.roll(uniforms, 1, axis=0))


@faulty("S9", "shapes")
def third_path_is_skewed(drafts: Drafts, uniforms: Floats) -> Verdict:
    """From the third path on, token 0 has less noise."""
    skewed = uniforms.copy()
    skewed[:, 2:, :, 0] **= 1 / 2
    return LIST_COUPLING.verify(drafts, skewed)


@faulty("S2", "scale")
def ids_of_16_bits(drafts: Drafts, uniforms: Floats) -> Verdict:
    """Ids of emitted tokens are numbers of 16 bits."""
    found = LIST_COUPLING.verify(drafts, uniforms)
    return replace(found, next_token=found.next_token % 2**16)


@faulty("D6", "inputs-kept")
def noise_in_place_of_uniforms(drafts: Drafts, uniforms: Floats) -> Verdict:
    """The uniforms become exponential noise in their own memory."""
    found = LIST_COUPLING.verify(drafts, uniforms)
    np.log(uniforms, out=uniforms)
    return found
