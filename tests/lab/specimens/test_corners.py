"""Rows are off by what they say, in their corner and nowhere else; twins are right everywhere."""

import numpy as np
import pytest

from lab.specimens.corners import ENGINES, SAMPLERS, SIZE, engine_of, off, rows_of
from lab.specimens.mixed import Mixed
from lab.specimens.table_engine import TARGET

ROWS = [[0.5, 0.3, 0.2], [0.25, 0.75, 0.0], [0.0, 1.0, 0.0], [0.34, 0.33, 0.33]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_are_off_by_their_size_on_their_support(dtype):
    rows = np.array(ROWS, dtype=dtype)
    wrong = off(rows, SIZE)
    assert wrong.dtype == rows.dtype
    assert abs(wrong - rows).sum(axis=1) / 2 == pytest.approx([SIZE, SIZE, 0, SIZE], abs=1e-6)
    assert wrong.sum(axis=1) == pytest.approx(1, abs=1e-6)
    assert not wrong[rows == 0].any()
    assert np.array_equal(off(rows, 0.0), rows)


WHERE = {
    "seeded_from_the_third_token": lambda at: at["seed"] is not None and at["place"] >= 2,
    "five_together": lambda at: at["requests"] == 5,
    "every_64th_token_of_a_completion": lambda at: at["place"] in {63, 127},
    "second_call_of_a_seeded_request": lambda at: at["seed"] is not None and at["call"] == 2,
    "second_seeded_generation": lambda at: at["seed"] is not None and at["seeded"] == 2,
}
"""After a prompt of one token."""


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("size", [SIZE, 0.0])
def test_an_engine_is_off_in_its_corner_only(monkeypatch, name, size):
    """What it is at each token is noted while it decodes; its rows are compared with those of the target."""
    (engine,) = engine_of(ENGINES[name][2], size)().values()
    seen, verifying = [], engine.verifying

    def noted(context):
        row, at = verifying(context), {**vars(engine), "place": len(context) - 1}
        is_wrong = abs(np.subtract(row, TARGET(context))).max() > 0.01
        seen.append((is_wrong, bool(size) and WHERE[name](at)))
        return row

    monkeypatch.setattr(engine, "verifying", noted)
    for seed in (None, 1, 2, None, 3):
        engine.generate([0], 140, seed)
    for requests in (1, 4, 5, 6):
        engine.generate_batch([[0]] * requests, 4, [None] * requests)
    assert all(found == expected for found, expected in seen)
    assert any(found for found, _ in seen) == bool(size)


def batch(size, vocab, lengths, is_greedy):
    target = np.random.default_rng(0).dirichlet(np.ones(vocab), (size, 4))
    return Mixed(target, np.array(lengths), np.array(is_greedy), {})


BATCHES = {
    "five": batch(5, 3, [3] * 5, [False] * 5),
    "six": batch(6, 5, [3] * 6, [False] * 6),
    "ragged, small": batch(3, 4, [3, 1, 3], [False] * 3),
    "ragged": batch(3, 5, [3, 1, 3], [False] * 3),
    "greedy": batch(3, 3, [3] * 3, [True, False, False]),
}
OFF = {
    "batch_of_five": {"five": [0, 1, 2, 3, 4]},
    "ragged_batch_from_five_tokens": {"ragged": [0, 1, 2]},
    "beside_a_greedy_request": {"greedy": [1, 2]},
}
"""The requests of each batch whose rows are off; none of the others."""


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("size", [SIZE, 0.0])
def test_a_sampler_is_off_in_its_corner_only(name, size):
    rows = rows_of(SAMPLERS[name][2], size)
    for kind, mixed in BATCHES.items():
        is_off = [not np.allclose(rows(mixed, b), mixed.rows(b), atol=1e-3) for b in range(len(mixed.target))]
        assert np.flatnonzero(is_off).tolist() == (OFF[name].get(kind, []) if size else []), kind
