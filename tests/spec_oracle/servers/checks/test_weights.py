"""Local weights that cannot be loaded are an error of usage, whatever their loader raises."""

import pytest

from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.checks import distributions


def test_missing_weights_are_named():
    with pytest.raises(InvalidInputError, match=r"no/such/folder\.gguf"):
        distributions.load_rows("no/such/folder.gguf")


def test_an_error_of_a_loader_is_an_error_of_usage(monkeypatch):
    def fail(spec, **options):
        raise OSError("the disk is gone")

    monkeypatch.setattr(distributions, "load_language_model", fail)
    with pytest.raises(InvalidInputError, match="local weights: OSError: the disk is gone"):
        distributions.load_rows("any")


def test_weights_need_no_tokenizer(tmp_path):
    torch = pytest.importorskip("torch")
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 12}
    LlamaForCausalLM(LlamaConfig(hidden_size=16, intermediate_size=16, **sizes)).save_pretrained(tmp_path)
    rows = distributions.load_rows(str(tmp_path))
    assert [len(row) for row in rows((1, 2), (3, 4))] == [12, 12]
