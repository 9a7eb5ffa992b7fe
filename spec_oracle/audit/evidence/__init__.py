"""How the law of one call is found: enumerated, intercepted, integrated, row by row, sampled, or from texts.

Every way is a function that returns `Findings`, or raises `NoEvidenceError` where it does not work for the
code at hand; a subject lists its ways, best first.
"""
