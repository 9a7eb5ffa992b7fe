"""README's picture shows what the command prints today."""

from pathlib import Path

from lab.studies.verdict_picture import picture, printed


def test_the_picture_is_up_to_date():
    text = printed()
    assert "\n      smallest counterexample: 2 tokens, draft length 2, 1 path; total variation 1/4\n" in text
    shown = Path(__file__).parents[3] / "docs/verdict.svg"
    assert shown.read_text(encoding="utf-8") == picture(text)
