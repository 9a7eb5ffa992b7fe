"""Effort on one page: how much is sampled, which shares of the budget it may take, and what it must detect.

The site's page on effort is made from it. Seconds are of the budget of one check (`--budget`); shares are of
that budget; a TV is a total variation.
"""

from typing import Final

# --- all kinds -------------------------------------------------------------------------------------------

SHAPES_SHARE: Final = 0.6  # Share of the budget that `shapes` may take, in an audit of one subject.
SHAPES_SHARE_OF_MANY: Final = 0.4  # Share in an audit of more than one, times a subject's part.
SHAPES_LEAST_PART: Final = 0.05  # That much of it is left to each of many subjects.
# Part of the rate of `joint`, `calls` and `batch` for plain samples that confirm what was traced as wrong.
CLAIM_PART: Final = 0.1
CLAIM_SHARE: Final = 0.5  # Share of the budget that these samples may take.
CLAIM_SECONDS: Final = 3.0  # Seconds for samples of a defect at one shape, or of a broken contract.
CLAIM_PILOT: Final = 20  # First samples at one shape.
CLAIM_REPEATS: Final = 2  # How often it is traced again where the defect is too small for samples.

# --- joint of samplers and verifiers ---------------------------------------------------------------------

# TV that samples must be able to detect before they may call a sampler or a server lossless.
SAMPLER_TV: Final = 0.02
SCREENING_SHARE: Final = 0.25  # Share of the time for samples that the screening may take; also of engines.
FIRST_LOOK: Final = 64  # Samples before the first look at those of a server.
LOOK_SECONDS: Final = 2.0  # About how far apart later looks are.
CALL_GROWTH: Final = 4  # Factor from one measured call to the next.
# Requests of one call of the screening; calls of the test that decides grow to ten times as many.
SAMPLER_BATCH: Final = 1000
SAMPLER_FOLLOW_UPS: Final = 32  # Calls of the screening beyond the first of every instance.
SAMPLER_PILOT: Final = 16  # Requests of the first call by which the pace is measured.
# TV between traced and uninstrumented runs of a sampler that uninstrumented samples should detect.
CONFIRMING_TV: Final = 0.02
CONFIRMING_SHARE: Final = 0.05  # Share of the budget that these samples may take.
CONFIRMING_PILOT: Final = 1000  # Requests of the first call by which their pace is measured.
# TV that must be excluded before a sampler that was integrated over its uniforms may be called lossless.
INTEGRATED_TV: Final = 1e-3
# Random uniforms per draft by which the integration finds where the sampler's emission changes.
INTEGRATED_PROBES: Final = 50_000
INTEGRATED_DENSER: Final = 20  # How many times as many a second look takes.
# About how many rows the distribution after one draft takes: probes, and the corners of boxes.
INTEGRATED_ROWS: Final = 100_000
# Rows of the calls that measure the pace: the first may compile, and code that is slow, or no faster with
# more rows, is spared those that follow.
INTEGRATED_PILOTS: Final = (16, 16, 128, 4096)
PAIRED_BATCH: Final = 64  # Rows of one call beside a reference rule.
# Rows of each instance that measure the pace: few, since interpreted kernels do less than ten a second.
PAIRED_PILOT: Final = 4
PAIRED_BREAKPOINTS: Final = 40  # Rows whose breakpoints are sought on each main instance.

# --- other checks of samplers and verifiers --------------------------------------------------------------

