"""mlx-lm's speculative decoding as an engine: small random models, its own filters and logits processors.

MLX samples in C++, where random numbers cannot be traced; but mlx-lm lets its user bring the sampler. Ours
samples with `random` from what mlx-lm's filter leaves, so that the distribution of all else is enumerated.
"""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from spec_oracle.arrays import Floats
from spec_oracle.third_party.engines import Ids

if TYPE_CHECKING:
    import mlx.core as mx
    from mlx.nn import Module

Logits: TypeAlias = "mx.array"
Tokens: TypeAlias = "mx.array"
Processor: TypeAlias = Callable[[Tokens, Logits], Logits]
Sampler: TypeAlias = Callable[[Logits], Tokens]

VOCAB = 3


def small_model(seed: int) -> "Module":
    """Return a Llama of two layers with random weights in float32: always the same."""
    from mlx_lm.models.llama import Model, ModelArgs

    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "intermediate_size": 8, "vocab_size": VOCAB}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": False}
    return randomised(Model(ModelArgs(model_type="llama", rms_norm_eps=1e-6, **sizes, **heads)), seed)


def randomised(made: "Module", seed: int, scale: float = 0.45) -> "Module":
    """Return a module with normal weights in float32 in place of its own: always the same."""
    import mlx.core as mx
    from mlx.utils import tree_map

    rng = np.random.default_rng(seed)

    def random_like(p: "mx.array") -> "mx.array":
        is_weight = mx.issubdtype(p.dtype, mx.floating)
        return mx.array(scale * rng.standard_normal(p.shape), mx.float32) if is_weight else p

    made.update(tree_map(random_like, made.parameters()))
    mx.eval(made.parameters())
    return made


def law(logits: Logits) -> Floats:
    """Return the distributions of logits or log-probabilities, [..., V]."""
    weights = np.exp(np.array(logits, dtype=np.float64))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def draw(logits: Logits) -> Tokens:
    """Sample a token with `random` from each of these logits or log-probabilities [..., V]."""
    import mlx.core as mx

    rows = law(logits)
    *shape, vocab = rows.shape
    tokens = [random.choices(range(vocab), row)[0] for row in rows.reshape(-1, vocab).tolist()]  # noqa: S311
    return mx.array(tokens, mx.uint32).reshape(shape)


def emitting(tokens: Ids, seen: list[Logits]) -> Sampler:
    """Return a sampler that emits these tokens, and adds to ``seen`` what it samples from, [1, V] each."""
    import mlx.core as mx

    def sampler(logits: Logits) -> Tokens:
        seen.append(logits)
        return mx.array([(*tokens, 0)[len(seen) - 1]], mx.uint32)  # one token is sampled ahead

    return sampler


