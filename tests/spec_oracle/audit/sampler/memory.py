"""Right samplers that read the memory of their uniforms, as compiled kernels do, and wrong ones among them.

A reader returns the uniforms as an ordinary array; it never asks an element for its value.
"""

import array
import ctypes
import struct

import numpy as np


def by_pointer(u):
    address = np.ascontiguousarray(u).ctypes.data
    pointer = ctypes.cast(address, ctypes.POINTER(ctypes.c_double))
    return np.array([pointer[number] for number in range(u.size)])


def by_memmove(u):
    copied = (ctypes.c_double * u.size)()
    ctypes.memmove(copied, u.ctypes.data_as(ctypes.c_void_p), 8 * u.size)
    return np.array(list(copied))


def written_by_c(u):
    """A foreign function writes into an array that the code has just made."""
    out = np.empty(u.size)
    ctypes.memmove(out.ctypes.data, np.ctypeslib.as_ctypes(u), 8 * u.size)
    return out


def by_ndpointer(u):
    given = np.ctypeslib.ndpointer(np.float64).from_param(u)
    return np.frombuffer(ctypes.string_at(given._as_parameter_, 8 * u.size))


def by_memoryview(u):
    return np.array(memoryview(u).cast("B").cast("d"))


def by_bytes(u):
    return np.frombuffer(u.tobytes())


def by_buffer(u):
    return np.frombuffer(u)


def by_ctypes_buffer(u):
    return np.array(list((ctypes.c_double * u.size).from_buffer(u)))


def by_struct(u):
    return np.array(struct.unpack_from(f"{u.size}d", u))


def by_array(u):
    numbers = array.array("d")
    numbers.frombytes(u.data.cast("B"))
    return np.array(list(numbers))


def by_array_interface(u):
    address = u.__array_interface__["data"][0]
    return np.frombuffer(ctypes.string_at(address, 8 * u.size))


class _Interface(ctypes.Structure):
    """`PyArrayInterface` of numpy's protocol ``__array_struct__``."""

    _fields_ = (
        ("two", ctypes.c_int),
        ("num_axes", ctypes.c_int),
        ("kind", ctypes.c_char),
        ("item_size", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
    )


_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.restype, _pointer_in.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def by_array_struct(u):
    capsule = u.__array_struct__
    found = _Interface.from_address(_pointer_in(capsule, None))
    return np.frombuffer(ctypes.string_at(found.data, 8 * u.size))


def by_bits(u):
    """The mantissa of 1 + u is u."""
    return ((1 + u).view(np.uint64) % 2**52) / 2**52


def by_iterator(u):
    return np.array([float(number) for number in np.nditer(u)])


def by_dlpack(u):
    return np.from_dlpack(u)


READERS = (
    *(by_pointer, by_memmove, written_by_c, by_ndpointer, by_memoryview, by_bytes, by_buffer),
    *(by_ctypes_buffer, by_struct, by_array, by_array_interface, by_array_struct, by_bits),
    *(by_iterator, by_dlpack),
)
"""Each of these asks for the memory, by a way that Python sees."""


def by_address_in_the_object(u):
    """As C code that takes the data of an array without a look at its type: nobody is asked."""
    address = ctypes.c_void_p.from_address(id(u) + 2 * ctypes.sizeof(ctypes.c_void_p)).value
    return np.frombuffer(ctypes.string_at(address, 8 * u.size))


def writes_at_an_address(draft_tokens, draft_probs, target_probs, generator):
    """As C code that fills an array without a look at its type: while it is traced, over objects."""
    uniforms = generator.random((len(draft_tokens), draft_tokens.shape[1] + 1))
    out = np.zeros(uniforms.shape)
    there = ctypes.c_void_p.from_address(id(out) + 2 * ctypes.sizeof(ctypes.c_void_p)).value
    mirrored = 1 - by_address_in_the_object(uniforms)
    ctypes.memmove(there, mirrored.ctypes.data, 8 * out.size)
    return token_rule(draft_tokens, draft_probs, target_probs, out)


def of_tensor_by_pointer(u):
    return np.frombuffer(ctypes.string_at(u.contiguous().data_ptr(), 8 * u.numel()))


def of_tensor_by_storage(u):
    return np.frombuffer(bytes(u.contiguous().untyped_storage()))


def of_tensor_by_dlpack(u):
    return np.from_dlpack(u).ravel()


def of_tensor_written_later(u):
    """The address is taken before there are numbers."""
    import torch

    memory = torch.empty(u.shape, dtype=torch.float64)
    address = memory.data_ptr()
    memory.copy_(u)
    return np.frombuffer(ctypes.string_at(address, 8 * u.numel()))


TENSOR_READERS = (of_tensor_by_pointer, of_tensor_by_storage, of_tensor_by_dlpack, of_tensor_written_later)
"""The same for tensors of torch."""


def of_tensor_in_cpp(u):
    """As an extension in C++ that is handed the tensor itself: no mode of torch sees what it does."""
    import torch

    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return np.frombuffer(ctypes.string_at(u.data_ptr(), 8 * u.numel()))


def token_rule(draft_tokens, draft_probs, target_probs, uniforms, factor=1.0):
    """The token rule of ordinary uniforms [B, L+1], without a branch; a ``factor`` above 1 is too high."""
    length = draft_tokens.shape[1]
    own = [
        np.take_along_axis(rows[:, :length], draft_tokens[..., None], 2)
        for rows in (draft_probs, target_probs)
    ]
    is_taken = uniforms[:, :length, None] * own[0] < factor * own[1]
    accepted = np.cumprod(is_taken[..., 0], axis=1).sum(axis=1)
    drafted = np.pad(draft_probs, ((0, 0), (0, 1), (0, 0)))  # nothing was drafted in the place of the bonus
    left = np.maximum(target_probs - drafted, 0)[np.arange(len(accepted)), accepted].astype(np.float64)
    cumulative = np.cumsum(left, axis=1)
    following = (~(uniforms[:, length, None] * cumulative[:, -1:] < cumulative)).sum(axis=1)
    places = np.arange(length + 1)
    tokens = np.where(places < accepted[:, None], np.pad(draft_tokens, ((0, 0), (0, 1))), -1)
    tokens[places == accepted[:, None]] = following
    return tokens, accepted


def of_uniforms(read, factor=1.0, above=0):
    """Return a sampler that is handed uniforms; wrong by ``factor`` at vocabularies ``above`` a size."""

    def verify(draft_tokens, draft_probs, target_probs, uniforms):
        numbers = read(uniforms).reshape(tuple(uniforms.shape))
        draft_tokens, draft_probs, target_probs = map(np.asarray, (draft_tokens, draft_probs, target_probs))
        scale = factor if target_probs.shape[2] > above else 1.0
        return token_rule(draft_tokens, draft_probs, target_probs, numbers, scale)

    return verify


def of_generator(read, factor=1.0, above=0):
    """Return the same as a sampler that draws its uniforms from a generator."""
    verify = of_uniforms(read, factor, above)

    def drawing(draft_tokens, draft_probs, target_probs, generator):
        batch, length = draft_tokens.shape
        return verify(draft_tokens, draft_probs, target_probs, generator.random((batch, length + 1)))

    return drawing
