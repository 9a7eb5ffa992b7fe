"""Third-party engines as a whole, unmodified, behind the engine contract."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

Ids: TypeAlias = Sequence[int]
"""Token ids of a prompt, a completion, or both."""

OnCall: TypeAlias = Callable[[list[int]], None]
"""Called with what each call emits."""
