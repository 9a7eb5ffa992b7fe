"""The checks of rules for draft trees."""

from spec_oracle.audit.tree.bad_input import bad_input
from spec_oracle.audit.tree.batch import batch
from spec_oracle.audit.tree.calls import calls
from spec_oracle.audit.tree.inputs_kept import inputs_kept
from spec_oracle.audit.tree.joint import joint
from spec_oracle.audit.tree.length import length
from spec_oracle.audit.tree.scale import scale
from spec_oracle.audit.tree.shapes import shapes

__all__ = ["bad_input", "batch", "calls", "inputs_kept", "joint", "length", "scale", "shapes"]
