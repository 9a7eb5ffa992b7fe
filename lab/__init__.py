"""Beside the product, not in its wheel: known defects, claims, studies, benchmarks."""
