"""What is read in the code of a function: shapes, attributes, returned values, the layout of a batch."""

import inspect

import pytest

from spec_oracle.commands.signatures import guess
from spec_oracle.commands.source import FunctionSource, result_of


def documented(draft_probs, target_probs, bonus_ids, rows):
    """Verify drafts.

    Args:
        draft_probs (Optional[Tensor]): rows of the draft, which may be
            None. Shape is [batch, length, vocab].
        target_probs: ``(batch, length + 1, vocab)``
        bonus_ids (LongTensor): see [1]: [batch]
        rows (Tensor): a tensor (of the target).
    """


def in_a_sentence(draft_token_ids, bonus_token_ids, target_logits):
    """Verify draft_token_ids: [batch, steps], with bonus_token_ids [batch] of target_logits: any shape."""


def beside_the_text(input_ids, speculated_ids, target_logits): ...


def annotated(draft_tokens, draft_probs, target_probs, rng): ...


annotated.__annotations__ = {"draft_tokens": "Int[Tensor, 'L']", "draft_probs": 'Float[Tensor, "L V"]'}


def on_a_device(draft_tokens, draft_probs, target_probs, mask, **options):
    return draft_tokens[mask.to(mask.device)]


def of_one_request(target_dists, proposal_dists, candidate_tokens):
    """Verify target_dists [num_draft_tokens + 1, vocab], proposal_dists [num_draft_tokens, vocab]."""


def end_to_end(target_probs, draft_probs, draft_tokens, num_drafts):
    """Verify target_probs [num_tokens, vocab], draft_probs [num_tokens, vocab]."""


def by_batch(draft_tokens, draft_probs, target_probs, rng):
    for b in range(len(draft_tokens)):
        drafted = draft_tokens[b]
        for i, token in enumerate(drafted):
            rows = target_probs[b, np.arange(len(drafted)), drafted]  # noqa: F821
            if rng.random() * draft_probs[b, i, token] > rows[i]:
                break


def by_request(draft_tokens, draft_probs, target_probs, rng):
    for token, q, p in zip(draft_tokens, draft_probs, target_probs, strict=False):
        if rng.random() * q[token] > p[token]:
            return


def by_counter(draft_tokens, draft_probs, target_probs, rng):
    place = 0
    while rng.random() * draft_probs[place, int(draft_tokens[place])] < target_probs[place][0]:
        place += 1


def by_places(draft_tokens, draft_probs, target_probs, rng):
    places = np.arange(len(draft_tokens))  # noqa: F821
    ratio = target_probs[np.arange(len(draft_tokens)), draft_tokens] / draft_probs[places, draft_tokens]  # noqa: F821
    return (rng.random(len(ratio)) < ratio).cumprod().sum()


def by_first_request(draft_tokens, draft_probs, target_probs, rng):
    for place in range(draft_tokens.shape[1]):
        token = draft_tokens[0, place]
        if rng.random() * draft_probs[0, place, token] > target_probs[0, place, token]:
            return


def squeezed(draft_tokens, draft_probs, target_probs, rng):
    for token in draft_tokens.squeeze(0):
        rng.random(token)


def squeezed_ratios(draft_tokens, draft_probs, target_probs, rng):
    places, drafted = range(draft_tokens.shape[1]), draft_tokens[:, -3:]
    return (target_probs[:, places, drafted] / draft_probs[:, places, drafted]).squeeze(0, 1)


def of_a_batch_of_one(draft_tokens, draft_probs, target_probs, rng):
    """Verify draft_tokens [1, L]."""


class Reader:
    def forward(self, inputs):
        self.check(inputs)
        return inputs.rows(inputs.tokens)

    def check(self, given):
        assert given.device
        self.forward(given)


def shape(function, name):
    return FunctionSource(function).shape(inspect.signature(function).parameters[name])


@pytest.mark.parametrize(
    ("function", "name", "sizes"),
    [
        (documented, "draft_probs", ("batch", "length", "vocab")),
        (documented, "target_probs", ("batch", "length + 1", "vocab")),
        (documented, "rows", ()),
        (in_a_sentence, "draft_token_ids", ("batch", "steps")),
        (in_a_sentence, "bonus_token_ids", ("batch",)),
        (in_a_sentence, "target_logits", ()),
        (annotated, "draft_tokens", ("L",)),
        (annotated, "draft_probs", ("L", "V")),
        (annotated, "target_probs", ()),
        (len, "obj", ()),
    ],
)
def test_shapes_are_read_in_docstrings_and_annotations(function, name, sizes):
    assert shape(function, name) == sizes


def test_attributes_are_followed_into_methods_and_functions_of_the_same_code():
    assert FunctionSource(Reader.forward, Reader).attributes("inputs") == {
        "device": False,
        "rows": True,
        "tokens": False,
    }


def test_an_array_is_no_object_with_a_device():
    *_, mask, options = guess(on_a_device).arguments
    assert (mask.name, mask.said) == ("mask", "not known: TODO")
    assert (options.name, options.said) == ("**options", "nothing is handed over")


@pytest.mark.parametrize(
    ("function", "layout"),
    [
        (by_batch, "padded"),
        (by_request, "one request"),
        (by_counter, "one request"),
        (annotated, "one request"),
        (of_one_request, "one request"),
        (by_places, "one request"),
        (by_first_request, "batch of one"),
        (squeezed, "batch of one"),
        (squeezed_ratios, "batch of one"),
        (of_a_batch_of_one, "batch of one"),
        (end_to_end, "flat"),
    ],
)
def test_the_layout_is_read_in_the_code(function, layout):
    assert guess(function).layout == layout


