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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate
from os import PathLike
from typing import Any, TextIO, TypeAlias
from unittest import mock

import numpy as np

from spec_oracle.acceptance.log import Row, digest
from spec_oracle.arrays import Floats, Json
from spec_oracle.errors import InvalidInputError
from verifiers.arrays import Array

VERIFICATION = "_speculative_sampling"
"""The function of `transformers.generation.utils` that verifies a draft."""

VLLM_VERIFICATION = "rejection_sample"
"""The function of `vllm.v1.sample.rejection_sampler` that verifies the drafts of a step."""

Arguments: TypeAlias = Mapping[str, Any]
"""The arguments of a function of an engine, by name."""

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


@dataclass(frozen=True)
class Verification:
    """A function that verifies drafts: where it is, and how its arguments and result are read.

    ``verified`` returns the drafts of a call, from its arguments by name, and ``accepted`` how many tokens of
    each were accepted, from its result; ``needed`` are the arguments that are read, and ``otherwise`` is
    advice for a run that does not call it.
    """

    module: str
    name: str
    needed: frozenset[str]
    verified: Callable[[Arguments], Sequence[Verified]]
    accepted: Callable[[Any], Iterable[int]]
    otherwise: str

    @contextmanager
    def recorded(self, path: str | PathLike[str], caller: str) -> Iterator[Recorder]:
        """Wrap the function, and write every draft with a token to the log at ``path``."""
        module = import_module(self.module)
        verify: Callable[..., object] | None = getattr(module, self.name, None)
        signature = inspect.signature(verify) if verify else None
        if verify is None or signature is None or not signature.parameters.keys() >= self.needed:
            missing = f"{self.name}({', '.join(sorted(self.needed))}) of {self.module}"
            package = self.module.partition(".")[0]
            raise InvalidInputError(f"{caller}: this version of {package} does not have {missing}")

        def recorded(*arguments: object, **keywords: object) -> object:
            # Read first: the function may overwrite its arguments.
            drafts = self.verified(signature.bind(*arguments, **keywords).arguments)
            result = verify(*arguments, **keywords)
            for (tokens, target, draft), accepted in zip(drafts, self.accepted(result), strict=True):
                if tokens:
                    recorder.write(tokens, accepted, target, draft)
            return result

        with open(path, "w", encoding="utf-8") as file, mock.patch.object(module, self.name, recorded):  # noqa: PTH123
            recorder = Recorder(file)
            yield recorder
        if not recorder.calls:
            raise InvalidInputError(
                f"{caller}: no draft was verified by rejection sampling; {self.otherwise}"
            )


def _of_transformers(given: Arguments) -> Sequence[Verified]:
    """Return one draft: ``candidate_input_ids`` int [1, T] end with L drafted tokens, logits [1, L, V]."""
    length = int(given["candidate_length"])
    target, draft = (
        given[name][0].detach().double().softmax(-1).cpu().numpy()
        for name in ("new_logits", "candidate_logits")
    )
    return [(given["candidate_input_ids"][0, -length:].tolist() if length else [], target, draft)]


def _of_vllm(given: Arguments) -> Sequence[Verified]:
    """Return the drafts of B requests, whose N tokens follow each other; logits after all filters, [N, V].

    Without ``draft_probs`` a draft is verified as certain, and so is one of a greedy request, whose target
    is its likeliest token. After a padded draft, -1, nothing can be accepted.
    """
    logits, draft_probs, sampling = given["target_logits"], given["draft_probs"], given["sampling_metadata"]
    tokens, found = given["draft_token_ids"].tolist(), []
    for request, (length, end) in enumerate(
        zip(given["num_draft_tokens"], accumulate(given["num_draft_tokens"]), strict=True)
    ):
        drafted = tokens[end - length : end]
        own = slice(end - length, end - length + [*drafted, -1].index(-1))
        is_greedy = sampling.all_greedy or float(sampling.temperature[request]) == 0
        target, draft = logits[own].detach(), None if draft_probs is None else draft_probs[own]
        vocab = logits.shape[-1]
        found.append(
            (
                tokens[own],
                _certain(target.argmax(-1).tolist(), vocab)
                if is_greedy
                else _numbers(target.double().softmax(-1)),
                _certain(tokens[own], vocab) if is_greedy or draft is None else _numbers(draft),
            )
        )
    return found


def _numbers(rows: Array) -> Floats:
    return np.asarray(rows.detach().cpu().numpy(), dtype=np.float64)


def _certain(tokens: Sequence[int], vocab_size: int) -> Floats:
    """Return distributions that give all probability to one token, [L, V]."""
    rows = np.zeros((len(tokens), vocab_size))
    rows[np.arange(len(tokens)), tokens] = 1.0
    return rows


TRANSFORMERS = Verification(
    "transformers.generation.utils",
    VERIFICATION,
    frozenset({"candidate_input_ids", "candidate_logits", "candidate_length", "new_logits"}),
    _of_transformers,
    lambda result: [int(result[1])],
    "generate() needs an assistant_model and do_sample=True",
)

VLLM = Verification(
    "vllm.v1.sample.rejection_sampler",
    VLLM_VERIFICATION,
    frozenset({"draft_token_ids", "num_draft_tokens", "draft_probs", "target_logits", "sampling_metadata"}),
    _of_vllm,
    lambda emitted: ((emitted >= 0).sum(-1) - 1).tolist(),
    "LLM() needs a speculative_config, and VLLM_ENABLE_V1_MULTIPROCESSING=0 in the environment",
)


def recorded_calls(path: str | PathLike[str]) -> AbstractContextManager[Recorder]:
    """Record every call that transformers verifies by rejection sampling inside the ``with`` block.

    The rule, its random numbers and its result are unchanged. Raises `InvalidInputError` where the block ends
    without any call.
    """
    return TRANSFORMERS.recorded(path, "recorded_calls")


def recorded_vllm_calls(path: str | PathLike[str]) -> AbstractContextManager[Recorder]:
    """Record every draft that vLLM verifies inside the ``with`` block, one call a request and step.

    Probabilities are those that vLLM compares, after temperature, filters and penalties. Requests of a step
    have one label, since the function is not handed their names. The rule, its random numbers and its result
    are unchanged. Raises `InvalidInputError` where the block ends without any call.
    """
    return VLLM.recorded(path, "recorded_vllm_calls")
