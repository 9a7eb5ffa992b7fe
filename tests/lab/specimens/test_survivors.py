"""Specimens that survive: a record of why, a page that lists them, and audits that bear the record out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lab.kill_matrix.columns import COLUMNS, subject_of
from lab.kill_matrix.matrix import KillMatrix, MatrixRow
from lab.kill_matrix.report import FORMATS, summary
from lab.specimens.__main__ import main
from lab.specimens.registry import specimens, survivors
from lab.specimens.surviving import counting, tilted_by_a_rounding
from lab.specimens.survivors_page import BEGIN, END, filled
from spec_oracle.audit import AuditOptions, audit
from spec_oracle.audit.context import COUNTED
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.shapes.axes import BATCHES, LENGTHS, VOCABULARIES
from spec_oracle.cli import command_parser
from spec_oracle.errors import InvalidInputError

PAGE = Path(__file__).parents[3] / "docs/how-it-works/what-it-does-not-see.md"
LONG_PROMPT = "prompts-of-sixteen-tokens"


def options_of(name):
    """Return the options of an audit that find a survivor."""
    words = survivors()[name].found_with.split()
    given = vars(command_parser().parse_args(["audit", "my_module:verify", *words]))
    found = {"prompts": tuple(given["prompts"] or ()), "dtypes": tuple(given["dtypes"] or COUNTED)}
    return found | dict(given["only"] or ())


def test_the_page_has_the_table_that_the_command_writes():
    page = PAGE.read_text("utf-8")
    assert page == filled(page)
    assert all(f"`{name}`" in page for name in survivors())


def test_the_page_names_the_sizes_that_are_tried():
    page = PAGE.read_text("utf-8")
    sizes = (
        f"{len(VOCABULARIES)} vocabularies from {min(VOCABULARIES)} to {max(VOCABULARIES):,}",
        f"{len(LENGTHS)} draft lengths from {min(LENGTHS)} to {max(LENGTHS)}",
        f"{len(BATCHES)} batch sizes from {min(BATCHES)} to {max(BATCHES):,}",
    )
    assert not [size for size in sizes if size not in page]


def test_the_command_writes_the_table_and_keeps_the_rest(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"Before.\n\n{BEGIN}an old table\n{END}\nAfter.\n", "utf-8")
    assert main(["--survivors", "--output", str(page)]) == 0
    text = page.read_text("utf-8")
    assert text.startswith("Before.\n\n<!-- survivors")
    assert text.endswith("\nAfter.\n")
    assert "old" not in text
    assert all(f"| `{name}` | {one.defect} | {one.survives} |" in text for name, one in survivors().items())


def test_a_page_without_a_place_for_the_table_is_refused(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("No table.\n", "utf-8")
    assert main(["--survivors", "--output", str(page)]) == 3
    assert "--output: the page has no lines '<!-- survivors" in capsys.readouterr().err
    assert page.read_text("utf-8") == "No table.\n"


def test_the_table_takes_no_names(capsys):
    assert main(["system", "--survivors"]) == 3
    assert "--survivors takes no names" in capsys.readouterr().err


def test_survivors_are_no_specimens_that_must_be_found():
    assert survivors()
    assert not survivors().keys() & {*specimens(), *specimens(num_paths=2)}
    assert not any(one.is_control or one.detected_by for one in survivors().values())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"detected_by": ("joint",)}, "survives: .* it is detected by joint"),
        ({"catalogue_id": "A2"}, "survives: .* A2 is of a public report and must be found"),
        ({"survives": "", "catalogue_id": "control"}, "found_with: .* only a defect that survives"),
        ({"catalogue_id": "control"}, "detected_by: .* it is control"),
    ],
)
def test_records_that_do_not_fit_are_refused(wrong, message):
    with pytest.raises(InvalidInputError, match=message):
        replace(survivors()[LONG_PROMPT], **wrong)


def test_the_matrix_lists_survivors_apart_and_does_not_fail_for_them():
    passed = {column: CheckResult(column, Status.PASSED, "") for column in COLUMNS}
    known = MatrixRow(survivors()[LONG_PROMPT], passed, {"joint": 1.0})
    missed = MatrixRow(specimens()["always-accept"], passed, {"joint": 1.0})
    matrix = KillMatrix((known,), 1e-6, 0)
    assert (matrix.exit_code, matrix.survivors, matrix.surviving) == (0, (), (known,))
    assert KillMatrix((known, missed), 1e-6, 0).exit_code == 1
    assert f"on record as survivors of an audit at its defaults: {LONG_PROMPT}" in summary(matrix)
    page = FORMATS["markdown"](matrix)
    assert f"| `{LONG_PROMPT}` |" in page.partition("## Survivors")[2]
    assert LONG_PROMPT not in page.partition("## Faulty")[2].partition("## Survivors")[0]


# What no option finds is wrong all the same.

ROWS = np.full((40, 3, 2), 0.5)
DRAFTS = np.zeros((40, 2), dtype=int), ROWS[:, :2], ROWS


def called(name, requests, *, drafts=DRAFTS):
    rows = (array[:requests] for array in drafts)
    return survivors()[name].function(*rows, np.random.default_rng(0))


def test_twenty_requests_read_the_random_numbers_of_ten():
    for requests, are_pairs in ((20, True), (19, False)):
        tokens, _ = called("shared-in-batches-of-twenty", requests)
        pairs = tokens[: requests // 2 * 2].reshape(-1, 2, 3)
        assert (pairs[:, 0] == pairs[:, 1]).all() == are_pairs


def test_a_tilted_target_is_off_by_a_thousandth():
    rows = np.full((1, 2, 131_072), 2.0**-17)
    seen = rows.copy()
    tilted_by_a_rounding(np.zeros((1, 1), dtype=int), rows[:, :1], seen)
    assert abs(seen - rows).sum() / 2 / 2 == 2.0**-9
    assert seen[0].sum(axis=-1) == pytest.approx(1)


def test_a_counter_of_calls_runs_over():
    """The target refuses half of the drafts; that it refuses none of 40 has a chance of 1e-12."""
    verify, half = counting(1), np.array([[[1.0, 0.0]]] * 40)
    arrays = np.zeros((40, 1), dtype=int), half, np.full((40, 2, 2), 0.5)
    before, after = (verify(*arrays, np.random.default_rng(seed))[1].mean() for seed in (0, 1))
    assert before < 1
    assert after == 1


def test_an_untraced_ratio_is_one_percent_too_high():
    """Of a million drafts with p/q of 1/2 a share of 0.505 passes; six standard deviations are 0.003."""
    count = 1_000_000
    draft, target = np.tile([1.0, 0.0], (count, 1, 1)), np.full((count, 2, 2), 0.5)
    arrays = np.zeros((count, 1), dtype=int), draft, target
    _, accepted = called("untraced-ratio-one-percent-too-high", count, drafts=arrays)
    assert accepted.mean() == pytest.approx(0.505, abs=0.003)


def test_full_batches_accept_everything():
    (engine,) = survivors()["batches-of-64-requests"].engine().values()
    for requests, is_wrong in ((63, False), (64, True)):
        accepted = []
        tested = engine.verified

        def noted(*arguments, tested=tested, accepted=accepted):
            before = engine.drafted, engine.accepted
            emitted = tested(*arguments)
            accepted.append(engine.drafted - before[0] == engine.accepted - before[1])
            return emitted

        engine.verified = noted
        engine.generate_batch([(0,)] * requests, 6, range(requests))
        engine.verified = tested
        assert all(accepted) == is_wrong


def test_a_block_of_512_tokens_ends():
    (engine,) = survivors()["one-block-of-512-tokens"].engine().values()
    text = [0, 0] * 256
    assert engine.verifying(text) == engine.target(text)
    assert engine.verifying([*text, 1, 2]) != engine.target([*text, 1, 2])


def test_options_that_find_survivors_are_those_of_the_command_line():
    found = {name: options_of(name) for name, one in survivors().items() if one.found_with}
    usual = {"prompts": (), "dtypes": COUNTED}
    assert found[LONG_PROMPT] == {**usual, "prompts": ((0,) * 16,)}
    assert found["vocabulary-of-gpt-2"] == {**usual, "vocabularies": (50_257,)}
    assert found["sums-in-the-rows-type"] == {**usual, "dtypes": ("float16",)}


@pytest.mark.parametrize(("given", "exit_code"), [({}, 0), (options_of(LONG_PROMPT), 1)])
def test_a_survivor_is_found_with_its_option(given, exit_code):
    options = AuditOptions(budget=2.0, checks=("calls",), **given)
    assert audit(subject_of(survivors()[LONG_PROMPT]), options=options).exit_code == exit_code


@pytest.mark.nightly
@pytest.mark.parametrize("name", survivors())
def test_every_survivor_passes_an_audit_at_its_defaults(name):
    """One that is found must leave the list. How much is tried depends on the machine."""
    (report,) = audit(subject_of(survivors()[name])).subjects
    assert not [check.name for check in report.checks if check.status is Status.FAILED]


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name, one in survivors().items() if one.found_with])
def test_every_survivor_is_found_with_its_option(name):
    report = audit(subject_of(survivors()[name]), options=AuditOptions(**options_of(name)))
    assert report.exit_code == 1
