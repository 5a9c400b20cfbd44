"""Made by tools/generate.py."""
