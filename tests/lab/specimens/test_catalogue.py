"""The catalogue: its entries fit, its checks exist, and the page is what the command makes of it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from lab.specimens.__main__ import main
from lab.specimens.catalogue import FAMILIES, catalogue, known_checks
from lab.specimens.catalogue_page import to_markdown
from lab.specimens.registry import specimens
from spec_oracle.audit.checks import CHECKS
from spec_oracle.errors import InvalidInputError

PAGE = Path(__file__).parents[3] / "docs/evidence/catalogue.md"
COMMAND = "python -m lab.specimens --catalogue --output docs/evidence/catalogue.md"


def test_families_are_numbered_without_gaps():
    by_letter = {letter: [n for n in catalogue() if n.startswith(letter)] for letter in FAMILIES}
    lengths = {letter: len(numbers) for letter, numbers in by_letter.items()}
    assert [*lengths.values()] == [15, 13, 17, 23, 22, 8, 7, 13, 14, 6, 10, 8]
    for letter, numbers in by_letter.items():
        assert numbers == [f"{letter}{i}" for i in range(1, len(numbers) + 1)]


def test_every_check_that_the_catalogue_names_exists_and_each_is_asked_for():
    assert known_checks() == {*CHECKS}


def test_only_our_own_entries_have_no_thread():
    for entry in catalogue().values():
        assert entry.threads or entry.origin == "ours", entry.number
        assert all(re.fullmatch(r"[^/]+/[^/]+/(issues|pull)/\d+", thread) for thread in entry.threads)
        assert entry.mechanism.endswith(".")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"origin": "hearsay"}, "origin: 'hearsay' of A1"),
        ({"first_token": "maybe"}, "first_token: 'maybe' of A1"),
        ({"checks": ()}, r"checks: \(\) of A1"),
    ],
)
def test_entries_that_do_not_fit_are_refused(wrong, message):
    with pytest.raises(InvalidInputError, match=message):
        replace(catalogue()["A1"], **wrong)


def test_the_catalogue_page_is_up_to_date():
    pytest.importorskip("torch")
    assert PAGE.read_text("utf-8") == to_markdown(COMMAND)


def test_the_page_has_an_anchor_for_every_id_and_names_every_specimen_that_has_one(capsys):
    assert main(["--catalogue"]) == 0
    page = capsys.readouterr().out
    for number in catalogue():
        assert f'<a id="{number}"></a>' in page
    for paths in (1, 2):
        for specimen in specimens(num_paths=paths).values():
            assert specimen.catalogue_id == "control" or f"`{specimen.name}`" in page


def test_the_catalogue_takes_no_names(capsys):
    assert main(["system", "--catalogue"]) == 3
    assert "--catalogue takes no names" in capsys.readouterr().err
