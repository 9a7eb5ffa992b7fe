"""The page of engines is that of an audit, written from rows, whatever the number of processes."""

import pytest

from lab.studies.engines import audited, page, plan
from tests.strategies import at_night

NAMES = ["accepting:verifier", "token"]
ACCEPTING = """
from lab.specimens.chain import always_accept, by_token_stop

verifier = by_token_stop(always_accept)
"""


@pytest.mark.parametrize("numbers", [(1,), *at_night(((1, 2),))], ids=len)
def test_the_page_is_that_of_an_audit(tmp_path, monkeypatch, numbers):
    """By day tests/spec_oracle/test_sweeps.py shows that rows do not depend on the number of processes."""
    (tmp_path / "accepting.py").write_text(ACCEPTING)
    monkeypatch.chdir(tmp_path)
    pages = []
    for jobs in numbers:
        with audited(tmp_path / "engines.md", plan(NAMES, checks=["length"]), jobs=jobs) as rows:
            pages.append(page(NAMES, rows, "a command"))
    assert len({*pages}) == 1
    assert pages[0].startswith("# Released samplers and engines: results\n")
    assert "smallest counterexample" in pages[0]
    assert "1 lossy, 1 lossless" in pages[0]
