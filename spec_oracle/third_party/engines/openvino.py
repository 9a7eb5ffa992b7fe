"""OpenVINO GenAI's decoding as an engine: tiny models, written down operator by operator, on the processor.

A model is one head of attention between an embedding and a head, so that its rows are a few lines of numpy;
they are checked against what the engine generates without a drafter. Random numbers come from C++, a
generator a request: completions are sampled, not enumerated.
"""

import json
import random
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.arrays import Floats
from spec_oracle.third_party.engines import Ids

if TYPE_CHECKING:
    from openvino import Model, Node
    from openvino_genai import DecodedResults, LLMPipeline

Weights: TypeAlias = dict[str, NDArray[np.float32]]

VOCAB = 3
TARGET, DRAFT = 1, 2
"""Seeds of the models."""

WIDTH = 32
MOST_TOKENS = 512
"""Tokens of a prompt and its completion together."""

_POSITIONS = 64
"""Embeddings of positions that differ; then they begin anew."""

_NO_TOKEN = 99
_EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "INFERENCE_NUM_THREADS": 1}


def small_weights(seed: int) -> Weights:
    """Return random weights: always the same."""
    rng = np.random.default_rng(seed)
    shapes = {"tokens": (VOCAB, WIDTH), "positions": (_POSITIONS, WIDTH), "head": (WIDTH, VOCAB)}
    shapes |= dict.fromkeys(("query", "key", "value"), (WIDTH, WIDTH))
    scale = {"tokens": 1.0, "positions": 1.0}
    weights = {
        name: (scale.get(name, 0.2) * rng.standard_normal(shape)).astype(np.float32)
        for name, shape in shapes.items()
    }
    weights["positions"] = np.resize(weights["positions"], (MOST_TOKENS, WIDTH))
    return weights


def logits_after(weights: Weights, context: Ids) -> Floats:
    """Return the logits after a context, [V]."""
    seen = weights["tokens"][[*context]] + weights["positions"][: len(context)]
    query, keys, values = (seen @ weights[name] for name in ("query", "key", "value"))
    scores = np.exp(query[-1] @ keys.T / np.sqrt(WIDTH))
    logits: Floats = (seen[-1] + scores / scores.sum() @ values) @ weights["head"]
    return logits.astype(np.float64)


def _network(weights: Weights) -> "Model":
    """Return the model with a cache as its state, in the form in which exporters write one."""
    import openvino as ov
    from openvino import opset13 as op

    def given(name: str, rank: int, kind: type = np.int64) -> "Node":
        return _named(op.parameter([-1] * rank, kind, name=name), name)

    def heads(name: str) -> "Node":
        flat = op.matmul(seen, op.constant(weights[name]), transpose_a=False, transpose_b=False)
        split = op.reshape(flat, op.constant([0, 0, 1, WIDTH]), special_zero=True)
        return op.transpose(split, op.constant([0, 2, 1, 3]))

    def looked_up(name: str, ids: "Node") -> "Node":
        return op.gather(op.constant(weights[name]), ids, op.constant(0))

    ids, mask, places = (given(name, 2) for name in ("input_ids", "attention_mask", "position_ids"))
    beam = given("beam_idx", 1, np.int32)
    seen = op.add(looked_up("tokens", ids), looked_up("positions", places))
    batch = op.gather(op.shape_of(ids), op.constant([0]), op.constant(0))
    shape = op.concat([batch, op.constant([1]), op.constant([0]), op.constant([WIDTH])], 0)
    kept, sinks = [], []
    for name in ("key", "value"):
        variable = f"past_key_values.0.{name}present.0.{name}"
        empty = op.broadcast(op.constant(np.float32(0)), shape)
        past = op.read_value(empty, variable, np.float32, ov.PartialShape([-1, 1, -1, WIDTH]))
        kept.append(op.concat([op.gather(past, beam, op.constant(0)), heads(name)], 2))
        sinks.append(op.assign(kept[-1], variable))
    hidden = op.subtract(op.convert(mask, np.float32), op.constant(np.float32(1)))
    bias = op.multiply(op.unsqueeze(hidden, op.constant([1, 2])), op.constant(np.float32(1e9)))
    seen_there = op.scaled_dot_product_attention(heads("query"), *kept, bias)
    attended = op.transpose(seen_there, op.constant([0, 2, 1, 3]))
    states = op.add(seen, op.reshape(attended, op.constant([0, 0, WIDTH]), special_zero=True))
    logits = op.matmul(states, op.constant(weights["head"]), transpose_a=False, transpose_b=False)
    return ov.Model([op.result(_named(logits, "logits"))], sinks, [ids, mask, places, beam], "small")


def _named(node: "Node", name: str) -> "Node":
    node.output(0).get_tensor().set_names({name})
    return node


