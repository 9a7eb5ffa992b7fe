"""The page of transformers is written from the rows of a sweep, whatever the processes behind them."""

from concurrent.futures import Future

import pytest

from lab.studies import transformers_generate
from lab.studies.transformers_generate import VERSIONS, page, plan
from spec_oracle.sweeps import rows_for

transformers = pytest.importorskip("transformers")

OLDER, NEWEST = VERSIONS[-2:]
TOKENS = 2
"""Of the texts of the page; it is written for longer ones, which take minutes."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return what measures cells in some processes, of the version installed here: its folder is empty."""
    folder = tmp_path_factory.mktemp("environments")
    (folder / NEWEST).mkdir()
    cells = [("top-k", 2, TOKENS + 1), ("top-k", 3, TOKENS), ("quantised cache", 3, TOKENS)]
    asked = [(NEWEST, "assistant", *cell) for cell in cells]

    def rows(jobs):
        with rows_for(folder / f"{jobs}.md", plan(asked, folder), jobs=jobs) as these:
            assert all(row["cell"]["seconds"] >= 0 for row in these)
            return [{**row["cell"], "seconds": 1.25} for row in these]

    return rows


class Here:
    """Stands for the process of a version: this one has imported the version that is installed."""

    def submit(self, function, *arguments):
        done = Future()
        done.set_result(function(*arguments))
        return done


@pytest.fixture(scope="module")
def rows(measured):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformers_generate, "_process", lambda _: Here())
        return measured(1)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_rows_do_not_depend_on_the_number_of_processes(rows, measured):
    """By day tests/spec_oracle/test_sweeps.py shows it of other cells."""
    assert measured(2) == rows


@pytest.mark.filterwarnings("ignore")  # as processes of versions ignore them
def test_the_page_follows_from_the_rows(rows, monkeypatch):
    monkeypatch.setattr(transformers_generate, "TOKENS", TOKENS)
    _, cell, _ = rows
    older = {**cell, "version": OLDER, "total_variation": 0.25, "gap": [[0, 1, 2], 0.5, 0.25]}
    text = list(page([{"cell": each} for each in (*rows, older)], ["top_k", "max_time", "unheard_of"]))
    (top_k,) = (line for line in text if line.startswith("| top-k"))
    tv, runs = cell["total_variation"], cell["runs"]
    assert tv < 1e-6
    assert top_k.endswith(f"| **0.25** | {tv:.0e} | {runs} | 1.2 |")
    assert f"* {OLDER}, assistant, top-k: text 0,1,2 has probability 0.5, plainly decoded 0.25" in text
    (long,) = (line for line in text if line.startswith("| 2 | 3 |"))
    assert long.endswith("| 1.2 |")
    assert any(line.startswith("| quantised cache") and "(1)" in line for line in text)
    assert any("| `top_k` | " in part and " top-k, " in part for part in text)
    assert any("| `max_time` | not tried: ends by the clock |" in part for part in text)


def test_every_parameter_is_tried_or_has_a_reason():
    fields = [name for name in vars(transformers.GenerationConfig()) if not name.startswith("_")]
    unknown = [name for name in fields if "nobody has looked at it" in transformers_generate.TRIED.by(name)]
    assert len(fields) > 60
    assert not unknown
