"""Every format is what its readers parse: JSON by its schema, JUnit as xunit2, workflow commands."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from lab.claims import GROUPS, decide
from lab.claims import report as claims
from lab.design.__main__ import main as design_main
from lab.kill_matrix import report as specimens
from lab.kill_matrix.matrix import kill_matrix
from lab.specimens.registry import specimens as registered
from spec_oracle.audit import AuditOptions, CheckResult, Evidence, How, Status, SubjectVerdict, audit
from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.reports import SCHEMA_VERSION
from spec_oracle.audit.results import UNTRIED, passed
from spec_oracle.cli import main
from spec_oracle.gate.baseline import Effect, update_baseline
from spec_oracle.gate.difference import difference
from spec_oracle.language_models.efficiency import PairEfficiency, prompt_efficiencies
from spec_oracle.report import AUDIT_FORMATS
from spec_oracle.report import difference as difference_report
from spec_oracle.report.audit_text import audit_to_text, open_lines
from spec_oracle.report.efficiency import PAIR_FORMATS
from spec_oracle.toy import Instance
from tests.spec_oracle.report.conftest import AWKWARD

HERE = Path(__file__).parent
SCHEMAS = {
    file.stem: json.loads(file.read_text())
    for file in (HERE.parents[2] / "docs/reference/schema").glob("*.json")
}
TOY = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)


@pytest.fixture(scope="module")
def matrix():
    """Return the kill matrix of a verifier, which is enumerated: no check draws."""
    return kill_matrix([registered()["chain-always-accept"]])


def validate(name, text):
    """Check JSON text by a published schema; every object of ours names all of its fields."""
    data = json.loads(text)
    jsonschema.validate(data, SCHEMAS[name], jsonschema.Draft202012Validator)
    return data


def test_the_schemas_are_schemas_and_are_all_tried():
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    used = set(re.findall(r'validate\("([a-z-]+)"', Path(__file__).read_text()))
    assert SCHEMAS.keys() == used


def test_the_words_of_the_schemas_are_those_of_the_code():
    audit_schema = SCHEMAS["audit"]["properties"]
    subject = audit_schema["subjects"]["items"]["properties"]
    check = subject["checks"]["items"]["properties"]
    assert audit_schema["schema_version"]["const"] == SCHEMA_VERSION
    for words, kind in (
        (check["how"], How),
        (subject["verdict"], SubjectVerdict),
        (subject["evidence"], Evidence),
        (check["status"], Status),
        (SCHEMAS["diff"]["properties"]["changes"]["items"]["properties"]["effect"], Effect),
    ):
        assert words["enum"] == [member.value for member in kind]


def test_acceptance_follows_its_schema(tmp_path, capsys):
    log = tmp_path / "calls.jsonl"
    call = {"drafted": [1, 2], "accepted": 1, "p": [0.5, 0.2], "q": [0.25, 0.5]}
    log.write_text(json.dumps(call))
    assert main(["acceptance", str(log), "--format", "json"]) == 2
    data = validate("acceptance", capsys.readouterr().out)
    assert data["reported_interval"] == [None, None]


def test_audits_differences_and_baselines_follow_their_schemas(report, tmp_path):
    data = validate("audit", AUDIT_FORMATS["json"](report))
    assert [check["status"] for check in data["subjects"][3]["checks"]][1:] == [
        *("failed", "passed", "inconclusive", "not-run")
    ]
    (tmp_path / "old.json").write_text(json.dumps(data))
    data["subjects"].pop()
    (tmp_path / "new.json").write_text(json.dumps(data))
    found = difference(tmp_path / "old.json", tmp_path / "new.json")
    assert validate("diff", difference_report.FORMATS["json"](found))["exit_code"] == 1
    update_baseline(tmp_path / "kept.json", report)
    assert validate("baseline", (tmp_path / "kept.json").read_text())["subjects"].keys() == {"token", "block"}


def test_an_audit_in_rationals_follows_the_schema_too():
    options = AuditOptions(vocab_size=2, draft_length=1, exact=True, checks=())
    validate("audit", AUDIT_FORMATS["json"](audit("token", options=options)))


@pytest.mark.parametrize("exact", [[], ["--exact"]])
def test_efficiency_optima_and_instances_follow_their_schemas(tmp_path, capsys, exact):
    file = tmp_path / "toy.json"
    TOY.save(file)
    validate("instance", file.read_text())
    arguments = [str(file), "--format", "json", *exact]
    assert main(["efficiency", "--verifier", "token", *arguments]) == 0
    validate("efficiency", capsys.readouterr().out)
    assert main(["optimum", *arguments]) == 0
    validate("optimum", capsys.readouterr().out)
    assert design_main([*arguments[:3], "--budget", "2"]) == 0
    validate("design", capsys.readouterr().out)


def test_prompts_claims_and_specimens_follow_their_schemas(matrix):
    rows = prompt_efficiencies("a prompt", TOY, ["token"], optimum=True)
    validate("efficiency-prompts", PAIR_FORMATS["json"](PairEfficiency("a pair", tuple(rows))))
    heading, questions = next(iter(GROUPS.items()))
    validate("claims", claims.FORMATS["json"]({heading: [decide(questions[0])]}))
    assert validate("specimens", specimens.FORMATS["json"](matrix))["exit_code"] == 0


def test_fields_unknown_to_the_schemas_are_refused(report):
    data = json.loads(AUDIT_FORMATS["json"](report))
    for spoil in (
        lambda d: d.update(extra=1),
        lambda d: d["subjects"][0].pop("scope"),
        lambda d: d["subjects"][0].update(verdict="fine"),
        lambda d: d["subjects"][2]["counterexample"].update(expected="1,3"),
    ):
        spoilt = json.loads(json.dumps(data))
        spoil(spoilt)
        with pytest.raises(jsonschema.ValidationError):
            validate("audit", json.dumps(spoilt))


def test_junit_is_xunit2_and_as_red_as_the_exit_code(report):
    import xmlschema  # takes more than a second: for the process that runs this test

    text = AUDIT_FORMATS["junit"](report)
    xmlschema.validate(text, HERE / "xunit2.xsd")
    root = ET.fromstring(text)
    suites = {suite.get("name"): suite for suite in root}
    awkward = next(suite for name, suite in suites.items() if name.startswith("odd"))
    assert [case[0].tag for case in awkward.iter("testcase")] == [
        *("system-out", "skipped", "failure", "error", "error")
    ]
    assert {name: awkward.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "2",
        "skipped": "1",
    }
    assert "smallest counterexample" in suites["lossy"].find("testcase/failure").text
    assert root.get("tests") == str(sum(len(subject.checks) for subject in report.subjects))
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        xmlschema.validate(text.replace("<testcase", '<testcase verdict="x"', 1), HERE / "xunit2.xsd")


def test_annotations_are_one_line_each_and_escaped(report):
    lines = [line for line in AUDIT_FORMATS["github"](report).splitlines() if line.startswith("::")]
    errors = [line for line in lines if line.startswith("::error ")]
    assert any("title=lossy%3A lossy::joint: failed" in line for line in errors)
    assert any("%0Areproduce: spec-oracle audit lossy" in line for line in errors)
    assert any(line.startswith("::warning ") and "issue 7, 100 %25 sure" in line for line in lines)
    assert any("title=nowhere%3Af::has no 'f'" in line for line in errors)
    assert not any("title=token%3A" in line for line in lines)


def test_pages_need_no_network_and_no_script_and_escape_all_text(report, matrix):
    for text in (AUDIT_FORMATS["html"](report), specimens.FORMATS["html"](matrix)):
        assert not re.search(r"<script|<link(?! rel=\"icon\" href=\"data:)|@import|url\(| src=", text)
        assert "prefers-color-scheme: dark" in text
        assert 'name="viewport"' in text
        body = text.partition("<body>")[2].partition("</body>")[0].replace("<br>", "")
        ET.fromstring(f"<body>{body}</body>")  # tags match, and everything is escaped
    assert "<at>" not in AUDIT_FORMATS["html"](report)
    assert '<td class="failed"' in text


def test_the_page_draws_the_laws_and_the_counterexample(report):
    body = ET.fromstring(
        f"<b>{AUDIT_FORMATS['html'](report).partition('<body>')[2][:-16].replace('<br>', '')}</b>"
    )
    (checks,) = body.findall("./div[@class='matrix']")
    rows = [row.find("th").text for row in checks.iter("tr")]
    assert rows[1:4] == ["token", "block", "lossy"]
    columns = {head.text for head in next(checks.iter("tr"))} - {"subject"}
    ran = {
        check.name for subject in report.subjects for check in subject.checks if check.status not in UNTRIED
    }
    assert columns == ran < {*CHECKS}
    sections = {
        section.find("h2").findtext("span").strip() + section.find("h2")[0].tail: section
        for section in body.iter("section")
    }
    token, ruled, lossy = (
        next(s for t, s in sections.items() if f" {name}: " in t) for name in ("token", "block", "lossy")
    )
    (covered,) = (part for part in body.iter() if part.get("class") == "coverage")
    assert covered in list(ruled.iter())
    assert [(s.get("class"), s.text) for s in covered.iter("span")] == [
        ("proven", "✓ float64"),
        ("untried", "– bfloat16 & <more>"),
    ]
    assert len(list(token.iter("svg"))) == len(report.subjects[0].figures)
    mark = "line[@stroke='currentColor']"
    assert not token.findall(f".//{mark}")
    assert ruled.findall(f".//{mark}")
    (tree,) = (svg for svg in lossy.iter("svg") if svg.get("aria-label").startswith("tree of emitted tokens"))
    masses = [text.text for text in tree.iter("text")]
    found = report.subjects[2].counterexample
    assert masses[1] == "1"
    assert f"{found.gap.expected} → {found.gap.actual}" in masses
    assert [bar.get("style") for bar in body.iter("i")][:2] == ["width: 1.2%", "width: 0.0%"]
    headings = [heading.text for heading in lossy.iter("h3") if heading.text]
    assert headings[:2] == ["What to do next", "Counterexample"]
    steps = ["".join(item.itertext()) for item in lossy.iter("li")]
    assert len([step for step in steps if "spec-oracle explain joint" in step]) == 1


def test_the_text_begins_with_open_checks_and_repeats_nothing(report):
    text = AUDIT_FORMATS["text"](report)
    *sections, table, closing = text.removesuffix("\n").split("\n\n")
    assert len(table.splitlines()) == 2 + len(report.subjects)
    titles = [section.partition("\n")[0] for section in sections]
    lossy, awkward, _, nowhere = sections
    assert titles == [
        "lossy: lossy (proven)",
        f"{AWKWARD}: inconclusive: scale not decided; calls not run; inputs-kept passes now",
        "relaxed: declared-lossy, but joint failed",
        "nowhere:f: inconclusive: it could not be audited",
    ]
    assert lossy.splitlines()[1].startswith("  ✗ joint  total variation")
    assert re.search(r"\n  – left out: .*\(not asked for\)", lossy)
    assert "plain-law" not in text
    assert re.search(r"\n  ! bad-input +failed +NaN .* \(expected: issue 7, 100 % sure\)", awkward)
    assert re.search(r"\n  ! inputs-kept .*passes now; it is on record \(issue 8\): remove it", awkward)
    assert re.search(r"\n  \? calls +not run: takes 10 requests, at 0 a second\n", awkward)
    assert nowhere.splitlines()[1:] == ["  has no 'f'"]
    assert re.fullmatch(
        r"2 lossless, 1 lossy, 2 inconclusive, 1 declared-lossy, \d checks? failed \(joint\), "
        r"1 check not decided \(scale\), 1 check not run \(calls\), "
        r"1 check no longer failing \(inputs-kept\), 1 not audited: exit code 1; \d+(\.\d)? s, seed 0",
        closing,
    )


def test_the_reason_why_a_subject_could_not_be_audited_is_one_line(report):
    nowhere = report.subjects[-1]
    checks = tuple(CheckResult(name, Status.NOT_RUN, nowhere.error) for name in ("joint", "shapes"))
    text = audit_to_text(replace(report, subjects=(replace(nowhere, checks=checks),)))
    assert text.count(nowhere.error) == 1


def test_checks_skipped_after_joint_are_one_line_and_statistics_need_v(report):
    joint = CheckResult("joint", Status.FAILED, "total variation 0.1 on 'peaked'", how=How.PROVEN)
    others = [CheckResult(name, Status.SKIPPED, "joint failed") for name in ("shapes", "length", "scale")]
    detail = "nothing was written; 4 calls"
    kept = replace(passed(detail, how=How.SAMPLED, alpha=1e-7, draws=4, scope=("V 3",)), name="inputs-kept")
    one = replace(report, subjects=(replace(report.subjects[2], checks=(joint, *others, kept)),))
    text, verbose = (audit_to_text(one, verbose=verbose) for verbose in (False, True))
    assert "\n  – not run, since joint failed: shapes, length, scale\n" in text
    assert "\n  ✓ passed: inputs-kept (sampled)\n" in text
    assert re.search(r"nothing was written; 4 calls\n +V 3\n +false-alarm rate 1e-07, 4 samples", verbose)
    assert "chance of any false alarm" in verbose
    assert "chance of any false alarm" not in text


def test_one_obstacle_of_several_checks_is_one_line(report):
    gone = "http://here stopped answering"
    checks = [CheckResult(name, Status.INCONCLUSIVE, gone) for name in ("shapes", "streams", "batch")]
    sampled = CheckResult("joint", Status.INCONCLUSIVE, "25 samples are as expected", how=How.SAMPLED)
    assert open_lines(replace(report.subjects[0], checks=(sampled, *checks))) == [
        "? joint    not decided: 25 samples are as expected",
        f"? shapes, streams, batch  not decided: {gone}",
    ]


def test_a_page_folds_remarks_and_shows_counterexamples(report):
    page = AUDIT_FORMATS["markdown"](report)
    assert "<details><summary>token: lossless; total variation at most" in page
    assert "## lossy: lossy (proven)\n\n```\n✗ joint  total variation" in page
    assert "\n    reproduce: spec-oracle audit lossy" in page
    assert max(len(line) for line in page.splitlines() if line.startswith("| ")) < 200
    assert "NaN &amp; infinity &lt;at&gt;" in page
