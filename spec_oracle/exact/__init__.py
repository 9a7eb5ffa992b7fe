"""Exact laws: of our own verifiers, of unmodified foreign code, and of code that is handed its uniforms."""
