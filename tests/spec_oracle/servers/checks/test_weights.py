"""Local weights that cannot be loaded are an error of usage, whatever their loader raises."""

import pytest

from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.checks import weights


def test_missing_weights_are_named():
    with pytest.raises(InvalidInputError, match=r"no/such/folder\.gguf"):
        weights.load_rows("no/such/folder.gguf")


def test_an_error_of_a_loader_is_an_error_of_usage(monkeypatch):
    def fail(spec):
        raise OSError("the disk is gone")

    monkeypatch.setattr(weights, "load_language_model", fail)
    with pytest.raises(InvalidInputError, match="local weights: OSError: the disk is gone"):
        weights.load_rows("any")
