"""A second implementation of the contract in plain Python: json, hashlib, re, dataclasses, and nothing of firstnan.

The tests compare the package with it, and `benches/` measures the package against it.
"""
