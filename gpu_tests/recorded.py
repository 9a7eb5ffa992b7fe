"""What a run comes to: the numbers that the table shows, and the machine and models that they are of."""

import math
import platform
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from gpu_tests.judging import Evidence
from gpu_tests.observed import Run
from gpu_tests.pair import Pair
from gpu_tests.second_pass import Rounding
from lab.benchmarks.measure import hardware

TARGET_ONLY = "target-only decoding"


def row_of(pair: Pair, name: str, run: Run, evidence: Evidence) -> dict[str, Any]:
    """Return the figures of a run: numbers a table shows, None where there are none."""
    tokens = sum(map(len, run.texts))
    is_plain = name == TARGET_ONLY
    paths = 1 if is_plain else run.paths
    return {
        "rule": name,
        "tokens_per_call": 1.0 if is_plain else _mean(run.accepted),
        "expected": None if is_plain else _mean(run.expected),
        "standard_error": None if is_plain else float(run.accepted.std() / len(run.accepted) ** 0.5),
        "optimum": _mean(run.expected) if name == "block" else _mean(run.optimum),
        "verification_ms": None if is_plain else run.verification_ms,
        "call_ms": run.call_ms,
        "share": None if is_plain else run.verification_ms / run.call_ms,
        "peak_gb": run.peak_bytes / 1e9 or None,
        "rows_gb": pair.rows_bytes(min(pair.batch, len(run.texts)), paths) / 1e9,
        "requests": len(run.texts),
        "batch": min(pair.batch, len(run.texts)),
        "paths": paths,
        "tokens": tokens,
        "request_calls": tokens if is_plain else len(run.accepted),
        "detected_tv": _finite(evidence.detected_tv),
        "detected_length": None if is_plain else _finite(evidence.detected_length),
        "log_e_tokens": evidence.tokens.log_e,
        "log_e_lengths": evidence.lengths.largest,
        "problems": evidence.problems,
    }


def head_of(pair: Pair, rounding: Rounding) -> dict[str, Any]:
    """Return hardware, versions, the pair and what was measured of rounding."""
    on_gpu = pair.device.type == "cuda"
    network = pair.target.network
    return {
        "hardware": torch.cuda.get_device_name(pair.device) if on_gpu else hardware(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "transformers": version("transformers"),
        "pair": pair.name,
        "parameters": sum(one.numel() for one in network.parameters()),
        "dtype": str(pair.number_type).removeprefix("torch."),
        "vocab_size": pair.vocab_size,
        "draft_length": pair.draft_length,
        "rounding": {
            "places": rounding.places,
            "rows": rounding.rows,
            "largest": rounding.largest,
            "sums": rounding.sums,
            "doubt": rounding.doubt(pair.draft_length),
            "flips": rounding.flips,
        },
    }


def _mean(lengths: Any) -> float | None:
    return float(np.mean(lengths)) + 1 if len(lengths) else None


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
