"""A failed check saves small inputs, and the line that it prints shows the failure again."""

import json
import re
import shlex
import time
from dataclasses import asdict

import numpy as np
import pytest

from lab.specimens.registry import specimens
from spec_oracle.audit.context import Context, ShapeLimits
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.failing_inputs import PARTS
from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.reports import AuditReport
from spec_oracle.audit.results import UNTRIED, Status
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.run import audit_subject
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.saved_inputs import FailingInputs
from spec_oracle.audit.shapes.trees import Shape
from spec_oracle.audit.suite import result_of
from spec_oracle.audit.verdict import report_on
from spec_oracle.cli import main
from spec_oracle.contracts import SamplerCode
from spec_oracle.errors import InvalidInputError
from spec_oracle.report.audit_text import again_lines
from tests.strategies import at_night
from verifiers import EMPTY, ROOT, Drafts

ALPHA = 1e-6


def subject_of(name):
    """Return a specimen, or a control, as a subject."""
    found = specimens()[name]
    if found.rule is not None:
        return RuleSubject(name, found.rule)
    return SamplerSubject(name, SamplerCode(found.function, found.array), Facts())


def checked(name, check, folder):
    """Run one check of a specimen, and report on it, with what it saves."""
    subject, options = subject_of(name), AuditOptions(counterexamples=folder, alpha=ALPHA)
    result = result_of(check, subject, Context(rate=ALPHA, budget=60.0, shapes=ShapeLimits(most=40)))
    (found,) = report_on(subject, options, ALPHA, [result]).checks
    return subject, found


DEFECTS = {
    "residual-in-callers-memory": ("inputs-kept", "it was [0-9.]+ at .*, and is [-0-9.]+ after it"),
    "chain-zeroed-target-rows": ("inputs-kept", "target_probs changed during the call"),
    "tree-residual-in-callers-memory": ("inputs-kept", "changed during the call: it was"),
    "tree-rows-of-the-request-before": ("batch", "with the same uniforms, request . of a batch of . gets"),
    "fresh-entropy": ("streams", "on the same seed, request 0 emits tokens"),
    "fixed-seed": ("streams", "of them are completion .* and then completion .*, .* expected"),
    "zero-uniform-accepts": ("bad-input", "request 0 emitted token . at position ., although"),
    "chain-chances-above-zero": ("bad-input", "request 0 emitted token . at position ., although"),
    "one-uniform-vector-for-the-batch": (
        "batch",
        "request . depends on request . of its call: their tokens are equal too often",
    ),
    "one-greedy-request-makes-all-greedy": ("batch", "emits tokens .* in .*% of 600 calls alone, and in"),
    "chain-rows-of-the-neighbour": ("batch", "with the same uniforms, request . of a batch of . gets"),
    "chain-residual-of-32-tokens": ("shapes", "token .* is emitted with probability"),
    "shape-bonus-of-float32": ("shapes", "token .* is emitted with probability"),
    "shape-fifth-token-forgotten": ("shapes", "token .* is emitted with probability"),
    "chain-greedy-block-without-carry": ("calls", "is emitted with probability .*, .* expected"),
    "last-tile-lost": ("scale", "request [0-9]+ emitted token"),
    "generator-not-advanced": ("calls", "of them are completion .* and then completion .*, .* expected"),
}

OF_NIGHT = ("shape-bonus-of-float32", "shape-fifth-token-forgotten", "chain-greedy-block-without-carry")
"""Defects that take longest; the same checks fail with others by day."""


@pytest.mark.usefixtures("full_effort")
@pytest.mark.parametrize(
    ("name", "check", "says"),
    [
        *((name, *found) for name, found in DEFECTS.items() if name not in OF_NIGHT),
        *at_night(*((name, *DEFECTS[name]) for name in OF_NIGHT)),
    ],
)
def test_the_saved_inputs_of_a_failed_check_show_it_again(name, check, says, tmp_path):
    subject, result = checked(name, check, tmp_path)
    assert result.status is Status.FAILED
    assert re.search(says, f"{result.detail}\n{result.shown.inputs.says}")
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size < 50_000
    assert again_lines(result)[-1] == f"reproduce: spec-oracle audit {name} --instance {file}"

    report = audit_subject(subject, AuditOptions(again=FailingInputs.load(file, PARTS)), ALPHA)
    tried = {one.name: one for one in report.checks if one.status not in UNTRIED}
    assert [*tried] == [check]
    assert tried[check].status is Status.FAILED
    assert AuditReport((report,), 0, ALPHA).exit_code == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_a_large_vocabulary_has_its_seconds_whenever_it_is_tried_again(tmp_path, monkeypatch):
    """A moment of the process in which it failed says nothing in another one."""
    subject, found = checked("chain-ids-of-eight-bits", "scale", tmp_path)
    for clock in (time.process_time, time.monotonic):
        monkeypatch.setattr(time, clock.__name__, lambda clock=clock: clock() + 1000)
    assert result_of("scale", subject, Context(again=found.shown.inputs)).status is Status.FAILED