PACE_REQUESTS: Final = 16  # Requests of a call that measures how fast a sampler is.
PACE_CALLS: Final = 8  # Such calls at most; the fastest counts, since other programs slow some down.
PACE_SECONDS: Final = 0.1  # Time after which no further one begins.
SHAPES_SAMPLED_SHARE: Final = 0.15  # Share of the time of `shapes` for samples, where code can be traced.
SHAPES_SMALL_SHARE: Final = 0.15  # Share for sizes at which all drafts are tried.
# Share that the shapes which have every value of every axis may take, of the budget of a check.
SHAPES_VALUES_SHARE: Final = 0.75
# Share of the time left that one of these may take, and one of those that have all pairs of values.
SHAPES_ONE_SHARE: Final = 0.25
SHAPES_PAIR_SHARE: Final = 0.03
SHAPES_SECONDS: Final = 1.0  # Seconds that a shape may take in any case.
# Seconds that a shape may take whose rows have a type that does not count.
SHAPES_OTHER_TYPE_SECONDS: Final = 0.3
# Seconds for pairs of values from which on a few large shapes come before the others.
SHAPES_MANY_SECONDS: Final = 5.0
# Seconds that the first shape may take: it shows whether code can be traced at all.
SHAPES_FIRST_SECONDS: Final = 30.0
SHAPES_REQUESTS: Final = 2_000  # Samples at one shape, at least, as long as there are enough for one.
SHAPES_LEAST_SAMPLES: Final = 500  # Samples without which a shape does not count as tried.
SHAPES_MOST_REQUESTS: Final = 60_000  # Samples at all shapes.
# Shapes that are sampled: those of the fewest numbers, which make for the most samples.
SHAPES_MOST_SAMPLED: Final = 12
SHAPES_LARGE: Final = 4  # Of these, shapes up to the largest.
SHAPES_ROUNDS: Final = 4  # Looks at the samples of `shapes`.
# TV of a token that samples must detect at full vocabularies where code cannot be traced.
LARGE_TV: Final = 0.17
LARGE_BATCH: Final = 32  # Tokens between two looks of the screening there.
LARGE_NUMBERS: Final = 6_000_000  # Most probabilities of one call there.
# Share of the time by which samples may overrun it where that decides.
SAMPLES_OVERRUN: Final = 0.1
LENGTH_ROUNDS: Final = 5  # Looks at the samples of `length`.
LENGTH_REQUESTS: Final = 1_000  # Samples of a round on each instance.
CALLS_ROUNDS: Final = 6  # Looks at pairs of consecutive calls.
CALLS_REQUESTS: Final = 500  # Pairs of consecutive calls in a round.
CALLS_LEAST_REQUESTS: Final = 100  # The same of slow code.
CALLS_TURNS: Final = 151  # Half the calls of each size in one chain of calls.
CALLS_BESIDE_RULE: Final = 38  # Calls of each size that are compared with a rule.
CALLS_TV: Final = 0.1  # TV of completions of several calls that must be detected where noise is keyed.
CALLS_KEYED_REQUESTS: Final = 16  # Requests of a call whose noise is keyed.
# Completions of the rule that judge whether its keyed noise keeps the distribution.
CALLS_RULE_COMPLETIONS: Final = 20_000
STREAMS_ROUNDS: Final = 6  # Looks at pairs of neighbouring seeds.
STREAMS_SEEDS: Final = 60  # Pairs of neighbouring seeds in a round.
STREAMS_BATCH: Final = 8  # Requests of each seed.
STREAMS_REPEATED: Final = 64  # Requests that are repeated with the same seed.
# Half the calls at each batch size: primes, so that no usual period hides in their halves.
BATCH_TURNS: Final = {2: 601, 16: 151, 33: 79, 128: 37, 130: 37, 1030: 19}
TREE_BATCHES: Final = (2, 33, 130)  # Requests of batches of draft trees.
BATCH_REPEATS: Final = 600  # Calls of one request alone, and of it among others.
# Requests of batches that mix draft lengths, or greedy and sampled requests.
BATCH_MIXED_REQUESTS: Final = 3_000
BATCH_MIXED_ROUNDS: Final = 6  # Batches that they are in.
BATCH_REPLAYED: Final = 16  # Requests of a batch that are run alone with the same random numbers.
# Share of the budget for tests of independence between requests and between calls.
DEPENDENCE_SHARE: Final = 1 / 2
# Seconds, and share of the budget, for traced runs that show whether requests, or calls, share numbers.
DISJOINT_SECONDS: Final = 1.0
DISJOINT_SHARE: Final = 0.05
# Sizes that are sampled since numbers may be shared there; calls of each, and probabilities in all of them.
DISJOINT_SAMPLED: Final = 4
DISJOINT_CALLS: Final = 3_000
DISJOINT_NUMBERS: Final = 60_000_000
# Half the calls of code that cannot be traced, at V 2,049 and L 9, and share of the budget for these calls.
UNTRACED_TURNS: Final = 41
UNTRACED_SHARE: Final = 0.15
BAD_INPUT_REQUESTS: Final = 64  # Requests of every batch with broken input.
BAD_INPUT_LEAST_REQUESTS: Final = 16  # The same of slow code.
BAD_INPUT_SHARE: Final = 0.1  # Share of the budget for `bad-input`, before it takes fewer requests.
BAD_INPUT_EDGE_ROUNDS: Final = 8  # Calls whose random numbers are often exactly 0 or just under 1.
# Seconds that a call on broken input may take, beside so many times what one on valid input takes.
BAD_INPUT_SECONDS: Final = 3.0
BAD_INPUT_SLOWER: Final = 20.0  # Times that it may take longer than a call on valid input.
UNRUN_SECONDS: Final = 2.0  # Processor time in which toys are traced to see whether all lines run.
INPUTS_KEPT_REQUESTS: Final = 64  # Requests of the batch whose arguments are compared before and after.
SCALE_ROUNDS: Final = 8  # Looks at samples at a large vocabulary.
SCALE_MORE_ROUNDS: Final = 32  # Rounds of a second look, where the first is suspicious.
SCALE_REQUESTS: Final = 64  # Requests of a round at a large vocabulary.
SCALE_TYPE_ROUNDS: Final = 4  # Looks at samples in each number type.
SCALE_TYPE_REQUESTS: Final = 1_000  # Requests of a round in each number type.

