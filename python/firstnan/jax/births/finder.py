"""`locate`: the first equations of a step that make a NaN and an Inf which reach its outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from firstnan.jax.births.cells import Cell, Scope, is_inexact
from firstnan.jax.births.findings import Entered, Located
from firstnan.jax.births.interpreter import Walk, Where
from firstnan.jax.births.operands import first_index, operand
from firstnan.jax.births.report import Reached, constants_of, first_birth
from firstnan.jax.births.supported import require_supported_jax
from firstnan.jax.counts import StageCounts
from firstnan.jax.paths import leaf_path, path_part
from firstnan.jax.rollback import is_alive


def locate(step: Callable[..., Any], *args: Any) -> Located:
    """Runs a step once more, equation by equation, and says where its first NaN and first Inf are born.

    Only a birth from which NaN or Inf flows into what the step returns is reported: into its outputs, or into a leaf that
    `count_stages` counts for them. The step is traced, run compiled once, and walked; it is called as it is, with its
    side effects, and no argument is donated. Memory: the values that are live at an equation, as in a run without `jit`.

    Args:
        step: a function of pytrees of arrays, jitted or not. For static arguments give a `functools.partial`.
        args: its arguments as they were before the bad step.

    Raises:
        ValueError: an argument was donated, so its values are gone.
        TypeError: an argument has a leaf that is no array or number, or is static.
        ImportError: the JAX that is installed is not >=0.10,<0.11.
    """
    require_supported_jax()
    for name, arg in zip(_argument_names(step, len(args)), args, strict=True):
        if not is_alive(arg):
            raise ValueError(f"argument {name} was donated: give locate what it was before the step")
    # A host value beyond the range becomes infinite on the way in: told of as what came in, and so no warning of numpy's,
    # which jaxlib answers with a segmentation fault where warnings are errors.
    with jax.debug_nans(False), jax.debug_infs(False), np.errstate(over="ignore"):
        jitted = step if isinstance(step, jax.stages.Wrapped) else jax.jit(step)
        traced = jitted.trace(*args)
        leaves = [(_path(step, path, len(args)), leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(args)[0]]
        closed: ClosedJaxpr = traced.jaxpr
        if len(closed.jaxpr.invars) != len(leaves):
            raise TypeError("the step has static arguments: give locate a functools.partial with them")
        leaves += [(f"closed-over array {n}", const) for n, const in enumerate(closed.consts)]
        ins = [_argument(leaf, var.aval) for (_, leaf), var in zip(leaves, closed.jaxpr.invars, strict=False)]
        compiled = jax.tree.leaves(jitted(*_copied_where_donated(traced, args)))
        cells = [Cell(leaf, 1 << n) for n, leaf in enumerate(ins)]
        # An infinity that was closed over is a constant of the program; a NaN can only have come in.
        consts = [_constant(const, len(ins) + n) for n, const in enumerate(closed.consts)]
        walk = Walk()
        outs = walk.walk(closed.jaxpr, consts, cells, Where(Scope(closed.jaxpr, None)))
    names = [name for name, _ in leaves]
    reached = list(_reached(traced.out_info, outs, walk.counts))
    return Located(
        first_nan=first_birth("nan", reached, names),
        first_inf=first_birth("inf", reached, names),
        entered=tuple(
            _entered(name, leaf, cell)
            for (name, leaf), cell in zip(leaves, [*cells, *consts], strict=True)
            if cell.arguments and not cell.finite
        ),
        reaches=tuple(output.name for output in reached),
        reproduced=all(_same_pattern(out.value, other) for out, other in zip(outs, compiled, strict=True)),
        constants=constants_of(reached),
    )


def _copied_where_donated(traced: Any, args: tuple[Any, ...]) -> Any:
    """The arguments, with copies in place of those that the step would delete. Its own executable may be there already."""
    donated = [info.donated for info in jax.tree.leaves(traced.args_info[0])]
    leaves, treedef = jax.tree.flatten(args)
    copies = [leaf.copy() if give and isinstance(leaf, jax.Array) else leaf for leaf, give in zip(leaves, donated, strict=True)]
    return jax.tree.unflatten(treedef, copies)


def _argument(leaf: Any, aval: Any) -> Any:
    return leaf if isinstance(leaf, jax.Array) else np.asarray(leaf, aval.dtype)


def _constant(value: Any, number: int) -> Cell:
    cell = Cell(value)
    if cell.has_nan:
        cell.arguments = 1 << number
    return cell


def _entered(name: str, leaf: Any, cell: Cell) -> Entered:
    bad = cell.mask("nan") | cell.mask("inf")
    counts = operand(cell.value, (), ())
    finite_as = None if isinstance(leaf, jax.Array) or not np.isfinite(leaf).all() else str(np.asarray(leaf).dtype)
    return Entered(name, counts.nan, counts.positive_infinity, counts.negative_infinity, first_index(bad), finite_as)


def _reached(out_info: Any, outs: Sequence[Cell], counts: Sequence[Cell]) -> Iterator[Reached]:
    """The outputs with a NaN or Inf; of stage counts, the leaves that they counted one in."""
    flat = jax.tree_util.tree_flatten_with_path(out_info, is_leaf=lambda part: isinstance(part, StageCounts))[0]
    for (path, info), cell in zip(flat, outs, strict=True):
        if not isinstance(info, StageCounts):
            if not cell.finite:
                yield Reached(f"output {leaf_path(path)}".rstrip(), cell)
            continue
        rows = [row for row in info.leaves if row.dtype != "float0" and not row.dtype.startswith("key<")]
        counted = [leaf for n, leaf in enumerate(counts) if cell.counted >> n & 1]
        for n, leaf in enumerate(counted):
            if not leaf.finite:
                # Under scan every iteration counts the leaves once more; a host array in jit is counted by no equation.
                known = rows and len(counted) % len(rows) == 0
                row = rows[n % len(rows)] if known else None
                yield Reached("a counted leaf" if row is None else f"{row.stage} {row.path}".rstrip(), leaf)


def _argument_names(step: Callable[..., Any], count: int) -> list[str]:
    try:
        parameters = inspect.signature(step).parameters.values()
    except (TypeError, ValueError):
        parameters = {}.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[n] if n < len(names) else f"argument {n}" for n in range(count)]


def _path(step: Callable[..., Any], path: tuple[Any, ...], count: int) -> str:
    return "/".join([_argument_names(step, count)[path[0].idx], *map(path_part, path[1:])])


def _same_pattern(one: Any, other: Any) -> bool:
    if not is_inexact(one):
        return True
    for a, b in zip(_parts(one), _parts(other), strict=True):
        if not np.array_equal(np.isnan(a), np.isnan(b)) or not np.array_equal(np.isinf(a), np.isinf(b)):
            return False
        if not np.array_equal(np.signbit(a[np.isinf(a)]), np.signbit(b[np.isinf(b)])):
            return False
    return True


def _parts(value: Any) -> list[Any]:
    array = np.asarray(value)
    return [array.real, array.imag] if np.iscomplexobj(array) else [array]
