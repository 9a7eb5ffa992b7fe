"""Write the acceptance log of an engine while it runs: one JSON line a call (`spec_oracle.contracts`).

An engine that verifies drafts in one function is recorded by wrapping it. Whole rows are there, so that the
log has the three numbers a position that stand for them, and every rule can be compared.

transformers verifies sampled drafts in such a function. Drafts without probabilities (prompt lookup, greedy
decoding) are verified elsewhere, and not recorded::

    with recorded_calls("calls.jsonl") as recorder:
        for recorder.prompt, ids in enumerate(prompts):
            model.generate(ids, assistant_model=draft, do_sample=True, max_new_tokens=64)

vLLM verifies all drafts of a step in one function. Its engine must run in this process, and is started before
it is recorded, since its warm-up verifies drafts too::

    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    llm = LLM(model, speculative_config={...})
    with recorded_vllm_calls("calls.jsonl"):
        llm.generate(prompts, SamplingParams(max_tokens=64))
"""

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate
from os import PathLike
from types import ModuleType
from typing import Any, TextIO, TypeAlias
from unittest import mock

import numpy as np

from spec_oracle.acceptance.log import Row, digest
from spec_oracle.arrays import Floats, Json
from spec_oracle.errors import InvalidInputError
from verifiers.arrays import Array

VERIFICATION = "_speculative_sampling"
"""The function of `transformers.generation.utils` that verifies a draft."""

Verified: TypeAlias = tuple[list[int], Floats, Floats]
"""Drafted tokens [L], and what they are verified by: target rows [L or more, V] and draft rows [L, V]."""


@dataclass
class Recorder:
    """Writes calls to ``file``; ``prompt`` labels the following calls, ``calls`` counts all."""

    file: TextIO
    prompt: Json = None
    calls: int = 0

    def write(self, tokens: Sequence[int], accepted: int, target: Array, draft: Array) -> None:
        """Write a call: ``tokens`` [L], how many were accepted, probabilities [L or L+1, V] and [L, V]."""
        target_rows, draft_rows = ([_row(row) for row in one[: len(tokens)]] for one in (target, draft))
        numbers = {name: found.tolist() for name, found in digest(tokens, target_rows, draft_rows).items()}
        numbers["surplus"] = numbers["surplus"][0]
        label = {} if self.prompt is None else {"prompt": self.prompt}
        self.file.write(json.dumps({**label, "drafted": [*tokens], "accepted": accepted, **numbers}) + "\n")
        self.calls += 1


def _row(probabilities: Array) -> Row:
    return np.arange(len(probabilities)), np.asarray(probabilities, dtype=np.float64)


@contextmanager
def _recorded(
    path: str | PathLike[str],
    module: ModuleType,
    name: str,
    verified: Callable[..., Sequence[Verified]],
    *,
    accepted: Callable[[Any], Iterable[int]],
    caller: str,
    otherwise: str,
) -> Iterator[Recorder]:
    """Wrap a function that verifies drafts, and write every draft with a token to the log at ``path``.

    ``verified`` returns the drafts of a call, from those of its arguments that it takes, and ``accepted`` how
    many tokens of each were accepted, from its result. ``otherwise`` is advice for a run that calls nothing.
    """
    verify: Callable[..., object] | None = getattr(module, name, None)
    signature = inspect.signature(verify) if verify else None
    needed = inspect.signature(verified).parameters.keys()
    if verify is None or signature is None or not signature.parameters.keys() >= needed:
        package, missing = module.__name__.partition(".")[0], f"{name}({', '.join(sorted(needed))})"
        raise InvalidInputError(
            f"{caller}: this version of {package} does not have {missing} of {module.__name__}"
        )

    def recorded(*arguments: object, **keywords: object) -> object:
        # Read first: the function may overwrite its arguments.
        given = signature.bind(*arguments, **keywords).arguments
        drafts = verified(**{one: given[one] for one in needed})
        result = verify(*arguments, **keywords)
        for (tokens, target, draft), count in zip(drafts, accepted(result), strict=True):
            if tokens:
                recorder.write(tokens, count, target, draft)
        return result

    with open(path, "w", encoding="utf-8") as file, mock.patch.object(module, name, recorded):  # noqa: PTH123
        recorder = Recorder(file)
        yield recorder
    if not recorder.calls:
        raise InvalidInputError(f"{caller}: no draft was verified by rejection sampling; {otherwise}")


