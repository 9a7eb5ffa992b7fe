"""Batches that mix requests, for code that takes them: drafts of different length, greedy and sampled ones.

Code under the plain contract shows what it can do by optional keyword parameters: ``draft_lengths`` int [B],
where request b has so many drafts (none is allowed) and its other entries mean nothing, and ``is_greedy``
bool [B], where the text of request b is the likeliest one, the first of equally likely tokens.
"""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.draws import checks_own_rng, extended_cells, sampled_drafts
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.sampling import watched
from spec_oracle.contracts import ContractError, Emissions, SamplerCode
from spec_oracle.toy import Instance
from verifiers import Drafts

OPTIONS = ("draft_lengths", "is_greedy")
ROUNDS = 6


def options_of(code: SamplerCode) -> tuple[str, ...]:
    """Return the optional parameters that the function has."""
    try:
        parameters = inspect.signature(code.function).parameters
    except (TypeError, ValueError):  # built-in code tells no signature
        return ()
    return tuple(name for name in OPTIONS if name in parameters)


def mixed_batch(code: SamplerCode, instance: Instance, requests: int, alpha: float, seed: int) -> CheckResult:
    """Judge the texts of ``requests`` in mixed batches: sampled ones by the target's law, greedy ones each.

    For functions with `options_of` only.
    """
    names = options_of(code)
    floats, rng, generator = instance.floats, checks_own_rng(seed), code.generator(seed)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            drafts = sampled_drafts(floats, requests // ROUNDS, rng)
            chosen = _chosen(names, drafts, rng)
            emissions = code(drafts, generator, chosen)
            greedy = chosen.get("is_greedy", np.zeros(drafts.batch, dtype=bool))
            _require_allowed_lengths(emissions, chosen)
            _require_greedy_texts(drafts, emissions, greedy)
            cells = extended_cells(floats, emissions.tokens, emissions.lengths, rng)
            yield [cells[~greedy]]

    law = floats.target.joint(floats.draft_length + 1)
    mixed = " and ".join(name.replace("_", " ") for name in names)
    return watched(f"texts in batches of mixed {mixed}", [law], rounds(), alpha=alpha)


def _chosen(names: tuple[str, ...], drafts: Drafts, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    chosen: dict[str, NDArray[Any]] = {}
    if "draft_lengths" in names:
        chosen["draft_lengths"] = rng.integers(drafts.draft_length + 1, size=drafts.batch)
        # What lies beyond a draft must not matter: other tokens, and rows that are laws but not its own.
        beyond = np.arange(drafts.draft_length) >= chosen["draft_lengths"][:, None]
        drafts.tokens[:, 0][beyond] = 0
        drafts.draft_probs[:, 0][beyond] = drafts.draft_probs[:, 0][beyond][:, ::-1]
    if "is_greedy" in names:
        chosen["is_greedy"] = rng.random(drafts.batch) < 1 / 3
    return chosen


def _require_allowed_lengths(emissions: Emissions, chosen: Mapping[str, NDArray[Any]]) -> None:
    if "draft_lengths" not in chosen:
        return
    longer = emissions.lengths > chosen["draft_lengths"] + 1
    if longer.any():
        request = int(np.argmax(longer))
        raise ContractError(
            f"num_accepted: {emissions.lengths[request] - 1} at index {request}, "
            f"which has {chosen['draft_lengths'][request]} drafts"
        )


def _require_greedy_texts(drafts: Drafts, emissions: Emissions, greedy: NDArray[np.bool_]) -> None:
    """Raise `ContractError` for a greedy request whose token is not the likeliest of its row.

    Rows are those along the drafts, so that the first other token of an emission must be its last.
    """
    likeliest = drafts.target_probs[:, 0].argmax(axis=-1)
    position = np.arange(likeliest.shape[1])
    wrong = greedy[:, None] & (position < emissions.lengths[:, None]) & (emissions.tokens != likeliest)
    if wrong.any():
        request, where = (int(i) for i in np.argwhere(wrong)[0])
        raise ContractError(
            f"tokens: {emissions.tokens[request, where]} at index {(request, where)} of a greedy request, "
            f"whose likeliest token is {likeliest[request, where]}"
        )
