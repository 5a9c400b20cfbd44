"""The native core. Public names are re-exported by `firstnan`; this stub is their documentation.

Every refusal is a `firstnan.ContractError` that carries `kind`, `layer`, `pointer`, `bound`, `record` and `offset`,
and never repeats a value. Formats: docs/canonical.md, docs/records.md.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Protocol, final

from firstnan._generated.records import (
    IncidentReport,
    RankInventory,
    RunIdentity,
    StageMessage,
    StageTelemetry,
    TrainingIncidentContract,
    TrainingRunEvidence,
)

__all__ = [
    "StoredFile",
    "__version__",
    "canonical_evidence",
    "canonical_record",
    "canonicalize",
    "check",
    "content_id",
    "contract_digest",
    "count_block",
    "count_finite",
    "decode",
    "encode",
    "evidence_content_id",
    "kinds",
    "stage_message_from_bytes",
    "triage",
    "validate",
    "validate_inventory_consensus",
]

class _Buffer(Protocol):
    def __buffer__(self, flags: int, /) -> memoryview: ...

__version__: Final[str]

def canonical_record(value: object, *, max_bytes: int = 65536) -> bytes:
    """The bytes of the record profile: UTF-8, sorted names, integers only.

    Args:
        value: dict with str names, list, tuple, str, int, bool, None, Enum (its value) or dataclass (its fields);
            subclasses count by their content, as in the json module.
        max_bytes: bounds the output and each single string, 1 to 65,536.

    Raises:
        ContractError: a float, a lone surrogate, an integer beyond 64 bits, a cycle, depth above 16, more than 4,096
            values, more than `max_bytes`, or a type that the profile has no form for.
    """

def contract_digest(value: object) -> str:
    """SHA-256 of `canonical_record(value)` in lower-case hex.

    Raises:
        ContractError: as `canonical_record`.
    """

def canonical_evidence(value: object) -> bytes:
    """The bytes of the evidence profile: ASCII, sorted names, floats as Python's repr.

    Args:
        value: dict with str names, list, tuple, str, int, float, bool, None, or a record of the evidence profile.

    Raises:
        TypeError: a type that the profile has no form for.
        ContractError: a float that is not finite, an integer of more than 4,300 digits, a cycle, depth above 256, or two
            names that come out as one text.
        MemoryError: the bytes do not fit into memory.
    """

def content_id(prefix: str, payload: object) -> str:
    """`PREFIX@sha256:HEX` over `canonical_evidence(payload)`.

    Raises:
        TypeError, ContractError, MemoryError: as `canonical_evidence`.
    """

def count_finite(
    source: _Buffer, dtype: str | None = None, *, byte_swapped: bool = False, threads: int
) -> tuple[int, int, int, int, float, int | None]:
    """See `firstnan.count_finite`: checked, nan, +Inf, -Inf, the largest finite magnitude, the first index.

    Args:
        source: any buffer, of any strides; nothing may write to it during the call.
        dtype: what its items are; None to go by the buffer's own format, byte order included.
        byte_swapped: with a dtype, whether the items are big-endian.
        threads: at least 1; fewer are used where there is little to do.

    Raises:
        TypeError: a dtype or format that holds no number.
        BufferError: no buffer, one of pointers, or one whose items are of another width.
        ValueError: threads is 0.
    """

def count_block(
    block: bytes,
    dtype: str,
    *,
    byte_swapped: bool,
    start: int,
    fortran: Sequence[int] | None = None,
    best: int | None = None,
) -> tuple[int, int, int, int, float, int | None]:
    """Counts a part of an array, as `count_finite`.

    Args:
        block: elements one after the other; nothing may write to them during the call.
        dtype: what they are.
        byte_swapped: whether they are big-endian.
        start: the number of the block's first element in the array's order.
        fortran: the array's shape, where that is Fortran order; the index told is in C order all the same.
        best: the least index told of earlier blocks; the least of both is told again.

    Raises:
        ValueError: no such dtype, half an element, or more elements than the shape has.
    """

@final
class StoredFile:
    """A file open for reading at any offset, by several threads at once.

    Raises:
        OSError: it cannot be opened.
    """

    def __new__(cls, path: str | os.PathLike[str]) -> StoredFile: ...
    def size(self) -> int:
        """The bytes of the file now.

        Raises:
            OSError: the system does not say.
        """

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on, fewer where the file ends.

        Raises:
            OSError: it cannot be read.
        """

    def count(
        self,
        extents: Sequence[tuple[str, bool, int, int, Sequence[int] | None, bool]],
        *,
        threads: int,
        tick: Callable[[int], object],
    ) -> list[tuple[int, int, int, int, float, int | None] | OSError | EOFError]:
        """The counts of each extent, or the error that kept from them: EOFError with the offset where the file ends.

        Each thread reads into one buffer of 256 KiB, its own; the interpreter is let go.

        Args:
            extents: dtype, whether big-endian, offset, length in bytes, shape where stored in Fortran order, and whether
                each byte has two elements, of four bits.
            threads: at least 1; they live only for the call.
            tick: is called ten times a second with the bytes read so far; what it raises ends the call.

        Raises:
            ValueError: threads is 0, or an extent is not possible.
        """

