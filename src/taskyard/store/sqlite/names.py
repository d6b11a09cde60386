"""The numbers of lanes and routes."""

from __future__ import annotations

from taskyard.store.sqlite.tx import Tx, to_json


def lane_number(tx: Tx, name: str) -> int:
    """The lane's number; a lane exists from the first time it is named."""
    number = tx.names.lanes.get(name)
    if number is None:
        sql = tx.sql("names")
        number = tx.value(sql["find_lane"], name) or tx.value(sql["make_lane"], name)
        assert isinstance(number, int)
        tx.names.lanes[name] = number
    return number


def route_number(tx: Tx, kind: str, requires: tuple[str, ...]) -> int:
    """The route's number; a new route is offered to the nodes that can serve it."""
    route = (kind, requires)
    number = tx.names.routes.get(route)
    if number is None:
        sql = tx.sql("names")
        needs = to_json(sorted(requires))
        number = tx.value(sql["find_route"], kind, needs)
        if number is None:
            number = tx.value(sql["make_route"], kind, needs)
            tx.run(sql["offer_route"], number)
        assert isinstance(number, int)
        tx.names.routes[route] = number
    return number
