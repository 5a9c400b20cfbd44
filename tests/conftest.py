"""Hypothesis profiles: `ci` is quick and the same in every run, `nightly` looks further with fresh seeds."""

import os
import signal

from hypothesis import HealthCheck, settings

settings.register_profile("ci", max_examples=150, deadline=None, derandomize=True, database=None,
                          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])  # fmt: skip
settings.register_profile("nightly", settings.get_profile("ci"), max_examples=5_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A run in the background inherits SIGINT as ignored; the tests of interruption, and their children, need it.
signal.signal(signal.SIGINT, signal.default_int_handler)
