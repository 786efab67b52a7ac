"""The fixtures of every black-box test: real daemons on free ports with directories of their own."""

from fixtures import *  # noqa: F401,F403
