"""ONNX Runtime GenAI's decoding as an engine: OpenVINO's tiny models, written down as ONNX graphs.

Random numbers come from C++, a generator a request: completions are sampled, not enumerated. Next-token
distributions are a few lines of numpy; they are checked against what the engine generates without a drafter.
"""

import json
import random
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import numpy as np

from spec_oracle.arrays import Floats
from spec_oracle.third_party.engines import Ids
from spec_oracle.third_party.engines.openvino import (
    DRAFT,
    MOST_TOKENS,
    TARGET,
    VOCAB,
    WIDTH,
    Weights,
    logits_after,
    small_weights,
)

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto
    from onnxruntime_genai import Generator, Model

STOP: Final = 2
_NEVER: Final = VOCAB
"""A further token that is never sampled: it ends the completions that nothing else is to end."""
_NAMES: Final = {
    "inputs": {
        **{name: name for name in ("input_ids", "attention_mask", "position_ids")},
        "past_key_names": "past_key_values.%d.key",
        "past_value_names": "past_key_values.%d.value",
    },
    "outputs": {
        "logits": "logits",
        "present_key_names": "present.%d.key",
        "present_value_names": "present.%d.value",
    },
}


def _network(weights: Weights) -> "ModelProto":
    """Return the model as a graph with its cache as inputs and outputs, as exporters write one."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[NodeProto] = []
    constants = {
        **weights,
        "one": np.array([1]),
        "zero": np.array(0),
        "step": np.array(1),
        "third": np.array(2),
        "scale": np.array(WIDTH**-0.5, np.float32),
        "never": np.array(-1e9, np.float32),
        "heads": np.array([1]),
        "ends": np.array([1, 3]),
        "front": np.array([0, 1, 2]),
        "further": np.array([0, 0, 0, 0, 0, 1]),
    }

    def node(kind: str, *inputs: str, to: str = "", **attributes: object) -> str:
        name = to or f"{kind}{len(nodes)}"
        nodes.append(helper.make_node(kind, [*inputs], [name], **attributes))
        return name

    seen = node("Add", node("Gather", "tokens", "input_ids"), node("Gather", "positions", "position_ids"))
    split = {
        name: node("Unsqueeze", node("MatMul", seen, name), "heads") for name in ("query", "key", "value")
    }
    keys, values = (
        node("Concat", f"past_key_values.0.{name}", split[name], to=f"present.0.{name}", axis=2)
        for name in ("key", "value")
    )
    scores = node("MatMul", node("Mul", split["query"], "scale"), node("Transpose", keys, perm=[0, 1, 3, 2]))
    length = node("Gather", node("Shape", keys), "third")
    places = node("Unsqueeze", node("Range", "zero", length, "step"), "front")
    visible = node("LessOrEqual", places, node("Unsqueeze", "position_ids", "ends"))
    shares = node("Softmax", node("Where", visible, scores, "never"), axis=-1)
    states = node("Add", seen, node("Squeeze", node("MatMul", shares, values), "heads"))
    node("Pad", node("MatMul", states, "head"), "further", "never", to="logits")

    def given(name: str, kind: int, *shape: int | str) -> "ValueInfoProto":
        return helper.make_tensor_value_info(name, kind, shape)

    ids = [given(name, TensorProto.INT64, "batch", "length") for name in ("input_ids", "position_ids")]
    ids.append(given("attention_mask", TensorProto.INT64, "batch", "all"))
    caches = {
        where: [
            given(f"{where}.0.{name}", TensorProto.FLOAT, "batch", 1, size, WIDTH)
            for name in ("key", "value")
        ]
        for where, size in (("past_key_values", "before"), ("present", "all"))
    }
    logits = given("logits", TensorProto.FLOAT, "batch", "length", VOCAB + 1)
    kept = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(
        nodes, "small", [*ids, *caches["past_key_values"]], [logits, *caches["present"]], kept
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _model(draft_seed: int | None = None, *, stop: bool = False, **speculative: float) -> "Model":
    """Return the target, with a draft model or without."""
    import onnx
    import onnxruntime_genai as genai

    seeds = {"decoder": TARGET} | ({} if draft_seed is None else {"draft": draft_seed})
    sizes = {"head_size": WIDTH, "hidden_size": WIDTH, "num_attention_heads": 1}
    sizes |= {"num_key_value_heads": 1, "num_hidden_layers": 1}
    parts = {
        part: {
            "filename": f"{part}.onnx",
            "session_options": {"provider_options": [], "intra_op_num_threads": 1},
        }
        | sizes
        | _NAMES
        for part in seeds
    }
    ends = {"bos_token_id": 0, "eos_token_id": STOP if stop else _NEVER, "pad_token_id": 0}
    model = {"type": "llama", "vocab_size": VOCAB + 1, "context_length": MOST_TOKENS, **ends, **parts}
    search = {"do_sample": True, "past_present_share_buffer": False, "max_length": MOST_TOKENS}
    said = {"model": model, "search": search, "speculative": speculative}
    with TemporaryDirectory() as folder:
        for part, seed in seeds.items():
            onnx.save(_network(small_weights(seed)), str(Path(folder) / f"{part}.onnx"))
        (Path(folder) / "genai_config.json").write_text(json.dumps(said))
        return genai.Model(folder)


class OnnxRuntimeEngine:
    """`Generator` with one way to draft, and search options; it keeps the engine contract."""

    vocab_size = VOCAB

    def __init__(
        self, prompt: Ids, draft_seed: int | None = None, *, stop: bool = False, **settings: float
    ) -> None:
        """Load the models; ``settings`` are search options and those of speculation."""
        drafting = {
            name: settings.pop(name) for name in ("max_draft_tokens", "ngram_size") if name in settings
        }
        self.prompts, self.settings = (prompt,), settings
        self.stop_tokens = (STOP,) if stop else ()
        self.plain, self.fast = _model(stop=stop), _model(draft_seed, stop=stop, **drafting)
        self.drafted = self.accepted = 0

    def next_token_probs(self, context: Ids) -> Floats:
        """Return the distribution of the next token, [V]."""
        weights = np.exp(logits_after(small_weights(TARGET), context) / self.settings.get("temperature", 1.0))
        order = np.argsort(-weights)
        weights[order[self.settings.get("top_k") or VOCAB :]] = 0
        before = np.cumsum(weights[order]) - weights[order]
        weights[order[before >= self.settings.get("top_p", 1.0) * weights.sum()]] = 0
        return np.asarray(weights / weights.sum())

    def generate(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        tokens, generator = self._run(self.fast, prompt, max_new_tokens, seed)
        told = generator.get_speculative_stats()
        self.drafted, self.accepted = told["draft_tokens_evaluated"], told["draft_tokens_accepted"]
        return tokens

    def generate_plain(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode without a drafter."""
        return self._run(self.plain, prompt, max_new_tokens, seed)[0]

    def _run(
        self, model: "Model", prompt: Ids, count: int, seed: int | None
    ) -> tuple[list[int], "Generator"]:
        import onnxruntime_genai as genai

        parameters = genai.GeneratorParams(model)
        seed = random.getrandbits(31) if seed is None else seed
        length = {"max_length": len(prompt) + count, "random_seed": seed}
        parameters.set_search_options(**{"do_sample": True, "top_k": VOCAB, **length, **self.settings})
        generator = genai.Generator(model, parameters)
        generator.append_tokens(np.array([[*prompt]], np.int32))
        while not generator.is_done():
            generator.generate_next_token()
        tokens = [int(token) for token in generator.get_sequence(0)[len(prompt) :]]
        return tokens + [STOP] * (len(tokens) < count), generator  # the stop token is left out


def engines() -> dict[str, OnnxRuntimeEngine]:
    """Return engines with a draft model, and engines that draft n-grams of the context."""
    drafted = partial(OnnxRuntimeEngine, (0, 1), DRAFT)
    lookup = partial(OnnxRuntimeEngine, (0, 1, 2, 0, 1), ngram_size=2)
    return {
        "draft model": drafted(max_draft_tokens=2),
        "draft model, top-p": drafted(max_draft_tokens=2, top_p=0.9),
        "draft model, colder, stop token": drafted(max_draft_tokens=3, temperature=0.6, stop=True),
        "n-gram, stop token": lookup(max_draft_tokens=3, stop=True),
    }
