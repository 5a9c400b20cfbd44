"""Checkpoints on disk, counted where they lie: safetensors, .npz, .npy and Orbax.

`scan` counts one checkpoint, `first_bad` finds the first bad one of a folder of steps. Neither loads a file whole.
"""

from firstnan.checkpoints.results import CheckpointScan as CheckpointScan
from firstnan.checkpoints.results import NotCounted as NotCounted
from firstnan.checkpoints.results import TensorScan as TensorScan
from firstnan.checkpoints.scanning import scan as scan
from firstnan.checkpoints.steps import FirstBad as FirstBad
from firstnan.checkpoints.steps import StepLook as StepLook
from firstnan.checkpoints.steps import first_bad as first_bad

__all__ = ["CheckpointScan", "FirstBad", "NotCounted", "StepLook", "TensorScan", "first_bad", "scan"]
