"""For keras_hub/src/samplers/speculative_sampler_test.py of keras-hub."""

import unittest

import numpy as np
from keras import ops

from keras_hub.src.samplers.random_sampler import RandomSampler
from keras_hub.src.samplers.speculative_sampler import SpeculativeSampler

TARGET = [0.5, 0.3, 0.2]
DRAFT = [0.2, 0.5, 0.3]


def model(probs, batch_size=1):
    """Return a model with the same next-token distribution after every token."""
    logits = ops.log(ops.convert_to_tensor(np.tile(np.array(probs, "float32"), (batch_size, 1))))
    return lambda prompt, cache, index: (logits, None, cache)


def certain(token_id, batch_size, vocab_size):
    """Return a model that gives one token all the probability."""
    ids = ops.full((batch_size,), token_id, dtype="int32")
    logits = ops.one_hot(ids, vocab_size) * 1e9
    return lambda prompt, cache, index: (logits, None, cache)


class SpeculativeSamplerTest(unittest.TestCase):
    def test_sampling_keeps_the_target_distribution(self):
        length = 1500
        sampler = SpeculativeSampler(num_speculative_tokens=2, base_sampler=RandomSampler(), seed=0)
        output = sampler(
            next=model(TARGET),
            draft_next=model(DRAFT),
            prompt=ops.zeros((1, length + 1), dtype="int32"),
            index=1,
        )
        counts = np.bincount(ops.convert_to_numpy(output)[0, 1:], minlength=3)
        # The standard error is 0.013.
        np.testing.assert_allclose(counts / length, TARGET, atol=0.06)

    def test_sampling_in_a_batch_keeps_the_target_distribution(self):
        # Drafts are certain, so that nothing depends on how they are chosen.
        length = 800
        sampler = SpeculativeSampler(num_speculative_tokens=1, base_sampler=RandomSampler(), seed=0)
        output = sampler(
            next=model(TARGET, 2),
            draft_next=certain(1, 2, 3),
            prompt=ops.zeros((2, length + 1), dtype="int32"),
            index=1,
        )
        counts = np.bincount(ops.convert_to_numpy(output)[:, 1:].ravel(), minlength=3)
        np.testing.assert_allclose(counts / (2 * length), TARGET, atol=0.06)

    def test_prompts_of_a_batch_are_kept(self):
        prompt = np.array([[1, 0, 0, 0, 0], [1, 2, 2, 2, 0]], "int32")
        mask = np.array([[1, 0, 0, 0, 0], [1, 1, 1, 1, 0]], "bool")
        output = SpeculativeSampler(num_speculative_tokens=2)(
            next=model(TARGET, 2),
            draft_next=model(TARGET, 2),
            prompt=ops.convert_to_tensor(prompt),
            mask=ops.convert_to_tensor(mask),
            index=1,
        )
        np.testing.assert_array_equal(ops.convert_to_numpy(output)[mask], prompt[mask])

    def test_tokens_without_probability_are_not_sampled(self):
        # As many tokens as Gemma 4 has; the drafts are always rejected.
        batch_size, length, vocab_size = 16, 8, 262144
        sampler = SpeculativeSampler(num_speculative_tokens=1, base_sampler=RandomSampler(), seed=0)
        output = sampler(
            next=certain(5, batch_size, vocab_size),
            draft_next=certain(7, batch_size, vocab_size),
            prompt=ops.zeros((batch_size, length + 1), dtype="int32"),
            index=1,
        )
        self.assertEqual(set(ops.convert_to_numpy(output)[:, 1:].ravel().tolist()), {5})


if __name__ == "__main__":
    unittest.main()
