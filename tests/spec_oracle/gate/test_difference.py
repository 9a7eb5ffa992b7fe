"""Two reports of audits: what changed, and whether anything got worse."""

import copy
import json
import math

import pytest

from spec_oracle.audit import AuditOptions, audit
from spec_oracle.cli import main
from spec_oracle.errors import InvalidInputError
from spec_oracle.gate.baseline import Effect
from spec_oracle.gate.difference import difference
from spec_oracle.report import AUDIT_FORMATS


@pytest.fixture(scope="module")
def before():
    """Return the JSON of the audit of two right rules."""
    options = AuditOptions(vocab_size=2, draft_length=2, checks=("inputs-kept",))
    return json.loads(AUDIT_FORMATS["json"](audit("token", "block", options=options)))


@pytest.fixture
def changes(before, tmp_path):
    def compared(change):
        later = copy.deepcopy(before)
        change(later["subjects"])
        for name, data in (("old.json", before), ("new.json", later)):
            (tmp_path / name).write_text(json.dumps(data))
        return difference(tmp_path / "old.json", tmp_path / "new.json")

    return compared


def check(subject, name):
    return next(one for one in subject["checks"] if one["name"] == name)


def lossy(subjects):
    subjects[0]["verdict"] = "lossy"
    check(subjects[0], "joint").update(status="failed", detail="total variation 0.1")


def slower(subjects):
    subjects[1]["instances"][1]["block_efficiency"] -= 0.1


def faster(subjects):
    subjects[1]["instances"][1]["block_efficiency"] += 0.1


def test_reports_that_say_the_same_differ_in_nothing(changes):
    found = changes(lambda subjects: subjects.reverse())
    assert found.changes == ()
    assert found.exit_code == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lossy, [("token", "verdict", "worse"), ("token", "joint", "worse")]),
        (slower, [("block", "tokens per call", "worse")]),
        (faster, [("block", "tokens per call", "better")]),
        (lambda s: s.pop(), [("block", "subject", "worse")]),
        (lambda s: s.append({**s[0], "subject": "new"}), [("new", "subject", "unclear")]),
        (
            lambda s: s.append({**s[0], "subject": "new", "verdict": "inconclusive"}),
            [("new", "subject", "worse")],
        ),
        (lambda s: s[0].update(evidence="statistical"), [("token", "evidence", "worse")]),
        (lambda s: s[0].update(rule="token"), [("token", "rule", "unclear")]),
        (lambda s: s[0]["checks"].remove(check(s[0], "joint")), [("token", "joint", "worse")]),
        (lambda s: check(s[0], "inputs-kept").update(status="skipped"), [("token", "inputs-kept", "worse")]),
        (lambda s: check(s[0], "scale").update(status="passed"), [("token", "scale", "better")]),
        (lambda s: check(s[0], "scale").update(status="not-run"), [("token", "scale", "worse")]),
        (lambda s: s[0]["instances"].pop(), [("token", "tokens per call", "unclear")]),
    ],
)
def test_every_change_is_listed_and_weighed(changes, change, told):
    found = changes(change)
    assert [(one.subject, one.what, one.effect) for one in found.changes] == told
    assert found.exit_code == any(effect == "worse" for _, _, effect in told)


def test_a_failure_on_record_is_worse_than_a_pass_and_better_than_one_that_is_not(changes):
    def known(subjects):
        check(subjects[0], "inputs-kept").update(status="failed", detail="changed", known="issue 3")

    (found,) = changes(known).changes
    assert (found.before, found.after, found.effect) == (
        "passed",
        "failed as expected: changed",
        Effect.WORSE,
    )


def test_the_command_lists_the_worst_change_first(changes, tmp_path, capsys):
    changes(lambda subjects: (slower(subjects), subjects[0].update(rule="token")))
    files = [str(tmp_path / "old.json"), str(tmp_path / "new.json")]
    assert main(["diff", *files]) == 1
    text = capsys.readouterr().out
    assert text.splitlines()[2].split()[:5] == ["block", "tokens", "per", "call", "worse"]
    assert "most on 'good-draft'" in text
    assert f"1 worse, 1 unclear: {files[0]} to {files[1]}" in text
    assert main(["diff", *files, "--format", "markdown"]) == 1
    assert "| block | tokens per call | worse | " in capsys.readouterr().out
    assert main(["diff", *files, "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["changes"][1]["effect"] == "worse"
    assert main(["diff", files[0], files[0]]) == 0
    assert capsys.readouterr().out.startswith("nothing changed: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "bad.json: schema_version: expected 3, got None"),
        ('{"schema_version": 3}', "bad.json: a value is missing or wrong (KeyError: 'subjects')"),
        ('{"schema_version": 1,\n"subjects": []}', "bad.json: schema_version: expected"),
        (
            '{"schema_version": 3,\n"subjects": [{}]}',
            "bad.json: a value is missing or wrong (KeyError: 'subject'",
        ),
    ],
)
def test_files_that_are_no_reports_are_refused(tmp_path, capsys, text, message):
    (tmp_path / "bad.json").write_text(text)
    assert main(["diff", str(tmp_path / "bad.json"), str(tmp_path / "bad.json")]) == 3
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: s[0].update(verdict="fine"),
            "a value is missing or wrong (ValueError: 'fine' is not a valid",
        ),
        (lambda s: s[1].update(subject="token"), "two subjects have one name"),
        (lambda s: s[0].pop("rule"), "a value is missing or wrong (KeyError: 'rule'"),
        (
            lambda s: s[0]["checks"][0].update(status="fine"),
            "a value is missing or wrong (ValueError: 'fine' is not a valid",
        ),
        (
            lambda s: s[0]["instances"][0].update(block_efficiency=math.nan),
            "(ValueError: block_efficiency: expected a number from 0",
        ),
        (lambda s: s[0]["instances"][0].update(block_efficiency="2"), "(TypeError: "),
        (
            lambda s: s[0].update(smallest_detectable_tv=math.nan),
            "(ValueError: smallest_detectable_tv: expected a number from 0 to 1, got nan",
        ),
    ],
)
def test_impossible_values_in_reports_are_refused(changes, tmp_path, change, message):
    with pytest.raises(InvalidInputError) as caught:
        changes(change)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'new.json'}: ")
