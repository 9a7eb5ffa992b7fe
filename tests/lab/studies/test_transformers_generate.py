"""The page of transformers is written from the rows of a sweep, whatever the processes behind them."""

import pytest

from lab.studies.transformers_generate import VERSIONS, page, plan
from spec_oracle.sweeps import rows_for

transformers = pytest.importorskip("transformers")

OLDER, NEWEST = VERSIONS[-2:]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Rows of one process and of two, of the version that is installed here: its folder holds nothing."""
    folder = tmp_path_factory.mktemp("environments")
    (folder / NEWEST).mkdir()
    cells = [("top-k", 2, 4), ("top-k", 3, 3), ("quantised cache", 3, 3)]
    asked = [(NEWEST, "assistant", *cell) for cell in cells]
    found = []
    for jobs in (1, 2):
        with rows_for(folder / f"{jobs}.md", plan(asked, folder), jobs=jobs) as these:
            found.append([{**row["cell"], "seconds": 1.25} for row in these])
            assert all(row["cell"]["seconds"] >= 0 for row in these)
    return found


def test_rows_do_not_depend_on_the_number_of_processes(rows):
    assert rows[0] == rows[1]


def test_the_page_says_what_the_rows_say(rows):
    _, cell, _ = rows[0]
    older = {**cell, "version": OLDER, "total_variation": 0.25, "gap": [[0, 1, 2], 0.5, 0.25]}
    text = list(page([{"cell": each} for each in (*rows[0], older)]))
    (top_k,) = (line for line in text if line.startswith("| top-k"))
    tv, runs = cell["total_variation"], cell["runs"]
    assert tv < 1e-6
    assert top_k.endswith(f"| **0.25** | {tv:.0e} | {runs} | 1.2 |")
    assert f"* {OLDER}, assistant, top-k: text 0,1,2 has probability 0.5, plainly decoded 0.25" in text
    (long,) = (line for line in text if line.startswith("| 2 | 4 |"))
    assert long.endswith("| 1.2 |")
    assert any(line.startswith("| quantised cache") and "(1)" in line for line in text)
