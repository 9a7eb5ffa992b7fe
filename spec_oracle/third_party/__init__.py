"""Adapters of other people's samplers and engines, one third party a file, and what is known of each."""
