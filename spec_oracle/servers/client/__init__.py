"""The client of running servers: requests, answers and counters over HTTP."""
