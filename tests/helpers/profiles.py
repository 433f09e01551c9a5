"""Profiles of hypothesis, which draws the cases of property tests.

Every run draws the same cases, so no test depends on chance. There is no limit of time for a case,
so no test depends on load. `--hypothesis-profile long` draws many more cases.
"""

from hypothesis import HealthCheck, settings

REPEATABLE, SHORT, LONG = "repeatable", "short", "long"
settings.register_profile(
    REPEATABLE,
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile(SHORT, settings.get_profile(REPEATABLE), max_examples=15)
settings.register_profile(LONG, settings.get_profile(REPEATABLE), max_examples=1000)


def few(function):
    """Draw a third of the profile's cases: a decorator for properties whose cases take long."""
    return settings(max_examples=settings.default.max_examples // 3)(function)
