"""`decode` of the core; decode.pyi beside this says which record each kind gives."""

from firstnan._core import decode as decode
