"""A server that loads its application and then forks, as gunicorn does with --preload.

Each child answers some requests, by enqueuing, and leaves as any program does; so do the parent and
its threads, before, while and after they fork. Prints how many tasks all of them have enqueued.
"""

from __future__ import annotations

import os
import sys
import threading

from taskyard import Yard

CHILDREN = 6
REQUESTS = 10

yard = Yard(sys.argv[1])


@yard.task()
async def serve(who: str, number: int) -> None: ...


def requests(who: str, count: int) -> None:
    for number in range(count):
        handle = serve.options(id=f"{who}-{number}").sync.enqueue(who, number)
        assert not handle.duplicate
        assert yard.sync.get(handle.id).payload


def main() -> None:
    yard.sync.set_lane("default", capacity=4)
    stopping = threading.Event()
    busy = [0, 0]

    def keep_busy(who: int) -> None:
        while not stopping.is_set():
            serve.options(id=f"thread{who}-{busy[who]}").sync.enqueue("thread", busy[who])
            busy[who] += 1

    threads = [threading.Thread(target=keep_busy, args=(who,)) for who in (0, 1)]
    for thread in threads:
        thread.start()
    children = []
    for number in range(CHILDREN):
        pid = os.fork()
        if pid == 0:
            requests(f"child{number}", REQUESTS)
            sys.exit(0)
        children.append(pid)
    requests("parent", REQUESTS)
    failed = [pid for pid in children if os.waitpid(pid, 0)[1] != 0]
    stopping.set()
    for thread in threads:
        thread.join()
    assert not failed
    sys.stdout.write(f"{CHILDREN * REQUESTS + REQUESTS + sum(busy)}\n")


if __name__ == "__main__":
    main()
