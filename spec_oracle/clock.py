"""The clock by which code under test is timed, so that a busy machine does not make it slower.

A budget in seconds pays for samples. Were it spent by other programs on the machine, an audit would look at
less of the same code, and see less. Linux counts for how long a thread that could run waited for a processor;
these seconds do not pass here. Waiting for anything else does: a device, another process, the network.
"""

import time
from pathlib import Path
from typing import Final

_COUNTED: Final = Path("/proc/thread-self/schedstat")
"""Nanoseconds of this thread on a processor, and those for which it waited for one."""


def now() -> float:
    """Return seconds as of `time.monotonic`, less those for which this thread waited for a processor."""
    return time.monotonic() - waited()


def waited() -> float:
    """Return for how many seconds this thread has waited for a processor; 0 where nobody counts them."""
    try:
        return int(_COUNTED.read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
