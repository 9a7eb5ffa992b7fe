"""transformers' `generate` as an engine: small random models, one way to draft, one option of decoding.

The code under test is the installed package's, unchanged; the models are ours, so small that every outcome of
every random number can be followed. Rows are those of `generate` for one token, without a drafter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from unittest import mock

from spec_oracle.third_party.engines.hugging_face_drafters import GENERATORS, TARGETS, tokenizer_of
from spec_oracle.third_party.engines.hugging_face_models import VOCAB, small_model

if TYPE_CHECKING:
    import torch
    from transformers.generation import CandidateGenerator
    from transformers.generation.utils import GenerateOutput

Tensor: TypeAlias = "torch.Tensor"

PROMPT = (0, 1)
LAYERS = 2


@dataclass(frozen=True)
class DecodingOption:
    """How texts are decoded: arguments of `generate`, and what these mean for the text.

    ``prompt`` takes the place of the usual one; ``padding`` masked tokens stand before every prompt;
    ``by_length`` says where texts end by their whole length in place of the number of new tokens;
    ``from_prompt``, that rows depend on where the prompt ended.
    """

    arguments: Mapping[str, object] = field(default_factory=dict)
    stop_tokens: tuple[int, ...] = ()
    stop_sequences: tuple[tuple[int, ...], ...] = ()
    padding: int = 0
    by_length: bool = False
    architecture: str = "Llama"
    prompt: tuple[int, ...] = ()
    from_prompt: bool = False


def _sequence_stops() -> dict[str, object]:
    """Return arguments that end a text after the tokens 2, 1."""
    import torch
    from transformers import StoppingCriteria, StoppingCriteriaList

    class EndsWith(StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Tensor, scores: Tensor, **_: object) -> Tensor:
            del scores
            return torch.stack([(row[-2:] == torch.tensor([2, 1])).all() for row in input_ids])

    return {"stopping_criteria": StoppingCriteriaList([EndsWith()])}


def _string_stops() -> dict[str, object]:
    """Return arguments that end a text after the tokens 2, 1, which are the string "cb"."""
    return {"stop_strings": ["cb"], "tokenizer": tokenizer_of("abcdef")}


def _third_is_one(batch: int, ids: Tensor) -> list[int]:
    """Allow token 1 alone as third token of a text (with its prompt), any token elsewhere."""
    del batch
    return [1] if len(ids) == LAYERS + 1 else [*range(VOCAB)]


TWO = {"top_k": 2}
LAYERED = ("Gemma 3", "LFM2", "LFM3", "MiniMax", "Qwen3-Next", "Mamba 2", "RecurrentGemma")
"""Architectures with sliding, convolutional, recurrent or hybrid layers."""
STOP = {"eos_token_id": 2, "pad_token_id": 0}

OPTIONS: Mapping[str, DecodingOption] = {
    "sampling": DecodingOption(),
    "temperature": DecodingOption({"temperature": 0.6}),
    "top-k": DecodingOption(TWO),
    "top-p": DecodingOption({"top_p": 0.8}),
    "min-p": DecodingOption({"min_p": 0.3}),
    "typical": DecodingOption({"typical_p": 0.8}),
    "epsilon": DecodingOption({"epsilon_cutoff": 0.15}),
    "repetition penalty": DecodingOption({"repetition_penalty": 1.7}),
    "no repeated pairs": DecodingOption({"no_repeat_ngram_size": 2}),
    "sequence bias": DecodingOption({"sequence_bias": {(1, 2): -2.0, (0,): 0.7}}),
    "suppressed token": DecodingOption({"suppress_tokens": [0]}),
    "forced token": DecodingOption({"prefix_allowed_tokens_fn": _third_is_one}),
    "stop token": DecodingOption(STOP, stop_tokens=(2,)),
    "two stop tokens": DecodingOption(STOP | {"eos_token_id": [1, 2]}, stop_tokens=(1, 2)),
    "least length": DecodingOption(STOP | {"min_length": 4}, stop_tokens=(2,)),
    "stop sequence": DecodingOption({"stopping": _sequence_stops}, stop_sequences=((2, 1),)),
    "stop string": DecodingOption({"stopping": _string_stops}, stop_sequences=((2, 1),)),
    "greedy": DecodingOption({"do_sample": False}),
    "temperature of 0": DecodingOption({"temperature": 0.0}),
    "eta": DecodingOption({"eta_cutoff": 0.15}),
    "top-h": DecodingOption({"top_h": 0.9}),
    "bad words": DecodingOption({"bad_words_ids": [[1, 2], [2, 0]]}),
    "suppressed at first": DecodingOption({"begin_suppress_tokens": [1]}, from_prompt=True),
    "forced first token": DecodingOption({"forced_bos_token_id": 2}, prompt=(0,), from_prompt=True),
    "forced last token": DecodingOption(
        STOP | {"forced_eos_token_id": 2}, stop_tokens=(2,), from_prompt=True
    ),
    "least new tokens": DecodingOption(STOP | {"min_new_tokens": 2}, stop_tokens=(2,), from_prompt=True),
    "length penalty": DecodingOption(
        STOP | {"exponential_decay_length_penalty": (1, 1.5)}, stop_tokens=(2,), from_prompt=True
    ),
    "penalty on the prompt": DecodingOption({"encoder_repetition_penalty": 1.7}, from_prompt=True),
    "no pairs of the prompt": DecodingOption({"encoder_no_repeat_ngram_size": 2}, from_prompt=True),
    "guidance": DecodingOption({"guidance_scale": 1.5}, from_prompt=True),
    "renormalised": DecodingOption({"renormalize_logits": True, "top_p": 0.8, "remove_invalid_values": True}),
    "prefill in chunks": DecodingOption(TWO | {"prefill_chunk_size": 2}, prompt=(0, 1, 2, 0, 1)),
    "prompt of one token": DecodingOption(TWO, prompt=(0,)),
    "prompt of 70 tokens": DecodingOption(TWO, prompt=(0, 1, 2, 2, 1) * 14),
    "without a cache": DecodingOption(TWO | {"use_cache": False}),
    "many at once": DecodingOption(
        STOP | {"temperature": 0.8, "top_k": 2, "top_p": 0.9, "repetition_penalty": 1.3, "min_new_tokens": 2},
        stop_tokens=(2,),
        from_prompt=True,
    ),
    "max_length": DecodingOption(TWO, by_length=True),
    "left padding": DecodingOption(TWO, padding=2),
    "static cache": DecodingOption({"cache_implementation": "static"}),
    "quantised cache": DecodingOption(
        {"cache_implementation": "quantized", "cache_config": {"backend": "fp8"}}
    ),
    "sliding window": DecodingOption(TWO, architecture="Mistral"),
    **{name: DecodingOption(TWO, architecture=name) for name in LAYERED},
}


class TransformersEngine:
    """`generate` with one generator of candidates, under one option; it keeps the system contract."""

    def __init__(self, generator: str, option: str, vocab_size: int = VOCAB) -> None:
        self.option, self.vocab_size = OPTIONS[option], vocab_size
        architecture = TARGETS.get(generator, self.option.architecture)
        self.model = small_model(1, LAYERS, vocab_size, architecture)
        self.drafting = GENERATORS[generator](self.model, architecture)
        # Lookup drafts from what was said before.
        usual = (0, 1, 2, 0) if generator.startswith("lookup") else PROMPT
        self.prompts = (self.option.prompt or usual,)
        self.stop_tokens, self.stop_sequences = self.option.stop_tokens, self.option.stop_sequences
        self.drafted = self.accepted = 0

    def next_token_probs(self, context: Sequence[int]) -> Tensor:
        """Return the law of the next token, all processors included, [V]."""
        (prompt,) = self.prompts
        if self.option.from_prompt and (*context[: len(prompt)],) == prompt and len(context) > len(prompt):
            return self.rows_along(prompt, (*context[len(prompt) :], 0))[-1]
        output = self._run(context, 1, return_dict_in_generate=True, output_scores=True)
        return self._row(output.scores[0][0])

    def rows_along(self, prompt: Sequence[int], completion: Sequence[int]) -> list[Tensor]:
        """Return the rows of plain decoding whose draws are replaced by these tokens, T times [V]."""
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

    def generate(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        return self.steps(prompt, max_new_tokens, seed)

    def steps(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        seed: int | None = None,
        on_call: Callable[[list[int]], None] = lambda _: None,
    ) -> list[int]:
        """Decode speculatively; hand what each call emits to ``on_call``."""
        self.drafted = self.accepted = 0
        make = self._watched(self.model._get_candidate_generator, len(prompt), on_call)  # noqa: SLF001  # no public name
        with self.drafting() as arguments, mock.patch.object(self.model, "_get_candidate_generator", make):
            return self._text(prompt, max_new_tokens, seed, **arguments)

    def reported(self, prompt: Sequence[int], max_new_tokens: int) -> tuple[list[int], list[float], None]:
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

    def raw_probs(self, context: Sequence[int]) -> Tensor:
        """Return the row of the model itself, no processor included, [V]."""
        output = self._run(context, 1, return_dict_in_generate=True, output_logits=True)
        return output.logits[0][0].softmax(-1)

    def generate_plain(
        self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None
    ) -> list[int]:
        """Decode without a drafter."""
        return self._text(prompt, max_new_tokens, seed)

    def _text(self, prompt: Sequence[int], count: int, seed: int | None, **arguments: object) -> list[int]:
        import torch

        if seed is not None:
            torch.manual_seed(seed)
        text: list[int] = self._run(prompt, count, **arguments)[0].tolist()
        return text[self.option.padding + len(prompt) :]

    def _run(self, context: Sequence[int], count: int, **arguments: object) -> "GenerateOutput":
        import torch

        ids = torch.tensor([[0] * self.option.padding + [*context]])
        mask = torch.tensor([[0] * self.option.padding + [1] * len(context)])
        length = {"max_length": ids.shape[1] + count} if self.option.by_length else {"max_new_tokens": count}
        given = {"do_sample": True, "top_k": 0, **self.option.arguments, **length, **arguments}
        if "stopping" in given:
            given |= given.pop("stopping")()
        return self.model.generate(ids, attention_mask=mask, **given)

    def _watched(
        self, make: Callable[..., "CandidateGenerator"], prompt: int, on_call: Callable[[list[int]], None]
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


DEFAULT = {
    "assistant": ("sampling", "top-p", "repetition penalty", "stop token", "max_length", "left padding"),
    "lookup": ("sampling", "top-p", "repetition penalty", "stop token", "max_length", "left padding"),
}
"""What an audit covers that asks for no more."""


def engines() -> dict[str, TransformersEngine]:
    """Return the engines of an audit by name, "generator, option"."""
    import transformers

    transformers.logging.set_verbosity_error()
    return {
        f"{g}, {option}": TransformersEngine(g, option)
        for g, options in DEFAULT.items()
        for option in options
    }
