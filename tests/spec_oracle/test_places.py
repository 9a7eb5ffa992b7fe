"""The place of a finding: the user's function, also where an adapter calls it."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from spec_oracle.places import defined_at

ENGINE = """
class Sampler:
    def sample(self, ids):
        return ids


def verify(ids):
    return ids


def softmax(ids):
    return ids


sampler = Sampler()
"""
OURS = "from spec_oracle.contracts.adapting import from_padded"


@pytest.fixture
def place_in(tmp_path, monkeypatch):
    """Return what says where ``verify`` of a module is, which lies beside an engine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("of_engine.py").write_text(ENGINE, "utf-8")

    def place(*lines):
        Path("of_user.py").write_text("\n".join(lines), "utf-8")
        return defined_at(import_module("of_user").verify)

    yield place
    for name in ("of_engine", "of_user"):
        sys.modules.pop(name, None)


def function(body, name="verify", given="ids"):
    return f"def {name}({given}): return {body}"


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (["from of_engine import verify as under_test", function("under_test(ids)")], "7, from of_user.py:2"),
        ([OURS, "import of_engine", function("from_padded(of_engine.verify(ids))")], "7, from of_user.py:3"),
        (
            [OURS, "import of_engine as e", function("from_padded(e.sampler.sample(ids))")],
            "3, from of_user.py:3",
        ),
        (
            ["from of_engine import Sampler", "under_test = Sampler()", function("under_test.sample(ids)")],
            "3, from of_user.py:3",
        ),
        (
            [
                "from spec_oracle.contracts.one_by_one import one_by_one",
                "from of_engine import verify as under_test",
                function("one_by_one(verify_one, ids)"),
                function("under_test(ids)", "verify_one"),
            ],
            "7, from of_user.py:3",
        ),
    ],
    ids=["init", "module", "object", "class", "one by one"],
)
def test_place_of_an_adapter_is_that_of_the_function_behind_it(place_in, lines, place):
    assert place_in(*lines) == f"of_engine.py:{place}"


@pytest.mark.parametrize(
    "lines",
    [
        ["from of_engine import softmax", function("softmax(ids)")],
        [OURS, "from of_engine import softmax, verify as v", function("from_padded(v(softmax(ids)))")],
        [OURS, "import torch", function("from_padded(torch.softmax(ids))")],
        [OURS, "from of_engine import Sampler", function("from_padded(Sampler)")],
    ],
    ids=["no adapter", "two functions", "of a library", "a class"],
)
def test_place_of_other_code_is_its_own(place_in, lines):
    assert place_in(*lines) == f"of_user.py:{len(lines)}"
