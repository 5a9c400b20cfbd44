"""The user's line of an equation, and the sweep of differentiation that it belongs to."""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

import jax

import firstnan
from firstnan.jax.births.cells import Link, Site, in_transpose
from firstnan.jax.births.findings import Place, Sweep


def place_of(link: Link) -> Place:
    """Where an equation stands, for a reader."""
    file, line, function = user_line(link.site)
    return Place(link.site.eqn.primitive.name, file, line, function, link.iteration, sweep_of(link.site))


def user_line(site: Site) -> tuple[str, int, str] | tuple[None, None, None]:
    """File, line and function of the innermost frame of the user's, of the equation or the nearest one around it.

    Where there is none, since the model itself is installed as a library, the innermost frame outside JAX.
    """
    around: list[Any] = []
    at: Site | None = site
    while at is not None:
        traceback = at.eqn.source_info.traceback
        around += [] if traceback is None else traceback.frames
        at = at.scope.outer
    for excluded in (_libraries(), _internals()):
        for frame in around:
            if not frame.file_name.startswith(excluded):
                return frame.file_name, frame.line_num, frame.function_name.rpartition(".")[2]
    return None, None, None


def sweep_of(site: Site) -> Sweep:
    """`transpose` for the backward sweep; `derivative` for what is computed before it and only it uses.

    JAX gives a value and the coefficient of its derivative the same name stack, `jvp(...)`: what tells them apart is that
    nothing but the transposed sweep uses the coefficient.
    """
    stack = site.name_stack
    if in_transpose(stack):
        return "transpose"
    if "rematted_computation" in stack:
        return "derivative"
    if "jvp(" in stack and site.scope.primal.isdisjoint(site.eqn.outvars):
        return "derivative"
    return "forward"


@cache
def _internals() -> tuple[str, ...]:
    package = Path(jax.__file__).parent
    return (f"{package}/", f"{package.with_name('jaxlib')}/", f"{Path(firstnan.__file__).parent}/", "<frozen ")


@cache
def _libraries() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return (*_internals(), *(f"{path}/" for name in names if (path := sysconfig.get_path(name))))
