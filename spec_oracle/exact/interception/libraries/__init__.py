"""The random functions and the arrays of each library, traced."""
