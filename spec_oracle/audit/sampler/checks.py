"""The checks of samplers."""

from spec_oracle.audit.sampler.bad_input import bad_input
from spec_oracle.audit.sampler.batch import batch
from spec_oracle.audit.sampler.calls import calls
from spec_oracle.audit.sampler.inputs_kept import inputs_kept
from spec_oracle.audit.sampler.joint import joint
from spec_oracle.audit.sampler.length import length
from spec_oracle.audit.sampler.scale import scale
from spec_oracle.audit.sampler.shapes import shapes
from spec_oracle.audit.sampler.streams import streams

__all__ = ["bad_input", "batch", "calls", "inputs_kept", "joint", "length", "scale", "shapes", "streams"]
