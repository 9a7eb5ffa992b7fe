"""transformers' `generate` as an engine: small random models, one way to draft, one option of decoding.

The code under test is the installed package's, unchanged; the models are ours, so small that every outcome of
every random number can be traced. Next-token distributions are those of `generate` for one token, without a
drafter.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest import mock

from spec_oracle.third_party.engines import Ids, OnCall

if TYPE_CHECKING:
    import torch
    from transformers.generation import CandidateGenerator
    from transformers.generation.utils import GenerateOutput

Tensor: TypeAlias = "torch.Tensor"
Module: TypeAlias = "torch.nn.Module"
Arguments: TypeAlias = dict[str, object]
Drafter: TypeAlias = Callable[[], AbstractContextManager[Arguments]]
"""A context in which `generate` drafts, if it is handed the arguments that it yields."""

VOCAB, LAYERS, HIDDEN = 3, 2, 8
SIZES: dict[str, Any] = {"hidden_size": HIDDEN, "intermediate_size": 8, "max_position_embeddings": 128}
SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 1, "attn_implementation": "sdpa"}
ENDS: dict[str, Any] = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
DRAFT_LENGTH = 2
PROMPT, LOOKUP_PROMPT = (0, 1), (0, 1, 2, 0)
"""Lookup drafts n-grams of the context."""


def small_model(seed: int, layers: int, vocab_size: int = VOCAB) -> Module:
    """Return a Llama with random weights in float64."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {**SIZES, **ENDS, "vocab_size": vocab_size, "num_hidden_layers": layers}
    return randomised(LlamaForCausalLM(LlamaConfig(**sizes)), seed)


def randomised(module: Module, seed: int) -> Module:
    """Give a module random weights, always the same ones, and return it."""
    import torch

    module = module.to(torch.float64).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.normal_(std=0.45, generator=generator)
    return module


def with_arguments(arguments: Arguments) -> Drafter:
    """Return what drafts by the same arguments every time; copies of an engine have their own assistant."""
    always: Drafter = partial(nullcontext, arguments)  # type: ignore[assignment]  # an overload
    return always


def configured(draft: Module, **settings: object) -> Module:
    """Return a draft model that drafts `DRAFT_LENGTH` tokens, or as the ``settings`` of generation say."""
    fixed = {"num_assistant_tokens": DRAFT_LENGTH, "assistant_confidence_threshold": 0.0}
    for name, value in {**fixed, "num_assistant_tokens_schedule": "constant", **settings}.items():
        setattr(draft.generation_config, name, value)
    return draft


@dataclass(frozen=True)
class DecodingOption:
    """How completions are decoded: arguments of `generate`, and what they mean for the completion.

    ``prompt`` replaces the usual one; ``padding`` masked tokens come before every prompt. ``by_length``: the
    limit is on prompt and completion together, not on new tokens. ``from_prompt``: distributions depend on
    where the prompt ended.
    """

    arguments: Mapping[str, object] = field(default_factory=dict)
    stop_tokens: tuple[int, ...] = ()
    stop_sequences: tuple[tuple[int, ...], ...] = ()
    padding: int = 0
    by_length: bool = False
    prompt: tuple[int, ...] = ()
    from_prompt: bool = False


OPTIONS: Mapping[str, DecodingOption] = {
    "sampling": DecodingOption(),
    "top-p": DecodingOption({"top_p": 0.8}),
    "repetition penalty": DecodingOption({"repetition_penalty": 1.7}),
    "stop token": DecodingOption({"eos_token_id": 2, "pad_token_id": 0}, stop_tokens=(2,)),
    "max_length": DecodingOption({"top_k": 2}, by_length=True),
    "left padding": DecodingOption({"top_k": 2}, padding=2),
}