# --- engines ---------------------------------------------------------------------------------------------

# Tokens of the completions of `joint`; one more where only that shows what drafts do.
ENGINE_FIRST_TOKENS: Final = 2
# Tokens of the completions that `calls` traces at least, unless `--tokens` says otherwise.
ENGINE_LEAST_TOKENS: Final = 3
ENGINE_MOST_TOKENS: Final = 8  # Tokens that it traces at most.
ENGINE_SAMPLED_TOKENS: Final = 4  # Tokens of the completions that it samples where it cannot trace.
ENGINE_RUNS: Final = 20_000  # Runs of an engine that one traced distribution may take.
ENGINE_LEAST_RUNS: Final = 300  # Runs that it may always take: the pace of the first ones says little.
# Times the budget, in processor time, at which no run of traced completions goes on.
ENGINE_OVERRUN: Final = 2.0
# Runs that one more token may take, in all, where nobody asked for that token.
ENGINE_MORE_RUNS: Final = 1500
# Most tokens of the histories from which `calls` traces one call, and more where drafts are longer.
ENGINE_CALLS_TOKENS: Final = 24
# Share of the budget for completions that are traced and, in what is left of it, for the calls after every
# pattern of acceptance.
ENGINE_CALLS_SHARE: Final = 0.7
# Histories of a pattern of no, one, two and three calls from which the next one is traced.
ENGINE_HISTORIES: Final = (1, 3, 2, 2)
# Tokens of the completions of `long-texts`, halved down to the least where an engine raises.
ENGINE_LONG_TOKENS: Final = 320
ENGINE_LONG_LEAST: Final = 20
ENGINE_LONG_PILOT: Final = 16  # Completions after which it is seen whether they are that long on average.
# TV of a token that they must detect, and TV that they should detect while time is left.
ENGINE_LONG_TV: Final = 0.3
ENGINE_LONG_TV_WANTED: Final = 0.08
# Share of the budget for them, and so many times as much where too few tokens came.
ENGINE_LONG_SHARE: Final = 0.05
ENGINE_LONG_OVERRUN: Final = 5
# How many times as many tokens without speculation show whether the rows are at fault.
ENGINE_LONG_BESIDE: Final = 4
ENGINE_LONG_BATCHES: Final = (2, 3, 5)  # Sizes of batches whose completions are judged so by `batch`.
ENGINE_LONG_BATCH_TOKENS: Final = 40  # Tokens of these.
ENGINE_LONG_MANY: Final = 2  # Completions at once of engines that decode many requests.
# Tokens and number of the completions after a prompt whose reported log-probabilities are looked at.
ENGINE_REPORTS: Final = (12, 2)
# Share of the budget for them; those after one prompt are looked at anyway.
ENGINE_REPORTS_SHARE: Final = 0.1
# Histories of a pattern on which few samples confirm a defect; what these leave open gets more.
ENGINE_LIKELY: Final = 8
# Histories of the same calls over which the next one is averaged, before samples are taken.
ENGINE_ALIKE: Final = 64
# Share of the time for a call that was left open which is for all that earlier calls may hide, and share for
# further histories; the rest is for samples.
ENGINE_SETTLING_SHARE: Final = 0.2
# How much longer a generation takes when its random numbers are traced: a first guess.
ENGINE_TRACING: Final = 5.0
# TV between traced and uninstrumented runs of an engine that uninstrumented samples should detect.
ENGINE_CONFIRMING_TV: Final = 0.1
ENGINE_CONFIRMING_SHARE: Final = 0.1  # Share of the budget that these samples may take.
ENGINE_PILOT: Final = 10  # Completions by which their pace is measured.
ENGINE_TV: Final = 0.1  # TV that samples must be able to detect before they may call an engine lossless.
ENGINE_TV_WANTED: Final = 0.05  # TV that they should detect if the budget allows.
ENGINE_TV_MANY: Final = 0.03  # The same for engines that decode many requests at once.
# Share of the time for completions without speculation: they only show whose fault a defect is.
ENGINE_PLAIN_SHARE: Final = 0.25
ENGINE_ROUND: Final = 50  # Completions between two looks of the screening.
# The same, and requests of a batch, for engines that decode many requests at once.
ENGINE_MANY: Final = 4000
ENGINE_TURNS: Final = 3  # Looks of the screening beyond the first one of every prompt, a prompt.
# Generations whose first two calls `draft-law` and `length` sample where they cannot trace them.
ENGINE_STEPS: Final = 500
ENGINE_STEPS_MANY: Final = 20_000  # The same for engines that decode many requests at once.
# Tokens and number of the completions in which it looks for tokens that depend on each other.
ENGINE_POSITIONS: Final = (8, 12_000)
ENGINE_SEEDS: Final = 8  # Seeds whose completions must repeat.
ENGINE_PAIRS: Final = 240  # Pairs of completions whose independence `streams` judges, over all prompts.
# The same for neighbouring seeds where an engine decodes many requests at once.
ENGINE_PAIRS_MANY: Final = 12_000
ENGINE_ROUNDS: Final = 6  # Looks at the pairs of `streams` and `batch`.
ENGINE_BATCHES: Final = 60  # Batches of two completions a look, over all prompts.
# Sizes of the larger batches of which `batch` takes samples, without seeds and with them.
ENGINE_LARGER_BATCHES: Final = (3, 5, 8)
ENGINE_LARGER_LOOK: Final = 25  # Batches of each of these sizes a look.
ENGINE_LARGER_SHARE: Final = 0.5  # Share of the budget that these samples may take.

