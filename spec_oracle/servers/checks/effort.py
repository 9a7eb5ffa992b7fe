"""Effort of audits of servers: numbers of samples and shares of the budget that several checks share.

Shares are of the budget of a check (`--budget`); a TV is a total variation.
"""

from typing import Final

# Part of the time of `joint` that is kept to find out which is wrong, completions or probabilities.
SERVER_BLAME_PART: Final = 0.2
SERVER_LONGER: Final = 4  # How many times longer the completions of `logprobs` are.
SERVER_LONG_TOKENS: Final = 64  # Tokens of the completions of `long-texts`.
# A law like those of trees, by which completions are planned before it is known.
USUAL_BINS: Final = (0.01,) * 100
SERVER_PILOT: Final = 64  # Completions by which the pace is measured; they count.
# One-token samples after each of these, by which it is found out what the reported probabilities are.
SERVER_READING_SAMPLES: Final = 24
SERVER_ONE_TOKEN_TV: Final = 0.5  # Largest TV that tests of single tokens must detect.
# A token that the completions under a combination of sampling fields are planned for, and must detect.
SERVER_SHAPES_TV: Final = 0.4
# Pairs of completions whose independence is judged: with as many far apart they detect a TV of 0.25.
SERVER_PAIRS: Final = 800
SERVER_LOGPROBS_COARSEST: Final = 0.5  # Difference of log-probabilities that must be detected, nats.
# False-alarm rate of deciding which is wrong, completions or the reported probabilities; one of them is.
SERVER_BLAME_RATE: Final = 1e-3
