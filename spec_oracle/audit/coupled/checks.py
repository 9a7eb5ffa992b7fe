"""The checks of rules for coupled drafts."""

from spec_oracle.audit.coupled.bad_input import bad_input
from spec_oracle.audit.coupled.batch import batch
from spec_oracle.audit.coupled.calls import calls
from spec_oracle.audit.coupled.inputs_kept import inputs_kept
from spec_oracle.audit.coupled.invariance import invariance
from spec_oracle.audit.coupled.joint import joint
from spec_oracle.audit.coupled.length import length
from spec_oracle.audit.coupled.scale import scale
from spec_oracle.audit.coupled.shapes import shapes
from spec_oracle.audit.coupled.streams import streams

__all__ = ["bad_input", "batch", "calls", "inputs_kept", "invariance", "joint", "length", "scale"]
__all__ += ["shapes", "streams"]
