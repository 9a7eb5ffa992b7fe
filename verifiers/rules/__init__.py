"""The verification rules, one a file; `verifiers.get` returns them by name."""
