"""A causal language model fed token by token, with its key-value cache.

The cache only grows. What turns out to have been drafted in vain is not cut out of it but masked: requests
that accepted different lengths then still share one rectangular cache, whatever the architecture's layers
keep, and the positions of the tokens that count are given explicitly.
"""

from typing import Any

from spec_oracle.language_models.loading import LanguageModel

Tensor = Any


class CachedModel:
    """R texts that one network is reading; a text is the tokens fed to it that were not forgotten."""

    def __init__(self, model: LanguageModel, num_texts: int) -> None:
        import torch

        self._model = model
        self._cache: Any = None
        self._counts = torch.zeros((num_texts, 0), dtype=torch.int64, device=model.device)

    def feed(self, tokens: Tensor, counts: Tensor | None = None) -> Tensor:
        """Append int [R, n] tokens; return the logits [R, n, V] of what follows each of them.

        Where bool ``counts`` [R, n] is False the token is padding: it takes up no position, nothing attends
        to it, and its logits mean nothing.
        """
        import torch

        fresh = torch.ones_like(tokens) if counts is None else counts.to(torch.int64)
        first = self._counts.sum(dim=1, keepdim=True)
        self._counts = torch.cat([self._counts, fresh], dim=1)
        with torch.inference_mode():
            output = self._model.network(
                input_ids=tokens,
                attention_mask=self._counts,
                position_ids=(first + fresh.cumsum(dim=1) - 1).clamp(min=0),
                past_key_values=self._cache,
                use_cache=True,
            )
        self._cache = output.past_key_values
        return output.logits / self._model.temperature

    def select(self, texts: Tensor) -> None:
        """Go on with these texts only, int [R'] of 0..R-1, in this order, with repetition."""
        self._counts = self._counts[texts]
        if self._cache is not None:
            self._cache.reorder_cache(texts)

    def forget(self, wrong: Tensor) -> None:
        """Take back those of the last n tokens of every text that bool ``wrong`` [R, n] marks."""
        start = self._counts.shape[1] - wrong.shape[1]
        self._counts[:, start:] *= ~wrong
