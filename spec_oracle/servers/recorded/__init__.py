"""Recorded completions, judged without the server that made them."""
