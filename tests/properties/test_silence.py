"""No refusal repeats what it refuses: not in its words, its attributes, its repr, nor in an error behind it."""

import json
import traceback
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import firstnan
from properties import generic, records
from properties.incidents import incidents
from properties.records import ANY, pick

EACH_KIND = pytest.mark.parametrize("kind", generic.KINDS)
FEW = settings(max_examples=settings.default.max_examples // 5)
PIECE = 7
"""So many characters in a row of a secret give it away."""

# Neither words nor bounds of the contract can be part of these.
WORD, DIGITS = "bcdfghjkmnpqrtvwxz", "3456789"
digests = st.integers(0, 2**32).map(lambda number: sha256(str(number).encode()).hexdigest())
numbers = st.integers(0, 7**21 - 1).map(lambda number: int(records.spelled(number, DIGITS, 21)))
hosts = st.integers(0, 18**12 - 1).map(lambda number: records.spelled(number, WORD, 12))
texts = st.one_of(
    digests,
    digests.map(str.upper),
    digests.map(lambda digest: digest + "\n"),
    digests.map(lambda digest: digest[:40]),
    digests.map(lambda digest: digest[:32]),
    hosts.map("{}.internal.example:8080".format),
    hosts.map("/home/{0}/keys/{0}.json".format),
    hosts.map("team:{} \u20ac".format),
    hosts.map("\ud800{}".format),
    hosts.map("C:\\{}".format),
)
secrets = st.one_of(texts, texts, numbers, numbers.map(lambda number: number / 7))


def pieces(secret):
    """The runs of characters that give a secret away, but for those of every secret of its form."""
    text = str(secret)
    runs = {text[at : at + PIECE] for at in range(max(1, len(text) - PIECE + 1))}
    return {run for run in runs if not any(run in known for known in (".internal.example:8080", "/home/", "/keys/", ".json"))}


def assert_silent(secret, call, *arguments, **options):
    """A refusal says nothing of the secret; whether there is one is for other tests. Answers if there was."""
    try:
        call(*arguments, **options)
    except (firstnan.ContractError, TypeError, ValueError) as refusal:
        error = refusal
    else:
        return False
    told = [repr(error), *map(repr, vars(error).values()), *traceback.format_exception_only(error)]
    behind = error.__cause__ or error.__context__
    while behind is not None:
        told += [repr(behind), str(behind)]
        behind = behind.__cause__ or behind.__context__
    words = "\n".join([str(error), *told])
    assert not [piece for piece in pieces(secret) if piece in words or repr(piece)[1:-1] in words], words
    return True


def test_a_telling_refusal_would_be_seen():
    def tell(secret):
        raise firstnan.ContractError(f"/host is {secret}")

    def tell_behind(secret):
        try:
            json.loads("{")
            int(secret)
        except ValueError as error:
            raise firstnan.ContractError(f"/host [{secret[3:11]}]") from error

    for call in (tell, tell_behind):
        with pytest.raises(AssertionError):
            assert_silent("kqzwvxbd.internal.example", call, "kqzwvxbd.internal.example")


@st.composite
def spoiled(draw, kind):
    """A record in which a secret stands for a value."""
    value = draw(records.of_kind(kind))
    secret = draw(secrets)
    within = pick(list(records.objects_in(value)), draw(ANY))
    name = pick(sorted(within), draw(ANY))
    within[name] = draw(st.sampled_from([secret, [secret], {"a": secret}]))
    return secret, value


SPELLINGS = [lambda text: text, lambda text: text[:-1], lambda text: text + "x", lambda text: text.replace(":", ";", 1)]


@EACH_KIND
def test_decoding(kind):
    told = set()

    @FEW
    @given(spoiled(kind), st.sampled_from(SPELLINGS), st.booleans())
    def each(case, spell, as_bytes):
        secret, value = case
        text = spell(json.dumps(value, ensure_ascii=False))
        data = text.encode(errors="surrogatepass") if as_bytes else text
        told.add(assert_silent(secret, firstnan.decode, kind, data))

    each()
    assert True in told


@EACH_KIND
def test_constructing_forcing_and_encoding(kind):
    refused = set()

    @FEW
    @given(records.of_kind(kind), ANY, secrets)
    def each(value, which, secret):
        try:
            record = firstnan.decode(kind, json.dumps(value))
        except firstnan.ContractError:
            return
        name = pick(sorted(vars(record)), which)
        refused.add(assert_silent(secret, type(record), **vars(record) | {name: secret}))
        object.__setattr__(record, name, secret)
        assert_silent(secret, firstnan.encode, record)

    each()
    assert True in refused


@FEW
@given(secrets, st.sampled_from(["record", "evidence"]), st.sampled_from([b"x", 1j, float("nan"), "\ud800", 2**70, None]))
def test_canonical_bytes(secret, profile, reason):
    canonical = firstnan.canonical_record if profile == "record" else firstnan.canonical_evidence
    for value in (secret, [secret, reason], {"a": [secret, reason]}, {"a": {"": secret}, "b": reason}, {reason: secret}):
        assert_silent(secret, canonical, value)
        assert_silent(secret, firstnan.content_id, "training-incident-contract", value)
    assert assert_silent(secret, firstnan.canonical_record, str(secret) * 2, max_bytes=len(str(secret)))


TEMPLATES = st.sampled_from(['"{}', "{}x", '[{{"":"{}"}},{}}}', "[1.5,{}]", '"{}"1', "\\{}"])


@FEW
@given(secrets, st.sampled_from(["record", "evidence"]), TEMPLATES)
def test_canonical_bytes_of_text(secret, profile, template):
    text = template.format(secret, secret)
    assert_silent(secret, firstnan.canonicalize, text, profile=profile)
    assert_silent(secret, firstnan.canonicalize, text.encode(errors="surrogatepass"), profile=profile)


@FEW
@given(incidents(), ANY, ANY, st.one_of(digests, hosts, hosts.map("team:{}".format)))
def test_triage(incident, at, which, secret):
    contract, evidence = incident
    target = pick([contract, evidence, *evidence["stages"]], at)
    target[pick(sorted(target.keys() - {"stages"}), which)] = secret

    def judge():
        of_contract = firstnan.decode("training-incident-contract", json.dumps(contract))
        firstnan.triage_training_incident(of_contract, firstnan.decode("training-run-evidence", json.dumps(evidence)))

    assert assert_silent(secret, judge)


@given(st.sampled_from(generic.KINDS), texts, ANY)
def test_a_secret_for_a_name(kind, secret, which):
    value = json.loads(records.seeds(kind)[0])
    within = pick(list(records.objects_in(value)), which)
    within[secret] = within.pop(pick(sorted(within), which))
    assert assert_silent(secret, firstnan.decode, kind, json.dumps(value))
    for reason in (b"x", {1: 2}, [float("nan")], "\ud800"):
        assert_silent(secret, firstnan.canonical_record, {"a": {secret: reason}})
        assert_silent(secret, firstnan.canonical_evidence, {"a": {secret: reason}})


@FEW
@given(st.lists(digests, min_size=6, max_size=6, unique=True), ANY)
def test_consensus(secret, which):
    host, device, software, storage, other, run = secret
    identity = firstnan.RunIdentity(run[:32], host, device, software, storage, other[:40], 2)
    one = {"rank": 0, "local_rank": 0, "world_size": 2, "host_digest": host, "device_digest": device, "device_kind": "cpu",
           "total_memory_bytes": 1, "free_memory_bytes": 1, "software_digest": software, "storage_digest": storage}  # fmt: skip
    changes = [{"rank": 1}, {"rank": 1, "host_digest": other, "software_digest": other}, {"rank": 1, "device_digest": other},
               {"rank": 1, "host_digest": other, "storage_digest": other}, {"host_digest": other}]  # fmt: skip
    ranks = (firstnan.RankInventory(**one), firstnan.RankInventory(**one | pick(changes, which)))
    for each in secret:
        assert assert_silent(each, firstnan.validate_inventory_consensus, identity, ranks)


@FEW
@given(secrets)
def test_capture(secret):
    seed = next(json.loads(text) for text in records.seeds("stage-telemetry"))
    for name in seed:
        assert_silent(secret, firstnan.StageTelemetry.capture, **seed | {name: secret})
    for code in (secret, str(secret)):
        assert_silent(secret, firstnan.RuntimeContractError, code, "message")
