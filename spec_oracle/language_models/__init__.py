"""Causal language models: loaded by a short text, run with a cache, cut to what they sample from."""

from spec_oracle.language_models.models import CachedModel, LanguageModel, Truncation, load_language_model

__all__ = ["CachedModel", "LanguageModel", "Truncation", "load_language_model"]
