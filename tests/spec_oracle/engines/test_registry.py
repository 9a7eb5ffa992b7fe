"""The registry knows every engine without importing it, and says why one is missing."""

import subprocess
import sys

import pytest

import verifiers
from spec_oracle.adapters.samplers import (
    EngineError,
    engine_names,
    engine_subject,
    installed_version,
    load_engine,
    why_unavailable,
)
from spec_oracle.adapters.samplers.wheels import FOLDER_VARIABLE, wheel
from spec_oracle.errors import InvalidInputError


@pytest.mark.parametrize("name", engine_names())
def test_every_subject_is_complete(name):
    subject = engine_subject(name)
    assert subject.name == name
    assert subject.rule in verifiers.names()
    assert subject.origin.evidence[-1] == "statistical"
    assert "\n" not in subject.notes + subject.declared_lossy + subject.origin.install
    if subject.origin.is_wheel:
        assert wheel(subject.origin.package, subject.origin.version)


@pytest.mark.parametrize("name", [name for name in engine_names() if engine_subject(name).origin.is_wheel])
def test_a_missing_engine_is_a_reason_in_one_line(name, tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    reason = why_unavailable(name)
    assert reason.endswith(engine_subject(name).origin.install)
    assert "\n" not in reason
    assert installed_version(name) is None
    with pytest.raises(EngineError, match=r"not (fetched|installed)"):
        load_engine(name)


def test_an_unknown_engine_is_named():
    with pytest.raises(InvalidInputError, match="unknown engine 'vllm-v'; did you mean 'vllm-v[0-9]'"):
        load_engine("vllm-v")


def test_short_drafts_fall_back_to_the_token_rule_where_the_engine_does_so():
    ascend = engine_subject("vllm-ascend-block")
    assert [ascend.rule_at(length) for length in (1, 2, 3)] == ["token", "token", "block"]
    assert engine_subject("vllm-v2-block").rule_at(1) == "block"
    assert engine_subject("vllm-ascend-block-ngram").rule_at(1) == "sample_and_match"


def test_the_registry_imports_no_engine():
    code = (
        "import sys, spec_oracle.adapters.samplers as e; e.engine_names(); e.why_unavailable('transformers');"
        "assert not {'torch', 'transformers', 'triton', 'jax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
