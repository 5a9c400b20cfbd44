"""Where a run leaves what it found of a bad step: the folders' names, and a full disk that costs no state."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstnan import IncidentObservations, NonfinitePolicy
from firstnan.jax.bundle import Incident, write_incident_bundle, write_local_record
from firstnan.jax.history import StepSummary
from firstnan.jax.peers import Peers
from firstnan.jax.reductions import ShardsSeen
from firstnan.jax.verdict import Verdict


@dataclass(frozen=True, slots=True)
class IncidentWriter:
    """Writes into `bundle_dir`. What the disk does not take is warned of, and given as None: the state is worth more."""

    bundle_dir: Path
    policy: NonfinitePolicy | None
    peers: Peers | None

    def write_local(self, bad: Verdict) -> Path | None:
        """What was found, before the exchange with the others or the step's second run, which may never come back."""
        return self._written(
            f"local-step-{bad.summary.step_id}",
            lambda folder: write_local_record(folder, bad.tally, bad.contract, bad.evidence, bad.report),
            # Alone, the bundle comes next and says so itself.
            quiet=self.peers is None,
        )

    def write_bundle(
        self,
        incident: Incident,
        bad: Verdict,
        *,
        state: Any,
        batch: Any,
        history: tuple[StepSummary, ...],
        observations: IncidentObservations | None,
        shards: ShardsSeen | None,
        local: Path | None,
    ) -> Path | None:
        """The bundle's folder. Alone, it replaces the `local` record, all of which it holds."""
        bundle = self._written(
            f"{'refused' if bad.report is None else 'incident'}-step-{incident.step_id}",
            lambda folder: write_incident_bundle(
                folder,
                incident=incident,
                counts=bad.tally,
                state=state,
                batch=batch,
                contract=bad.contract,
                evidence=bad.evidence,
                report=bad.report,
                history=history,
                policy=self.policy,
                excluded=bad.triaged.excluded,
                observations=observations,
                shards=shards,
                numbered=True,
            ),
        )
        if bundle and local and not self.peers:
            shutil.rmtree(local, ignore_errors=True)
        return bundle

    def _written(self, name: str, write: Callable[[Path], Path], *, quiet: bool = False) -> Path | None:
        if self.peers and self.peers.processes > 1:
            name += f"-rank-{self.peers.process}"
        try:
            return write(self.bundle_dir / name)
        except Exception as error:
            if not quiet:
                warnings.warn(f"no {name} could be written: {error}", stacklevel=2)
            return None
