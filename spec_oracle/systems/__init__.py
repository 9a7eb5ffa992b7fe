"""Whole decoding systems as seen from outside."""
