"""The plain contract: types, generators, uniforms, validation."""
