"""Next-token distributions by local weights: a draft model, or the reference of transcripts."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from spec_oracle.audit.logprobs import Logs
from spec_oracle.contracts.completion import Prefix, Prompt
from spec_oracle.errors import InvalidInputError
from spec_oracle.language_models import load_language_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Rows: TypeAlias = Callable[[Sequence[object], Sequence[object]], Sequence[Logs | None]]
"""(prompt, tokens) -> log-probabilities listed at each token, before temperature and filters."""


@dataclass
class Weights:
    """What ``rows`` says after the prefixes of completions, by prefix; ``prompts`` are token ids."""

    rows: Rows
    prompts: Sequence[Prompt]
    logs: dict[Prefix, Logs | None] = field(default_factory=dict, init=False)

    def compute(self, completions: Iterable[Prefix]) -> None:
        """Compute the distributions at all tokens of completions."""
        for number, tokens in completions:
            for end, row in enumerate(self.rows(self.prompts[number], tokens)):
                self.logs[number, tokens[:end]] = row


def load_rows(spec: str) -> Rows:
    """Load the weights of a short text, as `load_language_model` knows them.

    Raises `InvalidInputError`, also where a loader raises anything else.
    """
    try:
        return of_weights(load_language_model(spec, has_text=False).network)
    except InvalidInputError:
        raise
    except Exception as error:
        raise InvalidInputError(f"local weights: {type(error).__name__}: {error}") from error


def of_weights(network: "PreTrainedModel", listed: int = 200) -> Rows:
    """Return the distributions by a causal network of transformers: one pass a completion, the likeliest.

    Raises `InvalidInputError` for tokens that the network does not have.
    """
    import torch

    vocab = network.get_input_embeddings().num_embeddings

    def rows(prompt: Sequence[object], tokens: Sequence[Any]) -> list[Logs]:
        if largest := max((token for token in (*prompt, *tokens) if token >= vocab), default=0):
            raise InvalidInputError(f"local weights: they have {vocab:,} tokens, not token {largest}")
        ids = torch.tensor([[*prompt, *tokens]], device=network.device)
        with torch.inference_mode():
            logits = network(ids, logits_to_keep=len(tokens) + 1).logits[0, -len(tokens) - 1 : -1]
        likeliest, which = logits.topk(min(listed, logits.shape[-1]), dim=-1)
        logs = likeliest.double() - logits.double().logsumexp(dim=-1, keepdim=True)
        return [dict(zip(*pair, strict=True)) for pair in zip(which.tolist(), logs.tolist(), strict=True)]

    return rows
