"""The law of one call at other shapes: which shapes, what rows, how code is called there, and what is
allowed.

A shape has few likely drafts (`spec_oracle.exact.draft_tree`), so that the law of the emission after each of
them proves or disproves losslessness there, whatever the vocabulary.
"""
