"""``spec-oracle acceptance``: a log is judged by what its rule accepts of the same drafts."""

import json
from pathlib import Path

import pytest

from spec_oracle.cli import main
from tests.spec_oracle.acceptance.logs import lines
from tests.spec_oracle.test_plain_words import require_plain


@pytest.fixture
def log(tmp_path):
    """Return what writes a log of an engine, and returns its path."""

    def write(count=400, **how):
        path = tmp_path / "calls.jsonl"
        path.write_text("\n".join(lines(count, **how)) + "\n", encoding="utf-8")
        return str(path)

    return write


def run(capsys, *arguments):
    code = main(["acceptance", *arguments])
    out = capsys.readouterr().out
    if "json" not in arguments:
        require_plain(out)
    return code, out


def test_a_right_engine_passes_and_every_rule_is_compared(log, capsys):
    code, out = run(capsys, log(), "--format", "text")
    assert code == 0
    assert "the counts agree with token; acceptance probabilities" in out
    assert "would be detected (power 0.999)" in out
    fits = {words[0]: words[-1] for line in out.splitlines() if (words := line.split())}
    rules = ("token", "block", "sample_and_match", "greedy", "typical")
    assert [fits[rule] for rule in rules] == ["yes", "no", "no", "no", "no"]
    assert "draft acceptance rate" in out


def test_an_engine_that_accepts_nothing_has_no_factor_of_its_own(log, capsys):
    """The smallest factor that is fitted is not the one by which it accepts (jundot/omlx#3370)."""
    path = Path(log(count=1500, seed=1))
    calls = [json.loads(line) | {"accepted": 0} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(call) + "\n" for call in calls))
    code, out = run(capsys, str(path))
    assert code == 1
    assert "1,500 calls" in out
    assert "is accepted at most 0.018 times as often as by token" in out


def test_3_percent_too_few_fail_without_and_pass_with_a_gate_that_allows_them(log, capsys):
    path = log(count=1500, seed=1, factor=0.97)
    code, out = run(capsys, path)
    assert code == 1
    assert "times as often as by token, less than it should be" in out
    assert "accepts this many with probability 0" in out
    assert "they fit none of the rules below" in out
    code, out = run(capsys, path, "--at-least", "0.85")
    assert (code, "passes: at least 85.0 % of the expected tokens" in out) == (0, True)
    code, out = run(capsys, path, "--at-least", "0.95")
    assert (code, "too few calls to know whether at least 95.0 %" in out) == (2, True)


def test_drafts_that_all_count_as_accepted_are_a_share_without_an_upper_end(log, capsys, tmp_path):
    calls = [json.loads(line) for line in Path(log()).read_text(encoding="utf-8").splitlines()]
    scaled = [
        {**call, "accepted": len(call["drafted"]), "p": [0.1 * one for one in call["q"]]} for call in calls
    ]
    path = tmp_path / "all.jsonl"
    path.write_text("".join(json.dumps(call) + "\n" for call in scaled), encoding="utf-8")
    code, out = run(capsys, str(path))
    assert (code, "interval: 200.0 % or more)" in out) == (1, True)


def test_half_of_the_tokens_fail_the_gate(log, capsys):
    code, out = run(capsys, log(factor=0.5), "--at-least", "0.95", "--format", "markdown")
    assert code == 1
    assert out.startswith("# spec-oracle acceptance\n")
    assert "fails: at least 95.0 % of the expected tokens were required" in out


def test_the_rule_that_fits_better_is_named(log, capsys):
    path = log(rule="block")
    code, out = run(capsys, path)
    assert (code, "they fit: block" in out) == (1, True)
    assert run(capsys, path, "--rule", "block")[0] == 0


def test_a_few_calls_are_inconclusive(log, capsys):
    code, out = run(capsys, log(count=5))
    assert code == 2
    assert "10.0 % lower might go unnoticed; log more calls, or raise --detect" in out


def test_reported_figures_are_compared_with_the_log(log, capsys):
    code, out = run(capsys, log(), "--reported", "length=9.99,calls=400")
    assert code == 1
    assert "--reported length=9.99 contradicts the log, which has" in out
    assert "--reported calls=400 agrees with the log" in out


def test_without_rows_rules_of_p_and_q_remain(log, capsys, tmp_path):
    path = tmp_path / "short.jsonl"
    found = map(json.loads, Path(log()).read_text(encoding="utf-8").splitlines())
    kept = ("drafted", "accepted", "p", "q")
    path.write_text("\n".join(json.dumps({name: call[name] for name in kept}) for call in found))
    code, out = run(capsys, str(path), "--format", "json")
    data = json.loads(out)
    assert (code, [one["rule"] for one in data["rules"]]) == (0, ["token", "sample_and_match"])
    assert data["missing"] == {"block": ["surplus"], "greedy": ["largest"], "typical": ["entropy"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.jsonl"], "LOG: [Errno 2] No such file"),
        (["LOG", "--rule", "tokens"], "--rule: "),
        (["LOG", "--at-least", "95"], "--at-least: "),
        (["LOG", "--reported", "lengths=2"], "unknown name 'lengths'; did you mean 'length'?"),
    ],
)
def test_mistakes_are_one_line_each(arguments, message, log, capsys):
    try:
        code = main(["acceptance", *(log(count=2) if word == "LOG" else word for word in arguments)])
    except SystemExit as error:
        code = error.code
    assert code == 3
    assert message in capsys.readouterr().err