def canonicalize(data: str | _Buffer, *, profile: Literal["record", "evidence"]) -> bytes:
    """Any JSON value as text to its canonical bytes, without a Python object in between.

    Releases the interpreter for long input; a buffer that is not `bytes` is copied first.

    Raises:
        ContractError: not strict JSON, or beyond the profile's bounds; `.offset` is the byte at fault.
    """

def decode(kind: str, data: str | _Buffer) -> Any:
    """The record of a kind from JSON text, strictly: the whole input, exactly the record's names.

    Args:
        kind: one of `kinds()`.
        data: UTF-8 without a byte order mark; white space and member order are free.

    Raises:
        ContractError: the layer that refuses first, shape, rule or wire, is `.layer`.
    """

def encode(record: object) -> bytes:
    """The canonical bytes of a record in its own profile, after it is validated again.

    Of a lifecycle record an instance of a subclass will do: the fields of the record are written, and no others.

    Raises:
        TypeError: not a record.
        ContractError: the record was forced out of its bounds.
    """

def validate(kind: str, data: str | _Buffer) -> None:
    """As `decode`, without building the record.

    Raises:
        ContractError: as `decode`.
    """

def kinds() -> tuple[str, ...]:
    """The kinds that `decode` knows, sorted."""

def check(index: int, record: object) -> None:
    """Shape and rules of a record that is being constructed; the generated `__post_init__` calls it.

    Raises:
        TypeError: not an instance of the record's class, or a member is not of its concrete class.
        ContractError: a field or a rule is broken.
    """

def triage(contract: TrainingIncidentContract, evidence: TrainingRunEvidence) -> IncidentReport:
    """See `firstnan.triage_training_incident`.

    Raises:
        TypeError: an argument is not exactly of its class.
        ContractError: the evidence is refused.
    """

def evidence_content_id(contract_content_id: str, evidence_id: str, stages: tuple[StageTelemetry, ...]) -> str:
    """`training-incident-evidence@sha256:HEX` over `{contract_content_id, evidence_id, stages}`.

    Raises:
        TypeError: a stage is not exactly a StageTelemetry.
        ContractError: a stage breaks its bounds.
    """

def validate_inventory_consensus(identity: RunIdentity, inventories: tuple[RankInventory, ...]) -> None:
    """See `firstnan.validate_inventory_consensus`.

    Raises:
        ContractError: the ranks do not agree, or an argument is not of its class.
    """

def stage_message_from_bytes(payload: bytes) -> StageMessage:
    """The message of exactly these canonical bytes.

    Raises:
        ContractError: any other bytes, or not `bytes` at all.
    """
