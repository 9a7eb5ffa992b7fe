"""Audits of running servers and of recorded completions: client, checks, commands."""
