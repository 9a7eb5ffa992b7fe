"""Where each defect was reported: the public thread by number in the bug catalogue."""

from collections.abc import Mapping
from types import MappingProxyType

_GITHUB = "https://github.com/"

_THREADS = {
    "A1": "vllm-project/vllm-ascend/issues/13730",
    "A2": "huggingface/transformers/pull/28508",
    "A3": "1bit-MONSTER/1bit-MONSTER/issues/637",
    "A4": "alibaba/rtp-llm/pull/1295",
    "A5": "ohdearquant/lattice/issues/243",
    "A8": "sgl-project/sglang/issues/35771",
    "A9": "sgl-project/sglang/pull/30822",
    "A11": "ROCm/ATOM/pull/2318",
    "A12": "vllm-project/vllm/pull/10604",
    "A13": "vllm-project/vllm-ascend/pull/6685",
    "A14": "vllm-project/vllm/pull/27077",
    "A15": "vllm-project/tpu-inference/pull/2860",
    "B1": "huggingface/transformers/pull/28508",
    "B2": "ShopeeLLM/Spec-RL/issues/14",
    "B3": "vllm-project/vllm/pull/13933",
    "B6": "vllm-project/vllm/pull/45060",
    "B7": "vllm-project/vllm/pull/41834",
    "B8": "vllm-project/vllm-ascend/pull/15118",
    "B9": "vllm-project/vllm-ascend/pull/2881",
    "B10": "vllm-project/vllm-ascend/pull/9772",
    "B11": "Dao-AILab/flash-attention/pull/2779",
    "B12": "vllm-project/vllm/pull/10863",
    "C1": "vllm-project/vllm/pull/54282",
    "C3": "vllm-project/vllm-ascend/pull/16370",
    "C4": "NVIDIA/TensorRT-LLM/issues/19487",
    "C5": "NVIDIA/TensorRT-LLM/pull/17599",
    "C6": "vllm-project/vllm/issues/6038",
    "C7": "vllm-project/vllm/issues/17498",
    "C8": "flashinfer-ai/flashinfer/pull/424",
    "C9": "NVIDIA/TensorRT-LLM/issues/19487",
    "C10": "vllm-project/vllm/pull/35398",
    "D1": "huggingface/transformers/issues/47932",
    "D2": "huggingface/transformers/issues/32867",
    "D3": "huggingface/transformers/pull/28166",
    "D5": "deepseek-ai/DeepSpec/issues/31",
    "D6": "vllm-project/vllm/pull/16952",
    "D7": "sgl-project/sglang/pull/12561",
    "D8": "vllm-project/vllm/issues/9834",
    "D9": "mlc-ai/mlc-llm/pull/2940",
    "D10": "ohdearquant/lattice/issues/388",
    "D11": "vllm-project/vllm/issues/40149",
    "D12": "ztxz16/fastllm/issues/738",
    "D13": "alibaba/rtp-llm/pull/1311",
    "D14": "vllm-project/vllm-ascend/pull/16166",
    "D15": "NVIDIA/TensorRT-LLM/pull/15098",
    "D17": "vllm-project/vllm/pull/41044",
    "D18": "vllm-project/vllm/pull/44869",
    "D20": "1CatAI/1Cat-vLLM/issues/656",
    "E1": "openvinotoolkit/openvino.genai/issues/4190",
    "E2": "antonellof/ferrox/pull/307",
    "E6": "vllm-project/vllm/pull/9730",
    "E7": "mlc-ai/mlc-llm/pull/2184",
    "E8": "lucidrains/speculative-decoding/issues/3",
    "E9": "jjang-ai/vmlx/pull/150",
    "E10": "vllm-project/vllm/pull/26498",
    "E11": "HabanaAI/vllm-fork/pull/1780",
    "F1": "vllm-project/vllm-ascend/issues/7807",
    "F3": "vllm-project/vllm/pull/47383",
    "F4": "vllm-project/vllm-ascend/pull/15673",
    "F7": "vllm-project/vllm-ascend/pull/11985",
    "G5": "sgl-project/sglang/pull/29907",
    "H1": "vllm-project/vllm/issues/42744",
    "H2": "NVIDIA/TensorRT-LLM/pull/17701",
    "H3": "vllm-project/vllm/pull/33251",
    "H4": "osaurus-ai/vmlx-swift/issues/357",
    "H7": "huggingface/transformers/issues/47912",
    "H8": "sgl-project/sglang/issues/31599",
    "H9": "antonellof/ferrox/pull/311",
    "H10": "vllm-project/vllm/issues/56101",
    "L1": "vllm-project/vllm/pull/5131",
    "N1": "ml-explore/mlx-swift-lm/pull/459",
    "N2": "lablup/mlxcel/issues/902",
    "N3": "z-lab/dflash/issues/74",
    "N4": "EricLBuehler/mistral.rs/pull/1027",
    "N5": "SafeAILab/EAGLE/issues/93",
    "N6": "sgl-project/sglang/issues/10308",
    "N7": "feifeibear/LLMSpeculativeSampling/issues/29",
    "N8": "vllm-project/vllm/pull/40651",
}

SOURCES: Mapping[str, str] = MappingProxyType({key: _GITHUB + thread for key, thread in _THREADS.items()})

MUTANT = "mutant"
"""The source of a neighbour of a real bug, which has no thread of its own."""


def source_of(zoo_id: str) -> str:
    """Return the thread of a catalogue number; variants such as "E4-row0" go by what precedes the dash."""
    return SOURCES.get(zoo_id.partition("-")[0], MUTANT)
