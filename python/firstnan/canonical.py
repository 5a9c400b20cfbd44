"""Canonical bytes and identities of values, records and JSON text (docs/canonical.md); all of it is the Rust core."""

from firstnan._core import canonical_evidence as canonical_evidence
from firstnan._core import canonical_record as canonical_record
from firstnan._core import canonicalize as canonicalize
from firstnan._core import content_id as content_id
from firstnan._core import contract_digest as contract_digest
from firstnan._core import encode as encode
from firstnan._generated.decode import decode as decode
