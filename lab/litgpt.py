"""litgpt's `generate` with a draft model as an engine: its files, with tables in place of models."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import torch

from lab.keras_hub import DRAFT, TARGET
from spec_oracle.arrays import Floats
from spec_oracle.third_party.engines import Ids
from spec_oracle.third_party.samplers.wheels import load_alone, wheel

TOP_P = 0.75
OPTIONS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {"sampling": {}, "greedy": {"temperature": 0.0}, "top-p": {"top_p": TOP_P}}
)


class _Table:
    """A model whose next-token distribution depends on the last token; it counts the drafts that it reads."""

    max_seq_length = 10**6

    def __init__(self, rows: Floats) -> None:
        self.logits, self.calls, self.drafts = torch.log(torch.tensor(rows)), 0, 0

    def __call__(self, idx: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        self.drafts += idx.shape[1] - 1 if self.calls else 0  # the first call reads the prompt
        self.calls += 1
        return self.logits[idx]

    def modules(self) -> tuple[()]:
        """Return its layers: none."""
        return ()


class LitgptEngine:
    """`litgpt.generate.speculative_decoding.generate` with one of `OPTIONS`; it keeps the engine contract."""

    vocab_size = len(TARGET)
    prompts = ((1,), (0, 1))

    def __init__(self, option: str = "sampling", draft_length: int = 2) -> None:
        folder = wheel("litgpt").fetched_folder()
        self.option, self.draft_length = option, draft_length
        self.module = load_alone("litgpt.generate.speculative_decoding", folder, {"lightning": {}})
        self.drafted = self.accepted = 0

    def __deepcopy__(self, memo: object) -> "LitgptEngine":
        """Share the module: every completion has models of its own."""
        return LitgptEngine(self.option, self.draft_length)

    def next_token_probs(self, context: Ids) -> Floats:
        """Return the target's distribution of the next token, [V]."""
        row = TARGET[context[-1]]
        if self.option == "greedy":
            return np.asarray(np.eye(self.vocab_size)[row.argmax()])
        if self.option == "top-p":  # the fewest likely tokens that have that probability together
            order = np.argsort(-row)
            before = np.cumsum(row[order]) - row[order]
            row = np.where(before[np.argsort(order)] < TOP_P, row, 0.0)
        return np.asarray(row / row.sum())

    def generate(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        if seed is not None:
            torch.manual_seed(seed)
        target = _Table(TARGET)
        tokens, rate = self.module.generate(
            _Table(DRAFT),
            target,
            torch.tensor(prompt),
            len(prompt) + max_new_tokens,
            include_prompt=False,
            speculative_k=self.draft_length,
            **OPTIONS[self.option],
        )
        self.drafted, self.accepted = target.drafts, round(rate * target.drafts)
        return [int(token) for token in tokens]
