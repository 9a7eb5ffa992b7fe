"""The memory that a toy model takes, computed before anything is allocated."""

from math import inf

from spec_oracle.errors import InvalidInputError

MAX_BYTES = 2**32
"""What the rows of one pair of toy models may take. Their laws and their draft tuples come on top."""

FLOAT_BYTES, RATIONAL_BYTES = 8, 100
"""Of one probability, the object of a small fraction included."""


def required_bytes(vocab_size: int, draft_length: int, *, exact: bool = False) -> float:
    """Return the bytes of a target's and a draft's rows after all contexts, of up to L and L - 1 tokens.

    These are 2 (V + ... + V^L) + V^(L+1) numbers; ``exact`` for rationals. Infinite where floats end.

    >>> required_bytes(3, 4) / 2**10, required_bytes(40, 6) / 2**30
    (3.7734375, 1283.303...)
    """
    try:
        last = float(vocab_size) ** (draft_length + 1)
    except OverflowError:
        return inf
    shorter = (last - vocab_size) / (vocab_size - 1) if vocab_size > 1 else draft_length
    return (2 * shorter + last) * (RATIONAL_BYTES if exact else FLOAT_BYTES)


def require_memory(vocab_size: int, draft_length: int, *, exact: bool = False) -> None:
    """Raise `InvalidInputError` for sizes whose rows would take more than `MAX_BYTES`."""
    needed = required_bytes(vocab_size, draft_length, exact=exact)
    if needed > MAX_BYTES:
        raise InvalidInputError(
            f"vocab_size {vocab_size}, draft_length {draft_length}: the rows after all contexts would need "
            f"{needed / 2**30:,.0f} GiB, more than the {MAX_BYTES / 2**30:.0f} GiB allowed; take smaller ones"
        )
