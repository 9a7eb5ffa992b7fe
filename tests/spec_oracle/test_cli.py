"""The command line as its users meet it: exit codes, formats, and one clear line for every mistake."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

from spec_oracle.cli import main

SUBJECT_FIELDS = {
    "subject",
    "verdict",
    "evidence",
    "total_variation",
    "smallest_detectable_tv",
    "alpha",
    "block_efficiency",
    "optimum",
    "checks",
    "counterexample",
}

LOSSY_SUBJECT = """
import numpy as np

def always_accepts(draft_tokens, draft_probs, target_probs, generator):
    batch, length = draft_tokens.shape
    bonus = np.array([generator.choice(len(rows[-1]), p=rows[-1]) for rows in target_probs])
    return np.concatenate([draft_tokens, bonus[:, None]], axis=1), np.full(batch, length)
"""


@pytest.fixture
def example(tmp_path):
    path = tmp_path / "example.json"
    assert main(["instance", "example", "--output", str(path)]) == 0
    return path


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_audit_prints_a_table_and_progress_apart_from_it(capsys):
    code, out, err = run(capsys, "audit", "block", "--draft-length", 1, "--check", "inputs-kept")
    assert code == 0
    assert out.startswith("block: lossless; total variation at most ")
    assert re.search(r"\nsubject +verdict +evidence +TV +detects TV +tokens/call +optimum +headroom\n", out)
    assert "\n  ✓ passed: joint (proven), inputs-kept (replayed)\n" in out
    assert re.search(r"\n1 lossless: exit code 0; \d+(\.\d)? s, seed 0\n$", out)
    assert "] block: lossless\n" in err


def test_audit_json_has_every_field_of_the_contract(capsys):
    code, out, _ = run(
        capsys, "audit", "token", "--quick", "--draft-length", 2, "--format", "json", "--seed", 7
    )
    data = json.loads(out)
    assert code == 0
    assert data["schema_version"] == 3
    assert data["seed"] == 7
    assert data["tool_version"]
    (subject,) = data["subjects"]
    assert subject.keys() >= SUBJECT_FIELDS
    assert subject["verdict"] == "lossless"
    fields = {"name", "status", "how", "detail", "reason", "known", "again", "seconds"}
    assert all(check.keys() == fields for check in subject["checks"])


def test_audit_of_a_users_module_finds_the_defect_and_says_how_to_see_it(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "engine_of_a_user.py").write_text(LOSSY_SUBJECT)
    code, out, _ = run(
        capsys,
        *("audit", "engine_of_a_user:always_accepts", "--draft-length", 2, "--format", "json"),
        *("--check", "joint"),
    )
    assert code == 1
    (subject,) = json.loads(out)["subjects"]
    assert subject["verdict"] == "lossy"
    found = subject["counterexample"]
    assert found["expected"] != found["actual"]
    assert found["reproduce"].startswith("spec-oracle audit engine_of_a_user:always_accepts --instance ")
    again = found["reproduce"].split()[1:]
    assert run(capsys, *again)[0] == 1


def test_junit_markdown_and_html_are_well_formed(capsys, tmp_path):
    reports = [
        word for name in ("junit.xml", "report.md", "report.html") for word in ("--report", tmp_path / name)
    ]
    assert run(capsys, "audit", "block", "--quick", "--draft-length", 1, *reports)[0] == 0
    suite = ET.parse(tmp_path / "junit.xml").getroot().find("testsuite")
    assert suite.get("name") == "block"
    assert int(suite.get("tests")) == len(suite.findall("testcase"))
    assert "| block | lossless |" in (tmp_path / "report.md").read_text()
    assert "</html>" in (tmp_path / "report.html").read_text()


def test_efficiency_is_exact_on_the_worked_example(capsys, example):
    code, out, _ = run(
        capsys,
        "efficiency",
        example,
        "--exact",
        "--format",
        "json",
        "--verifier",
        "token",
        "--verifier",
        "block",
    )
    assert code == 0
    token, block = json.loads(out)
    assert token == {
        "file": str(example),
        "verifier": "token",
        "block_efficiency": "19/9",
        "total_variation": "0",
        "accepted_length": ["1/3", "2/9", "4/9"],
        "single_path_optimum": "20/9",
        "multi_path_optimum": "20/9",
        "block_transport_optimum": "7/3",
        "tree": None,
        "tree_optimum": None,
        "lossless": True,
    }
    assert block["block_efficiency"] == "20/9"


def test_efficiency_in_floats_gives_numbers(capsys, example):
    _, out, _ = run(capsys, "efficiency", example, "--format", "json", "--verifier", "block")
    (block,) = json.loads(out)
    assert block["block_efficiency"] == pytest.approx(20 / 9)
    assert block["total_variation"] == pytest.approx(0, abs=1e-12)


def test_efficiency_text_shows_share_and_headroom(capsys, example):
    _, out, _ = run(capsys, "efficiency", example, "--verifier", "token", "--verifier", "block")
    assert "95.00 %" in out
    assert "100.00 %" in out
    assert "first call" not in out
    _, out, _ = run(capsys, "efficiency", example, "--verifier", "token", "--verifier", "greedy_block")
    assert "\n\ngreedy_block: tokens per call and optimum are those of the first call of a completion" in out


def test_optimum_prints_values_and_checked_certificates(capsys, example):
    code, out, _ = run(capsys, "optimum", example, "--exact")
    assert code == 0
    assert "20/9" in out
    assert "7/3" in out


def test_random_instances_are_reproducible(capsys, tmp_path):
    texts = [run(capsys, "instance", "random", "--seed", 5, "--denominator", 8)[1] for _ in range(2)]
    assert texts[0] == texts[1]
    assert all("/" in number or number in "01" for number in json.loads(texts[0])["target"][""])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "nonsense"], "unknown 'nonsense'"),
        (["audit", "block", "--instance", "missing.json"], "missing.json: cannot be read"),
        (["efficiency", "missing.json"], "cannot be read"),
        (["efficiency"], "either instance files or --prompts"),
        (["efficiency", "{example}", "--verifier", "nope"], "verifier: unknown 'nope'"),
        (["instance", "random", "--agreement", "2"], "agreement"),
        (["audit", "block", "--exact", "--array", "torch"], "rationals need"),
    ],
)
def test_mistakes_are_one_line_and_exit_3(capsys, example, arguments, message):
    code, out, err = run(capsys, *[argument.format(example=example) for argument in arguments])
    assert code == 3
    assert out == ""
    last = err.strip().splitlines()[-1]
    assert message in last
    assert "Traceback" not in err


def test_a_wrong_name_is_found_before_anything_is_computed(capsys, example):
    _, out, err = run(capsys, "efficiency", example, "--verifier", "token", "--verifier", "blok")
    assert out == ""
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "--format", "pdf"],
        ["nonsense"],
        ["audit", "--alpha", "2"],
        ["audit", "--budget", "-1"],
        ["audit", "--vocab-size", "0"],
        ["optimum"],
        ["instance"],
    ],
)
def test_usage_errors_exit_3_not_2(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_a_command_alone_shows_the_help_and_is_no_success(capsys):
    code, out, err = run(capsys)
    assert (code, out) == (3, "")
    assert "spec-oracle audit my_module:verify" in err


def test_a_quick_audit_lists_skipped_checks_and_durations(capsys):
    code, out, err = run(capsys, "audit", "token", "--quick", "--draft-length", 1, "--durations", 2)
    assert code == 0
    assert "left out: shapes, calls, scale (not asked for)" in out
    assert re.search(r"slowest checks:\n( +\d+\.\d s  token: [a-z-]+\n){2}", err)


def test_an_own_rule_is_measured_where_built_in_ones_are(capsys, example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "import verifiers\n\n\ndef rule():\n    return verifiers.get('block')\n"
    (tmp_path / "my_rules.py").write_text(code)
    _, both, _ = run(
        capsys, "efficiency", example, "--verifier", "my_rules:rule", "--verifier", "block", "--format", "csv"
    )
    head, mine, block = both.splitlines()
    assert head.startswith("file,verifier,block_efficiency,total_variation,accepted_length_0,")
    assert mine.replace("my_rules:rule", "block") == block
    code, out, _ = run(capsys, "optimum", example, "--verifier", "my_rules:rule", "--format", "latex")
    assert code == 0
    assert "\\begin{tabular}" in out


def test_one_run_writes_several_reports_and_annotates_the_line_of_the_code(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "engine.py").write_text(LOSSY_SUBJECT)
    options = ("--check", "joint", "--draft-length", 1, "--no-config", "--budget", 2)
    files = ("--report", "report.html", "--report", "summary.md", "--report", "report.json")
    code, out, _ = run(capsys, "audit", "engine:always_accepts", *options, "--format", "github", *files)
    assert code == 1
    assert "::error file=engine.py,line=4,title=engine%3Aalways_accepts%3A lossy::joint: failed" in out
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "summary.md").read_text().startswith("# spec-oracle audit")
    (subject,) = json.loads((tmp_path / "report.json").read_text())["subjects"]
    assert subject["place"] == "engine.py:4"


def test_repeated_arguments_count_once(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lossy.py").write_text(LOSSY_SUBJECT)
    twice = [*["lossy:always_accepts"] * 2, *["--only", "batches=1,1", "--only", "layouts=sliced"] * 2]
    code, out, _ = run(capsys, "audit", *twice, "--check", "shapes", "--budget", 1, "--format", "json")
    assert code == 1
    assert len(json.loads(out)["subjects"]) == 1


def test_values_of_an_axis_may_be_given_one_by_one(capsys):
    only = ["--only", "vocabularies=2", "--only", "lengths=1,2", "--only", "vocabularies=3,2"]
    code, out, _ = run(capsys, "audit", "token", "--check", "shapes", "-v", *only, "--budget", 5)
    assert code == 0
    assert "the code takes only V 2, 3; no other was tried" in out
