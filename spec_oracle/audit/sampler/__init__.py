"""Checks of samplers: functions that verify drafts with random numbers of their own, or handed over."""
