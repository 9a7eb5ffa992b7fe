"""What servers tell Prometheus of drafts."""

import re
from dataclasses import dataclass

_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(\{[^}]*\})?\s+(?P<value>\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Drafts:
    """Drafted and accepted tokens, None where a server does not tell; ``accepted`` may be a mean per call."""

    drafted: float | None = None
    accepted: float | None = None

    def __add__(self, other: "Drafts") -> "Drafts":
        return Drafts(_sum(self.drafted, other.drafted), _sum(self.accepted, other.accepted))

    def since(self, before: "Drafts") -> "Drafts":
        """Return what was counted after ``before``; a mean is no count, and stays what it is."""
        if self.drafted is None or self.accepted is None or before.drafted is None or before.accepted is None:
            return self
        return Drafts(self.drafted - before.drafted, self.accepted - before.accepted)

    @property
    def vacuity(self) -> str:
        """Say why a test of texts says nothing of speculation, "" where it does."""
        if self.accepted is None:
            return "not known whether any draft was accepted; --assume-speculating, if you know that they are"
        if self.drafted == 0:
            return "nothing was drafted: speculation is off, or found nothing to draft after these prompts"
        if self.accepted == 0:
            return "no draft was accepted"
        return "never rejected a draft" if self.accepted == self.drafted else ""


def told_to_prometheus(text: str) -> Drafts:
    r"""Return what a ``/metrics`` page tells, added up over models and ranks.

    vLLM and llama.cpp count tokens; SGLang shows the mean number of tokens per call, the last one included.

    >>> told_to_prometheus('vllm:spec_decode_num_draft_tokens_total{engine="0"} 9.0\n'
    ...                    'vllm:spec_decode_num_accepted_tokens_total{engine="0"} 4.0')
    Drafts(drafted=9.0, accepted=4.0)
    """
    samples = [(found["name"], float(found["value"])) for found in _SAMPLE.finditer(text)]

    def values(ending: str) -> list[float]:
        return [value for name, value in samples if name.removesuffix("_total").endswith(ending)]

    drafted, accepted = values(":spec_decode_num_draft_tokens"), values(":spec_decode_num_accepted_tokens")
    if drafted and accepted:
        return Drafts(sum(drafted), sum(accepted))
    per_call = values(":spec_accept_length")
    return Drafts(accepted=max(max(per_call) - 1, 0.0)) if per_call else Drafts()


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second
