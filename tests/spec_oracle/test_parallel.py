"""Processes side by side change nothing but the time."""

import math
from dataclasses import replace

import pytest

from spec_oracle.audit import AuditOptions, audit
from spec_oracle.errors import InvalidInputError
from spec_oracle.parallel import side_by_side
from spec_oracle.report import AUDIT_FORMATS


@pytest.mark.parametrize("jobs", [1, 2])
def test_order_is_kept(jobs):
    assert list(side_by_side(math.sqrt, [9.0, 4.0, 1.0], jobs)) == [3, 2, 1]


def test_reports_do_not_depend_on_the_number_of_processes():
    options = AuditOptions(vocab_size=2, draft_length=2)
    names = ("token", "block", "spec_oracle.specimens.foreign.uniforms:token_kernel")
    alone, together = (audit(*names, options=replace(options, jobs=jobs)) for jobs in (1, 2))
    assert AUDIT_FORMATS["json"](alone) == AUDIT_FORMATS["json"](together)


def test_an_unknown_subject_is_an_error_there_too():
    with pytest.raises(InvalidInputError, match="unknown 'nothing'"):
        audit("token", "nothing", options=AuditOptions(jobs=2))
