"""Fails where a module of the package imports against the direction of docs/architecture.md.

A part may import from the parts before it in `ORDER`, and only the named parts may import jax, numpy or pyarrow.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ORDER: list[set[str]] = [
    {"_core"},
    {"durable", "errors", "finite", "printable", "schema_files"},
    {"_methods", "_generated", "arguments"},
    {"checkpoints"},
    {"records", "canonical"},
    {"triage", "lifecycle"},
    {"bundle", "report"},
    {"jax", "supervisor", "ingest"},
    {"cli"},
    {"__main__"},
]
"""Parts of one set may not import each other, except `_methods` and `_generated`, which are one part in two files."""
ONE_PART = {"_methods", "_generated"}
HEAVY = {
    "jax": {"jax", "supervisor/worker.py"},
    "numpy": {"jax"},
    "ml_dtypes": {"jax"},
    "safetensors": {"jax"},
    "rich": {"cli"},
    "pyarrow": {"ingest"},
    "duckdb": {"ingest"},
    "tensorstore": {"checkpoints"},
}
"""Who may import what takes long to load: parts, or single files."""
PUBLIC_FROM = "bundle"
"""From this part on, names may come from `firstnan` itself."""


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports(tree: ast.AST, package: str) -> list[tuple[int, str]]:
    """Line and full name of each import, deferred ones included; relative ones made absolute."""
    out: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module or ""]))
            out += [(node.lineno, f"{module}.{alias.name}" if module == "firstnan" else module) for alias in node.names]
    return out


def check(root: Path) -> list[str]:
    """One line for each import against the direction."""
    rank = {part: level for level, parts in enumerate(ORDER) for part in parts}
    problems = []
    for path in sorted((root / "python/firstnan").rglob("*.py")):
        relative = path.relative_to(root / "python")
        module = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        part = part_of(module)
        if part and part not in rank:
            problems.append(f"{relative}: the part {part!r} has no place in tools/check_imports.py")
            continue
        for line, name in imports(ast.parse(path.read_text(encoding="utf-8")), package):
            top = name.split(".")[0]
            if top in HEAVY and not {part, "/".join(relative.parts[1:])} & HEAVY[top]:
                problems.append(f"{relative}:{line}: only {sorted(HEAVY[top]) or 'nothing'} may import {top}")
            if top != "firstnan" or not part:
                continue
            target = part_of(name)
            if target == "__version__" or target == part or {target, part} <= ONE_PART:
                continue
            if target not in rank and rank[part] >= rank[PUBLIC_FROM]:
                continue
            if target not in rank:
                problems.append(f"{relative}:{line}: imports {name}; import from the part that defines it")
            elif rank[target] >= rank[part]:
                problems.append(f"{relative}:{line}: {part} imports {target}, against the direction")
    return problems


def main() -> int:
    problems = check(Path(__file__).resolve().parent.parent)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
