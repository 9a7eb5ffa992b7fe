"""The checks of rules for draft trees."""

from spec_oracle.audit.rule.tree_bad_input import bad_input
from spec_oracle.audit.rule.tree_batch import batch
from spec_oracle.audit.rule.tree_calls import calls
from spec_oracle.audit.rule.tree_inputs_kept import inputs_kept
from spec_oracle.audit.rule.tree_joint import joint
from spec_oracle.audit.rule.tree_length import length
from spec_oracle.audit.rule.tree_scale import scale
from spec_oracle.audit.rule.tree_shapes import shapes

__all__ = ["bad_input", "batch", "calls", "inputs_kept", "joint", "length", "scale", "shapes"]
