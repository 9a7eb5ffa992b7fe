"""The suite on one screen: each check, its question, its share of the error rate, and who answers it.

A cell is the function that answers for a kind of subject, or the reason why there is nothing to ask. Checks
run from top to bottom: those whose results others read come first. The rate of a check is its share of the
run's, used or not; within a check each way that may decide has a stated part of it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from spec_oracle.audit.again import asked_again, breached
from spec_oracle.audit.context import Context
from spec_oracle.audit.coupled import checks as coupled
from spec_oracle.audit.engine import checks as engine
from spec_oracle.audit.facts import Facts
from spec_oracle.audit.results import DECLARED, CheckResult, How, Status, TooSlowError, inconclusive
from spec_oracle.audit.sampler import checks as sampler
from spec_oracle.audit.server import checks as server
from spec_oracle.audit.tree import checks as tree
from spec_oracle.audit.verifier import checks as verifier
from spec_oracle.contracts import ContractError, SubjectRaisedError

Answer: TypeAlias = Callable[[Any, Context], CheckResult]

KINDS: Final = ("verifier", "tree", "coupled", "sampler", "engine", "server")


@dataclass(frozen=True, kw_only=True)
class Check:
    """One question; ``share`` is its part of the run's error rate.

    ``against_law``: whether its failure proves that the output is not distributed as the target.
    """

    name: str
    question: str
    share: Fraction
    against_law: bool = False
    verifier: Answer | str
    tree: Answer | str
    coupled: Answer | str
    sampler: Answer | str
    engine: Answer | str
    server: Answer | str

    def answer(self, kind: str) -> Answer | str:
        """Return the cell of a kind of subject."""
        cell: Answer | str = getattr(self, kind)
        return cell

    def record_in(self, facts: Facts) -> str:
        """Return the check whose record covers this one: its own, else for a wrong distribution `joint`.

        What is wrong with the distribution of one call shows in all checks of the distribution.
        """
        return self.name if self.name in facts.at_most or not self.against_law else "joint"

    def result(self, subject: Any, context: Context, left_out: str = "") -> CheckResult:
        """Return the result of the check and how long it took, unless it is ``left_out`` for a reason."""
        started = time.perf_counter()
        if left_out and callable(self.answer(subject.kind)):
            return CheckResult(self.name, Status.SKIPPED, left_out)
        return replace(self.outcome(subject, context), seconds=time.perf_counter() - started)

    def outcome(self, subject: Any, context: Context) -> CheckResult:
        """Run the check on a subject; a broken contract, an exception, or a short budget is a result."""
        is_again = context.again is not None and context.again.check == self.name
        answer = asked_again if is_again else self.answer(subject.kind)
        if isinstance(answer, str):
            return CheckResult(self.name, Status.NOT_APPLICABLE, answer)
        rate, budget = context.alpha * float(self.share), context.budget
        if subject.kind == "server":  # its budget is that of the whole audit
            budget = subject.seconds_for(self.name, budget)
        facts: Facts = subject.facts
        admitted = facts.size_of(self.record_in(facts)) if facts.at_most and self.against_law else None
        try:
            result = answer(subject, replace(context, rate=rate, budget=budget, admitted=admitted))
        except ContractError as error:
            result = breached(error, subject, context, rate, alpha=rate, how=How.SAMPLED)
        except SubjectRaisedError as error:
            is_type = context.exact and isinstance(error.__cause__, TypeError | AttributeError)
            result = inconclusive(f"{error}{OF_RATIONALS * is_type}", alpha=rate)
        except TooSlowError as error:
            result = CheckResult("", Status.NOT_RUN, str(error))
        return replace(result, name=self.name, breaks_contract=result.breaks_contract and self.against_law)


def unless(left_out: Callable[[Any, Context], str], answer: Answer) -> Answer:
    """Return the answer that is given unless it is left out for a reason."""

    def asked(subject: Any, context: Context) -> CheckResult:
        if reason := left_out(subject, context):
            return CheckResult("", Status.SKIPPED, reason)
        return answer(subject, context)

    asked.__doc__, asked.__module__ = answer.__doc__, answer.__module__
    return asked


def unless_wrong(answer: Answer) -> Answer:
    """Return the answer that is left out where `joint` failed, and not as on record."""
    return unless(lambda subject, context: "joint failed" if context.is_wrong(subject) else "", answer)


def unless_declared(answer: Answer) -> Answer:
    """Return the answer that is left out where code declares itself lossy, or `joint` failed."""
    return unless_wrong(
        unless(lambda subject, context: DECLARED if context.is_declared(subject) else "", answer)
    )


def unless_lossy(answer: Answer) -> Answer:
    """Return the answer that is left out where `joint` failed at all, or would without what is declared."""
    return unless_declared(
        unless(lambda subject, context: "joint failed" if context.is_lossy(subject) else "", answer)
    )


OF_RATIONALS: Final = "; --exact gives it arrays of rationals, which some functions of numpy do not take"
PERCENT: Final = Fraction(1, 100)
TAKES_ROWS = "it is given the target's next-token distributions"
REPORTS_NOTHING = "it returns tokens, and no log-probabilities of them"
TAKES_DECISIONS = "it has no random stream: every decision comes from the source that it is given"
DRAFTS_APART = "its random numbers are independent of those that drafted"
HAS_NO_ROWS = "it takes no next-token distributions"

CHECKS: Final = MappingProxyType(
    {
        check.name: check
        for check in (
            Check(
                name="plain-law",
                question="are the next-token distributions it reports those it samples from?",
                share=5 * PERCENT,
                verifier=TAKES_ROWS,
                tree=TAKES_ROWS,
                coupled=TAKES_ROWS,
                sampler=TAKES_ROWS,
                engine="its target-only decoding is judged by joint",
                server=server.plain_law,
            ),
            Check(
                name="joint",
                question="is the output distribution of one call the target's?",
                share=20 * PERCENT,
                against_law=True,
                verifier=verifier.joint,
                tree=tree.joint,
                coupled=coupled.joint,
                sampler=sampler.joint,
                engine=engine.joint,
                server=server.joint,
            ),
            Check(
                name="model",
                question="is the served model that of the reference?",
                share=0 * PERCENT,
                against_law=True,
                verifier=TAKES_ROWS,
                tree=TAKES_ROWS,
                coupled=TAKES_ROWS,
                sampler=TAKES_ROWS,
                engine="its target-only decoding is its own",
                server=server.model,
            ),
            Check(
                name="shapes",
                question="is it so at other V, L, K, B, number types, layouts, rows, or sampling fields?",
                share=10 * PERCENT,
                against_law=True,
                verifier=unless_declared(verifier.shapes),
                tree=unless_declared(tree.shapes),
                coupled=unless_declared(coupled.shapes),
                sampler=unless_declared(sampler.shapes),
                engine=HAS_NO_ROWS,
                server=unless_lossy(server.shapes),
            ),
            Check(
                name="length",
                question="is the accepted length that of its rule, declared or identified?",
                share=10 * PERCENT,
                verifier=unless_lossy(verifier.length),
                tree=unless_lossy(tree.length),
                coupled=unless_lossy(coupled.length),
                sampler=unless_lossy(sampler.length),
                engine=engine.length,
                server=server.length,
            ),
            Check(
                name="calls",
                question="is the text of several calls distributed as the target's?",
                share=10 * PERCENT,
                against_law=True,
                verifier=verifier.calls,
                tree=unless_wrong(tree.calls),
                coupled=unless_declared(coupled.calls),
                sampler=unless_wrong(sampler.calls),
                engine=engine.calls,
                server="long-texts judges longer completions",
            ),
            Check(
                name="long-texts",
                question="is every token of a long completion sampled from its next-token distribution?",
                share=5 * PERCENT,
                against_law=True,
                verifier="calls judges its text exactly",
                tree="calls finds that it keeps nothing between calls",
                coupled="calls judges its text, and streams finds that it keeps nothing between calls",
                sampler="calls judges hundreds of calls",
                engine=unless_lossy(engine.long_texts),
                server=unless_lossy(server.long_texts),
            ),
            Check(
                name="logprobs",
                question="are reported log-probabilities those of the distribution that is sampled?",
                share=0 * PERCENT,
                verifier=REPORTS_NOTHING,
                tree=REPORTS_NOTHING,
                coupled=REPORTS_NOTHING,
                sampler=REPORTS_NOTHING,
                engine=engine.logprobs,
                server=server.logprobs,
            ),
            Check(
                name="draft-law",
                question="does the drafter sample from the q that it reports?",
                share=10 * PERCENT,
                verifier="the audit drafts, not the code",
                tree="the audit drafts, not the code",
                coupled="the audit drafts, not the code",
                sampler="the audit drafts, not the code",
                engine=engine.draft_law,
                server="drafts and their distributions stay inside the server",
            ),
            Check(
                name="streams",
                question="same seed same result, other seeds independent?",
                share=10 * PERCENT,
                verifier=TAKES_DECISIONS,
                tree=TAKES_DECISIONS,
                coupled=coupled.streams,
                sampler=unless_wrong(sampler.streams),
                engine=unless_wrong(engine.streams),
                server=unless_lossy(server.streams),
            ),
            Check(
                name="batch",
                question="does a request ignore the others of its batch, and share no randomness with them?",
                share=10 * PERCENT,
                against_law=True,
                verifier=verifier.batch,
                tree=tree.batch,
                coupled=coupled.batch,
                sampler=unless_wrong(sampler.batch),
                engine=engine.batch,
                server=unless_lossy(server.batch),
            ),
            Check(
                name="invariance",
                question="does its text depend on the drafter no more than it promises?",
                share=0 * PERCENT,
                verifier=DRAFTS_APART,
                tree=DRAFTS_APART,
                coupled=coupled.invariance,
                sampler=DRAFTS_APART,
                engine="its contract has no drafter that could be exchanged",
                server="the drafter stays inside the server",
            ),
            Check(
                name="bad-input",
                question="NaN, infinite, negative, unnormalised or zero rows, wrong ids, extreme uniforms?",
                share=1 * PERCENT,
                verifier=verifier.bad_input,
                tree=tree.bad_input,
                coupled=coupled.bad_input,
                sampler=sampler.bad_input,
                engine=HAS_NO_ROWS,
                server=HAS_NO_ROWS,
            ),
            Check(
                name="inputs-kept",
                question="are inputs unchanged after the call?",
                share=1 * PERCENT,
                verifier=verifier.inputs_kept,
                tree=tree.inputs_kept,
                coupled=coupled.inputs_kept,
                sampler=sampler.inputs_kept,
                engine=HAS_NO_ROWS,
                server=HAS_NO_ROWS,
            ),
            Check(
                name="scale",
                question="are ids, offsets and the distribution kept at large V and in low precision?",
                share=8 * PERCENT,
                against_law=True,
                verifier=unless_declared(verifier.scale),
                tree=unless_declared(tree.scale),
                coupled=unless_declared(coupled.scale),
                sampler=unless_declared(sampler.scale),
                engine=HAS_NO_ROWS,
                server=HAS_NO_ROWS,
            ),
        )
    }
)
"""Every check by name, in the order in which they run."""
