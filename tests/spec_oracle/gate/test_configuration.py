"""The configuration: what it says is what is audited, and mistakes are told with file and line."""

import json

import pytest

from spec_oracle.cli import main
from spec_oracle.errors import InvalidInputError
from spec_oracle.gate.configuration import (
    Configuration,
    find_configuration,
    read_configuration,
)
from spec_oracle.gate.input_file import toml_line
from spec_oracle.toy import Instance

GOOD = """\
# what this project wants audited
[tool.other]
subjects = ["not ours"]

[tool.spec-oracle]
subjects = [
    "token",
    {name = "block", draft-length = 1, num-paths = 1},
]
vocab-size = 2
draft-length = 2
alpha = 1e-4
checks = ["inputs-kept", "bad-input"]
jobs = 1
timeout = 60
memory = 2.5
baseline = "kept/efficiency.json"
counterexamples = "found"

[[tool.spec-oracle.skips]]
subject = "token"
check = "bad-input"
reason = "checked one layer up"

[[tool.spec-oracle.expected-failures]]
subject = "block"
check = "inputs-kept"
reason = "issue 12"

[[tool.spec-oracle.expected-failures]]
subject = "token"
check = "scale"
at-most = 2e-3
reason = "issue 13"
"""


@pytest.fixture
def written(tmp_path):
    def write(text, name="pyproject.toml"):
        file = tmp_path / name
        file.write_text(text)
        return file

    return write


def test_options_of_the_command_line_override_those_of_a_subject_and_of_all(written, tmp_path):
    found = read_configuration(written(GOOD))
    assert found.subjects == ("token", "block")
    token, block = (found.options_of(name) for name in found.subjects)
    assert (token.vocab_size, token.draft_length, token.num_paths, token.alpha) == (2, 2, None, 1e-4)
    assert (block.vocab_size, block.draft_length, block.num_paths) == (2, 1, 1)
    assert found.options_of("block", draft_length=3, skip={"scale": ""}).draft_length == 3
    assert found.options_of("token", skip={"scale": ""}).skip.keys() == {"scale", "bad-input"}
    assert token.skip == {"bad-input": "checked one layer up"}
    assert block.expected == {"inputs-kept": "issue 12"}
    assert (token.expected, token.at_most) == ({"scale": "issue 13"}, {"scale": 2e-3})
    assert found.limits == {"jobs": 1, "timeout": 60, "memory": 2.5}
    assert found.baseline == tmp_path / "kept/efficiency.json"
    assert token.counterexamples == tmp_path / "found"


def test_a_file_of_its_own_comes_first_and_has_the_keys_at_its_top(written, tmp_path):
    written(GOOD)
    written('subjects = ["block"]\n', "spec-oracle.toml")
    assert find_configuration(tmp_path).subjects == ("block",)


@pytest.mark.parametrize("text", ["", "[tool.other]\nsubjects = 3\n", "[project]\nname = 'x'\n"])
def test_a_project_without_a_table_has_none(written, tmp_path, text):
    assert find_configuration(tmp_path) == Configuration()
    written(text)
    assert find_configuration(tmp_path) == Configuration()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('    "token",', '    "tokn",', ":7: subjects[0]: unknown 'tokn'; did you mean 'token'?"),
        ('    "token",', "    3,", ":7: subjects[0]: expected a table, got 3"),
        ('    "token",', '    "nowhere:f",', ":7: subjects[0]: cannot import 'nowhere'"),
        ('    "token",', '    "block",', ":8: subjects[1]: 'block' is named twice"),
        ("vocab-size", "vocab_size", ":10: vocab_size: unknown key 'vocab_size'; did you mean 'vocab-size'?"),
        ("vocab-size = 2", "vocab-size = true", ":10: vocab-size: expected a whole number, got True"),
        ("vocab-size = 2", "vocab-size = 0", ":10: vocab-size: expected at least 1, got 0"),
        ("alpha = 1e-4", 'alpha = "small"', ":12: alpha: expected a number, got 'small'"),
        ("alpha = 1e-4", "alpha = 2", ":12: alpha: expected"),
        ("alpha = 1e-4", 'array = "jax"', ":12: array: expected one of numpy, torch"),
        ('"bad-input"]', '"bad-inptu"]', ":13: checks: unknown check 'bad-inptu'; did you mean 'bad-input'?"),
        ("timeout = 60", "timeout = -1", ":15: timeout: expected a positive number of seconds, got -1"),
        ("memory = 2.5", "memory = inf", ":16: memory: expected a positive number of GiB below"),
        ("memory = 2.5", "seed = -1", ":16: seed: expected at least 0, got -1"),
        (
            "draft-length = 1, num-paths",
            "alpha = 0.1, num-paths",
            ":8: subjects[1].alpha: unknown key",
        ),
        ('name = "block", ', "", ":8: subjects[1].name: missing; expected a string"),
        (
            '"block"\ncheck',
            '"blok"\ncheck',
            ":26: expected-failures[0].subject: unknown 'blok'",
        ),
        ('check = "inputs-kept"', 'check = "input-kept"', ":27: expected-failures[0].check: unknown"),
        ('reason = "issue 12"', 'reason = " "', ":28: expected-failures[0].reason: expected a reason"),
        ('reason = "issue 12"', "", ":25: expected-failures[0].reason: missing; expected a string"),
        (
            "at-most = 2e-3",
            "",
            ":30: expected-failures[1].at-most: missing: 'scale' compares with the target",
        ),
        ("at-most = 2e-3", "at-most = 0", ":33: expected-failures[1].at-most: expected a total variation"),
        ("at-most = 2e-3", "at-most = 1.5", ":33: expected-failures[1].at-most: expected a total variation"),
        ("at-most = 2e-3", "at-most = nan", ":33: expected-failures[1].at-most: expected a total variation"),
        (
            "at-most = 2e-3",
            "at-most = true",
            ":33: expected-failures[1].at-most: expected a number, got True",
        ),
        (
            'check = "scale"',
            'check = "length"',
            ":33: expected-failures[1].at-most: 'length' does not compare",
        ),
        (
            'reason = "checked',
            'at-most = 1\nreason = "checked',
            ":23: skips[0].at-most: unknown key 'at-most'",
        ),
        ("[[tool.spec-oracle.skips]]", "[tool.spec-oracle.skips]", ":20: skips: expected an array, got"),
        ("jobs = 1", "jobs = ", ": cannot be read: Invalid value (at line 14"),
    ],
)
def test_mistakes_name_file_and_line(written, old, new, message):
    assert old in GOOD
    with pytest.raises(InvalidInputError) as caught:
        read_configuration(written(GOOD.replace(old, new)))
    assert f"pyproject.toml{message}" in str(caught.value)


