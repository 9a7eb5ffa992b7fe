"""Bytes that verification moves, against the least: the rows of both models read once.

Counted at every torch operator of the eager rule: the rows that are read, all that operators read and write,
and what of that would pass between memory and a cache. Copies that a kernel makes inside are not seen.
"""

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import verifiers
from lab.benchmarks.measure import table
from verifiers import Drafts, StatefulVerifier, torch_decisions

VOCAB, LENGTH, PATHS = 32_768, 8, 3
CACHE = 4 * 4 * VOCAB
"""A cache of 4 rows of float32, 2.4 MB at 151,936 tokens; whole arrays leave it, those unused longest first.

What is written goes to memory as it leaves; what is freed never does, as if its place were the next array's.
"""
KINDS = ("rows", "all", "memory")
_GATHERS = (torch.ops.aten.index, torch.ops.aten.index_select, torch.ops.aten.gather)


class Traffic(TorchDispatchMode):
    """Count bytes while code runs: ``read`` of ``rows``, ``moved`` in all, and ``missed`` in a cache.

    ``wide`` names operators that made, or that convert into, as many float64 numbers as a row has.
    """

    def __init__(self, *rows):
        super().__init__()
        self.vocab = rows[0].shape[-1]
        self.rows = {tensor.untyped_storage().data_ptr() for tensor in rows}
        self.read = self.moved = self.missed = 0
        self.wide = set()
        self._cached = {}  # address: bytes there, those that memory does not have yet, and whose they are
        self._held = 0  # bytes there, of freed arrays too until room is needed

    def _touch(self, tensor, size, address=None, *, written=False):
        """Count what is not in the cache if it is read, and what has to leave the cache for it."""
        self.moved += size
        address = address or tensor.data_ptr()
        held, unsaved, owner = self._cached.pop(address, (0, 0, None))
        self._held -= held
        if owner is None or owner.expired():
            held, unsaved, owner = 0, 0, StorageWeakRef(tensor.untyped_storage())
        self.missed += 0 if written else max(size - held, 0)
        self._cached[address] = max(size, held), size if written else unsaved, owner
        self._held += max(size, held)
        if self._held > CACHE:
            self._make_room()

    def _make_room(self):
        """Forget freed arrays; then what was unused longest leaves, to memory where that lacks it."""
        self._cached = {place: kept for place, kept in self._cached.items() if not kept[2].expired()}
        self._held = sum(held for held, _, _ in self._cached.values())
        while self._held > CACHE:
            held, unsaved, _ = self._cached.pop(next(iter(self._cached)))
            self._held -= held
            self.missed += unsaved

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        given = {**(kwargs or {}), "out": None}  # which is only written
        for tensor in tree_leaves((args, given)) if not func.is_view else ():
            if isinstance(tensor, torch.Tensor):
                # Of what is expanded a number is read once, of what is gathered from what is taken.
                size, address = min(tensor.nbytes, tensor.untyped_storage().nbytes()), None
                if func.overloadpacket in _GATHERS:
                    size = min(size, sum(out.numel() for out in made) * tensor.element_size())
                    address = object()  # somewhere in the tensor
                self._touch(tensor, size, address)
                self.read += size * (tensor.untyped_storage().data_ptr() in self.rows)
                if tensor.numel() >= self.vocab and (kwargs or {}).get("dtype") == torch.float64:
                    self.wide.add(str(func))
        if not func.is_view:
            for out in made:
                self._touch(out, out.nbytes, written=True)
            self.wide |= {
                str(func) for out in made if out.dtype == torch.float64 and out.numel() >= self.vocab
            }
        return result


def rules():
    """Return the names of the rules that can be run here: without a state, and for any vocabulary."""
    names = set(verifiers.names()) - {"canonical"}
    return sorted(name for name in names if not isinstance(verifiers.get(name), StatefulVerifier))


def traffic(name, dtype):
    """Return the traffic of one request of a rule, and the bytes of its rows."""
    rule, generator = verifiers.get(name), torch.Generator().manual_seed(0)
    paths = 1 if verifiers.traits_of(rule).single_path else PATHS
    rows = torch.empty((2, 1, paths, LENGTH + 1, VOCAB)).exponential_(generator=generator)
    rows[:, :, :, 0] = rows[:, :, :1, 0]
    target, draft = (rows / rows.sum(-1, keepdim=True)).to(dtype)
    tokens = torch.randint(VOCAB, (1, paths, LENGTH), generator=generator)
    draft, target = draft[:, :, :-1].contiguous(), target.contiguous()
    given, counted = Drafts.of_paths(tokens, draft, target), Traffic(draft, target)
    with counted:
        rule.verify(given, torch_decisions(generator))
    return counted, draft.nbytes + target.nbytes


def row(name):
    cells = []
    for dtype in (torch.float32, torch.bfloat16):
        counted, least = traffic(name, dtype)
        cells += [bytes_ / least for bytes_ in (counted.read, counted.moved, counted.missed)]
    return f"`{name}`", *cells


def lines():
    yield "## Bytes moved"
    yield ""
    yield f"""\
Over the bytes of both models' rows, L = {LENGTH}, K = {PATHS}, V = {VOCAB:,}, one request, eager torch: of
these rows what is read, all that operators read and write, and what of that passes between memory and a cache
of 4 rows of float32. Tests hold `token` and `block` to these figures, and that no rule makes rows of float64.
"""
    heads = ["rule", *(f"{what}, {kind}" for kind in ("float32", "bfloat16") for what in KINDS)]
    yield from table(heads, (row(name) for name in rules()))
