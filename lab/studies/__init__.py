"""Studies: many toys, exact figures, and the documents made of them."""
