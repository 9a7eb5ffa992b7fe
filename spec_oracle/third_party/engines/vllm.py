"""vLLM as an engine: the whole of it in one process on a CPU, with small random models.

Scheduler, caches, drafters and sampler are the installed package's. Its fused C++ operators that draw or
compare random numbers cannot be traced: while an audit traces, torch code of `vllm_operators` stands in for
them, and a test compares the two row by row. Samples are taken with the operators as they ship.
"""

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeAlias

from spec_oracle.contracts.engine import EnoughError
from spec_oracle.third_party.engines import Ids, OnCall
from spec_oracle.third_party.engines import vllm_operators as operators

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM
    from vllm import LLM, SamplingParams
    from vllm.outputs import CompletionOutput

Tensor: TypeAlias = "torch.Tensor"

LETTERS = "abc"
VOCAB = len(LETTERS)
PROMPT = (0, 1, 2, 0)
NOISE = 0.1
"""Standard deviation of what the draft model's weights differ by from the target's."""

_SIZES = {"hidden_size": 32, "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 32}
_LENGTHS = {"num_hidden_layers": 1, "max_position_embeddings": 128, "vocab_size": VOCAB}

DRAFTERS: Mapping[str, Mapping[str, object]] = {
    "n-gram": {"method": "ngram", "prompt_lookup_max": 2, "prompt_lookup_min": 1},
    "draft model, greedy": {"method": "draft_model", "draft_sample_method": "greedy"},
    "draft model, sampled": {"method": "draft_model", "draft_sample_method": "probabilistic"},
}


@dataclass(frozen=True)
class SamplingOption:
    """How completions are decoded: arguments of `SamplingParams`, and where completions end by them."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    stop_tokens: tuple[int, ...] = ()
    stop_sequences: tuple[tuple[int, ...], ...] = ()
    prompt: tuple[int, ...] = PROMPT


_OF_GENERATED = {"presence_penalty", "frequency_penalty", "bad_words", "min_tokens", "structured_outputs"}
"""What does not apply to the tokens of a prompt."""


class VllmEngine:
    """`LLM.generate` with one drafter under one option; it keeps the engine contract."""

    vocab_size = VOCAB

    def __init__(
        self,
        drafter: str,
        option: SamplingOption | None = None,
        draft_length: int = 1,
        *,
        repaired: bool = False,
    ) -> None:
        self.drafter, self.option, self.draft_length = drafter, option or SamplingOption(), draft_length
        self.repaired = repaired
        self.prompts = (self.option.prompt,)
        self.stop_tokens, self.stop_sequences = self.option.stop_tokens, self.option.stop_sequences
        self.drafted = self.accepted = 0

    def __deepcopy__(self, memo: object) -> "VllmEngine":
        """Share what was started: requests of one engine are meant to be independent."""
        return copy.copy(self)

    def next_token_probs(self, context: Ids) -> Tensor:
        """Return the distribution of the next token, all processors included, [V].

        Where processors distinguish the prompt from what was generated, that is generated again.
        """
        import torch

        is_after_prompt = tuple(context[: len(self.prompts[0])]) == self.prompts[0]
        regenerates = is_after_prompt and not _OF_GENERATED.isdisjoint(self.option.arguments)
        length = len(self.prompts[0]) if regenerates else len(context)
        prompt, before = context[:length], context[length:]
        rows, tokens = self._along(prompt, [*before, 0])
        return rows[-1] if rows else torch.eye(VOCAB)[tokens[-1]]  # a greedy request samples nothing

    def rows_along(self, prompt: Ids, completion: Ids) -> list[Tensor]:
        """Return the distributions of one request whose samples are these tokens, T times [V]."""
        rows, _ = self._along(prompt, completion)
        before = [[*prompt, *completion[:end]] for end in range(len(completion))]
        return rows or [self.next_token_probs(context) for context in before]

    def _along(self, prompt: Ids, tokens: Ids) -> tuple[list[Tensor], list[int]]:
        """Return the distributions of target-only decoding if it samples these tokens, and what it emits."""
        rows: list[Tensor] = []
        with operators.during(forced=tokens, rows=rows):
            return rows, self._completions(0, [prompt], len(tokens), [None])[0]

    def raw_probs(self, context: Ids) -> Tensor:
        """Return the distribution of the target itself, as transformers computes it, [V]."""
        import torch

        return _target()(torch.tensor([[*context]])).logits[0, -1].softmax(-1)

    def generate(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        return self.generate_batch([prompt], max_new_tokens, [seed])[0]

    def generate_batch(
        self, prompts: Sequence[Ids], max_new_tokens: int, seeds: Sequence[int | None]
    ) -> list[list[int]]:
        """Decode several prompts together."""
        with operators.during(counts=self, repaired=self.repaired):
            return self._completions(self.draft_length, prompts, max_new_tokens, seeds)

    def steps(
        self, prompt: Ids, max_new_tokens: int, seed: int | None = None, on_call: OnCall = lambda _: None
    ) -> list[int]:
        """Decode speculatively; hand what each step of the engine emits to ``on_call``."""
        with operators.during(counts=self, repaired=self.repaired):
            return [*self._stepwise(prompt, max_new_tokens, seed, on_call).token_ids]

    def reported(self, prompt: Ids, max_new_tokens: int) -> tuple[list[int], list[float], str | None]:
        """Decode speculatively; return the tokens, their log-probabilities, and why they ended."""
        with operators.during(repaired=self.repaired):
            found = self._stepwise(prompt, max_new_tokens, None, logprobs=0)
        tokens = [*found.token_ids]
        logs = [told[token].logprob for token, told in zip(tokens, found.logprobs, strict=False)]
        return tokens, logs + [float("nan")] * (len(found.logprobs) - len(tokens)), found.finish_reason

    def generate_plain(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode without a drafter."""
        return self._completions(0, [prompt], max_new_tokens, [seed])[0]

    def _completions(
        self, drafted: int, prompts: Sequence[Ids], count: int, seeds: Sequence[int | None]
    ) -> list[list[int]]:
        with _started(self.drafter if drafted else "", drafted) as llm:
            given = [{"prompt_token_ids": [*map(int, prompt)]} for prompt in prompts]
            how = [sampling_params(self.option, count, seed) for seed in seeds]
            return [[*one.outputs[0].token_ids] for one in llm.generate(given, how, use_tqdm=False)]

    def _stepwise(
        self, prompt: Ids, count: int, seed: int | None, on_call: OnCall = lambda _: None, **more: object
    ) -> "CompletionOutput":
        """Return the last output of a request; end the request if ``on_call`` raises.

        Where nothing ends completions early, a call is shown before the drafts of the next one are made.
        """
        how, shown, output = sampling_params(self.option, count, seed), 0, None
        for name, value in more.items():
            setattr(how, name, value)

        def show(emitted: Ids) -> None:
            nonlocal shown
            shown += len(emitted)
            on_call([*emitted])

        ends_early = self.stop_tokens or self.stop_sequences or "structured_outputs" in self.option.arguments
        early = None if ends_early else lambda emitted: show(emitted[: count - shown])
        with _started(self.drafter, self.draft_length) as llm, operators.during(on_emitted=early):
            engine, given = llm.llm_engine, {"type": "token", "prompt_token_ids": [*map(int, prompt)]}
            name = engine.add_request("steps", given, how)
            try:
                while engine.has_unfinished_requests():
                    for one in engine.step():
                        output = one.outputs[0]
                        if rest := output.token_ids[shown:]:
                            show(rest)
            except EnoughError:
                engine.abort_request([name], internal=True)
                raise
            return output


def sampling_params(option: SamplingOption, count: int, seed: int | None) -> "SamplingParams":
    """Return vLLM's parameters of a request for up to ``count`` tokens."""
    from vllm import SamplingParams
    from vllm.sampling_params import RepetitionDetectionParams, StructuredOutputsParams

    given = dict(option.arguments)
    if "min_tokens" in given:
        given["min_tokens"] = min(given["min_tokens"], count)  # more are refused
    if "structured_outputs" in given:
        given["structured_outputs"] = StructuredOutputsParams(regex=given["structured_outputs"])
    if "repetition_detection" in given:
        given["repetition_detection"] = RepetitionDetectionParams(
            max_pattern_size=1, min_pattern_size=1, min_count=given["repetition_detection"]
        )
    return SamplingParams(max_tokens=count, seed=seed, **given)


_running: dict[tuple[str, int], "LLM"] = {}
_dead: list["LLM"] = []
"""Engines that raised: kept, since the first that is deleted ends what all engines of a process share."""


@contextmanager
def _started(drafter: str, draft_length: int) -> Iterator["LLM"]:
    """Yield the engine with this drafter, "" for none; one that raised answers no more, and is replaced."""
    key = drafter, draft_length
    if key not in _running:
        _running[key] = _start(*key)
    from vllm.exceptions import VLLMClientError

    try:
        yield _running[key]
    except (VLLMClientError, EnoughError):  # a request that it refuses, or that was ended
        raise
    except BaseException:
        _dead.append(_running.pop(key))
        raise


def _start(drafter: str, draft_length: int) -> "LLM":
    quiet = {
        "VLLM_LOGGING_LEVEL": "CRITICAL",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    for name, value in {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", **quiet}.items():
        os.environ.setdefault(name, value)
    from vllm import LLM

    operators.install()
    folder = _models()
    settings: dict[str, object] = {"max_model_len": 128, "max_num_seqs": 8, "block_size": 32}
    if drafter:
        drafting = {**DRAFTERS[drafter], "num_speculative_tokens": draft_length}
        model = {"model": str(folder / "draft")} if drafting["method"] == "draft_model" else {}
        settings["speculative_config"] = drafting | model
    fixed = {"dtype": "float32", "enforce_eager": True, "seed": 0, "kv_cache_memory_bytes": 1 << 20}
    return LLM(str(folder / "target"), max_logprobs=VOCAB, **fixed, **settings)


@cache
def _models() -> Path:
    """Write target and draft model, random Llamas of one layer, and their tokenizer; return the folder."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = Tokenizer(models.WordLevel({letter: i for i, letter in enumerate(LETTERS)}, unk_token="a"))  # noqa: S106
    letters.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    letters.decoder = decoders.Fuse()
    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    model = LlamaForCausalLM(LlamaConfig(**_SIZES, **_LENGTHS, **ends)).float().requires_grad_(False)
    generator, folder = torch.Generator().manual_seed(1), Path(mkdtemp())
    for name, scale, kept in (("target", 0.3, 0.0), ("draft", NOISE, 1.0)):
        for parameter in model.parameters():
            noise = torch.empty_like(parameter).normal_(std=scale, generator=generator)
            parameter.copy_(kept * parameter + noise)
        model.save_pretrained(folder / name)
        PreTrainedTokenizerFast(tokenizer_object=letters).save_pretrained(folder / name)
    return folder


@cache
def _target() -> "LlamaForCausalLM":
    from transformers import LlamaForCausalLM

    return LlamaForCausalLM.from_pretrained(_models() / "target").requires_grad_(False)


def engines() -> dict[str, VllmEngine]:
    """Return the engines of an audit, as they ship."""
    return {drafter: VllmEngine(drafter) for drafter in DRAFTERS}


def repaired() -> dict[str, VllmEngine]:
    """Return the same with the uninitialised memory written: vllm-project/vllm issue 55005."""
    return {drafter: VllmEngine(drafter, repaired=True) for drafter in DRAFTERS}
