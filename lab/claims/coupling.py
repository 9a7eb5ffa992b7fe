"""Claims about coupled drafts: Gumbel coupling (K = 1) and list coupling, and about noise that is reused."""

from fractions import Fraction

from lab.claims.families import context_free, prefix_dependent
from lab.claims.laws import acceptance
from lab.claims.question import Figures, Question, Scope
from spec_oracle.exact.coupling import (
    coupled_emission_law,
    coupled_law,
    list_matching_bound,
    matches_law,
)
from spec_oracle.toy import Instance

GUMBEL = "arXiv 2408.07978"
LIST = "arXiv 2506.05632"
RULE = f"rule: {LIST}"

STEPS = context_free(vocab_sizes=(2, 3), denominators=range(1, 7))
LISTS = context_free(vocab_sizes=(2, 3), paths=(1, 2, 3), denominators=range(1, 6))
SEVERAL = context_free(vocab_sizes=(2, 3), paths=(2, 3), denominators=range(1, 4))
TREES = context_free(lengths=(1, 2), paths=(2, 3), denominators=range(1, 4)) + prefix_dependent(
    [(2, 2, 2), (2, 2, 3), (1, 3, 3), (2, 3, 2)], count=8
)


def _rows(instance: Instance) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    target, draft = instance.exact.target.levels[0][0], instance.exact.draft.levels[0][0]
    return tuple(target), tuple(draft)


def distance(instance: Instance) -> Fraction:
    """Return the total variation between the rows of target and draft after the empty context."""
    return Fraction(sum(abs(p - q) for p, q in zip(*_rows(instance), strict=True))) / 2


def matched(instance: Instance, paths: int | None = None) -> Fraction:
    """Return the probability that one of K active paths drafted the first emitted token."""
    number = paths or instance.num_paths
    law = matches_law(*_rows(instance), number, number)
    return Fraction(sum(mass for (matches, _), mass in law.items() if matches))


def _one_path(instance: Instance) -> Figures:
    apart = distance(instance)
    return {"Gumbel coupling": matched(instance), "(1 − d)/(1 + d)": (1 - apart) / (1 + apart), "d": apart}


def _beside_token(instance: Instance) -> Figures:
    return {"Gumbel coupling": matched(instance), "token": acceptance("token", instance)}


def lemma(instance: Instance) -> Figures:
    """Return the probability that some path matches, and the list matching lemma's bound on it."""
    bound = Fraction(list_matching_bound(*_rows(instance), instance.num_paths))
    return {"list coupling": matched(instance), "lemma": bound}


def _paths(instance: Instance) -> Figures:
    """Block efficiencies of list coupling with K paths, one path fewer, and K paths that all race."""
    fewer = instance.with_paths(instance.num_paths - 1)
    return {
        "K − 1 paths": Fraction(coupled_emission_law(fewer).block_efficiency),
        "K paths": Fraction(coupled_emission_law(instance).block_efficiency),
        "K paths, all race": Fraction(coupled_emission_law(instance, all_race=True).block_efficiency),
    }


def _distances(instance: Instance) -> Figures:
    return {
        name: Fraction(coupled_emission_law(instance, all_race=every).total_variation)
        for name, every in (("active paths race", False), ("all paths race", True))
    }


def corrections_by_draft_noise(instance: Instance) -> tuple[Fraction, ...]:
    """Return the first token's distribution under the token rule, corrections racing on the draft's noise.

    A draft a is accepted by an independent uniform. If it is rejected, the correction is the winner of the
    race of the residual (p − q)+ on the exponential noise whose race with weights q drafted a: the two are
    coupled drafts of these two rows.
    """
    p, q = _rows(instance)
    law = list(map(min, p, q))
    left = [max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True)]
    if total := sum(left):
        for ((draft,), correction), mass in coupled_law([x / total for x in left], [q]).items():
            law[correction] += mass * (1 - min(Fraction(1), p[draft] / q[draft]))
    return tuple(law)


def _reused(instance: Instance) -> Figures:
    pairs = zip(_rows(instance)[0], corrections_by_draft_noise(instance), strict=True)
    return {"total variation": Fraction(sum(abs(p - law) for p, law in pairs)) / 2}


QUESTIONS = (
    Question(
        "Coupled drafts are lossless, whether the active paths race or all of them",
        f"{GUMBEL}; {LIST}",
        _distances,
        lambda figures: not any(figures.values()),
        TREES,
    ),
    Question(
        "Gumbel coupling accepts at least (1 − d)/(1 + d), d the total variation between p and q",
        GUMBEL,
        _one_path,
        lambda figures: figures["Gumbel coupling"] >= figures["(1 − d)/(1 + d)"],
        STEPS,
    ),
    Question(
        "Gumbel coupling accepts exactly (1 − d)/(1 + d) on some instance with 0 < d < 1",
        GUMBEL,
        _one_path,
        lambda figures: 0 < figures["d"] < 1 and figures["Gumbel coupling"] == figures["(1 − d)/(1 + d)"],
        STEPS,
        Scope.SOME,
    ),
    Question(
        "Over two tokens Gumbel coupling accepts as often as the token rule",
        "ours",
        _beside_token,
        lambda figures: figures["Gumbel coupling"] == figures["token"],
        context_free(denominators=range(1, 9)),
    ),
    Question(
        "Over three tokens Gumbel coupling accepts as often as the token rule",
        f"rule: {GUMBEL}",
        _beside_token,
        lambda figures: figures["Gumbel coupling"] == figures["token"],
        context_free(vocab_sizes=(3,), denominators=range(1, 5)),
    ),
    Question(
        "List matching lemma: some path drafts the emitted token with probability at least "
        "Σ_j K / Σ_i [max(q_i/q_j, p_i/p_j) + (K − 1) p_i/p_j]",
        LIST,
        lemma,
        lambda figures: figures["list coupling"] >= figures["lemma"],
        LISTS,
    ),
    Question(
        "With K = 2..3 paths that probability equals the bound of the list matching lemma",
        RULE,
        lemma,
        lambda figures: figures["list coupling"] == figures["lemma"],
        SEVERAL,
    ),
    Question(
        "List coupling of K paths never emits fewer tokens than of K − 1 paths",
        RULE,
        _paths,
        lambda figures: figures["K paths"] >= figures["K − 1 paths"],
        TREES,
    ),
    Question(
        "The same where all paths race: K paths never emit fewer tokens than K − 1 active ones",
        RULE,
        _paths,
        lambda figures: figures["K paths, all race"] >= figures["K − 1 paths"],
        TREES,
    ),
    Question(
        "List coupling never accepts the first token less often than `nss`, which samples without coupling",
        RULE,
        lambda instance: {"list coupling": matched(instance), "nss": acceptance("nss", instance)},
        lambda figures: figures["list coupling"] >= figures["nss"],
        LISTS,
    ),
    Question(
        "Over two tokens the token rule stays lossless when corrections race on the noise of the draft",
        "ours",
        _reused,
        lambda figures: figures["total variation"] == 0,
        context_free(denominators=range(1, 9)),
    ),
    Question(
        "Over three tokens the token rule stays lossless when corrections race on the noise of the draft "
        "(specimen `draft-noise-recovers`)",
        "variant of arXiv 2211.17192",
        _reused,
        lambda figures: figures["total variation"] == 0,
        context_free(vocab_sizes=(3,), denominators=range(1, 7)),
    ),
)
