"""The check `invariance`: what a coupled rule emits depends on the drafter no more than it promises.

*Weak*: given the drafts and the uniforms, the draft probabilities count for nothing. Calls are repeated with
the q of another drafter. *Strong*: the text is a function of the uniforms and the target. Texts of several
calls are compared whose drafts come from different drafters, with the same uniforms. One request that differs
is a proof; a dependence on a share s of all noise stays unseen in n requests with probability (1 - s)^n.
"""

from spec_oracle.arrays import Floats
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.coupled.subject import CoupledSubject
from spec_oracle.audit.panel import main_instances, panel
from spec_oracle.audit.results import CheckResult, How, failed, not_asked, passed
from spec_oracle.exact.drafter_invariance import drafter_invariance, reads_draft_probs, smallest_share
from spec_oracle.toy import Instance, ToyModel
from verifiers.rules.list_coupling import Invariance

VOCAB, DRAFTED, TOKENS = 3, 2, 6
"""Of the instances: tokens, drafted tokens of a call, and tokens of a text."""

DRAFTERS = ("flat", "zeros", "point-mass")
"""Instances whose drafters are the others."""


def invariance(subject: CoupledSubject, context: Context) -> CheckResult:
    """Judge what the rule promises, with K paths and, if K > 1, with one more; one request proves it."""
    if subject.invariance is Invariance.NONE:
        return not_asked("it promises none: invariance = 'none'")
    judge = _strong if subject.invariance is Invariance.STRONG else _weak
    rng, count, draws = context.stream("coupled/invariance"), effort.COUPLED_ROUND, 0
    for paths in dict.fromkeys((subject.num_paths, subject.num_paths + (subject.num_paths > 1))):
        toys = panel(VOCAB, DRAFTED, paths, context.seed)
        others = [toys[name].draft for name in DRAFTERS]
        for name in main_instances(toys):
            draws += count
            uniforms = rng.random((count, paths, TOKENS + DRAFTED, VOCAB))
            if differs := judge(subject, toys[name], others, uniforms):
                return failed(f"with K = {paths} paths, {differs}", how=How.REPLAYED, draws=count)
    what = {
        Invariance.WEAK: "what a call emits ignores the draft probabilities, given drafts and uniforms",
        Invariance.STRONG: f"texts of {TOKENS} tokens are the same for {len(others) + 1} drafters",
    }[subject.invariance]
    share = f"a dependence on {100 * smallest_share(count):.2g} % of all noise would show"
    detail = f"{subject.invariance.value} invariance: {what} ({share})"
    return passed(detail, how=How.REPLAYED, draws=draws)


def _weak(subject: CoupledSubject, instance: Instance, others: list[ToyModel], uniforms: Floats) -> str:
    """Say how many requests emit other tokens with another q, "" for none."""
    for other in others:
        changed = reads_draft_probs(subject.code, instance, other, uniforms[:, :, : DRAFTED + 1])
        if changed.any():
            return (
                f"{changed.sum():,} of {len(changed):,} calls emit other tokens once the draft probabilities "
                f"are another drafter's, with the same drafts and uniforms (request {int(changed.argmax())})"
            )
    return ""


def _strong(subject: CoupledSubject, instance: Instance, others: list[ToyModel], uniforms: Floats) -> str:
    """Say how many texts differ between drafters, "" for none."""
    found = drafter_invariance(subject.code, instance, others, uniforms)
    if found.holds:
        return ""
    request = int(found.differing[0])
    mine, *rest = found.texts[:, request].tolist()
    other = next(text for text in rest if text != mine)
    both = " or ".join(",".join(map(str, text)) for text in (mine, other))
    return (
        f"{len(found.differing):,} of {len(uniforms):,} texts depend on the drafter, with the same uniforms "
        f"and target (request {request}: {both})"
    )
