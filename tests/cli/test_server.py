"""The same commands through a server, which is a process of its own."""

from __future__ import annotations

import pytest

from tests.cli.place import Place

# --- looking ---


def test_a_task_is_told_the_same(place: Place) -> None:
    for kind, state in (("fail", "failed"), ("fail_for_now", "pending"), ("refuse", "failed")):
        task_id = place.ended(kind, state=state)
        told = place.remote.json("tasks", "show", task_id)
        own = place.local.task(task_id)
        for one in (own, told):  # how long it waits differs from one look to the next
            one["waits"] = [wait["code"] for wait in one["waits"]]
        assert told == own
    assert told["failures"][0]["reason"] == "fatal"
    assert told["payload"] == {}


def test_its_page_is_the_same(place: Place) -> None:
    task_id = place.ended("greet", "name=page", state="completed")
    assert '"hello page"' in place.remote("tasks", "show", task_id)
    assert place.remote("tasks", "explain", task_id) == place.local("tasks", "explain", task_id)


def test_a_list_says_less_of_each_but_nothing_else(place: Place) -> None:
    place.ended("greet", "name=listed", "--key", "shelf/1", state="completed")
    [told] = place.remote.json("tasks", "list", "--key", "shelf/1")
    [own] = place.local.json("tasks", "list", "--key", "shelf/1")
    assert told.items() <= own.items()
    assert own.keys() - told.keys() >= {"payload", "result", "failures"}
    args = ("tasks", "list", "--key", "shelf/1", "--state", "completed", "--kind", "greet")
    assert "completed" in place.remote(*args, "--lane", "default")
    assert place.remote(*args, "--lane", "other") == "no tasks\n"


def test_a_list_goes_on_after_a_task(place: Place) -> None:
    ids = [place.ended("greet", f"name={n}", "--key", "book", state="completed") for n in range(3)]
    first = place.remote.json("tasks", "list", "--key", "book", "--limit", "2")
    assert [task["id"] for task in first] == [ids[2], ids[1]]
    rest = place.remote.json("tasks", "list", "--key", "book", "--after", first[-1]["id"])
    assert [task["id"] for task in rest] == [ids[0]]


def test_a_list_of_a_time(place: Place) -> None:
    task_id = place.ended("greet", "name=x", "--key", "era", state="completed")
    own = ("tasks", "list", "--key", "era")
    for when, found in (
        (("--since", "1h"), [task_id]),
        (("--until", "1h"), []),
        (("--since", "2020-01-01T00:00+02:00", "--until", "2035-01-01"), [task_id]),
        (("--since", "2035-01-01"), []),
    ):
        assert [task["id"] for task in place.remote.json(*own, *when)] == found, when
        assert [task["id"] for task in place.local.json(*own, *when)] == found, when
    done = place.remote.try_to(*own, "--since", "long ago")
    assert (done.code, done.complaint) == (
        2,
        place.local.try_to(*own, "--since", "long ago").complaint,
    )


SAME = ("lanes list", "keys list", "keys rules", "cron list", "audit --limit 1000", "stats")


@pytest.mark.parametrize("command", SAME)
def test_other_looks_are_the_same(place: Place, command: str) -> None:
    place.remote("lanes", "set", "rated", "--rate", "5/30s", "--burst", "2", "--order", "fair")
    place.remote("keys", "limit", "host:*", "3")
    place.remote("cron", "set", "yearly", "0 3 1 1 *", "greet", "name=x")
    told, own = place.remote.json(*command.split()), place.local.json(*command.split())
    if command == "stats":
        assert told.pop("at") >= own.pop("at")[:10]
        assert [node["id"] for node in told.pop("workers")] == [
            node["id"] for node in own.pop("workers")
        ]
        # Workers report what they have done now and then.
        assert {kind["kind"] for kind in told.pop("kinds")} >= {
            kind["kind"] for kind in own.pop("kinds")
        }
    assert told == own


def test_workers_are_told_without_their_leases(place: Place) -> None:
    [told], [own] = place.remote.json("workers"), place.local.json("workers")
    moving = {"seen_at", "lease_left", "usage"}
    assert own.keys() - told.keys() == {"lease"}
    assert told["process"].items() <= own["process"].items()
    for name in told.keys() - moving - {"process"}:
        assert told[name] == own[name], name
    assert "ready" in place.remote("workers")


# --- acting ---


def test_what_is_done_to_tasks(place: Place) -> None:
    task_id = place.remote("enqueue", "greet", "name=x", "--delay", "3600").strip()
    assert place.remote("tasks", "prioritize", task_id, "2") == f"{task_id}  priority 2\n"
    assert place.remote("tasks", "pause", task_id) == f"{task_id}  paused\n"
    assert place.remote("tasks", "resume", task_id) == f"{task_id}  pending\n"
    assert place.remote("tasks", "cancel", task_id) == f"{task_id}  cancelled\n"
    assert place.remote("tasks", "retry", task_id) == f"{task_id}  queued\n"
    place.local.wait_for(task_id, "completed")
    running = place.remote("enqueue", "hold", "note=now").strip()
    place.local.wait_for(running, "running")
    assert place.remote("tasks", "cancel", running) == f"{running}  asked to stop\n"
    place.local.wait_for(running, "cancelled")
    done = [line for line in place.remote.json("audit") if task_id in line["subject"]]
    assert {line["actor"] for line in done} == {"api:first"}


