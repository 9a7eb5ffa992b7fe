"""For tests/generation/test_candidate_generator.py of transformers."""

import unittest
from types import SimpleNamespace

from transformers import is_torch_available
from transformers.testing_utils import require_torch


if is_torch_available():
    import torch

    from transformers import GenerationConfig
    from transformers.generation.candidate_generator import SinglePositionMultiTokenCandidateGenerator

    class Gemma4AssistantForCausalLM(torch.nn.Module):
        """Stand-in with the name that the generator asks for: the same probabilities at every position."""

        device = torch.device("cpu")
        generation_config = GenerationConfig(num_assistant_tokens=2)

        def forward(self, inputs_embeds, **kwargs):
            logits = torch.tensor([[[0.6, 0.4]]]).log()
            return SimpleNamespace(logits=logits, last_hidden_state=inputs_embeds[..., :4])


@require_torch
class SinglePositionMultiTokenCandidateGeneratorTest(unittest.TestCase):
    def test_candidates_are_sampled_from_the_returned_logits(self):
        torch.manual_seed(0)
        counts = torch.zeros(2)
        for _ in range(200):
            generator = SinglePositionMultiTokenCandidateGenerator(
                assistant_model=Gemma4AssistantForCausalLM(),
                target_model_input_embeddings=torch.nn.Embedding(2, 4),
                generation_config=GenerationConfig(max_length=20, do_sample=True),
                logits_processor=None,
                model_kwargs={},
            )
            candidate_ids, candidate_logits = generator.get_candidates(
                torch.tensor([[0, 1]]),
                model_kwargs={},
                model_outputs=SimpleNamespace(hidden_states=(torch.zeros(1, 2, 4),), shared_kv_states={}),
                is_first_iteration=False,
                n_last_matches=0,
            )
            counts[candidate_ids[0, 2]] += 1

        # Verification divides by these probabilities, so they have to be those of the candidates:
        # either sampled candidates (0.6 and 0.4), or one certain candidate (1 and 0).
        reported = candidate_logits[0, 0].softmax(dim=-1)
        torch.testing.assert_close(counts / counts.sum(), reported, atol=0.15, rtol=0.0)
