"""Prompt files, and the table of two models that is made of one."""

import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from gpu_tests.tiny import tiny_model
from spec_oracle.cli import main
from spec_oracle.commands.options import prompts_of
from spec_oracle.errors import InvalidInputError
from tests.strategies import at_night


def test_prompts_are_the_lines_that_are_not_blank(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("one\n\n two\n")
    assert prompts_of(path) == ["one", " two"]
    path.write_text("\n")
    with pytest.raises(InvalidInputError, match="no prompts"):
        prompts_of(path)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate("abcde")}, unk_token="a"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    tiny_model(1).network.save_pretrained(folder)
    return str(folder)


def table(model, folder, *options):
    (folder / "prompts.txt").write_text("a b\nc\nd e\n")
    output = folder / "table.json"
    pair = ["--target", model, "--draft", f"{model}:layers=1", "--top-k", "3", "--depth", "2"]
    words = ["--verifier", "token", "--verifier", "traversal", "--format", "json", "--output", str(output)]
    code = main(["efficiency", "--prompts", str(folder / "prompts.txt"), *pair, *words, *options])
    return code, output


@pytest.mark.parametrize("several", [("1",), *at_night((("1", "2"),))], ids=len)
def test_the_table_does_not_depend_on_the_number_of_processes(model, tmp_path, several):
    """By day test_sweeps.py shows that of other cells: these processes import torch for seconds."""
    texts = []
    for jobs in several:
        code, output = table(model, tmp_path, "--jobs", jobs)
        assert code == 0
        texts.append(output.read_text())
        assert not (tmp_path / "table.json.rows").exists()
    assert texts[0] == texts[-1]
    rows = json.loads(texts[0])
    assert [row["prompt"] for row in rows] == ["a b", "a b", "c", "c", "d e", "d e"]
    assert all(1 < row["block_efficiency"] <= row["optimum"] + 1e-9 for row in rows)


def test_a_model_that_is_not_there_is_refused_and_leaves_nothing_behind(tmp_path, capsys):
    code, output = table(str(tmp_path / "nothing"), tmp_path, "--jobs", "1")
    assert (code, output.exists(), (tmp_path / "table.json.rows").exists()) == (3, False, False)
    assert "cannot be loaded" in capsys.readouterr().err
