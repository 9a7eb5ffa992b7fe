"""The page of engines is that of an audit, written from rows, whatever the number of processes."""

import pytest

from lab.studies.engines import audited, page, plan

NAMES = ["accepting:verifier", "token"]
ACCEPTING = """
from lab.specimens.chain import always_accept, by_token_stop

verifier = by_token_stop(always_accept)
"""


@pytest.mark.nightly
def test_the_page_is_that_of_an_audit(tmp_path, monkeypatch):
    (tmp_path / "accepting.py").write_text(ACCEPTING)
    monkeypatch.chdir(tmp_path)
    pages = []
    for jobs in (1, 2):
        with audited(tmp_path / "engines.md", plan(NAMES, checks=["length"]), jobs=jobs) as rows:
            pages.append(page(NAMES, rows, "a command"))
    assert len({*pages}) == 1
    assert pages[0].startswith("# Released samplers and engines: results\n")
    assert "smallest counterexample" in pages[0]
    assert "1 lossy, 1 lossless" in pages[0]
