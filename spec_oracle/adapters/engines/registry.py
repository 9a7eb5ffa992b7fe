"""Third-party engines that are audited as a whole, by name; nothing is imported until one is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True)
class WholeEngine:
    """A package that decodes: ``adapter`` is the module and function here that return engines by name.

    ``requires`` are the modules that must be installed.
    """

    package: str
    adapter: str
    requires: tuple[str, ...]
    install: str
    notes: str = ""

    @property
    def why_unavailable(self) -> str:
        """Why it cannot be loaded here, in one line; "" when it can."""
        missing = [name for name in self.requires if find_spec(name) is None]
        return f"{', '.join(missing)} not installed: {self.install}" if missing else ""

    @property
    def version(self) -> str:
        """The installed version; raises `PackageNotFoundError` where there is none."""
        return version(self.package)

    def load(self) -> Mapping[str, Any]:
        """Return its engines by name, each of the system contract."""
        module, _, function = self.adapter.partition(":")
        engines: Mapping[str, Any] = getattr(
            import_module(f"spec_oracle.adapters.engines.{module}"), function
        )()
        return engines


_MLX = WholeEngine(
    "mlx-lm",
    "mlx_engine:engines",
    ("mlx", "mlx_lm"),
    'pip install "mlx[cpu]==0.32.4" mlx-lm==0.32.2',
    "speculative_generate_step with a sampler that can be followed",
)

_OPENVINO = WholeEngine(
    "openvino-genai",
    "openvino_engine:lookups",
    ("openvino", "openvino_genai"),
    "pip install openvino-genai==2026.4.1.0",
    "LLMPipeline with prompt lookup",
)

WHOLE_ENGINES: Mapping[str, WholeEngine] = {
    "transformers-generate": WholeEngine(
        "transformers",
        "hugging_face:engines",
        ("torch", "transformers"),
        "pip install transformers==5.23.0",
        "generate() of small random models; see docs/transformers-generate.md",
    ),
    "mlx-lm-generate": _MLX,
    "mlx-lm-penalties": replace(
        _MLX, adapter="mlx_engine:penalties", notes="see docs/findings/mlx-lm-penalties.md"
    ),
    "openvino-lookup": _OPENVINO,
    "openvino-draft-model": replace(
        _OPENVINO,
        adapter="openvino_engine:draft_models",
        notes="see docs/findings/openvino-speculative-sampling.md",
    ),
}
