"""Effort on one page: how much is sampled, which shares of the budget it may take, and what it must detect.

The site's page on effort is made from it. Seconds are of the budget of one check (`--budget`); shares are of
that budget; a TV is a total variation.
"""

from typing import Final

# --- all kinds -------------------------------------------------------------------------------------------

# Part of the rate of `joint`, `calls` and `batch` for plain samples that confirm what was traced as wrong.
CLAIM_PART: Final = 0.1
CLAIM_SHARE: Final = 0.5  # Share of the budget that these samples may take.

# --- joint of samplers and verifiers ---------------------------------------------------------------------

# TV that samples must be able to detect before they may call a sampler or a server lossless.
SAMPLER_TV: Final = 0.02
FIRST_LOOK: Final = 64  # Samples before the first look at those of a server.
SAMPLER_FOLLOW_UPS: Final = 32  # Calls of the screening beyond the first of every instance.

# Seconds that the outcomes of a rule may take in `joint`, and in `calls`, where the budget is less.
RULE_LEAST_SECONDS: Final = 20.0

# --- other checks of samplers and verifiers --------------------------------------------------------------

# Share that the shapes which have every value of every axis may take, of the budget of a check.
SHAPES_VALUES_SHARE: Final = 0.75
# Share of the time left for one of the shapes that have every value.
SHAPES_ONE_SHARE: Final = 0.25
# Half the calls at each batch size: primes, so that no usual period hides in their halves.
BATCH_TURNS: Final = {2: 601, 16: 151, 33: 79, 128: 37, 130: 37, 1030: 19}
BATCH_REPLAYED: Final = 16  # Requests of a batch that are run alone with the same random numbers.
# Share of the budget for tests of independence between requests and between calls.
DEPENDENCE_SHARE: Final = 1 / 2
# Seconds that a call on broken input may take, beside so many times what one on valid input takes.
BAD_INPUT_SECONDS: Final = 3.0

# --- engines ---------------------------------------------------------------------------------------------

# Tokens of the completions of `joint`; one more where only that shows what drafts do.
ENGINE_FIRST_TOKENS: Final = 2
# Tokens of the completions that `calls` traces at least, unless `--tokens` says otherwise.
ENGINE_LEAST_TOKENS: Final = 3
ENGINE_SAMPLED_TOKENS: Final = 4  # Tokens of the completions that it samples where it cannot trace.
ENGINE_RUNS: Final = 20_000  # Runs of an engine that one traced distribution may take.
ENGINE_PILOT: Final = 10  # Completions by which their pace is measured.
ENGINE_ROUND: Final = 50  # Completions between two looks of the screening.
# The same, and requests of a batch, for engines that decode many requests at once.
ENGINE_MANY: Final = 4000

# --- long completions ------------------------------------------------------------------------------------

# TV of pairs of tokens that `long-texts` plans for; twice as much is accepted where time is short.
SERVER_DISTANCES_TV: Final = 0.1
SERVER_BOUND_RATE: Final = 1e-6  # Chance that the TV is less than the lower bound that is reported.

# --- servers -------------------------------------------------------------------------------------------

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
SERVER_LOGPROBS_COARSEST: Final = 0.5  # Difference of log-probabilities that must be detected, nats.
# False-alarm rate of deciding which is wrong, completions or the reported probabilities; one of them is.
SERVER_BLAME_RATE: Final = 1e-3
