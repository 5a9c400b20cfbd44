"""records.py and decode.pyi are made by tools/generate.py; decode.py stands beside its stub by hand."""
