"""The pictures of docs/how-it-works are what their command draws today, and show what the pages say."""

from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from lab.studies.how_it_works import PICTURES, evidence, goes_beyond, main

FOLDER = Path(__file__).parents[3] / "docs/how-it-works"


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_up_to_date(name):
    drawn = PICTURES[name]()
    assert (FOLDER / f"{name}.svg").read_text("utf-8") == drawn
    assert ET.fromstring(drawn).tag.endswith("svg")
    assert f"({name}.svg)" in (FOLDER / f"{name}.md").read_text("utf-8")


def test_the_command_writes_every_picture(tmp_path):
    main(["--output", str(tmp_path)])
    assert {file.stem for file in tmp_path.iterdir()} == {*PICTURES}


def test_the_tree_adds_up_to_tokens_per_call():
    found = goes_beyond("recursive_rejection")
    assert sum(found.values()) == Fraction(7, 3)
    assert found[0, 0] == Fraction(13, 81)


def test_evidence_stays_low_for_right_samples_and_reaches_an_alarm_for_wrong_ones():
    """Right samples reach 1e6 with a chance of 1e-6 at most; seeds are fixed."""
    assert max(evidence(0.0)) < 6
    assert max(evidence(0.05)) > 6
