"""What can be audited, one class a kind.

A kind of subject has a ``name``, a ``kind``, `Facts`, the number of draft paths that it is handed, and the
ways to find the law of one call, best first; `spec_oracle.audit.checks` say how they are run on each kind.
"""
