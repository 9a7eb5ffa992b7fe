"""keras-hub's `SpeculativeSampler` with a base sampler as an engine: its file, with Keras on torch."""

import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import torch

from spec_oracle.arrays import Floats
from spec_oracle.contracts.adapting import fresh_seed
from spec_oracle.errors import EngineError
from spec_oracle.third_party.engines import Ids
from spec_oracle.third_party.samplers.wheels import load_alone, wheel

TARGET = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.45, 0.15, 0.4]])
DRAFT = np.array([[0.2, 0.5, 0.3], [0.3, 0.3, 0.4], [0.4, 0.4, 0.2]])
"""Distributions after each token, of the target and of the draft model."""

_SAMPLERS = "keras_hub.src.samplers"
_GEMMA = "keras_hub.src.models.gemma4.gemma4_causal_lm"


class KerasHubEngine:
    """`SpeculativeSampler` with `RandomSampler` and two tables for models; it keeps the engine contract."""

    vocab_size = len(TARGET)
    prompts = ((1,), (0, 1))

    def __init__(self, draft_length: int = 2) -> None:
        os.environ.setdefault("KERAS_BACKEND", "torch")
        try:
            import keras  # noqa: F401  # the sampler imports it
        except ImportError:
            raise EngineError("keras is not installed; make engines") from None
        folder = wheel("keras-hub").fetched_folder()
        self.draft_length = draft_length
        self.speculative, self.random = (
            load_alone(f"{_SAMPLERS}.{one}_sampler", folder) for one in ("speculative", "random")
        )
        self.gemma = ModuleType(_GEMMA)  # imported by the sampler's loop
        vars(self.gemma)["Gemma4CausalLM"] = type("Gemma4CausalLM", (), {})

    def __deepcopy__(self, memo: object) -> "KerasHubEngine":
        """Share the modules: every completion has a sampler of its own."""
        return self

    def next_token_probs(self, context: Ids) -> Floats:
        """Return the target's distribution of the next token, [V]."""
        return np.asarray(TARGET[context[-1]])

    def generate(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        return self.generate_batch([prompt], max_new_tokens, [seed])[0]

    def generate_batch(
        self, prompts: Sequence[Ids], max_new_tokens: int, seeds: Sequence[int | None]
    ) -> list[list[int]]:
        """Decode several requests together, by the seed of the first; prompts may differ in length."""
        lengths = [len(prompt) for prompt in prompts]
        longest = max(lengths) + max_new_tokens
        ids = torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts])
        seed = fresh_seed(torch.default_generator) if seeds[0] is None else seeds[0]
        sampler = self.speculative.SpeculativeSampler(
            num_speculative_tokens=self.draft_length,
            base_sampler=self.random.RandomSampler(),
            seed=seed % 2**31,
        )
        draft = _Model(DRAFT)
        with mock.patch.dict(sys.modules, {_GEMMA: self.gemma}):
            found = sampler(
                next=_Model(TARGET),
                draft_next=draft,
                prompt=ids,
                index=min(lengths),
                mask=torch.arange(longest) < torch.tensor(lengths)[:, None],
            )
        self.drafted, calls = draft.calls, draft.calls // self.draft_length
        self.accepted = longest - min(lengths) - calls
        return [
            row[length : length + max_new_tokens].tolist() for row, length in zip(found, lengths, strict=True)
        ]


class _Model:
    """A model whose next-token distribution depends on the last token alone; it counts its calls."""

    def __init__(self, rows: Floats) -> None:
        self.logits, self.calls = torch.log(torch.tensor(rows)), 0

    def __call__(self, prompt: torch.Tensor, cache: object, index: Any) -> tuple[torch.Tensor, None, object]:
        self.calls += 1
        return self.logits[prompt[:, int(index) - 1]], None, cache
