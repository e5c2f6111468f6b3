"""A package, so that `python -m tests.bench` finds this folder where an environment has another package of its name."""