@pytest.mark.parametrize("sizes", [(None, None), (2, 1)])
def test_saved_trees_are_as_deep_and_wide_as_they_were(sizes, tmp_path):
    rows = np.full((2, 4, 3), 1 / 3)
    drafts = Drafts.of_tree(np.array([[0, 1, 2]] * 2), np.array([[ROOT, 0, EMPTY]] * 2), rows, rows, *sizes)
    inputs = {"drafts": drafts, "seed": 0}
    FailingInputs("streams", "one_call", inputs, 0.1, "").save(tmp_path / "saved.json")
    found = FailingInputs.load(tmp_path / "saved.json", PARTS).inputs["drafts"]
    assert (found.depth, found.fan_out) == (drafts.depth, drafts.fan_out)
    assert np.array_equal(found.parents, drafts.parents)


@pytest.mark.parametrize("check", ["streams", "bad-input", "inputs-kept"])
def test_right_code_saves_no_inputs(check, tmp_path):
    _, result = checked("inverse-cdf", check, tmp_path)
    assert result.status is Status.PASSED
    assert result.shown.inputs is None
    assert not again_lines(result)
    assert not list(tmp_path.iterdir())


WRITES = """
import numpy as np

def verify(tokens, draft_probs, target_probs, generator):
    batch, length = tokens.shape
    first = [generator.choice(len(row), p=row) for row in target_probs[:, 0]]
    emitted = np.full((batch, length + 1), -1)
    emitted[:, 0] = first
    target_probs[:, 0] *= SCALE
    return emitted, np.zeros(batch, dtype=int)
"""


def test_the_printed_line_runs_and_ends_with_0_once_the_code_is_mended(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = tmp_path / "writes_to_its_input.py"
    code.write_text(WRITES.replace("SCALE", "2.0"), encoding="utf-8")
    name, command = "writes_to_its_input:verify", ["--quick", "--seed", "3", "--format", "json"]
    assert main(["audit", name, *command]) == 2
    (subject,) = json.loads(capsys.readouterr().out)["subjects"]
    found = next(check["again"] for check in subject["checks"] if check["name"] == "inputs-kept")
    assert found["says"].startswith("target_probs changed during the call")
    assert found["size"] == "1 request, 3 tokens, draft length 1"

    words = shlex.split(found["reproduce"])
    assert words[:4] == ["spec-oracle", "audit", name, "--instance"]
    assert main(words[1:]) == 1
    assert found["says"] in capsys.readouterr().out
    code.write_text(WRITES.replace("SCALE", "1.00"), encoding="utf-8")  # of the same size bytecode may stay
    assert main(words[1:]) == 0


def test_a_file_that_is_damaged_is_named(tmp_path, capsys):
    file = tmp_path / "saved.json"
    file.write_text('{"part": "one_cal"}', encoding="utf-8")
    with pytest.raises(InvalidInputError, match="saved.json: .*did you mean .*one_call"):
        FailingInputs.load(file, PARTS)
    file.write_text('{"part": "one_call", "inputs": {}}', encoding="utf-8")
    assert main(["audit", "token", "--instance", str(file)]) == 3
    assert "saved.json: no inputs of a failed check" in capsys.readouterr().err
    for rate in ("NaN", "-1", "10", "true"):
        kept = f'"check": "streams", "inputs": {{}}, "says": "", "rate": {rate}'
        file.write_text(f'{{"part": "one_call", {kept}}}', encoding="utf-8")
        with pytest.raises(InvalidInputError, match="saved.json: .*rate: expected a number in"):
            FailingInputs.load(file, PARTS)


def test_inputs_of_another_version_are_named(tmp_path):
    """`scale` of rules once saved until when it might run, too."""
    file = tmp_path / "saved.json"
    inputs = {"shape": asdict(Shape(3, 1)), "seed": 0, "seconds": 1.0}
    FailingInputs("scale", "enumerated_shape", inputs, 1e-9, "").save(file)
    assert FailingInputs.load(file, PARTS).inputs["seconds"] == 1.0
    FailingInputs("scale", "enumerated_shape", {**inputs, "end": 3.5}, 1e-9, "").save(file)
    with pytest.raises(InvalidInputError, match="saved.json: no inputs of a failed check: .*'end'"):
        FailingInputs.load(file, PARTS)


def test_a_shape_of_a_kind_that_is_no_longer_tried_is_named(tmp_path):
    file = tmp_path / "saved.json"
    shape = '{"vocab_size": 3, "draft_length": 1, "kind": "spread"}'
    kept = f'"check": "shapes", "says": "", "rate": 0.1, "inputs": {{"shape": {shape}, "seed": 0}}'
    file.write_text(f'{{"part": "traced_shape", {kept}}}', encoding="utf-8")
    with pytest.raises(
        InvalidInputError, match=r"saved.json: .*kind 'spread' of their rows is no longer tried"
    ):
        FailingInputs.load(file, PARTS)
