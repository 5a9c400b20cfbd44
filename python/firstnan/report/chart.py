"""The largest finite magnitude of each stage over the last steps, as SVG on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from firstnan.records import STAGES
from firstnan.report.markup import node
from firstnan.report.measured import Step

WIDTH, HEIGHT = 760.0, 340.0
LEFT, RIGHT, TOP, BOTTOM = 54.0, 96.0, 18.0, 46.0
MAX_STEPS: Final = 256
"""The most steps drawn: more would be less than two pixels apart."""
MAX_TICKS = 8
LABEL_HEIGHT = 15.0
CROSS = 4.5
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Scale:
    """Positions in the drawing: steps by their place in the list, magnitudes by their decimal logarithm."""

    steps: int
    low: int
    high: int

    def x(self, place: int) -> float:
        inner = WIDTH - LEFT - RIGHT
        return LEFT + (inner * place / (self.steps - 1) if self.steps > 1 else inner / 2)

    def y(self, exponent: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - exponent) / (self.high - self.low)


def magnitude_chart(steps: Sequence[Step]) -> Element | None:
    """The chart of at most MAX_STEPS steps, the last one marked; None where no magnitude is above 0.

    A magnitude of 0 has no place on a logarithmic scale and leaves a gap.
    """
    values = [value for step in steps for value in step.maximum.values() if value > 0]
    if not values:
        return None
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    scale = Scale(len(steps), low, max(high, low + 1))
    about = f"A line for each stage, {len(steps)} steps up to step {steps[-1].step_id}. The numbers follow as a table."
    return node(
        "svg",
        node("title", "Largest finite magnitude of each stage over the last steps"),
        node("desc", about),
        *magnitude_axis(scale),
        *step_axis(scale, steps),
        *(line for stage in STAGES for line in stage_lines(scale, steps, stage)),
        *end_labels(scale, steps),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="img",
        class_="chart",
    )


def magnitude_axis(scale: Scale) -> list[Element]:
    stride = math.ceil((scale.high - scale.low) / MAX_TICKS)
    axis = []
    for exponent in range(scale.low, scale.high + 1, stride):
        y = scale.y(exponent)
        axis.append(node("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}"))
        power = f"10{str(exponent).translate(SUPERSCRIPTS)}"
        axis.append(node("text", power, class_="tick", x=LEFT - 8, y=f"{y + 4:.1f}", text_anchor="end"))
    return axis


def step_axis(scale: Scale, steps: Sequence[Step]) -> list[Element]:
    """The ticks, and the last step marked by a line."""
    bottom = HEIGHT - BOTTOM
    stride = math.ceil(len(steps) / MAX_TICKS)
    end = scale.x(len(steps) - 1)
    axis = [node("line", class_="held", x1=f"{end:.1f}", x2=f"{end:.1f}", y1=TOP, y2=bottom)]
    for place in range(len(steps) - 1, -1, -stride):
        x = f"{scale.x(place):.1f}"
        name = "tick last" if place == len(steps) - 1 else "tick"
        axis.append(node("line", class_="axis", x1=x, x2=x, y1=bottom, y2=bottom + 4))
        axis.append(node("text", str(steps[place].step_id), class_=name, x=x, y=bottom + 18, text_anchor="middle"))
    axis.append(node("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=bottom, y2=bottom))
    middle = (LEFT + WIDTH - RIGHT) / 2
    axis.append(node("text", "step", class_="tick", x=middle, y=HEIGHT - 8, text_anchor="middle"))
    return axis


def stage_lines(scale: Scale, steps: Sequence[Step], stage: str) -> list[Element]:
    """One line for each stretch of steps without a gap, a dot a step, a cross where an element is not finite."""
    drawn: list[Element] = []
    stretch: list[str] = []
    marks: list[Element] = []
    for place, step in enumerate(steps):
        value = step.maximum.get(stage, 0.0)
        if value > 0:
            x, y = scale.x(place), scale.y(math.log10(value))
            stretch.append(f"{x:.1f},{y:.1f}")
            marks.append(mark(x, y, step, stage))
        elif step.nonfinite.get(stage, 0):
            # Nothing finite is left to measure: the cross stands on the axis.
            marks.append(mark(scale.x(place), HEIGHT - BOTTOM, step, stage))
        if stretch and (value <= 0 or place == len(steps) - 1):
            drawn.append(node("polyline", class_=f"line {stage}", points=" ".join(stretch)))
            stretch = []
    return [*drawn, *marks]


def mark(x: float, y: float, step: Step, stage: str) -> Element:
    bad = step.nonfinite.get(stage, 0)
    told = f"step {step.step_id}, {stage}: {step.maximum.get(stage, 0.0):.6g}"
    if not bad:
        return node("circle", node("title", told), class_=f"dot {stage}", cx=f"{x:.1f}", cy=f"{y:.1f}", r=2)
    arms = f"M{x - CROSS:.1f} {y - CROSS:.1f}l{2 * CROSS} {2 * CROSS}m0 {-2 * CROSS}l{-2 * CROSS} {2 * CROSS}"
    return node("path", node("title", f"{told}, {bad:,} not finite"), class_="cross", d=arms)


def end_labels(scale: Scale, steps: Sequence[Step]) -> list[Element]:
    """The name of each stage beside the end of its line, pushed apart where they would overlap."""
    wanted = []
    for stage in STAGES:
        values = [value for step in steps if (value := step.maximum.get(stage, 0.0)) > 0]
        if values:
            wanted.append((scale.y(math.log10(values[-1])), stage))
    labels: list[tuple[float, str]] = []
    floor = HEIGHT - BOTTOM
    for place, (y, stage) in enumerate(sorted(wanted)):
        # Below the label before it, but with room left for those still to come.
        room = floor - LABEL_HEIGHT * (len(wanted) - 1 - place)
        height = min(max(y, labels[-1][0] + LABEL_HEIGHT) if labels else y, room)
        labels.append((height, stage))
    x = WIDTH - RIGHT + 12
    return [node("text", stage, class_=f"name {stage}", x=x, y=f"{y + 4:.1f}") for y, stage in labels]
