"""Sampling fields of servers: how they are spelt, which have an effect, and combinations of all pairs.

A one-token request under the same fields shows what a completion must follow. That holds for fields whose
effect depends on prompt and tokens alone, however these are split: filters, biases, penalties that count the
prompt, and a grammar that may go on after any text as at its start. A field that changes nothing of what
one-token requests report cannot be judged so, nor a JSON schema, whose text begins anew in each of them: it
is compared with a reference server by whole completions, or named.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from spec_oracle.audit.context import Context
from spec_oracle.audit.covering import covering
from spec_oracle.audit.logprobs import Logs
from spec_oracle.contracts.completion import Prefix, Prompt
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.client.client import ANSWERED
from spec_oracle.servers.client.server import Server
from spec_oracle.servers.contract import Json, RefusedError

Fields: TypeAlias = Mapping[str, Json]
Axes: TypeAlias = Mapping[str, Sequence[tuple[str, Fields]]]
"""By name the values, the first as `joint` has it: in words, and the fields that are sent."""

LETTERS: Final = "[ a-z]*"
"""What a completion may consist of under the grammar: any text of it may go on with any other."""

SCHEMA: Final = {"type": "string", "pattern": f"^{LETTERS}$"}
"""The same between quotation marks, as JSON."""

JSON: Final = "JSON schema"
NO_EFFECT: Final = "no effect on what one-token requests report"

LONG: Final = 200
"""Tokens of a long prompt, about."""

LIMITS: Final = (16, 2, 7)
"""Tokens of a completion: more than a draft, one call, and an end within a draft."""

_OF_SAMPLING: Final = ("temperature", "top_k", "top_p")

_OF_GENERATED: Final = {
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "repetition_penalty": 1,
    "repeat_penalty": 1,
}
"""Penalties that many servers take of generated tokens alone, and the values at which they do nothing."""

_COUNTED: Final = ("min_tokens", "min_new_tokens", "thinking_token_budget")
"""Numbers of generated tokens: a request for one token does not know how many came before."""


@dataclass(frozen=True)
class Combination:
    """One value of each axis in words, and the fields of all of them."""

    words: Mapping[str, str]
    fields: Fields
    tokens: int
    is_seeded: bool = False
    is_long: bool = False

    def __str__(self) -> str:
        return ", ".join(f"{axis} {value}" for axis, value in self.words.items())

    def of(self, server: Server) -> Server:
        """Return the server, with these fields in all its requests."""
        base = server.sampling
        own = {name: self.fields[name] for name in _OF_SAMPLING if name in self.fields}
        more = {name: value for name, value in self.fields.items() if name not in own}
        kept = {name: value for name, value in base.fields.items() if name not in own}
        sampling = replace(base, **own, fields={**kept, **more})
        prompts = tuple(long_prompt(prompt) for prompt in server.prompts) if self.is_long else server.prompts
        return replace(server, sampling=sampling, prompts=prompts)


@dataclass(frozen=True)
class Tried:
    """The result of a combination: ``wrong`` says what is wrong, ``why`` says why it was not tried.

    ``draws`` were judged, in words ``seen``. ``least`` is a lower bound of the total variation, and
    ``detects`` which one would show.
    """

    combination: Combination
    seen: str = ""
    draws: int = 0
    wrong: str = ""
    why: str = ""
    least: float | None = None
    detects: float = math.inf


Trial: TypeAlias = Callable[[Context], Tried]
"""Tries a combination, at the false-alarm rate and within the budget of the context."""


def long_prompt(prompt: Prompt) -> Prompt:
    """Repeat a prompt, text or ids, up to the length of a long one."""
    return prompt * max(1, -(-LONG // max(len(prompt), 1)))


def spellings(reported: Distributions) -> dict[str, tuple[Fields, ...]]:
    """Return the ways to ask for each field; the likeliest token after the first prompt has the bias."""
    reported.fetch([(0, ())])
    first = reported.logs[0, ()] or {}
    likely = int(max(first, key=lambda token: first[token]))
    return {
        "temperature": ({"temperature": 0.6}, {"temperature": 1.5}),
        "top-k": ({"top_k": 2}, {"top_k": 5}),
        "top-p": ({"top_p": 0.7}, {"top_p": 0.9}),
        "min-p": ({"min_p": 0.15}, {"min_p": 0.6}),
        "typical": ({"typical_p": 0.5},),
        "repetition penalty": ({"repetition_penalty": 1.3}, {"repeat_penalty": 1.3}),
        "presence penalty": ({"presence_penalty": 1.0},),
        "frequency penalty": ({"frequency_penalty": 0.5},),
        "logit bias": ({"logit_bias": {str(likely): -1.5}}, {"logit_bias": [[likely, -1.5]]}),
        "grammar": (
            {"grammar": f"root ::= {LETTERS}"},
            {"structured_outputs": {"regex": LETTERS}},
            {"guided_regex": LETTERS},
            {"regex": LETTERS},
        ),
        JSON: (
            {"json_schema": SCHEMA},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "text", "schema": SCHEMA}}},
            {"structured_outputs": {"json": SCHEMA}},
            {"guided_json": SCHEMA},
        ),
    }


def known_axes(reported: Distributions) -> tuple[Axes, dict[str, str]]:
    """Return the axes of which the server knows a second value, and why it knows none of others."""
    server, base = reported.server, reported.server.sampling
    roots: list[Prefix] = [(number, ()) for number in range(len(server.prompts))]
    reported.fetch(roots)
    axes: dict[str, Sequence[tuple[str, Fields]]] = {}
    unknown: dict[str, str] = {}
    for name, ways in spellings(reported).items():
        key, effect = name.replace("-", "_"), _effect(reported, name, ways, roots)
        if isinstance(effect, str):
            unknown[name] = effect
        elif key in _OF_SAMPLING:
            axes[name] = [(f"{getattr(base, key):g}", {}), (f"{effect[key]}", effect)]
        else:
            axes[name] = [("off", {}), ("on", effect)]
    axes["tokens"] = [(str(limit), {}) for limit in LIMITS]
    axes["seed"] = [("none", {}), ("sent", {})]
    axes["prompt"] = [("given", {}), ("long", {})]
    return axes, unknown


def _effect(
    reported: Distributions, name: str, ways: Sequence[Fields], roots: Sequence[Prefix]
) -> Fields | str:
    """Return the first spelling of a field that changes distributions, or why none can be judged."""
    base = reported.server.sampling
    is_raw = reported.reading != "after sampling filters"
    if is_raw and name in ("temperature", "top-k", "top-p"):  # applied to what is reported, by a reading
        if "ignores" in reported.reading and name != "temperature":
            return "the server ignores it"
        return next(way for way in ways if any(getattr(base, key) != way[key] for key in way))
    effect = _with_effect(reported, ways, roots)
    return f"{NO_EFFECT} after its first token" if name == JSON and not isinstance(effect, str) else effect


def _with_effect(reported: Distributions, ways: Sequence[Fields], roots: Sequence[Prefix]) -> Fields | str:
    """Return the first spelling that changes what is reported after the prompts, or why none does."""
    whys = []
    for way in ways:
        try:
            tried = Distributions(Combination({}, way, 1).of(reported.server))
            tried.fetch(roots)
        except RefusedError as error:
            whys.append(refusal(error))
            continue
        pairs = ((tried.logs[root] or {}, reported.logs[root] or {}) for root in roots)
        if any(_differ(one, other, 3 * reported.error + 1e-3) for one, other in pairs):
            return way
        whys.append(NO_EFFECT)
    return NO_EFFECT if NO_EFFECT in whys else whys[-1]


def hidden_number(fields: Fields, tokens: int) -> str:
    """Return the field that counts generated tokens and changes some of the first ``tokens``, "" if none."""
    return next((name for name in _COUNTED if 0 < _number(fields.get(name)) < tokens), "")


def hidden_penalty(reported: Distributions) -> str:
    """Return the penalty of all requests that one-token requests do not show, "" if none.

    To these the tokens before are a part of the prompt.
    """
    sampling = reported.server.sampling
    for name, neutral in _OF_GENERATED.items():
        if _number(sampling.fields.get(name), neutral) == neutral:
            continue
        others = {other: value for other, value in sampling.fields.items() if other != name}
        without = Distributions(replace(reported.server, sampling=replace(sampling, fields=others)))
        near, error = reported.near(), 3 * reported.error + 1e-3
        without.fetch(near)
        if not any(_differ(reported.logs[one] or {}, without.logs[one] or {}, error) for one in near):
            return name
    return ""


def _number(value: Json, otherwise: float = 0.0) -> float:
    """Return the value of a field that is a number, else ``otherwise``."""
    return float(value) if isinstance(value, int | float) else otherwise


def refusal(error: RefusedError) -> str:
    """Return how a server refuses, in a few words."""
    cause = str(error).rpartition(" (")[2].partition(")")[0]
    return f"requests with it fail each time: {cause}" if ANSWERED in str(error) else "refused"


def _differ(first: Logs, second: Logs, error: float) -> bool:
    return len(first) != len(second) or any(
        abs(first[token] - second[token]) > error for token in first.keys() & second.keys()
    )


def combinations_of(axes: Axes) -> Iterator[Combination]:
    """Yield combinations that have all pairs of values of two axes; that of all first values is left out."""
    numbers = {axis: range(len(values)) for axis, values in axes.items()}
    found = covering(numbers, known=[dict.fromkeys(axes, 0)])
    for chosen in (*found.values, *found.pairs):
        values = {axis: axes[axis][chosen[axis]] for axis in axes}
        yield Combination(
            {axis: word for axis, (word, _) in values.items() if chosen[axis]},
            {name: value for _, fields in values.values() for name, value in fields.items()},
            LIMITS[chosen["tokens"]],
            is_seeded=values["seed"][0] == "sent",
            is_long=values["prompt"][0] == "long",
        )
