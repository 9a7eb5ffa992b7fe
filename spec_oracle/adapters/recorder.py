"""Write the acceptance log of an engine while it runs: one JSON line a call (`spec_oracle.contracts`).

transformers: its assisted generation verifies each draft in one function, which is wrapped. Whole rows are
there, so that the log has the three numbers a position that stand for them, and every rule can be compared.
Drafts without probabilities (prompt lookup, greedy decoding) are verified elsewhere, and not recorded.

::

    with recorded_calls("calls.jsonl") as recorder:
        for recorder.prompt, ids in enumerate(prompts):
            model.generate(ids, assistant_model=draft, do_sample=True, max_new_tokens=64)
"""

import inspect
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any, TextIO
from unittest import mock

import numpy as np

from spec_oracle.contracts.acceptance_log import Row, digest
from spec_oracle.errors import InvalidInputError

VERIFICATION = "_speculative_sampling"
"""The function of `transformers.generation.utils` that verifies a draft."""

NEEDED = {"candidate_input_ids", "candidate_logits", "candidate_length", "new_logits"}
"""Its parameters that are recorded: int [1, T], float [1, L, V], int L, float [1, L+1, V]."""


@dataclass
class Recorder:
    """Writes calls to ``file``; ``prompt`` labels those that follow, ``calls`` counts them."""

    file: TextIO
    prompt: Any = None
    calls: int = 0

    def write(self, tokens: Sequence[int], accepted: int, target: Any, draft: Any) -> None:
        """Write a call: ``tokens`` [L], how many were accepted, probabilities [L or L+1, V] and [L, V]."""
        target_rows, draft_rows = ([_row(row) for row in one[: len(tokens)]] for one in (target, draft))
        numbers = digest(tokens, target_rows, draft_rows)
        numbers["surplus"] = numbers["surplus"][0].tolist()
        label = {} if self.prompt is None else {"prompt": self.prompt}
        self.file.write(json.dumps({**label, "drafted": [*tokens], "accepted": accepted, **numbers}) + "\n")
        self.calls += 1


def _row(probabilities: Any) -> Row:
    return np.arange(len(probabilities)), np.asarray(probabilities, dtype=np.float64)


@contextmanager
def recorded_calls(path: str | PathLike[str]) -> Iterator[Recorder]:
    """Record every call that transformers verifies by rejection sampling inside the ``with`` block.

    The rule, its random numbers and its result are unchanged. Raises `InvalidInputError` where the block ends
    without any call.
    """
    from transformers.generation import utils

    verify: Any = getattr(utils, VERIFICATION, None)
    parameters = inspect.signature(verify) if verify else None
    if parameters is None or not parameters.parameters.keys() >= NEEDED:
        missing = f"{VERIFICATION}({', '.join(sorted(NEEDED))}) of transformers.generation.utils"
        raise InvalidInputError(f"recorded_calls: this version of transformers does not have {missing}")

    def recorded(*arguments: Any, **keywords: Any) -> Any:
        given = parameters.bind(*arguments, **keywords).arguments
        length = int(given["candidate_length"])
        target, draft = (
            given[name][0].detach().double().softmax(-1).cpu().numpy()
            for name in ("new_logits", "candidate_logits")
        )
        result = verify(*arguments, **keywords)
        tokens = given["candidate_input_ids"][0, -length:].tolist() if length else []
        recorder.write(tokens, int(result[1]), target, draft)
        return result

    with open(path, "w", encoding="utf-8") as file, mock.patch.object(utils, VERIFICATION, recorded):  # noqa: PTH123
        recorder = Recorder(file)
        yield recorder
    if not recorder.calls:
        needed = "generate() needs an assistant_model and do_sample=True"
        raise InvalidInputError(f"recorded_calls: no draft was verified by rejection sampling; {needed}")
