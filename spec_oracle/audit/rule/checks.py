"""The checks of verifiers; what looks at one as at a sampler is in the samplers' room."""

from spec_oracle.audit.rule.as_sampler import bad_input, length, scale
from spec_oracle.audit.rule.batch import batch
from spec_oracle.audit.rule.calls import calls
from spec_oracle.audit.rule.inputs_kept import inputs_kept
from spec_oracle.audit.rule.joint import joint
from spec_oracle.audit.rule.shapes import shapes

__all__ = ["bad_input", "batch", "calls", "inputs_kept", "joint", "length", "scale", "shapes"]
