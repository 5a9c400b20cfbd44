"""`firstnan schema`: the schemas of the package are those of the repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Command

from firstnan import _core
from firstnan.cli import main

SCHEMAS = Path(__file__).parents[2] / "schemas"


def test_list_names_every_kind_that_decode_takes_and_the_shared_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["schemas"]
    assert [schema["name"] for schema in listed] == [*sorted(_core.kinds()), "common", "meta"]
    assert {schema["profile"] for schema in listed[:-2]} == {"record", "evidence"}
    assert all(schema["title"] and schema["id"] for schema in listed)


def test_list_for_people_has_a_line_each(command: Command) -> None:
    done = command("schema", "list")
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["name", *sorted(_core.kinds()), "common", "meta"]


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("v1/*.json")), ids=lambda path: path.stem)
def test_show_prints_the_schema_as_it_is(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "show", path.stem]) == 0
    assert capsys.readouterr().out == path.read_text(encoding="utf-8")


def test_show_meta_and_bundle(command: Command) -> None:
    assert command("schema", "show", "meta").stdout == (SCHEMAS / "meta/record.json").read_bytes()
    assert command("schema", "bundle").stdout == (SCHEMAS / "bundle.json").read_bytes()
