"""The commands behind `spec_oracle.cli`, a file for those that belong together."""
