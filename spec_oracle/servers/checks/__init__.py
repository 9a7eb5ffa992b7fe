"""Checks of running servers, of which nothing is known but what they answer over HTTP."""
