"""Three other strict parsers say of every text what the grammar says, but for what is listed with its reason."""

import pytest

from grammar import corpus
from grammar.parsers import PARSERS, takes


@pytest.mark.parametrize("name", PARSERS)
def test_agrees_but_for_what_is_listed(name):
    parser, differences = PARSERS[name]
    seen = set()
    for data, right in corpus.verdicts().items():
        answer = takes(parser, data)
        if answer == right:
            continue
        # A text that the grammar refuses has no value to look at.
        reasons = [each for each in differences if each.accepts == answer and each.found(data)]
        assert reasons, (data, "taken" if answer else "refused")
        seen.update(reasons)
    assert seen == set(differences)
