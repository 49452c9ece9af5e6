"""Continue changes of the routing that take effect in packages (CheetahGIS section V-D5).

After each batch the next package is logged, a routing like any other. Updates do not depend on routings, so
it does not matter with which batch it takes effect, or that a killed engine continues later.
"""

from __future__ import annotations

from stqsh.sources.routing_plans import log_next_package
from stqsh.storage.control_log import ControlDb
from stqsh.storage.stream_routes import all_routes


class MovesInPackages:
    """Logs the next package of each change once the one before is in force.

    Args:
        control: the session's control log.
    """

    def __init__(self, control: ControlDb) -> None:
        self._control = control
        self._complete: dict[int, int] = {}

    def go_on(self) -> None:
        """Look at the newest routing of each stream that is not known to complete its change."""
        for stream, routes in all_routes(self._control).items():
            if self._complete.get(stream) != routes[-1] and log_next_package(self._control, stream):
                self._complete[stream] = routes[-1]
