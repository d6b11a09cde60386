"""huey on SQLite with fsync and one worker thread: its best durable configuration."""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path

from huey import SqliteHuey  # type: ignore[import-not-found]  # lives in its own environment


def main(folder: Path, one_by_one: int) -> dict[str, float]:
    huey = SqliteHuey(filename=str(folder / "huey.db"), fsync=True)
    done = 0

    @huey.task()  # type: ignore[untyped-decorator]
    def noop(n: int) -> None:  # noqa: ARG001 - the same payload as the other side's
        nonlocal done
        done += 1

    begun = time.perf_counter()
    for n in range(one_by_one):
        noop(n)
    enqueued = time.perf_counter()
    consumer = huey.create_consumer(
        workers=1, periodic=False, initial_delay=0.001, max_delay=0.01, check_worker_health=False
    )
    consumer.start()
    # It removes a task before it runs it: when the last has run there is nothing left to write.
    while done < one_by_one:
        time.sleep(0.002)
    processed = time.perf_counter()
    consumer.stop(graceful=True)
    return {
        "one": one_by_one / (enqueued - begun),
        "processed": one_by_one / (processed - enqueued),
    }


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
