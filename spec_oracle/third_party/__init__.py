"""Adapters of third-party samplers and engines, one third party a file, and the facts on record."""