def returning(code):
    """Return the values of a function that ends with that statement."""
    source = FunctionSource(lambda: None)
    source.text = f"def verify():\n    return {code}\n"
    return source.returned()


@pytest.mark.parametrize(
    ("code", "of_batches", "of_one"),
    [
        ("output_ids", "from_padded(output)", "output"),
        ("rows.argmax(-1)", "from_padded(output)", "output"),
        ("tokens, accepted", "from_lengths(output[0], output[1])", "output[0][: output[1] + 1]"),
        ("num_emitted, tokens", "from_lengths(output[1], output[0] - 1)", "output[1][: output[0]]"),
        ("tokens, emitted_draft_num + 1", "from_lengths(output[0], output[1] - 1)", "output[0][: output[1]]"),
        ("tokens, emitted_draft_num", "from_lengths(output[0], output[1])", "output[0][: output[1] + 1]"),
        (
            "tokens, num_rejected, last_ids",
            "from_lengths(output[0], draft_tokens.shape[1] - output[1])",
            "output[0][: len(draft_tokens) - output[1] + 1]",
        ),
        (
            "n_accepted, next_token",
            "from_accepted(draft_tokens, output[0], output[1])",
            "[*draft_tokens[:output[0]], output[1]]",
        ),
        ("accepted_tokens, bonus", "", "[*output[0], output[1]]"),
        ("tokens, width - n_accepted, last_ids", "", ""),
        ("accepted_indices, next_tokens", "", ""),
        ("num_accepted", "", ""),
        (
            "accepted_tokens, n_accepted, next_token",
            "from_accepted(draft_tokens, output[1], output[2])",
            "[*draft_tokens[:output[1]], output[2]]",
        ),
        (
            "SamplerOutput(sampled_token_ids=ids, logprobs=None)",
            "from_padded(output.sampled_token_ids)",
            "output.sampled_token_ids",
        ),
        ("rejected_indices", "", ""),
        ("rejected_idx, resampled_token", "", ""),
        ("tokens, mask", "", ""),
        ("num_emitted, num_accepted", "", ""),
        (
            "torch.stack([n_accepted, next_token], dim=-1)",
            "from_accepted(draft_tokens, output[..., 0], output[..., 1])",
            "[*draft_tokens[:output[..., 0]], output[..., 1]]",
        ),
    ],
)
def test_returned_values_become_the_result(code, of_batches, of_one):
    returned = returning(code)
    assert result_of(returned, {}, "torch", "padded") == of_batches
    assert result_of(returned, {}, "torch", "one request") == of_one


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("accepted, bonus", "[*output[0], output[1]]"),
        ("new, num_accepted", "output[0][: output[1] + 1]"),
        ("accepted", "output"),
    ],
)
def test_a_list_that_one_request_appends_to_is_of_its_tokens(code, result):
    appended = code.split(",")[0]
    source = FunctionSource(lambda: None)
    source.text = f"def verify():\n    {appended}.append(1)\n    return {code}\n"
    assert result_of(source.returned(), {}, "torch", "one request") == result


def test_a_list_of_a_batch_is_no_array():
    source = FunctionSource(lambda: None)
    source.text = "def verify():\n    new.append([1])\n    return new\n"
    assert result_of(source.returned(), {}, "torch", "padded") == ""


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("valid_tokens, n_matches", "output[0][0][: output[1] + 1]"),
        ("n_accepted, next_token", "[*draft_tokens[0, :output[0]], output[1]]"),
        ("output_ids", "output[0]"),
    ],
)
def test_returned_values_of_a_batch_of_one_become_the_tokens_of_its_request(code, result):
    assert result_of(returning(code), {}, "torch", "batch of one") == result


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("output_ids, num_accepted", "from_lengths(output[0], output[1])"),
        ("best_node, next_token", "from_node(tokens, parents, output[0], output[1])"),
        ("output_ids", "from_padded(output)"),
        ("num_accepted, next_token", ""),
        ("predicts, accept_index, accept_lens", "from_lengths(output[0][output[1].long()], output[2])"),
    ],
)
def test_returned_values_of_trees_become_the_result(code, result):
    assert result_of(returning(code), {}, "torch", "tree") == result


def test_unreadable_source_gives_nothing():
    source = FunctionSource(print)
    assert (source.text, source.returned(), source.attributes("sep")) == ("", [], {})


def test_a_length_annotated_as_an_array_is_one_of_each_request():
    def verify(draft_tokens, target_probs, draft_len: "torch.Tensor | None" = None, gamma: int = 1): ...  # noqa: F821

    said = {one.name: one.said for one in guess(verify).arguments}
    assert said["draft_len"].startswith("drafted tokens of each request: torch.full(")
    assert said["gamma"] == "longest draft: draft_tokens.shape[1]"


def test_one_temperature_for_all_requests_is_a_number():
    def verify(draft_tokens, target_probs, temperature: float = 0.7, *, greedy: bool = False): ...
    def by_request(draft_tokens, target_probs, temperature, greedy: "torch.Tensor"): ...  # noqa: F821

    assert [one.value for one in guess(verify).arguments[2:]] == ["1.0", "False"]
    assert all("is_greedy" in one.value for one in guess(by_request).arguments[2:])


def test_input_ids_beside_speculated_ones_are_the_text_before_them():
    said = {one.name: one.said for one in guess(beside_the_text).arguments}
    assert said["input_ids"] == "not known: TODO"
    assert said["speculated_ids"] == "drafted tokens: draft_tokens"
