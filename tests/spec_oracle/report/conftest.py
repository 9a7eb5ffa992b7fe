"""Audits of all sorts, made once, for every format to be tried on."""

from dataclasses import replace

import numpy as np
import pytest

from spec_oracle.audit import AuditOptions, CheckResult, Status, SubjectVerdict, audit
from spec_oracle.audit.results import Cover, Measured
from spec_oracle.audit.rule.subject import RuleSubject
from tests.subjects import checks_of
from verifiers import Verdict

QUICK = AuditOptions(vocab_size=3, draft_length=2, checks=("inputs-kept", "draft-law"))
AWKWARD = 'odd <name> | "of" \x00 a: subject, 100 %'


class AlwaysAccepts:
    """Lossy: no draft is ever rejected."""

    def verify(self, drafts, decisions):
        path = drafts.first_path()
        last = path.node(path.lengths)
        return Verdict(last, decisions.categorical(drafts.target.row(last)), drafts)


@pytest.fixture(scope="session")
def report():
    """A report with every verdict, status and kind of remark."""
    made = audit("token", "block", RuleSubject("lossy", AlwaysAccepts()), options=QUICK)
    token, block, lossy = made.subjects
    checks = (
        checks_of(token)["joint"],
        CheckResult("bad-input", Status.FAILED, "NaN & infinity <at> row 3", known="issue 7, 100 % sure"),
        CheckResult("inputs-kept", Status.PASSED, "unchanged", known="issue 8"),
        CheckResult("scale", Status.INCONCLUSIVE, f"raised {AWKWARD}", measured=Measured(1e-7)),
        CheckResult("calls", Status.NOT_RUN, "takes 10 requests, at 0 a second; raise --budget"),
    )
    awkward = replace(
        token,
        subject=AWKWARD,
        verdict=SubjectVerdict.INCONCLUSIVE,
        checks=checks,
        code=replace(token.code, output=f"said {AWKWARD}\n"),
    )
    declared = replace(lossy, subject="relaxed", verdict=SubjectVerdict.DECLARED_LOSSY, figures=())
    declared = replace(declared, remarks=replace(lossy.remarks, notes=("on purpose",)))
    seen = {"dtype": {"float64": Cover.PROVEN, "bfloat16 & <more>": Cover.UNTRIED}}
    figures = tuple(replace(f, of_rule=_worse(f)) for f in block.figures)
    ruled = replace(block, rule="block", remarks=replace(block.remarks, coverage=seen), figures=figures)
    nowhere = replace(
        awkward,
        subject="nowhere:f",
        error="has no 'f'",
        figures=(),
        checks=(),
        remarks=replace(awkward.remarks, scope=()),
        code=replace(awkward.code, output=""),
    )
    return replace(made, subjects=(token, ruled, lossy, awkward, declared, nowhere), command="spec-oracle x")


def _worse(figures):
    return tuple(np.roll(figures.accepted_length, 1))
