"""The verification rules, one a file; `verifiers.get` hands them out by name."""
