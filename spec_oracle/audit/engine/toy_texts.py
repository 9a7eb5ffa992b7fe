"""Texts of systems: their laws under plain decoding, and what was decoded, as cells of those laws."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spec_oracle.contracts import ContractError
from spec_oracle.contracts.steps import Session, Step, System
from spec_oracle.toy.contexts import (
    Contexts,
    after_tokens,
    child,
    cut_to_depth,
    first_of_depth,
    rows_by_context,
)
from verifiers.sampling import invert_cdf


@dataclass(frozen=True)
class PlainTexts:
    """The law of the first ``length`` tokens of plain decoding; after a stop token only stop tokens follow.

    ``rows`` [N, V] are the rows of all contexts of fewer tokens, ``law`` [V^length].
    """

    vocab_size: int
    length: int
    rows: NDArray[np.float64]
    law: NDArray[np.float64]

    @classmethod
    def of(cls, system: System, length: int) -> "PlainTexts":
        """Return the law for a system."""
        vocab = system.instance.vocab_size
        rows = rows_by_context(system.instance.target, length - 1).copy()
        if system.stop_token is not None:
            stopped = np.zeros(1, dtype=bool)
            for depth in range(1, length):
                stopped = np.repeat(stopped, vocab)
                stopped[system.stop_token :: vocab] = True
                level = slice(first_of_depth(vocab, depth), first_of_depth(vocab, depth + 1))
                rows[level][stopped] = np.arange(vocab) == system.stop_token
        law = np.ones(1)
        for depth in range(length):
            level = slice(first_of_depth(vocab, depth), first_of_depth(vocab, depth + 1))
            law = (law[:, None] * rows[level]).reshape(-1)
        return cls(vocab, length, rows, law)

    def cells(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the cells of texts [B], cut to ``length`` tokens or continued by plain decoding."""
        texts = cut_to_depth(contexts, self.vocab_size, self.length)
        end = first_of_depth(self.vocab_size, self.length)
        while (short := np.flatnonzero(texts < end)).size:
            drawn = invert_cdf(self.rows[texts[short]], rng.random(len(short)))
            texts[short] = child(texts[short], drawn, self.vocab_size)
        return texts - end


def decoded(system: System, session: Session, requests: int, steps: int) -> tuple[Contexts, list[Step]]:
    """Run some steps; return the texts reached, int [B], and the steps. Raises `ContractError`."""
    vocab, width = system.instance.vocab_size, system.instance.draft_length + 1
    texts, lengths, done = np.zeros(requests, dtype=np.int64), np.zeros(requests, dtype=np.int64), []
    for number in range(1, steps + 1):
        step = session.step()
        _require_emissions(step, (requests, width), vocab)
        texts = after_tokens(texts, step.tokens, vocab)
        lengths += (step.tokens >= 0).sum(axis=1)
        if system.max_tokens is not None and (lengths > system.max_tokens).any():
            request = int(np.argmax(lengths > system.max_tokens))
            raise ContractError(
                f"request {request} has {lengths[request]} tokens after call {number}, "
                f"its budget is {system.max_tokens}"
            )
        done.append(step)
    return texts, done


def _require_emissions(step: Step, shape: tuple[int, int], vocab: int) -> None:
    tokens = step.tokens
    if tokens.shape != shape:
        raise ContractError(f"tokens: shape {tokens.shape}, expected {shape}")
    gap = (tokens[:, :-1] < 0) & (tokens[:, 1:] >= 0)
    outside = (tokens < -1) | (tokens >= vocab)
    if gap.any() or outside.any():
        request = int(np.argmax(gap.any(axis=1) | outside.any(axis=1)))
        raise ContractError(f"tokens: {tokens[request].tolist()} of request {request} are no emission")


def unseeded(count: int) -> list[int | None]:
    """Return ``count`` requests that set no seed."""
    return [None] * count
