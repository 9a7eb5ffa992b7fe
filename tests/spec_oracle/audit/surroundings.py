"""Code that waits, loops, or sets for the whole process what is not its own: right rules but for that."""

import queue
import sys
import threading
import time
import warnings

import numpy as np

import verifiers
from spec_oracle.contracts import as_sampler

TOKEN = as_sampler(verifiers.get("token"))


def loops_on_nan(tokens, draft_probs, target_probs, generator):
    while not np.all(target_probs.sum(axis=-1) > 0.5):
        pass
    return TOKEN(tokens, draft_probs, target_probs, generator)


def waits_for_a_thread_that_ended(tokens, draft_probs, target_probs, generator):
    ready = queue.Queue()
    threading.Thread(target=lambda: None, daemon=True).start()
    ready.get()


def prefetches(tokens, draft_probs, target_probs, generator):
    ready = queue.Queue()
    threading.Thread(target=lambda: ready.put(TOKEN(tokens, draft_probs, target_probs, generator))).start()
    return ready.get()


def is_strict(tokens, draft_probs, target_probs, generator):
    np.seterr(all="raise")
    warnings.simplefilter("error")
    with np.errstate(all="ignore"):
        return TOKEN(tokens, draft_probs, target_probs, generator)


def closes_its_output(tokens, draft_probs, target_probs, generator):
    sys.stdout.close()
    return TOKEN(tokens, draft_probs, target_probs, generator)


def replaces_its_output(tokens, draft_probs, target_probs, generator):
    sys.stdout = sys.stderr = None
    return TOKEN(tokens, draft_probs, target_probs, generator)


def compiles_for_nan():
    """Return right code that takes long in its first call with NaN."""
    compiled = []

    def verify(tokens, draft_probs, target_probs, generator):
        if np.isnan(target_probs).any() and not compiled:
            ends = time.monotonic() + 1.0
            while time.monotonic() < ends:
                pass
            compiled.append(True)
        return TOKEN(tokens, draft_probs, target_probs, generator)

    return verify
