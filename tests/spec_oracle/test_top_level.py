"""What `import spec_oracle` gives: the three questions of a researcher, imported when they are asked."""

import subprocess
import sys

import pytest

import spec_oracle
import verifiers
from spec_oracle.audit import AuditOptions
from spec_oracle.toy import Instance

HEAVY = ("torch", "hypothesis", "transformers", "matplotlib", "numpy", "scipy")


def test_the_package_alone_imports_nothing_heavy():
    code = f"import sys, spec_oracle; print(*{{*sys.modules}} & {{*{HEAVY}}})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "\n"


def test_names_are_listed_and_another_is_an_attribute_error():
    assert {"audit", "emission_law", "efficiencies", "Instance"} <= set(dir(spec_oracle))
    with pytest.raises(AttributeError, match="module 'spec_oracle' has no attribute 'audti'"):
        _ = spec_oracle.audti


def test_an_audit_is_a_call_and_its_report_is_a_line_and_a_table():
    report = spec_oracle.audit(verifiers.get("token"), options=AuditOptions(checks=(), draft_length=1))
    (name,) = [one.subject for one in report.subjects]
    assert repr(report) == f"<AuditReport: {name} lossless; exit code 0>"
    assert repr(report.subjects[0]) == f"<SubjectReport: {name} lossless, evidence exact>"
    assert "<td>lossless</td><td>exact</td>" in report._repr_html_()


@pytest.mark.parametrize("exact", [True, False])
def test_laws_and_figures_are_a_line_and_a_table(exact):
    toy = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)
    law = spec_oracle.emission_law(verifiers.get("token"), toy, exact=exact)
    (row,) = spec_oracle.efficiencies("<toy>", toy, ["token"], exact=exact)
    if exact:
        assert repr(law) == "<EmissionLaw: 19/9 tokens per call, total variation 0; V = 2, L = 2>"
        assert repr(row) == "<Efficiency: token, 19/9 tokens per call, optimum 20/9>"
        assert "<tr><td>0</td><td>1/3</td></tr>" in law._repr_html_()
    else:
        assert "2.11111 tokens per call" in repr(law)
        assert "<tr><td>0</td><td>0.333333</td></tr>" in row._repr_html_()
