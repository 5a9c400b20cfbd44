"""Methods of records that no schema can express; the generator mixes `<Title>Methods` into the class `<Title>`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self, cast

from firstnan import _core
from firstnan.errors import ContractError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from firstnan._generated.records import (
        LogicalPlacement,
        StageMessage,
        StageTelemetry,
        TrainingIncidentContract,
        TrainingRunEvidence,
    )

OWNERS = {
    "input": "data_owner",
    "forward": "model_owner",
    "loss": "objective_owner",
    "backward": "model_owner",
    "optimizer": "optimizer_owner",
}


class TrainingIncidentContractMethods:
    """Identity and owners of a contract."""

    @property
    def content_id(self) -> str:
        """`training-incident-contract@sha256:` and the SHA-256 of the canonical bytes of the fields as given."""
        return _core.content_id("training-incident-contract", self)

    def expected_owner(self, stage: str) -> str:
        """The team that owns a stage.

        Raises:
            KeyError: there is no such stage.
        """
        return cast("str", getattr(self, OWNERS[stage]))


class StageTelemetryMethods:
    """The constructor for measured values."""

    @classmethod
    def capture(cls, **values: Any) -> Self:
        """Telemetry from measured values, under the names of the fields.

        `maximum_absolute_finite` and `loss_scale` become `float`, whatever numeric type they come in (Python, NumPy,
        a JAX scalar), so that captured telemetry has one identity.

        Raises:
            KeyError: a field is missing.
            TypeError: a name is not a field.
            ContractError: a value is out of its bounds, or not a number.
        """
        names = [field.name for field in fields(cast("DataclassInstance", cls))]
        arguments = {name: values[name] for name in names}
        if unknown := sorted(values.keys() - arguments.keys()):
            raise TypeError(f"capture() got names that are not fields: {', '.join(unknown)}")
        for name in ("maximum_absolute_finite", "loss_scale"):
            arguments[name] = measured_float(name, arguments[name])
        return cls(**arguments)


NOT_REAL = ("bool", "complex", "<U", ">U", "|S", "|V", "object")
"""How the dtypes begin that have a float and are no real number."""


def measured_float(name: str, value: object) -> float:
    """A number of any numeric type as a float; text, booleans and what is no number are refused."""
    dtype = str(getattr(value, "dtype", ""))
    other = isinstance(value, (bool, str, bytes, bytearray, complex)) or dtype.startswith(NOT_REAL)
    try:
        if other or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
            raise TypeError
        return float(cast("float", value))
    except OverflowError:
        negative = cast("float", value) < 0
        kind, where = ("minimum", "below the minimum") if negative else ("maximum", "above the maximum")
        bound = f"the {'least' if negative else 'largest'} finite binary64"
        raise not_a_real(name, kind, f"is {where}", bound) from None
    except (TypeError, ValueError):
        raise not_a_real(name, "type", "has the wrong type", "number") from None


def not_a_real(name: str, kind: str, what: str, bound: str) -> ContractError:
    """The refusal of a measured value, in the words of the core."""
    return ContractError(f"stage-telemetry: /{name} {what} [{kind}: {bound}]",
                         kind=kind, layer="shape", pointer=f"/{name}", bound=bound, record="stage-telemetry")


class TrainingRunEvidenceMethods:
    """The constructor that seals evidence to its contract."""

    @classmethod
    def capture(
        cls, *, evidence_id: str, contract: TrainingIncidentContract, stages: Iterable[StageTelemetry]
    ) -> TrainingRunEvidence:
        """Evidence of the five stages, with both content ids computed.

        Args:
            evidence_id: names this evidence.
            contract: what the stages are sealed to.
            stages: five telemetries, input to optimizer.

        Raises:
            TypeError: `contract` or a stage is not exactly of its class.
            ContractError: there are not five stages, or an id breaks its pattern.
        """
        from firstnan._generated.records import TrainingIncidentContract, TrainingRunEvidence

        if type(contract) is not TrainingIncidentContract:
            raise TypeError("contract must be a TrainingIncidentContract")
        telemetry = tuple(stages)
        contract_content_id = contract.content_id
        return TrainingRunEvidence(
            evidence_id=evidence_id,
            evidence_content_id=_core.evidence_content_id(contract_content_id, evidence_id, telemetry),
            contract_content_id=contract_content_id,
            stages=cast("Any", telemetry),
        )


class LogicalPlacementMethods:
    """The part of the matrix that a rank holds."""

    @property
    def local_shape(self) -> tuple[int, int]:
        """Rows and columns that this rank holds, in elements."""
        placement = cast("LogicalPlacement", self)
        rows, columns = placement.global_shape
        extent = placement.shard_end - placement.shard_start
        if placement.shard_dim is None:
            return rows, columns
        return (extent, columns) if placement.shard_dim == 0 else (rows, extent)


class StageMessageMethods:
    """The wire form of a message."""

    def to_bytes(self) -> bytes:
        """The canonical bytes, in the record profile.

        Raises:
            ContractError: the message was forced out of its bounds.
        """
        return _core.encode(self)

    @classmethod
    def from_bytes(cls, payload: bytes) -> StageMessage:
        """The message of exactly these canonical bytes.

        Raises:
            ContractError: the bytes are not the canonical bytes of a valid message, or not bytes at all.
        """
        return _core.stage_message_from_bytes(payload)