def test_several_tasks_are_tried_and_the_first_refusal_decides(place: Place) -> None:
    task_id = place.ended("greet", "name=x", state="completed")
    done = place.remote.try_to("tasks", "cancel", task_id, "non/such")
    assert done.code == 4
    assert done.err.splitlines()[1] == "error: there is no task non/such"
    assert place.remote.try_to("tasks", "show", "non/such").code == 3


def test_lanes_keys_and_the_whole(place: Place) -> None:
    [changed] = [place.remote.json("lanes", "set", "a/b", "--capacity", "2", "--ageing", "60")]
    assert (changed["capacity"], changed["ageing"]) == (2, 60)
    assert place.remote.json("lanes", "set", "a/b", "--capacity", "none")["capacity"] is None
    paused = place.remote.json("lanes", "pause", "a/b", "--reason", "why not", "--for", "30m")
    assert paused["paused_reason"] == "why not"
    assert paused["paused_until"].endswith("Z")
    assert not place.remote.json("lanes", "resume", "a/b")["paused"]
    assert place.remote.try_to("lanes", "pause", "nonsuch").code == 3
    assert "4" in place.remote("keys", "limit", "disk:*", "4", "--rate", "10/s")
    for _ in range(2):  # no rule is no rule, however often it is said
        assert "disk" not in place.remote("keys", "limit", "disk:*", "none")
    assert place.remote("pause", "--for", "1h") == "the yard is paused\n"
    assert "the yard is paused" in place.remote("stats")
    assert place.remote("resume") == "the yard goes on\n"


def test_periodic_tasks(place: Place) -> None:
    [entry] = [
        one
        for one in place.remote.json("cron", "set", "news/1", "0 4 * * *", "greet", "name=7",
                                     "--timezone", "Europe/Berlin", "--catch-up", "skip")
        if one["name"] == "news/1"
    ]  # fmt: skip
    assert entry["payload"] == {"name": "7"}
    assert (entry["timezone"], entry["catch_up"]) == ("Europe/Berlin", "skip")
    assert "paused" in place.remote("cron", "pause", "news/1")
    assert "paused" not in place.remote("cron", "resume", "news/1")
    assert "news/1" not in place.remote("cron", "drop", "news/1")
    assert place.remote.try_to("cron", "drop", "news/1").code == 3
    done = place.remote.try_to("cron", "set", "news", "0 4 * * *", "greet", "nme=7")
    assert done.code == 2
    assert "nme" in done.complaint


def test_pruning(place: Place) -> None:
    assert place.remote("prune", "--dry-run") == "would remove 0 tasks\n"
    assert place.remote.json("prune")["tasks"] == 0
    done = place.remote.try_to("prune", "--older-than", "1h")
    assert done.code == 2
    assert "leave --older-than out" in done.complaint


# --- enqueue ---


def test_arguments_are_read_as_the_kind_of_the_server_says(place: Place) -> None:
    out = place.remote("enqueue", "greet", "name=5", "times=2", "--wait")
    assert out.splitlines()[1] == '"hello 5, hello 5"'


def test_enqueue_says_what_came_of_it(place: Place) -> None:
    once = ("enqueue", "greet", "name=x", "--id", "once/1", "--priority", "3")
    assert place.remote(*once) == "once/1\n"
    again = place.remote.try_to(*once)
    assert (again.code, again.out) == (0, "once/1\n")
    assert again.err == "duplicate: task once/1 has this id already; nothing was enqueued\n"
    assert place.local.task("once/1")["priority"] == 3
    sent = place.remote.json("enqueue", "greet", "--args", '{"name": "j"}', "--wait")
    assert (sent["state"], sent["result"], sent["duplicate"]) == ("completed", "hello j", False)


@pytest.mark.parametrize(
    "args",
    [
        ("greet", "name=x", "times=many"),
        ("greet",),
        ("greet", "name=x", "--priority", "11"),
        ("nonsuch",),
        ("greet", "--args", "[1]"),
        ("greet", "--args", "{"),
        ("greet", "name=x", "--delay", "-1"),
    ],
)
def test_a_task_that_cannot_be_is_wrong_usage(place: Place, args: tuple[str, ...]) -> None:
    done = place.remote.try_to("enqueue", *args)
    own = place.local.try_to("enqueue", "app:yard", *args)
    assert (done.code, own.code) == (2, 2), (done, own)
    assert done.complaint.startswith("error: ")


def test_how_waiting_ends(place: Place) -> None:
    failed = place.remote.try_to("enqueue", "fail", "message=no luck", "--wait")
    assert failed.code == 7
    assert failed.complaint.endswith("ValueError: no luck")
    late = place.remote.try_to(
        "enqueue", "greet", "name=x", "--delay", "3600", "--wait", "--timeout-wait", "0.1"
    )
    assert late.code == 7
    assert "has not ended within 0.1 s: it is due in" in late.complaint


def test_a_full_lane_refuses(place: Place) -> None:
    place.remote("lanes", "set", "full", "--max-depth", "0")
    done = place.remote.try_to("enqueue", "greet", "name=x", "--lane", "full")
    own = place.local.try_to("enqueue", "app:yard", "greet", "name=x", "--lane", "full")
    assert (done.code, done.err) == (8, own.err)
