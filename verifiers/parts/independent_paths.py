"""Independent paths of a draft tree: from where its stem ends, one path for each child there.

Equal siblings are several drafts of one token, and of these the first has the children of all. So of n equal
siblings the first child continues the first one, the second child the second one, and so on: K paths that
were laid out as a tree are these K paths again. A path without a child ends; further children are not used.
"""

from verifiers.arrays import Array, arange_like, filled, kept, namespace
from verifiers.interface import ROOT, Drafts
from verifiers.parts.places import Places

ENDED = -1
"""In the place of a token: the path has ended, or there is none."""


def stem_end(drafts: Drafts, places: Places) -> Array:
    """Return the first node, from the root down, that has not just one child: a place or `ROOT`, int [B]."""
    xp = namespace(drafts.tokens)
    end, siblings = filled(drafts.tokens[:, 0], ROOT), places.count
    for place in range(drafts.places):  # a parent comes before its children
        only = places.present[:, place] & (siblings[:, place] == 1)
        end = xp.where(only & (drafts.parents[:, place] == end), place, end)
    return end


def independent_paths(drafts: Drafts, places: Places, start: Array) -> Array:
    """Return the places of the paths from ``start`` int [B], [B, K, L], then `ENDED`; K, L of the largest."""
    xp = namespace(drafts.tokens)
    request = arange_like(start, drafts.batch)
    equal = places.siblings & (drafts.tokens[:, :, None] == drafts.tokens[:, None, :])
    path, depth = filled(drafts.tokens, ENDED), filled(drafts.tokens, ENDED)
    for place in range(drafts.places):
        above, rank = places.row[:, place] - 1, places.rank[:, place]
        drafts_above = equal[request, kept(above >= 0, above)]
        number = xp.cumulative_sum(xp.astype(drafts_above, xp.int64), axis=1)
        own = drafts_above & (number == rank[:, None] + 1)
        draft = xp.argmax(xp.astype(own, xp.int64), axis=1)
        follows = (above >= 0) & xp.any(own, axis=1)
        begins = places.present[:, place] & (above == start)
        path[:, place] = xp.where(begins, rank, xp.where(follows, path[request, draft], ENDED))
        depth[:, place] = xp.where(begins, 0, kept(path[:, place] >= 0, depth[request, draft] + 1))
    size = (drafts.batch, max(1, 1 + int(xp.max(path))) + 1, 1 + int(xp.max(depth)) + (depth.shape[1] == 0))
    ways = xp.zeros(size, dtype=path.dtype, device=path.device) + ENDED
    at = arange_like(path, drafts.places)[None, :] + 0 * path
    ways[request[:, None], path, kept(path >= 0, depth)] = at  # those on no path come last
    return ways[:, :-1]
