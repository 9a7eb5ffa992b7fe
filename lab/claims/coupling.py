"""Claims about coupled drafts: Gumbel coupling (K = 1) and list coupling, and about noise that is reused.

List coupling is Algorithm 2 of arXiv 2506.05632 (GLS), and its Proposition 6 where all paths race. Both are
written from the paper's text: the code of its authors was not available.
"""

from collections import defaultdict
from fractions import Fraction

from lab.claims.families import context_free, prefix_dependent
from lab.claims.laws import acceptance
from lab.claims.question import Figures, Question, Scope
from lab.coupling.coupling import coupled_emission_law, coupled_law, list_matching_bound, matches_law
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


def _exact_cases(instance: Instance) -> Figures:
    """The same where the lemma is said to be an equality: in other cases it is put to 0 = 0."""
    p, q = _rows(instance)
    special = instance.num_paths == 1 or p == q or max(q) == 1
    return {name: figure * special for name, figure in lemma(instance).items()}


def _given_token(instance: Instance) -> Figures:
    """Return P(some path drafts Y | Y) and its bound, for the emitted token with the smallest difference."""
    (p, q), paths = _rows(instance), instance.num_paths
    matching: dict[int, Fraction] = defaultdict(Fraction)
    for (matches, token), mass in matches_law(p, q, paths, paths).items():
        matching[token] += mass * bool(matches)
    bounds = {
        j: Fraction(paths)
        / sum(max(q[i] / q[j], p[i] / p[j]) + (paths - 1) * p[i] / p[j] for i in range(len(p)))
        for j in matching
        if q[j]
    }
    if not bounds:
        return {"list coupling": Fraction(0), "lemma": Fraction(0)}
    token = min(bounds, key=lambda j: matching[j] / p[j] - bounds[j])
    return {"list coupling": matching[token] / p[token], "lemma": bounds[token]}


def _all_race(instance: Instance) -> Figures:
    """One path is active, and all K race."""
    law = matches_law(*_rows(instance), 1, instance.num_paths)
    bound = Fraction(list_matching_bound(*_rows(instance), instance.num_paths)) / instance.num_paths
    return {
        "list coupling": Fraction(sum(mass for (matches, _), mass in law.items() if matches)),
        "lemma": bound,
    }


def _given_drafts(instance: Instance) -> Figures:
    """Return P(Y = x | all paths drafted x), x the likeliest draft, of this drafter and of p as drafter."""
    (p, q), paths = _rows(instance), instance.num_paths
    token = q.index(max(q))
    if not p[token]:
        return {"drafted from q": Fraction(0), "drafted from p": Fraction(0)}

    def kept(draft: tuple[Fraction, ...]) -> Fraction:
        law = coupled_law(p, [draft] * paths)
        return Fraction(law.get(((token,) * paths, token), 0)) / draft[token] ** paths

    return {"drafted from q": kept(q), "drafted from p": kept(p)}


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
        "The lemma's bound is that probability for K = 1, for q with one token, and for p = q",
        f"{LIST}, Remark 1",
        _exact_cases,
        lambda figures: figures["list coupling"] == figures["lemma"],
        LISTS,
    ),
    Question(
        "Given the emitted token j, some path drafts it with probability at least "
        "K / Σ_i [max(q_i/q_j, p_i/p_j) + (K − 1) p_i/p_j]",
        LIST,
        _given_token,
        lambda figures: figures["list coupling"] >= figures["lemma"],
        LISTS,
    ),
    Question(
        "Where all K paths race and one is active, it drafts the emitted token with at least 1/K of the "
        "lemma's bound",
        f"{LIST}, appendix B",
        _all_race,
        lambda figures: figures["list coupling"] >= figures["lemma"],
        LISTS,
    ),
    Question(
        "Given what was drafted, but not the uniforms, the distribution of the emitted token does not depend "
        "on the drafter",
        f"{LIST}: drafter invariance in words; its proof has the uniforms given, too",
        _given_drafts,
        lambda figures: figures["drafted from q"] == figures["drafted from p"],
        LISTS,
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
