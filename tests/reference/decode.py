"""Records from JSON text."""

from dataclasses import fields

from .records import KINDS, LogicalPlacement, PlacementKind, RuntimeStage, StageMessage, StageTelemetry, TrainingRunEvidence, Vote
from .text import Refused, parse

NAMES = {cls: frozenset(field.name for field in fields(cls)) for cls in KINDS.values()}
ENUMS = {
    LogicalPlacement: {"kind": PlacementKind},
    StageMessage: {"stage": RuntimeStage, "vote": Vote},
}


def decode(kind, data):
    """The record of a kind."""
    return build(KINDS[kind], parse(data))


def build(cls, value):
    """The record of a class from its plain dict, which this takes over."""
    if not isinstance(value, dict) or value.keys() != NAMES[cls]:
        raise Refused("names")
    if cls is TrainingRunEvidence:
        value["stages"] = tuple(build(StageTelemetry, stage) for stage in a_list(value["stages"]))
    elif cls is LogicalPlacement:
        value["global_shape"] = tuple(a_list(value["global_shape"]))
    for name, enum in ENUMS.get(cls, {}).items():
        if value[name] is not None:
            try:
                value[name] = enum(value[name])
            except (ValueError, TypeError):
                raise Refused(name) from None
    return cls(**value)


def a_list(value):
    if not isinstance(value, list):
        raise Refused("a list")
    return value


def stage_message_from_bytes(payload):
    """The message of exactly these canonical bytes."""
    if type(payload) is not bytes:
        raise Refused("payload")
    message = decode("stage-message", payload)
    if message.to_bytes() != payload:
        raise Refused("not canonical")
    return message