class TransformersEngine:
    """`generate` with one drafter, under one option; it keeps the engine contract."""

    def __init__(
        self, model: Module, drafting: Drafter, option: DecodingOption, prompt: tuple[int, ...] = PROMPT
    ) -> None:
        self.model, self.drafting, self.option = model, drafting, option
        self.vocab_size = model.config.vocab_size
        self.prompts = (option.prompt or prompt,)
        self.stop_tokens, self.stop_sequences = option.stop_tokens, option.stop_sequences
        self.drafted = self.accepted = 0

    def next_token_probs(self, context: Ids) -> Tensor:
        """Return the distribution of the next token, all processors included, [V]."""
        (prompt,) = self.prompts
        if self.option.from_prompt and (*context[: len(prompt)],) == prompt and len(context) > len(prompt):
            return self.rows_along(prompt, (*context[len(prompt) :], 0))[-1]
        output = self._run(context, 1, return_dict_in_generate=True, output_scores=True)
        return self._row(output.scores[0][0])

    def rows_along(self, prompt: Ids, completion: Ids) -> list[Tensor]:
        """Return the distributions of target-only decoding whose samples are these tokens, T times [V]."""
        import torch

        drawn = [torch.tensor([[token]]) for token in completion]
        with mock.patch.object(torch, "multinomial", side_effect=drawn):
            found = self._run(prompt, len(completion), return_dict_in_generate=True, output_scores=True)
        return [self._row(scores[0]) for scores in found.scores]

    def _row(self, scores: Tensor) -> Tensor:
        """Return the distribution [V] that is sampled from; of greedy decoding, that of the first maximum."""
        if self.option.arguments.get("do_sample", True):
            return scores.softmax(-1)
        return scores.new_zeros(scores.shape).index_fill(0, scores.argmax(), 1.0)

    def generate(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        return self.steps(prompt, max_new_tokens, seed)

    def steps(
        self, prompt: Ids, max_new_tokens: int, seed: int | None = None, on_call: OnCall = lambda _: None
    ) -> list[int]:
        """Decode speculatively; hand what each call emits to ``on_call``."""
        self.drafted = self.accepted = 0
        make = self._watched(self.model._get_candidate_generator, len(prompt), on_call)  # noqa: SLF001  # no public name
        with self.drafting() as arguments, mock.patch.object(self.model, "_get_candidate_generator", make):
            return self._text(prompt, max_new_tokens, seed, **arguments)

    def reported(self, prompt: Ids, max_new_tokens: int) -> tuple[list[int], list[float], None]:
        """Decode speculatively; return the tokens, and the log-probabilities by ``output_scores``."""
        with self.drafting() as arguments:
            found = self._run(
                prompt, max_new_tokens, return_dict_in_generate=True, output_scores=True, **arguments
            )
        tokens = found.sequences[0, self.option.padding + len(prompt) :].tolist()
        logs = [
            float(row[0].log_softmax(-1)[token]) for row, token in zip(found.scores, tokens, strict=False)
        ]
        return tokens, logs + [float("nan")] * (len(found.scores) - len(tokens)), None

    def raw_probs(self, context: Ids) -> Tensor:
        """Return the distribution of the model itself, no processor included, [V]."""
        output = self._run(context, 1, return_dict_in_generate=True, output_logits=True)
        return output.logits[0][0].softmax(-1)

    def generate_plain(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode without a drafter."""
        return self._text(prompt, max_new_tokens, seed)

    def _text(self, prompt: Ids, count: int, seed: int | None, **arguments: object) -> list[int]:
        import torch

        if seed is not None:
            torch.manual_seed(seed)
        text: list[int] = self._run(prompt, count, **arguments)[0].tolist()
        return text[self.option.padding + len(prompt) :]

    def _run(self, context: Ids, count: int, **arguments: object) -> "GenerateOutput":
        import torch

        ids = torch.tensor([[0] * self.option.padding + [*context]])
        mask = torch.tensor([[0] * self.option.padding + [1] * len(context)])
        length = {"max_length": ids.shape[1] + count} if self.option.by_length else {"max_new_tokens": count}
        given = {"do_sample": True, "top_k": 0, **self.option.arguments, **length, **arguments}
        if "stopping" in given:
            given |= given.pop("stopping")()
        return self.model.generate(ids, attention_mask=mask, **given)

    def _watched(
        self, make: Callable[..., "CandidateGenerator"], prompt: int, on_call: OnCall
    ) -> Callable[..., "CandidateGenerator"]:
        """Return what makes a generator of candidates whose drafts are counted, and calls shown."""
        before = self.option.padding + prompt

        def made(*arguments: object, **keywords: object) -> "CandidateGenerator":
            generator = make(*arguments, **keywords)
            update = generator.update_candidate_strategy

            def counted(ids: Tensor, scores: Tensor, matches: int) -> None:
                nonlocal before
                self.drafted += scores.shape[1] - 1
                self.accepted += int(matches)
                update(ids, scores, matches)
                shown, before = before, ids.shape[1]
                on_call(ids[0, shown:].tolist())

            generator.update_candidate_strategy = counted
            return generator

        return made


def assisted(option: DecodingOption) -> TransformersEngine:
    """Return an engine with a draft model."""
    assistant = {"assistant_model": configured(small_model(2, 1))}
    return TransformersEngine(small_model(1, LAYERS), with_arguments(assistant), option)


def looking_up(option: DecodingOption) -> TransformersEngine:
    """Return an engine that drafts by looking up n-grams of the context."""
    drafter = with_arguments({"prompt_lookup_num_tokens": DRAFT_LENGTH})
    return TransformersEngine(small_model(1, LAYERS), drafter, option, LOOKUP_PROMPT)


def engines() -> dict[str, TransformersEngine]:
    """Return the engines of an audit by name, "drafter, option"."""
    import transformers

    transformers.logging.set_verbosity_error()
    return {
        f"{name}, {option}": make(OPTIONS[option])
        for name, make in (("assistant", assisted), ("lookup", looking_up))
        for option in OPTIONS
    }
