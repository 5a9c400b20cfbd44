"""A training worker that cannot outstay its bounds, its checkpoint, and the drill that proves a recovery.

A run lives in one folder, its root:

| file | written by | when |
| --- | --- | --- |
| `worker.py`, `config.json` | `launch` | before the worker starts |
| `checkpoint.json` | the worker | every `checkpoint_every` steps and at the last |
| `run.json` | `launch` | when the worker has ended; absent while a run goes on |

Each is replaced whole, so that a crash leaves the old file or the new one. A run ends in one of three states:

| status | means |
| --- | --- |
| `completed` | exit code 0, every line of standard output an event, the last one `completed` |
| `failed` | anything else within the limit; the worker exits with 23 after a `failed` event |
| `timed_out` | the limit was reached: the process group was terminated, and killed one second later |

Nothing outlives a run: the process group is killed when its leader ends, and the kernel kills the worker when the
supervisor dies. The records are `WorkerConfiguration`, `WorkerEvent`, `Checkpoint` and `RunRecord` of docs/records.md.
Linux only (prctl, waitid). JAX is imported by the worker alone.
"""

from firstnan.supervisor.configuration import default_config as default_config
from firstnan.supervisor.json_file import atomic_json as atomic_json
from firstnan.supervisor.json_file import digest as digest
from firstnan.supervisor.recovery import drill as drill
from firstnan.supervisor.supervise import RunNotRecorded as RunNotRecorded
from firstnan.supervisor.supervise import launch as launch

__all__ = ["RunNotRecorded", "atomic_json", "default_config", "digest", "drill", "launch"]
