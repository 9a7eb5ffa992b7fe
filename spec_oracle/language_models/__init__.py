"""Causal language models: loaded by a short text, run with a cache, cut to what they sample from."""

from spec_oracle.language_models.cached import CachedModel
from spec_oracle.language_models.loading import LanguageModel, load_language_model
from spec_oracle.language_models.truncation import Truncation

__all__ = ["CachedModel", "LanguageModel", "Truncation", "load_language_model"]
