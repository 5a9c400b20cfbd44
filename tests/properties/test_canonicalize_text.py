"""Canonical bytes of any text: the package and the second implementation agree on the verdict and on the bytes."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import firstnan
from properties import json_text
from properties.outcome import REFUSED, of_package, of_reference
from reference import canonical as reference

PROFILES = pytest.mark.parametrize("profile", ["record", "evidence"])


def agree(data, profile):
    ours = of_package(firstnan.canonicalize, data, profile=profile)
    assert ours == of_reference(reference.canonicalize, data, profile=profile)
    return ours


@PROFILES
@given(st.one_of(json_text.texts, json_text.nested()))
@example('{"\\ud83d\\ude00":1,"\U0001f600":2}')
@example('{"\\udbff\\udfff":1,"\uffff":2}')
@example('"\ud800"')
@example("\ufeff1")
def test_text(profile, text):
    ours = agree(text, profile)
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert ours == agree(text.encode(), profile)
    if ours != REFUSED:
        assert agree(ours, profile) == ours
        of_object = firstnan.canonical_record if profile == "record" else firstnan.canonical_evidence
        assert of_object(json.loads(text)) == ours


@PROFILES
@given(st.one_of(json_text.mutated(), st.binary(max_size=12)))
def test_mutated_bytes(profile, data):
    agree(data, profile)


@given(st.one_of(json_text.texts, json_text.mutated()))
def test_the_offset_of_a_refusal_lies_in_the_text(data):
    try:
        firstnan.canonicalize(data, profile="evidence")
    except firstnan.ContractError as refusal:
        error = refusal
    else:
        return
    assert error.layer == "wire"
    assert error.offset is not None
    assert 0 <= error.offset <= len(data.encode(errors="surrogatepass") if isinstance(data, str) else data)
