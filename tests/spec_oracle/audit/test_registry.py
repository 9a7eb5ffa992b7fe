"""The registry knows every subject without importing it, and finds other packages'."""

import subprocess
import sys

import pytest

import verifiers
from spec_oracle.audit import AuditOptions, Status, audit, registry
from spec_oracle.audit.registry import Known, known, listed, names
from spec_oracle.errors import EngineError, InvalidInputError
from spec_oracle.third_party.samplers.wheels import FOLDER_VARIABLE

DECODER = """
import verifiers
from spec_oracle.contracts import as_sampler
verify = as_sampler(verifiers.get("block"))
"""
SUBJECTS = """
from spec_oracle.audit.registry import Known
CODE = "fast_decoder.verification:verify"
SUBJECTS = [Known("fast-decoder", CODE, "fast-decoder", rule="block", array="numpy")]
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a distribution of some modules, with an entry point of the group."""

    def installed(**modules):
        package, metadata = tmp_path / "fast_decoder", tmp_path / "fast_decoder-2.1.dist-info"
        package.mkdir()
        metadata.mkdir()
        for name, source in {"__init__": "", **modules}.items():
            (package / f"{name}.py").write_text(source, encoding="utf-8")
        (metadata / "METADATA").write_text("Name: fast-decoder\nVersion: 2.1\n", encoding="utf-8")
        entry = "[spec_oracle.subjects]\nfast-decoder = fast_decoder.audited:SUBJECTS\n"
        (metadata / "entry_points.txt").write_text(entry, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        registry._registered.cache_clear()

    yield installed
    registry._registered.cache_clear()
    for module in [name for name in sys.modules if name.startswith("fast_decoder")]:
        del sys.modules[module]


def test_another_package_adds_its_subject(install):
    install(audited=SUBJECTS, verification=DECODER)
    assert names()[-1] == "fast-decoder"
    assert known("fast-decoder").version == "2.1"
    assert "fast_decoder.verification" not in sys.modules
    (found,) = audit(
        "fast-decoder", options=AuditOptions(vocab_size=2, draft_length=2, checks=["length"])
    ).subjects
    (joint,) = (check for check in found.checks if check.name == "joint")
    assert (found.code.version, found.rule, joint.status) == ("2.1", "block", Status.PASSED)


def test_a_broken_package_does_not_hide_the_others(install):
    install(audited="import nowhere")
    assert {"transformers", "fast-decoder"} <= set(names())
    assert "cannot be imported: ModuleNotFoundError" in known("fast-decoder").why_unavailable
    assert "fast-decoder" in {one.name for one in listed()}
    with pytest.raises(EngineError, match="cannot be imported"):
        known("fast-decoder").load()


def test_no_package_takes_a_name_of_ours(install):
    install(audited=SUBJECTS.replace('Known("fast-decoder"', 'Known("transformers"'))
    assert known("transformers").package == "transformers"


@pytest.mark.parametrize("name", names())
def test_every_subject_is_complete(name):
    subject = known(name)
    assert subject.name == name
    assert subject.rule in {"", *verifiers.names()}
    assert subject.install
    assert subject.requires
    assert "\n" not in subject.notes + subject.declared_lossy + subject.install


@pytest.mark.parametrize("name", [name for name in names() if known(name).wheel])
def test_a_missing_sampler_is_a_reason_in_one_line(name, tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    reason = known(name).why_unavailable
    assert reason.endswith(known(name).install)
    assert "\n" not in reason
    assert known(name).version is None
    with pytest.raises(EngineError, match=r"not (fetched|installed)"):
        known(name).load()


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(InvalidInputError, match="unknown engine 'vllm-v'; did you mean 'vllm-v[0-9]'"):
        known("vllm-v")


def test_short_drafts_fall_back_to_the_token_rule_where_the_engine_does_so():
    ascend = known("vllm-ascend-block")
    assert [ascend.rule_at(length) for length in (1, 2, 3)] == ["token", "token", "block"]
    assert known("vllm-v2-block").rule_at(1) == "block"
    assert known("vllm-ascend-block-ngram").rule_at(1) == "sample_and_match"


def test_the_registry_imports_no_engine():
    code = (
        "import sys; from spec_oracle.audit.registry import known, names\n"
        "assert [known(name).why_unavailable for name in names()]\n"
        "assert not {'torch', 'transformers', 'triton', 'jax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("since", "reason"), [("1.26.0", ""), ("10.0.0rc1", "does not have it yet, 10.0.0rc1 has")]
)
def test_a_version_that_does_not_have_the_code_yet_is_a_reason(since, reason):
    subject = Known(
        "fast-decoder", "fast_decoder:verify", "numpy", install="pip install --upgrade numpy", since=since
    )
    assert reason in subject.why_unavailable
    assert bool(reason) == bool(subject.why_unavailable)


def test_modules_of_no_installed_version_are_not_too_old():
    assert not Known("fast-decoder", "fast_decoder:verify", "fast-decoder", since="2.0").why_unavailable
