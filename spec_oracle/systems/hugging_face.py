"""transformers' `generate` as an engine: small random models, one way to draft, one option of decoding.

The code under test is the installed package's, unchanged; the models are ours, so small that every outcome of
every random number can be followed. Rows are those of `generate` for one token, without a drafter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias
from unittest import mock

Tensor: TypeAlias = Any
Model: TypeAlias = Any

VOCAB = 3
PROMPT = (0, 1)
DRAFT_LENGTH = 2
LAYERS = 2


@cache
def small_model(seed: int, layers: int, vocab_size: int = VOCAB, sliding_window: int | None = None) -> Model:
    """Return a Llama, or with a sliding window a Mistral, with random weights in float64: always the same."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

    sizes = {
        "vocab_size": vocab_size,
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 64,
        "attn_implementation": "sdpa",
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id")),
    }
    if sliding_window is None:
        made = LlamaForCausalLM(LlamaConfig(**sizes))
    else:
        made = MistralForCausalLM(MistralConfig(**sizes, sliding_window=sliding_window))
    made = made.to(torch.float64).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for parameter in made.parameters():
        parameter.normal_(std=0.45, generator=generator)
    return made


@dataclass(frozen=True)
class Option:
    """How texts are decoded: arguments of `generate`, and what these mean for the text.

    ``padding`` masked tokens stand before every prompt; ``by_length`` says where texts end by their whole
    length in place of the number of new tokens.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    stop_tokens: tuple[int, ...] = ()
    stop_sequences: tuple[tuple[int, ...], ...] = ()
    padding: int = 0
    by_length: bool = False
    sliding_window: int | None = None


def _sequence_stops() -> dict[str, Any]:
    """Return arguments that end a text after the tokens 2, 1."""
    import torch
    from transformers import StoppingCriteria, StoppingCriteriaList

    class EndsWith(StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
            del scores
            return torch.stack([(row[-2:] == torch.tensor([2, 1])).all() for row in input_ids])

    return {"stopping_criteria": StoppingCriteriaList([EndsWith()])}


def _third_is_one(batch: int, ids: Tensor) -> list[int]:
    """Allow token 1 alone as third token of a text (with its prompt), any token elsewhere."""
    del batch
    return [1] if len(ids) == LAYERS + 1 else [*range(VOCAB)]


STOP = {"eos_token_id": 2, "pad_token_id": 0}

OPTIONS: Mapping[str, Option] = {
    "sampling": Option(),
    "temperature": Option({"temperature": 0.6}),
    "top-k": Option({"top_k": 2}),
    "top-p": Option({"top_p": 0.8}),
    "min-p": Option({"min_p": 0.3}),
    "typical": Option({"typical_p": 0.8}),
    "epsilon": Option({"epsilon_cutoff": 0.15}),
    "repetition penalty": Option({"repetition_penalty": 1.7}),
    "no repeated pairs": Option({"no_repeat_ngram_size": 2}),
    "sequence bias": Option({"sequence_bias": {(1, 2): -2.0, (0,): 0.7}}),
    "suppressed token": Option({"suppress_tokens": [0]}),
    "forced token": Option({"prefix_allowed_tokens_fn": _third_is_one}),
    "stop token": Option(STOP, stop_tokens=(2,)),
    "two stop tokens": Option(STOP | {"eos_token_id": [1, 2]}, stop_tokens=(1, 2)),
    "least length": Option(STOP | {"min_length": 4}, stop_tokens=(2,)),
    "stop sequence": Option({"stopping": _sequence_stops}, stop_sequences=((2, 1),)),
    "max_length": Option(by_length=True),
    "left padding": Option(padding=2),
    "static cache": Option({"cache_implementation": "static"}),
    "quantised cache": Option({"cache_implementation": "quantized"}),
    "sliding window": Option(sliding_window=3),
}


def _assisted(**settings: Any) -> Callable[["Generate"], dict[str, Any]]:
    def arguments(engine: "Generate") -> dict[str, Any]:
        fixed = {"num_assistant_tokens": DRAFT_LENGTH, "assistant_confidence_threshold": 0.0}
        for name, value in {**fixed, "num_assistant_tokens_schedule": "constant", **settings}.items():
            setattr(engine.draft.generation_config, name, value)
        return {"assistant_model": engine.draft}

    return arguments


def _universal(engine: "Generate") -> dict[str, Any]:
    """Let the assistant have the tokens in another order, and one more."""
    own, others = engine.tokenizers
    return {**_assisted()(engine), "tokenizer": own, "assistant_tokenizer": others}


def _tokenizer(letters: str) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({letter: i for i, letter in enumerate(letters)}, unk_token=letters[0]))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    made.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=made)


GENERATORS: Mapping[str, Callable[["Generate"], dict[str, Any]]] = {
    "assistant": _assisted(),
    "adaptive assistant": _assisted(num_assistant_tokens_schedule="heuristic", num_assistant_tokens=1),
    "unsure assistant": _assisted(assistant_confidence_threshold=0.6),
    "lookup": lambda _: {"prompt_lookup_num_tokens": DRAFT_LENGTH},
    "early exit": lambda _: {"assistant_early_exit": 1},
    "other tokenizer": _universal,
}
"""What a drafter adds to the arguments of `generate`."""


class Generate:
    """`generate` with one generator of candidates, under one option; it keeps the system contract."""

    vocab_size = VOCAB

    def __init__(self, generator: str, option: str) -> None:
        import copy

        self.drafter_arguments, self.option = GENERATORS[generator], OPTIONS[option]
        window, others = self.option.sliding_window, generator == "other tokenizer"
        self.model = copy.deepcopy(small_model(1, LAYERS, VOCAB, window))
        self.draft = copy.deepcopy(small_model(2, 1, VOCAB + others, window))
        # What is made of tokenizers is kept by them, the assistant's head included: every engine has its own.
        self.tokenizers: tuple[Any, ...] = (_tokenizer("abc"), _tokenizer("cabd")) if others else ()
        # Lookup drafts from what was said before.
        self.prompts = ((0, 1, 2, 0),) if generator == "lookup" else (PROMPT,)
        self.stop_tokens, self.stop_sequences = self.option.stop_tokens, self.option.stop_sequences
        self.drafted = self.accepted = 0

    def next_token_probs(self, context: Sequence[int]) -> Tensor:
        """Return the law of the next token, all processors included, [V]."""
        output = self._run(context, 1, return_dict_in_generate=True, output_scores=True)
        return output.scores[0][0].softmax(-1)

    def generate(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        self.drafted = self.accepted = 0
        with mock.patch.object(
            self.model,
            "_get_candidate_generator",
            self._watched(self.model._get_candidate_generator),  # noqa: SLF001
        ):
            return self._text(prompt, max_new_tokens, seed, **self.drafter_arguments(self))

    def generate_plain(
        self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None
    ) -> list[int]:
        """Decode without a drafter."""
        return self._text(prompt, max_new_tokens, seed)

    def _text(self, prompt: Sequence[int], count: int, seed: int | None, **arguments: Any) -> list[int]:
        import torch

        if seed is not None:
            torch.manual_seed(seed)
        text: list[int] = self._run(prompt, count, **arguments)[0].tolist()
        return text[self.option.padding + len(prompt) :]

    def _run(self, context: Sequence[int], count: int, **arguments: Any) -> Any:
        import torch

        ids = torch.tensor([[0] * self.option.padding + [*context]])
        mask = torch.tensor([[0] * self.option.padding + [1] * len(context)])
        length = {"max_length": ids.shape[1] + count} if self.option.by_length else {"max_new_tokens": count}
        given = {"do_sample": True, "top_k": 0, **self.option.arguments, **length, **arguments}
        if "stopping" in given:
            given |= given.pop("stopping")()
        return self.model.generate(ids, attention_mask=mask, **given)

    def _watched(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """Return what makes a generator of candidates whose drafts are counted."""

        def made(*arguments: Any, **keywords: Any) -> Any:
            generator = make(*arguments, **keywords)
            update = generator.update_candidate_strategy

            def counted(ids: Tensor, scores: Tensor, matches: Any) -> None:
                self.drafted += scores.shape[1] - 1
                self.accepted += int(matches)
                update(ids, scores, matches)

            generator.update_candidate_strategy = counted
            return generator

        return made


DEFAULT = {
    "assistant": ("sampling", "top-p", "repetition penalty", "stop token", "max_length", "left padding"),
    "lookup": ("sampling", "top-p", "repetition penalty", "stop token", "max_length", "left padding"),
}
"""What an audit covers that asks for no more."""


def engines() -> dict[str, Generate]:
    """Return the engines of an audit by name, "generator, option"."""
    import transformers

    transformers.logging.set_verbosity_error()
    return {f"{g}, {option}": Generate(g, option) for g, options in DEFAULT.items() for option in options}
