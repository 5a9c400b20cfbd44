"""What `locate` returns. Plain data: no array, no jaxpr."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal

Sweep = Literal["forward", "derivative", "transpose"]


@dataclass(frozen=True, slots=True)
class Operand:
    """An input or output of an equation. `minimum` and `maximum` are over its finite elements, None without any.

    `sample` is the element at the birth's index, where the operand has one there. Integers, booleans, keys and float0
    have no counts but zeros and no extremes. Inside shard_map the first axes of the shape are those of the mesh.
    """

    shape: tuple[int, ...]
    dtype: str
    nan: int = 0
    positive_infinity: int = 0
    negative_infinity: int = 0
    minimum: float | None = None
    maximum: float | None = None
    sample: float | complex | None = None

    def __str__(self) -> str:
        parts = [f"{self.dtype}[{','.join(map(str, self.shape))}]"]
        for word, count in (("NaN", self.nan), ("Inf", self.positive_infinity), ("-Inf", self.negative_infinity)):
            parts += [f"{count} {word}"] if count else []
        if self.minimum is not None:
            parts.append(f"finite from {self.minimum:.6g} to {self.maximum:.6g}")
        if self.sample is not None and self.shape:
            parts.append(f"{self.sample:.6g} at the index")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Place:
    """One equation on the way from a birth to an output."""

    primitive: str
    file: str | None
    line: int | None
    function: str | None
    iteration: tuple[int, ...]
    sweep: Sweep

    @property
    def at(self) -> str:
        """`file:line in function`, or that no line is known."""
        return "no line known" if self.file is None else f"{self.file}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class Birth:
    """The first equation that makes a NaN (or an Inf) from inputs without one, and what comes of it.

    `file`, `line` and `function` are the user's: of the equation, or of the nearest one around it that has a line of the
    user; None where none has. `iteration` has a number from 0 for each loop around, outermost first: the place along the
    scanned axis, or how often a while loop had run. `sweep` is `derivative` for what only the backward pass uses though
    it is computed with the forward one, `forward` also for what stands outside differentiation. `index` is the first
    element that is non-finite. `sources` are the arguments that the equation depends on, `path` a shortest way of
    equations from this one on, `reaches` the outputs that hold a NaN or Inf from here.
    """

    kind: Literal["nan", "inf"]
    primitive: str
    file: str | None
    line: int | None
    function: str | None
    iteration: tuple[int, ...]
    sweep: Sweep
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    index: tuple[int, ...]
    sources: tuple[str, ...]
    path: tuple[Place, ...]
    reaches: tuple[str, ...]

    @property
    def chain(self) -> tuple[str, ...]:
        """Arguments, the equations from the birth on, and outputs, as text."""
        runs = groupby(f"{place.primitive} ({place.at})" for place in self.path)
        equations = [text if (times := len(list(run))) == 1 else f"{text} {times} times" for text, run in runs]
        return (", ".join(self.sources) or "constants", *equations, ", ".join(self.reaches))

    def __str__(self) -> str:
        where = Place(self.primitive, self.file, self.line, self.function, self.iteration, self.sweep).at
        lines = [f"first {'NaN' if self.kind == 'nan' else 'Inf'}: {self.primitive}, {where}"]
        lines.append(f"  sweep      {self.sweep}")
        if self.iteration:
            lines.append(f"  iteration  {', '.join(map(str, self.iteration))}")
        lines.append(f"  index      {list(self.index)}")
        lines += [f"  in         {operand}" for operand in self.inputs]
        lines += [f"  out        {operand}" for operand in self.outputs]
        lines += [f"  {'from' if n == 0 else '  to'}       {part}" for n, part in enumerate(self.chain)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Constant:
    """An infinity that the program has as a constant, such as that of a mask: no birth. Of the equation where it meets a
    value of the step, with the first equation, where there is one, that makes a NaN out of it.
    """

    place: Place
    nan: Place | None
    reaches: tuple[str, ...]

    def __str__(self) -> str:
        text = f"constant Inf of the program, not born in the step: {self.place.primitive}, {self.place.at}"
        return text if self.nan is None else f"{text}; it is an input of the NaN of {self.nan.primitive}, {self.nan.at}"


@dataclass(frozen=True, slots=True)
class Entered:
    """A leaf of the arguments (or a closed-over array with NaN) that was non-finite before the step began.

    `finite_as` is the dtype that a host array had in which it was finite still: JAX takes float64 as float32, and what
    is beyond that range becomes infinite on the way in. None where it came as it is.
    """

    path: str
    nan: int
    positive_infinity: int
    negative_infinity: int
    index: tuple[int, ...]
    finite_as: str | None = None

    def __str__(self) -> str:
        counts = f"{self.nan} NaN, {self.positive_infinity} Inf, {self.negative_infinity} -Inf"
        text = f"came in: {self.path}: {counts}, first at {list(self.index)}"
        return text if self.finite_as is None else f"{text}; finite as {self.finite_as}, before JAX converted it"


@dataclass(frozen=True, slots=True)
class Located:
    """The births of one run of a step.

    `reproduced` says whether the equation-by-equation run gave outputs with NaN and Inf at the same elements as the
    compiled step: XLA's fusion can change that, and then a birth found here need not be the one there. `reaches` are
    the non-finite outputs, by path; counted leaves by stage and path. `constants` are the program's own infinities that
    reach one of them.
    """

    first_nan: Birth | None
    first_inf: Birth | None
    entered: tuple[Entered, ...]
    reaches: tuple[str, ...]
    reproduced: bool
    constants: tuple[Constant, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A JSON object; numbers that JSON lacks (the samples) are text."""
        found: dict[str, Any] = _plain(asdict(self))
        return found

    def __str__(self) -> str:
        same = "the same elements as" if self.reproduced else "OTHER elements than"
        lines = [f"equation by equation, NaN and Inf are at {same} in the compiled step"]
        lines += [str(leaf) for leaf in self.entered]
        if self.entered:
            lines.append("what came in is from before the step: an earlier step, or the data; this step cannot tell which")
        lines += [str(constant) for constant in self.constants]
        lines += [str(birth) for birth in (self.first_nan, self.first_inf) if birth is not None]
        if self.first_nan is None and self.first_inf is None:
            lines.append("nothing non-finite that reaches an output is born in the step")
        return "\n".join(lines)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, complex) or (isinstance(value, float) and value - value != 0):
        return str(value)
    return value
