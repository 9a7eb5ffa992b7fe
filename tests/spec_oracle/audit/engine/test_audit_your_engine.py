"""The adapters of docs/guide/audit-your-engine.md are complete, short, and lossless."""

import importlib.util
import re
from pathlib import Path

import pytest

from spec_oracle.audit import AuditOptions, Evidence, SubjectVerdict, audit

PAGE = Path(__file__).parents[4] / "docs/guide/audit-your-engine.md"
ADAPTERS = dict(
    zip(
        ("Pair", "Engine"),
        re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[-2:],
        strict=True,
    )
)


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_is_audited_as_it_stands(name, tmp_path):
    if name == "Pair":
        pytest.importorskip("transformers")
    path = tmp_path / "adapter.py"
    path.write_text(ADAPTERS[name], encoding="utf-8")
    spec = importlib.util.spec_from_file_location("adapter", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    adapter = ADAPTERS[name].partition(f"class {name}")[2]
    assert sum(bool(line.strip()) for line in adapter.splitlines()) <= 30
    (found,) = audit(
        getattr(module, name), options=AuditOptions(budget=1.0, tokens=2, checks=["joint"])
    ).subjects
    assert (found.verdict, found.evidence) == (SubjectVerdict.LOSSLESS, Evidence.EXACT)
