"""Times of calls that take turns, and tables of them."""

import platform
import time
from statistics import median


def hardware():
    """Return the name of the processor."""
    with open("/proc/cpuinfo") as lines:  # noqa: PTH123  # not a file of ours
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def spent(call, clock=time.process_time):
    """Return the milliseconds of a call, of processor time unless ``clock`` tells other, and its result."""
    started = clock()
    result = call()
    return 1e3 * (clock() - started), result


def in_turns(calls, rounds, clock=time.process_time):
    """Return the milliseconds of each of the named calls, a list of ``rounds`` each, after one to warm up."""
    for call in calls.values():
        call()
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(spent(call, clock)[0])
    return times


def ratio(times, name, other):
    """Return the median over rounds of the time of ``name`` over that of ``other``."""
    return median(a / b for a, b in zip(times[name], times[other], strict=True))


def shown(number):
    """Return a time or ratio in two or three digits."""
    return "-" if number is None else f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def table(heads, rows):
    """Yield the lines of a Markdown table as the rows come; all but text stands right."""
    yield "| " + " | ".join(heads) + " |"
    for number, row in enumerate(rows):
        cells = [cell if isinstance(cell, str) else shown(cell) for cell in row]
        if number == 0:
            yield "|" + "".join(" --- |" if isinstance(cell, str) else " --: |" for cell in row)
        yield "| " + " | ".join(cells) + " |"
