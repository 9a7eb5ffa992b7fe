"""All options of decoding with which studies run vLLM's engines."""

from collections.abc import Mapping

from spec_oracle.third_party.engines.vllm import PROMPT, SamplingOption

_STOP = {"stop_token_ids": [2]}
_LOGPROBS = {"logprobs": 2, "prompt_logprobs": 1, "flat_logprobs": True}

OPTIONS: Mapping[str, SamplingOption] = {
    "sampling": SamplingOption(),
    "temperature": SamplingOption({"temperature": 0.6}),
    "greedy": SamplingOption({"temperature": 0.0}),
    "top-k": SamplingOption({"top_k": 2}),
    "top-p": SamplingOption({"top_p": 0.6}),
    "top-k and top-p": SamplingOption({"top_k": 2, "top_p": 0.8}),
    "min-p": SamplingOption({"min_p": 0.3}),
    "presence penalty": SamplingOption({"presence_penalty": 1.0}),
    "frequency penalty": SamplingOption({"frequency_penalty": 1.0}),
    "repetition penalty": SamplingOption({"repetition_penalty": 1.7}),
    "logit bias": SamplingOption({"logit_bias": {1: -1.5}}),
    "allowed tokens": SamplingOption({"allowed_token_ids": [0, 2]}),
    "bad words": SamplingOption({"bad_words": ["b", "ca"]}),
    "stop token": SamplingOption(_STOP, stop_tokens=(2,)),
    "stop token, ignore_eos": SamplingOption({**_STOP, "ignore_eos": True}, stop_tokens=(2,)),
    "least length": SamplingOption({**_STOP, "min_tokens": 2}, stop_tokens=(2,)),
    "stop string": SamplingOption(
        {"stop": ["ca"], "include_stop_str_in_output": True}, stop_sequences=((2, 0),)
    ),
    "repetition ends": SamplingOption({"repetition_detection": 2}, stop_sequences=((0, 0), (1, 1), (2, 2))),
    "grammar": SamplingOption({"structured_outputs": "(ab|c)*"}),
    "log-probabilities": SamplingOption(_LOGPROBS),
    "chosen log-probabilities": SamplingOption({"logprob_token_ids": [0, 2]}),
    "two completions": SamplingOption({"n": 2}),
    "long prompt": SamplingOption(prompt=PROMPT * 10),
    "long prompt, cache not read": SamplingOption({"skip_reading_prefix_cache": True}, prompt=PROMPT * 10),
}