def _of_transformers(
    candidate_input_ids: Array, candidate_logits: Array, candidate_length: int, new_logits: Array
) -> Sequence[Verified]:
    """Return one draft: ``candidate_input_ids`` int [1, T] end with L drafted tokens, logits [1, L, V]."""
    length = int(candidate_length)
    target, draft = (_numbers(one[0].double().softmax(-1)) for one in (new_logits, candidate_logits))
    return [(candidate_input_ids[0, -length:].tolist() if length else [], target, draft)]


def _of_vllm(
    draft_token_ids: Array,
    num_draft_tokens: Sequence[int],
    draft_probs: Array | None,
    target_logits: Array,
    sampling_metadata: Any,
) -> Sequence[Verified]:
    """Return the drafts of B requests, whose N tokens follow each other; logits after all filters, [N, V].

    Without ``draft_probs`` a draft is verified as certain, and so is one of a greedy request, whose target
    is its likeliest token. After a padded draft, -1, nothing can be accepted.
    """
    tokens, vocab, found = draft_token_ids.tolist(), target_logits.shape[-1], []
    for request, (length, end) in enumerate(zip(num_draft_tokens, accumulate(num_draft_tokens), strict=True)):
        own = slice(end - length, end - length + [*tokens[end - length : end], -1].index(-1))
        logits = target_logits[own]
        target, draft = _numbers(logits.double().softmax(-1)), _certain(tokens[own], vocab)
        if sampling_metadata.all_greedy or float(sampling_metadata.temperature[request]) == 0:
            target = _certain(logits.argmax(-1).tolist(), vocab)
        elif draft_probs is not None:
            draft = _numbers(draft_probs[own])
        found.append((tokens[own], target, draft))
    return found


def _numbers(rows: Array) -> Floats:
    return np.asarray(rows.detach().cpu().numpy(), dtype=np.float64)


def _certain(tokens: Sequence[int], vocab_size: int) -> Floats:
    """Return distributions that give all probability to one token, [L, V]."""
    rows = np.zeros((len(tokens), vocab_size))
    rows[np.arange(len(tokens)), tokens] = 1.0
    return rows


def recorded_calls(path: str | PathLike[str]) -> AbstractContextManager[Recorder]:
    """Record every call that transformers verifies by rejection sampling inside the ``with`` block.

    The rule, its random numbers and its result are unchanged. Raises `InvalidInputError` where the block ends
    without any call.
    """
    return _recorded(
        path,
        import_module("transformers.generation.utils"),
        VERIFICATION,
        _of_transformers,
        accepted=lambda result: [int(result[1])],
        caller="recorded_calls",
        otherwise="generate() needs an assistant_model and do_sample=True",
    )


def recorded_vllm_calls(path: str | PathLike[str]) -> AbstractContextManager[Recorder]:
    """Record every draft that vLLM verifies inside the ``with`` block, one call a request and step.

    Probabilities are those that vLLM compares, after temperature, filters and penalties. Requests of a step
    have one label, since the function is not handed their names. The rule, its random numbers and its result
    are unchanged. Raises `InvalidInputError` where the block ends without any call.
    """
    return _recorded(
        path,
        import_module("vllm.v1.sample.rejection_sampler"),
        "rejection_sample",
        _of_vllm,
        accepted=lambda emitted: ((emitted >= 0).sum(-1) - 1).tolist(),
        caller="recorded_vllm_calls",
        otherwise="LLM() needs a speculative_config, and VLLM_ENABLE_V1_MULTIPROCESSING=0 in the environment",
    )