def test_missing_keys_are_named(written):
    with pytest.raises(InvalidInputError, match=r"pyproject.toml:1: there is no table \[tool.spec-oracle\]"):
        read_configuration(written("[project]\n"))
    with pytest.raises(InvalidInputError, match="pyproject.toml:1: subjects: missing; expected an array"):
        read_configuration(written("[tool.spec-oracle]\nseed = 1\n"))
    with pytest.raises(InvalidInputError, match=r"spec-oracle.toml:2: instances\[0\]: .*none.json"):
        read_configuration(written('subjects = ["token"]\ninstances = ["none.json"]', "spec-oracle.toml"))


@pytest.mark.parametrize(
    ("at", "line"),
    [(("a",), 2), (("a", 1), 4), (("b", "c"), 7), (("b", "d", 0, "e"), 7), (("f", 1, "g"), 12)],
)
def test_the_line_of_a_value_is_found(at, line):
    text = '# one\na = [\n 1,\n 2, # two\n]\n[b]\nc = 1; d = [{e = "]"}]\n[[f]]\ng = 1\n\n[[f]]\ng = 2\n'
    assert toml_line(text.replace("; ", "\n", 1), at) == line + (at == ("b", "d", 0, "e")) + (at[0] == "f")


def test_an_audit_without_arguments_audits_the_configured_subjects(written, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(GOOD.replace('baseline = "kept/efficiency.json"\n', ""))
    assert main(["audit", "--format", "json"]) == 2
    captured = capsys.readouterr()
    assert "configuration: pyproject.toml" in captured.err
    report = json.loads(captured.out)
    assert report["alpha"] == 1e-4
    token, block = report["subjects"]
    assert "V = 2, L = 2, K = 1" in token["scope"][0]
    assert "V = 2, L = 1, K = 1" in block["scope"][0]
    skipped = next(check for check in token["checks"] if check["name"] == "bad-input")
    assert (skipped["status"], skipped["reason"]) == ("skipped", "checked one layer up")
    stale = next(check for check in block["checks"] if check["name"] == "inputs-kept")
    assert (stale["status"], stale["known"]) == ("passed", "issue 12")


def test_options_given_come_before_the_configuration_and_it_can_be_left_out(
    written, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    written(GOOD)
    Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=1).save(tmp_path / "toy.json")
    assert main(["audit", "block", "--instance", "toy.json", "--format", "json"]) == 0
    (block,) = json.loads(capsys.readouterr().out)["subjects"]
    assert "1 toy instance" in block["scope"][0]
    assert main(["audit", "block", "--no-config", "--draft-length", "1", "--check", "inputs-kept"]) == 0
    assert "configuration" not in capsys.readouterr().err
    assert main(["audit", "--config", "nothing.toml"]) == 3
    assert "nothing.toml: cannot be read" in capsys.readouterr().err
