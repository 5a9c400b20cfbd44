"""The native core. Public names are re-exported by `firstnan`; this stub is their documentation.

Every refusal is a `firstnan.ContractError` that carries `kind`, `layer`, `pointer`, `bound`, `record` and `offset`,
and never repeats a value. Formats: docs/canonical.md, docs/records.md.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, final

from typing_extensions import CapsuleType

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
    "ArrowTable",
    "BulkTriage",
    "Decoded",
    "LineReader",
    "RowLines",
    "Shard",
    "StoredFile",
    "__version__",
    "canonical_evidence",
    "canonical_record",
    "canonicalize",
    "check",
    "content_id",
    "contract_digest",
    "count_arrow_array",
    "count_arrow_stream",
    "count_block",
    "count_dlpack",
    "count_finite",
    "decode",
    "encode",
    "evidence_content_id",
    "kinds",
    "stage_message_from_bytes",
    "table_of_kind",
    "table_of_quarantine",
    "table_of_verdicts",
    "triage",
    "validate",
    "validate_inventory_consensus",
]

_Row: TypeAlias = tuple[int, int, int, int, float, int | None]

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

def count_arrow_array(schema: CapsuleType, array: CapsuleType, *, threads: int) -> _Row:
    """See `firstnan.count_finite`: the two capsules that `__arrow_c_array__` gives; they go on owning the array.

    Raises:
        TypeError: a type of elements that is no number or boolean.
        BufferError: the array was released, or its length, offset or buffers are out of bounds.
        ValueError: threads is 0, or another capsule.
    """

def count_arrow_stream(stream: CapsuleType, *, threads: int) -> _Row:
    """See `firstnan.count_finite`: the capsule that `__arrow_c_stream__` gives, read to its end, an array at a time.

    Raises:
        TypeError, BufferError: as `count_arrow_array`.
        ValueError: likewise, or the stream fails.
    """

def count_dlpack(capsule: CapsuleType, *, threads: int) -> _Row:
    """See `firstnan.count_finite`: the capsule that `__dlpack__` gives, of either version; it goes on owning the tensor.

    Raises:
        TypeError: a type of elements that holds no number, or several in a byte.
        BufferError: the tensor is not on the host, of an unknown version, or the capsule of another kind or consumed.
        ValueError: threads is 0, or the tensor spans more memory than there can be.
    """

def count_finite(
    source: _Buffer, dtype: str | None = None, *, format: str | None = None, byte_swapped: bool = False, threads: int
) -> _Row:
    """See `firstnan.count_finite`: checked, nan, +Inf, -Inf, the largest finite magnitude, the first index.

    Args:
        source: any buffer, of any strides; nothing may write to it during the call.
        dtype: what its items are; None to go by the buffer's own format, byte order included.
        format: of the one element that all the bytes of the source are, in the letters of the struct module.
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

