"""Prompt files."""

import pytest

from spec_oracle.commands.language_models import prompts_of
from spec_oracle.errors import InvalidInputError


def test_prompts_are_the_lines_that_are_not_blank(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("one\n\n two\n")
    assert prompts_of(path) == ["one", " two"]
    path.write_text("\n")
    with pytest.raises(InvalidInputError, match="no prompts"):
        prompts_of(path)