class MlxLmEngine:
    """`speculative_generate_step` with one filter and some processors; it keeps the engine contract."""

    vocab_size = VOCAB

    def __init__(
        self,
        draft_length: int,
        keep: Callable[[Logits], Logits],
        processors: Sequence[Processor] = (),
        prompts: Sequence[tuple[int, ...]] = ((1,), (0, 1)),
    ) -> None:
        self.model, self.draft, self.draft_length = small_model(1), small_model(2), draft_length
        self.keep, self.processors, self.prompts = keep, [*processors], prompts
        self.drafted = self.accepted = 0

    def __deepcopy__(self, memo: object) -> "MlxLmEngine":
        """Share the models: every completion begins with caches of its own."""
        return copy.copy(self)

    def next_token_probs(self, context: Ids) -> Floats:
        """Return the distribution of the next token, filter and processors included, [V]."""
        row: Floats = self.rows_along(context, [0])[0]
        return row

    def raw_probs(self, context: Ids) -> Floats:
        """Return the distribution that mlx-lm reports: processors included, before the filter, [V]."""
        return np.asarray(np.exp(np.array(self._along(context, [0])[0], dtype=np.float64))[0])

    def rows_along(self, prompt: Ids, completion: Ids) -> Floats:
        """Return the distributions of target-only decoding whose samples are these tokens, [T, V]."""
        return np.concatenate([law(self.keep(logprobs)) for logprobs in self._along(prompt, completion)])

    def _along(self, prompt: Ids, tokens: Ids) -> list[Logits]:
        """Return the log-probabilities of target-only decoding that emits these tokens, T times [1, V]."""
        seen: list[Logits] = []
        self._plain(prompt, len(tokens), emitting(tokens, seen))
        return seen[: len(tokens)]

    def generate(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        return [token for emitted in self.steps(prompt, max_new_tokens, seed) for token in emitted]

    def reported(self, prompt: Ids, max_new_tokens: int) -> tuple[list[int], list[float], None]:
        """Decode speculatively; return the tokens, and the log-probabilities that are reported of them."""
        steps = [
            (int(token), float(row[int(token)])) for token, row, _ in self._steps(prompt, max_new_tokens)
        ]
        return [token for token, _ in steps], [log for _, log in steps], None

    def steps(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> Iterator[list[int]]:
        """Decode speculatively; yield what each call emits: accepted drafts, and a token that is none."""
        if seed is not None:
            random.seed(seed)
        self.drafted = self.accepted = 0
        emitted: list[int] = []
        for place, (token, _, is_draft) in enumerate(self._steps(prompt, max_new_tokens)):
            left = max_new_tokens - place
            self.drafted += 0 if emitted else min(left, self.draft_length)
            self.accepted += is_draft
            emitted.append(int(token))
            if not is_draft or left == 1:
                yield emitted
                emitted = []

    def _steps(self, prompt: Ids, count: int) -> Iterator[tuple[Tokens, Logits, bool]]:
        """Yield tokens, their log-probabilities [V], and whether they were drafts."""
        import mlx.core as mx
        from mlx_lm.generate import speculative_generate_step

        steps: Iterator[tuple[Tokens, Logits, bool]] = speculative_generate_step(
            mx.array(prompt),
            self.model,
            self.draft,
            num_draft_tokens=self.draft_length,
            max_tokens=count,
            sampler=self._sample,
            logits_processors=self.processors or None,
        )
        return steps

    def generate_plain(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode without a drafter."""
        if seed is not None:
            random.seed(seed)
        return self._plain(prompt, max_new_tokens, self._sample)

    def _plain(self, prompt: Ids, count: int, sampler: Sampler) -> list[int]:
        import mlx.core as mx
        from mlx_lm.generate import generate_step

        how = {"max_tokens": count, "sampler": sampler, "logits_processors": self.processors or None}
        steps = generate_step(mx.array(prompt), self.model, **how)
        return [int(token) for token, _ in steps]

    def _sample(self, logprobs: Logits) -> Tokens:
        return draw(self.keep(logprobs))


def _filter(name: str, bound: float) -> Callable[[Logits], Logits]:
    """Return one of mlx-lm's filters: "top_k", "top_p" or "min_p"."""
    from mlx_lm import sample_utils

    return lambda logprobs: getattr(sample_utils, f"apply_{name}")(logprobs, bound)


def engines() -> dict[str, MlxLmEngine]:
    """Return engines by filter, draft length, and with a logit bias."""
    from mlx_lm.sample_utils import make_logits_processors

    top_k, min_p = _filter("top_k", 2), _filter("min_p", 0.7)
    return {
        "top-k": MlxLmEngine(1, top_k),
        "drafts of two": MlxLmEngine(2, min_p),
        "top-p": MlxLmEngine(1, _filter("top_p", 0.6)),
        "min-p": MlxLmEngine(1, min_p),
        "bias": MlxLmEngine(1, top_k, make_logits_processors(logit_bias={1: -1.5})),
    }


def penalties() -> dict[str, MlxLmEngine]:
    """Return engines by the penalty that they apply."""
    from mlx_lm.sample_utils import make_logits_processors

    return {
        name: MlxLmEngine(1, _filter("top_k", 2), make_logits_processors(**{f"{name}_penalty": value}))
        for name, value in (("repetition", 1.7), ("presence", 1.0), ("frequency", 1.0))
    }