# --- servers ---------------------------------------------------------------------------------------------

# Parts of the budget, which is for all checks together; what one leaves over is shared by the later ones.
SERVER_SHARES: Final = {
    "plain-law": 0.15,
    "joint": 0.4,
    "model": 0.05,
    "shapes": 0.1,
    "length": 0.03,
    "long-texts": 0.2,
    "logprobs": 0.05,
    "streams": 0.1,
    "batch": 0.1,
}
# Part of the time of `joint` that is kept to find out which is wrong, completions or probabilities.
SERVER_BLAME_PART: Final = 0.2
SERVER_PILOT_PART: Final = 0.1  # Part of the time of `joint` for the completions that measure the pace.
# Part of the time of `plain-law` for finding out what the probabilities are, and as much for their noise.
SERVER_READING_PART: Final = 0.2
SERVER_TOKENS: Final = 4  # Tokens of the completions of `joint`.
SERVER_LONGER: Final = 4  # How many times longer the completions of `logprobs` are.
SERVER_LONG_TOKENS: Final = 64  # Tokens of the completions of `long-texts`.
SERVER_SCORED: Final = 8  # Tokens of the completion by which it is found out how prompts are scored.
SERVER_PILOT: Final = 64  # Completions by which the pace is measured; they count.
# Least probability of a bin of completions: smaller ones are not worth the samples that more bins cost.
SERVER_SMALLEST_BIN: Final = 0.004
# Prefixes near the prompts whose distributions are asked for again, and compared with samples.
SERVER_NEAR: Final = 8
# One-token samples after each of these, by which it is found out what the reported probabilities are.
SERVER_READING_SAMPLES: Final = 24
SERVER_NOISE_REPEATS: Final = 8  # How often a distribution is asked for to measure how much it varies.
# Tests of single tokens must detect that many times the TV of `joint`, and `SERVER_ONE_TOKEN_TV` at most.
SERVER_ONE_TOKEN_COARSER: Final = 2.5
SERVER_ONE_TOKEN_TV: Final = 0.5
# TV of pairs of tokens that `long-texts` plans for; twice as much is accepted where time is short.
SERVER_DISTANCES_TV: Final = 0.1
# TV a token that the completions under a combination of sampling fields are planned for, and must detect.
SERVER_SHAPES_TV: Final = 0.4
SERVER_SHAPES_COARSEST: Final = 0.7
# Pairs of completions whose independence is judged: with as many far apart they detect a TV of 0.25.
SERVER_PAIRS: Final = 800
# TV of pairs that must be detected: requests that share randomness have equal completions.
SERVER_PAIRS_TV: Final = 0.5
SERVER_BESIDE: Final = 2000  # Completions beside other traffic: with as many alone they detect a TV of 0.2.
SERVER_BESIDE_TV: Final = 0.3  # TV that must be detected beside other traffic.
SERVER_STOPS: Final = 24  # Completions that a stop string may end, and as many without.
SERVER_REPEATED_SEEDS: Final = 24  # Seeds that are sent twice.
# Completions after each prompt whose log-probabilities are compared with those of one-token requests.
SERVER_LOGPROBS: Final = 3
# Tokens after which the distributions of a server and of its reference are compared, and samples of one token
# where these are not reported.
SERVER_MODEL_TOKENS: Final = 200
SERVER_MODEL_SAMPLES: Final = 2000
SERVER_LOGPROBS_COARSEST: Final = 0.5  # Difference of log-probabilities that must be detected, nats.
# False-alarm rate of deciding which is wrong, completions or the reported probabilities; one of them is.
SERVER_BLAME_RATE: Final = 1e-3
SERVER_BOUND_RATE: Final = 1e-6  # Chance that the TV is less than the lower bound that is reported.
