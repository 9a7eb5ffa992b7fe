"""Checks of rules for coupled drafts: they read the uniforms by which their drafts were sampled."""