@final
class ArrowTable:
    """A table in Arrow's memory, for any library that speaks the Arrow PyCapsule protocol: `pyarrow.table(it)` copies
    nothing. It may be exported more than once."""

    @property
    def num_rows(self) -> int: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> Any:
        """A capsule `arrow_schema`."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """A capsule `arrow_array_stream`. A requested schema is ignored, as the protocol allows."""

@final
class Decoded:
    """What became of the lines of a shard: `lines == records + quarantined + blank`, always. docs/ingest.md has the columns."""

    @property
    def lines(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def quarantined(self) -> int: ...
    @property
    def blank(self) -> int:
        """Lines of nothing but white space."""

    @property
    def kinds(self) -> list[str]:
        """The kinds that have rows, in the order of `kinds()`."""

    def table(self, kind: str) -> ArrowTable:
        """The rows of a kind in the order of the lines, none where it has none.

        Raises:
            ContractError: not a kind.
        """

    def quarantine(self) -> ArrowTable:
        """What was refused, in the order of the lines, with where and why and its bytes."""

@final
class Shard:
    """At least `shard_bytes` of text, then up to the end of a line; a last line without an end is a shard of its own."""

    @property
    def source(self) -> str:
        """The name that the reader was given."""

    @property
    def kind(self) -> str | None:
        """The kind that the reader was given."""

    @property
    def start(self) -> int:
        """The byte of the text, after decompression, at which it begins."""

    @property
    def bytes(self) -> int: ...
    @property
    def first_line(self) -> int: ...
    @property
    def lines(self) -> int: ...
    @property
    def sha256(self) -> str:
        """Of its bytes, in lower-case hex."""

    @property
    def ended(self) -> bool:
        """False where its one line has no end yet."""

    def decode(self, *, threads: int | None = None) -> Decoded:
        """Checks, identifies and tabulates every line, on all cores unless `threads` (1 to 1,024) says how many.

        What comes out does not depend on the number.
        """

@final
class LineReader:
    """The text of a source, read ahead by a thread of its own and cut into shards."""

    def __new__(
        cls,
        file: str | os.PathLike[str] | int | bytes,
        *,
        name: str,
        head: bytes | None = None,
        kind: str | None = None,
        start: int = 0,
        first_line: int = 1,
        shard_bytes: int = 16777216,
        max_line_bytes: int = 1048576,
        hash_ahead: bool = True,
    ) -> LineReader:
        """Begins to read.

        Args:
            file: a path, an open descriptor (read from where it stands, by a copy of it) or the bytes themselves; plain,
                gzip (of one member or more) or zstd (of one frame or more), told by the first bytes.
            name: what the rows call the source.
            head: bytes that were read of the descriptor before, and stand in front of what it still has.
            kind: the kind of every record, where it is not to be told from each line.
            start: passes over so many bytes of text, after decompression.
            first_line: the number of the line there.
            shard_bytes: the fewest bytes of a shard that is not the last, 1 to 2^30.
            max_line_bytes: the most bytes of a line without its end, 1 to 2^28; a longer one is quarantined.
            hash_ahead: makes the `sha256` of each shard while reading; where not, it is made when it is asked for.

        Raises:
            OSError: the source cannot be opened.
            ContractError: `kind` is not a kind, or a number is out of its bounds.
            TypeError: `file` is none of these; `head` of what is no descriptor.
        """

    def next_shard(self) -> Shard | None:
        """The next shard, None at the end. Waits for a pipe; a signal such as Ctrl-C is handled meanwhile.

        Raises:
            OSError: the source cannot be read further. Its whole lines before that came as shards.
            ContractError: likewise, since its compressed form is broken or cut (kind `compression`), or decompresses to
                over 1,000 times its size (`expansion`).
        """

    def close(self) -> None:
        """Gives up what was read ahead; there are no more shards."""

@final
class RowLines:
    """The rows of an Arrow stream as lines of JSON, for a `LineReader`.

    The columns are the fields of a record, or a table of ours, whose rows with a rank become enveloped lines; or there is
    one column of text, each value a line. The stream must be valid: what it says of its memory is believed.
    """

    def __new__(cls, rows: Any, *, kind: str | None = None) -> RowLines:
        """Begins with the first row.

        Args:
            rows: what has `__arrow_c_stream__`.
            kind: the kind of every record, told by the names of the columns where it is None.

        Raises:
            ContractError: not a kind.
            AttributeError, TypeError: it is no stream.
            ValueError: the stream failed.
        """

    def next_lines(self) -> bytes | None:
        """The next lines with their ends, about 1 MiB and at least one; None at the end.

        Raises:
            ContractError: a value that JSON has no form for, such as a date (`unsupported`).
            ValueError: the stream failed.
        """

def table_of_kind(kind: str) -> ArrowTable:
    """The table of a kind without rows, for its schema.

    Raises:
        ContractError: not a kind.
    """

def table_of_quarantine() -> ArrowTable:
    """The quarantine table without rows, for its schema."""

@final
class BulkTriage:
    """The verdicts on tables of contracts and telemetry; `firstnan.ingest.fleet` says which columns."""

    def __new__(cls, contracts: Any, telemetry: Any) -> BulkTriage:
        """Begins with two Arrow streams (`__arrow_c_stream__`), each ordered by run_id and step_id.

        Raises:
            ValueError: a column is missing or of another type.
            AttributeError: an argument has no `__arrow_c_stream__`.
            TypeError: it gives no capsule of a stream.
        """

    def next_table(self) -> ArrowTable | None:
        """The next verdicts, None at the end.

        Raises:
            ValueError: the rows are not ordered, or a stream failed.
        """

def table_of_verdicts() -> ArrowTable:
    """The table of verdicts without rows, for its schema."""
