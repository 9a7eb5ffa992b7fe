"""The names of parameters and what they are taken for: written down name by name."""

import pytest

from spec_oracle.commands.names import ROLES, role_of

MEANINGS = {
    "cumulative lengths": "cu_num_draft_tokens cu_seqlens cumulative_lengths cumsum offsets kv_indptr",
    "cumulative lengths, bonus tokens counted": "cu_num_sampled_tokens cu_num_logits",
    "longest draft": "max_spec_len max_draft_len max_num_draft_tokens max_draft_tokens gamma draft_len "
    "draft_length candidate_length spec_len",
    "drafted tokens of each request": "num_draft_tokens num_speculative_tokens num_spec_steps draft_lengths "
    "draft_lens lengths seq_lens num_drafts draft_lengths_per_request",
    "bonus logits": "bonus_logits",
    "bonus probabilities": "bonus_probs",
    "bonus token": "bonus_token_ids bonus_ids bonus_token bonus",
    "whether all are greedy": "all_greedy",
    "whether none is greedy": "all_random",
    "greedy requests": "is_greedy greedy_mask greedy",
    "temperature, 0 for greedy requests": "temperature temperatures draft_temperature",
    "a generator a request": "generators",
    "generator": "generator rng prng gen torch_generator random_state",
    "seed": "seed seeds request_seeds",
    "uniforms": "uniform_samples uniforms uniform_probs coins coin rand u random_numbers "
    "uniform_samples_for_final_sampling",
    "draft logits": "draft_logits q_logits proposal_logits assistant_logits candidate_logits small_logits "
    "draft_logprobs draft_log_probs",
    "target logits": "target_logits logits new_logits main_logits target_logprobs log_probs",
    "draft probabilities": "draft_probs q draft_p q_probs proposal_probs draft_distribution draft_dist "
    "assistant_probs candidate_probs draft_probabilities probs_draft draftProbs",
    "target probabilities": "target_probs p probs target_p target target_distribution target_dist "
    "verify_probs target_probabilities p_probs targetProbs",
    "the token before the draft, then the draft": "candidates",
    "drafted tokens": "draft_token_ids draft_tokens draft_ids drafts draft tokens x candidate_input_ids "
    "candidate_ids proposed_tokens proposal_ids spec_token_ids input_ids spec_ids assistant_tokens "
    "draft_ids_tensor draft_token_ids_d proposal proposals",
    "device": "device",
    "vocabulary": "vocab_size V",
    "batch": "batch_size B",
    "not in use": "top_k top_p min_p max_num_logprobs bad_words_token_ids allowed_token_ids_mask",
    "whether there are no penalties": "no_penalties",
    "where rows of drafted tokens lie": "target_logits_indices",
    "where rows of bonus tokens lie": "bonus_logits_indices",
    "written: next token": "predicts next_tokens",
    "written: accepted places of the tree": "accept_index",
    "written: number of accepted tokens": "accept_token_num num_accepted accept_lens "
    "maybe_output_emitted_draft_token_num",
    "written: emitted tokens": "output_token_ids out_tokens",
    "places of the tree": "retrive_index retrieve_index",
    "first child of each place": "retrive_next_token retrieve_next_token",
    "next sibling of each place": "retrive_next_sibling retrieve_next_sibling",
    "parent of each drafted token": "parents parent_indices parent_list tree_parents",
    "the ancestors of each place, and itself: the mask of a tree": "tree_mask tree_attn_mask ancestors",
    "depth of each place": "tree_position_ids tree_depths",
    "acceptance threshold, 1 for none": "threshold_single threshold_acc",
    "deterministic kernels": "deterministic",
    "": "beam_width metadata sampling_metadata config self mask eos_token_id target_ids state hidden_states "
    "attention_mask positions position_ids depth "
    "draft_model target_model logits_processors offset block_tables num_tokens logits_indices "
    "tokens_mask_len",
}


@pytest.mark.parametrize(
    ("meaning", "name"), [(what, one) for what, all_ in MEANINGS.items() for one in all_.split()]
)
def test_names_of_parameters_are_recognised(meaning, name):
    assert role_of(name).what == meaning


def test_every_row_of_the_table_is_tested():
    assert {role.what for role in ROLES.values()} == {*MEANINGS} - {""}
