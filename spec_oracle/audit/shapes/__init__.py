"""One call at other shapes: which shapes, what rows, by which criterion it is right, and what was tried.

A shape has few likely drafts (`spec_oracle.exact.draft_tree`), so that what is emitted after each of them
proves or disproves losslessness there, whatever the vocabulary.
"""
