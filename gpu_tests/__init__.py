"""The verifiers at scale and on real networks; at small scale on any CPU."""
