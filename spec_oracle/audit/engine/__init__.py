"""Checks of whole engines: prompts in, completions out."""
