"""What a task that comes over HTTP costs beside a request that does nothing.

Ours is `taskyard serve` as it comes, on SQLite, without a worker: it checks the caller and the
arguments, and answers when the task is committed. The other is a bare Litestar endpoint in the same
HTTP server, which is sent the same bytes. Both run all the time and are asked in turns by the same
client in this process, 64 requests at a time; a round gives one ratio.
"""

from __future__ import annotations

from bench.figure import Figure, Stage, median
from bench.http_load import CONNECTIONS, Client, Load, post
from bench.http_servers import ENDPOINT, Served, bare, ours
from bench.process import cpu_seconds
from bench.speed.ratio import ratio_of
from taskyard import State, Yard

SPEC = ("lifecycle-7",)
STORE = "sqlite"
BOUND = (
    f"Creating a task, answered after its commit, over {CONNECTIONS} connections: at least 35 % of "
    "the requests a second of a bare Litestar endpoint that does nothing."
)

LEAST = 0.35
BODY = b'{"kind":"noop","params":{"n":1}}'


class Side:
    """One of the two servers, and what its runs gave."""

    def __init__(self, name: str, served: Served, token: str) -> None:
        self.name = name
        self.client = Client(served.port, post(served.port, ENDPOINT, BODY, token))
        self.loads: list[Load] = []
        self.cpu: list[float] = []  # share of a core that the server took
        self._pid = served.pid

    async def run(self, seconds: float) -> None:
        before = cpu_seconds(self._pid)
        load = await self.client.run(seconds)
        self.loads.append(load)
        self.cpu.append((cpu_seconds(self._pid) - before) / load.seconds)

    def forget(self) -> None:
        self.loads.clear()
        self.cpu.clear()

    def figure(self) -> Figure:
        client = median([load.own_cpu for load in self.loads])
        return Figure(
            name=self.name,
            value=median([load.rate for load in self.loads]),
            unit="requests/s",
            detail=f"processor: server {median(self.cpu):.0%}, client {client:.0%} of a core",
        )


async def measure(stage: Stage) -> list[Figure]:
    rounds, each = stage.options.rounds, stage.options.each
    async with ours(stage.folder) as our_server, bare(stage.folder) as bare_server:
        token = (stage.folder / ".taskyard" / "admin-token").read_text().strip()
        sides = [
            Side("create a task", our_server, token),
            Side("bare endpoint", bare_server, token),
        ]
        with stage.steps("rounds, in turns", rounds + 1) as advance:
            for number in range(rounds + 1):
                for side in sides if number % 2 else reversed(sides):
                    await side.run(each)
                if number == 0:  # both have been warmed up
                    for side in sides:
                        side.forget()
                advance(1)
        for side in sides:
            side.client.close()
    await check_stored(stage, sides[0].client.answers)
    return [share(sides[0], sides[1]), *(side.figure() for side in sides)]


async def check_stored(stage: Stage, answers: int) -> None:
    """Whatever was answered is there, and nothing else."""
    async with Yard(f"sqlite:///{stage.folder}/api.db") as yard:
        counts = await yard.counts()
    assert counts[State.QUEUED] == answers, f"{answers:,} were answered: {counts}"


def share(created: Side, nothing: Side) -> Figure:
    """The bound is judged by the lower end of where the median lies; too few rounds have none."""
    ratio = ratio_of([load.rate for load in created.loads], [load.rate for load in nothing.loads])
    assert ratio is not None
    return Figure(
        name="create to bare, lower 90 % bound",
        value=100 * (ratio.median if ratio.lower is None else ratio.lower),
        unit="%",
        at_least=None if ratio.lower is None else 100 * LEAST,
        detail=f"median {ratio.median:.1%} of {ratio.rounds} rounds",
    )
