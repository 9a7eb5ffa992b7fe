"""Third parties, one file each: samplers, whole engines, and what servers speak."""
