"""Networks of several releases are read with their caches, whatever these are called there."""

import pytest
import torch
from torch import nn

from spec_oracle.language_models import CachedModel, LanguageModel, cache_name
from spec_oracle.third_party.engines.hugging_face import small_model


class Output(dict):
    """An output whose parts are attributes, too."""

    __getattr__ = dict.__getitem__


class Renamed(nn.Module):
    """A network whose cache has the name of another release."""

    def __init__(self, network, other):
        super().__init__()
        self.network, self.name, self.other = network, cache_name(network), other
        self.device = network.device

    def read(self, cache, inputs):
        output = self.network(**inputs, **{self.name: cache})
        return Output({"logits": output.logits, self.other: output[self.name]})


class OfCache(Renamed):
    def forward(self, cache=None, **inputs):
        return self.read(cache, inputs)


class OfPastKeyValues(Renamed):
    def forward(self, past_key_values=None, **inputs):
        return self.read(past_key_values, inputs)


@pytest.mark.parametrize(("kind", "name"), [(OfCache, "cache"), (OfPastKeyValues, "past_key_values")])
def test_a_cache_is_known_by_the_name_of_its_release(kind, name):
    network = small_model(0, 2)
    found = []
    for one in (network, kind(network, name)):
        texts = CachedModel(LanguageModel(one), [[1, 2], [0]])
        found += [texts.read(torch.tensor([[1], [2]])), texts.read(torch.tensor([[0], [2]]))]
    for expected, logits in zip(found[:2], found[2:], strict=True):
        assert torch.equal(expected, logits)
