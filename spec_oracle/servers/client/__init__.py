"""What running servers speak: requests, answers and counters over HTTP."""