def _tokenizer() -> "Model":
    """Return a tokenizer that reads every text as token 0: drafter and target must have the same one."""
    import openvino as ov
    from openvino import opset13 as op

    text = op.parameter([-1], ov.Type.string, name="string_input")
    ids = op.broadcast(op.constant(np.int64(0)), op.concat([op.shape_of(text), op.constant([1])], 0))
    ones = op.add(ids, op.constant(np.int64(1)))
    outputs = [op.result(_named(ids, "input_ids")), op.result(_named(ones, "attention_mask"))]
    return ov.Model(outputs, [text], "tokenizer")


def _pipeline(seed: int, draft_seed: int | None = None, **options: object) -> "LLMPipeline":
    """Return a pipeline of a model, with a drafter or without."""
    # An audit reports nothing to others; OpenVINO would, from a fork of this process.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino as ov
    import openvino_genai

    with TemporaryDirectory() as folder:
        places = [Path(folder) / str(number) for number in (seed, draft_seed)]
        for place, number in zip(places, (seed, draft_seed), strict=True):
            if number is not None:
                network = _network(small_weights(number))
                ov.save_model(network, place / "openvino_model.xml", compress_to_fp16=False)
                ov.save_model(_tokenizer(), place / "openvino_tokenizer.xml")
                config = {"model_type": "llama", "eos_token_id": _NO_TOKEN}
                (place / "config.json").write_text(json.dumps(config))
        if draft_seed is not None:
            options["draft_model"] = openvino_genai.draft_model(places[1], "CPU", **_EXACT)
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = 1
        return openvino_genai.LLMPipeline(places[0], "CPU", scheduler_config=scheduler, **_EXACT, **options)


class OpenVinoEngine:
    """`LLMPipeline` with one way to draft, and settings of generation; it keeps the engine contract."""

    vocab_size = VOCAB

    def __init__(
        self, prompt: Ids, drafting: Mapping[str, int | bool], temperature: float = 1.0, **settings: float
    ) -> None:
        self.prompts, self.temperature, self.settings = (prompt,), temperature, settings
        self.plain, self.fast = _pipeline(TARGET), _pipeline(TARGET, **drafting)

    def next_token_probs(self, context: Ids) -> Floats:
        """Return the distribution of the next token, [V]."""
        weights = np.exp(logits_after(small_weights(TARGET), context) / self.temperature)
        return np.asarray(weights / weights.sum())

    def generate(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        result = self._run(self.fast, prompt, max_new_tokens, seed, **self.settings)
        counts = result.extended_perf_metrics
        if counts is not None:
            self.accepted, rejected = counts.get_num_accepted_tokens(), counts.get_num_rejected_tokens()
        else:
            self.accepted, rejected = _of_lookups(result.perf_metrics.raw_metrics.m_batch_sizes)
        self.drafted = self.accepted + rejected
        return list(result.tokens[0])

    def generate_plain(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode without a drafter."""
        return list(self._run(self.plain, prompt, max_new_tokens, seed).tokens[0])

    def _run(
        self, pipeline: "LLMPipeline", prompt: Ids, count: int, seed: int | None, **settings: float
    ) -> "DecodedResults":
        import openvino as ov
        import openvino_genai

        config = openvino_genai.GenerationConfig()
        fixed: dict[str, object] = {"ignore_eos": True, "eos_token_id": _NO_TOKEN, "stop_token_ids": set()}
        fixed |= {"do_sample": True, "top_k": 0, "temperature": self.temperature, "max_new_tokens": count}
        fixed |= {"rng_seed": random.getrandbits(31) if seed is None else seed}
        for name, value in {**fixed, **settings}.items():
            setattr(config, name, value)
        return pipeline.generate(ov.Tensor(np.array([[*prompt]])), config)


def _of_lookups(sizes: Ids) -> tuple[int, int]:
    """Return the tokens that lookups drafted: accepted, and at least how many were rejected.

    ``sizes`` has the tokens of every call, of which the first reads the prompt. A call that emits one token
    has rejected one: a lookup finds any token in a prompt that holds all. The last may have no room for one.
    """
    return sum(size - 1 for size in sizes[1:]), sum(size == 1 for size in sizes[1:-1])


def lookups() -> dict[str, OpenVinoEngine]:
    """Return engines that draft from the prompt, which holds all tokens."""
    ready = partial(OpenVinoEngine, (0, 1, 2, 0, 1), {"prompt_lookup": True}, max_ngram_size=2)
    return {
        "lookup": ready(num_assistant_tokens=2),
        "colder lookup": ready(num_assistant_tokens=3, temperature=0.6),
    }


def draft_models() -> dict[str, OpenVinoEngine]:
    """Return engines with a draft model: another one, and the target itself."""
    return {
        "draft model": OpenVinoEngine((0, 1), {"draft_seed": DRAFT}, num_assistant_tokens=2),
        "confident draft model": OpenVinoEngine(
            (0, 1), {"draft_seed": DRAFT}, num_assistant_tokens=0, assistant_confidence_threshold=0.6
        ),
        "itself": OpenVinoEngine((0, 1), {"draft_seed": TARGET}, num_assistant_tokens=2),
    }
