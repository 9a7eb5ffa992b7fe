"""Who is whose sibling in a draft tree."""

from dataclasses import dataclass

from verifiers.arrays import Array, arange_like, kept, namespace
from verifiers.interface import Drafts


@dataclass(frozen=True)
class Places:
    """The places of a draft tree, for B requests.

    ``row`` int [B, N]: the row of each place's parent, 0 where it is empty; ``present`` bool [B, N]: whether
    there is a token, see `Drafts`;
    ``earlier`` bool [B, N, N]: whether place j is a sibling drawn before place i; ``repeated`` bool [B, N]:
    whether one of these is the same token.
    """

    row: Array
    present: Array
    earlier: Array
    repeated: Array

    @property
    def siblings(self) -> Array:
        """Whether place j is a sibling of place i, or place i itself, bool [B, N, N]."""
        xp = namespace(self.earlier)
        number = arange_like(self.row, self.row.shape[1])
        return self.earlier | xp.matrix_transpose(self.earlier) | (number[:, None] == number)

    @property
    def count(self) -> Array:
        """How many siblings there are at each place, itself included, int [B, N]."""
        xp = namespace(self.earlier)
        return xp.sum(xp.astype(self.siblings, xp.int64), axis=-1)

    @property
    def rank(self) -> Array:
        """How many siblings come before each place, int [B, N]."""
        xp = namespace(self.earlier)
        return xp.sum(xp.astype(self.earlier, xp.int64), axis=-1)


def places_of(drafts: Drafts) -> Places:
    """Return who is whose sibling."""
    xp = namespace(drafts.parents)
    present, number = drafts.present, arange_like(drafts.parents, drafts.places)
    same = drafts.parents[:, :, None] == drafts.parents[:, None, :]
    earlier = same & present[:, :, None] & present[:, None, :] & (number[None, :] < number[:, None])
    equal = drafts.tokens[:, :, None] == drafts.tokens[:, None, :]
    repeated = xp.any(earlier & equal, axis=-1)
    return Places(kept(present, drafts.parents + 1), present, earlier, repeated)
