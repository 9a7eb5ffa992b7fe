"""Third-party samplers behind one small adapter each."""
