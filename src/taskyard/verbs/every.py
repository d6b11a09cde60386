"""All verbs together."""

from __future__ import annotations

from taskyard.verbs.declaring import Declaring
from taskyard.verbs.lanes import LaneVerbs
from taskyard.verbs.overview import OverviewVerbs
from taskyard.verbs.working import Working


class EveryVerb(Declaring, LaneVerbs, OverviewVerbs, Working):
    """What `Yard` is, but for how it is made. A worker declares crons, so their verbs are there."""
