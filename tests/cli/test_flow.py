"""From enqueue to the end of a task, with the real program on a real file."""

from __future__ import annotations

import getpass

import pytest

from taskyard import Yard
from tests.cli.program import Program


@pytest.mark.spec("engine-32")
def test_a_task_is_enqueued_run_and_shown(taskyard: Program) -> None:
    task_id = taskyard.enqueue("greet", "name=World", "times=2", "--priority", "3")
    assert taskyard.task(task_id)["state"] == "queued"

    with taskyard.worker():
        taskyard.wait_for(task_id, "completed")

    listed = taskyard("tasks", "list", "--state", "completed")
    assert task_id in listed
    page = taskyard("tasks", "show", task_id)
    for told in ("greet", "completed", '"name": "World"', '"hello World, hello World"', "Timeline"):
        assert told in page
    assert taskyard.task(task_id)["result"] == "hello World, hello World"


def test_enqueue_can_wait_for_the_result(taskyard: Program) -> None:
    with taskyard.worker():
        out = taskyard("enqueue", "app:yard", "greet", "name=you", "--wait")
        assert out.splitlines()[1:] == ['"hello you"']
        sent = taskyard.json("enqueue", "app:yard", "greet", "name=you", "--wait")
        assert (sent["state"], sent["result"], sent["duplicate"]) == (
            "completed",
            "hello you",
            False,
        )


def test_waiting_for_a_task_that_fails_is_exit_code_7(taskyard: Program) -> None:
    with taskyard.worker():
        done = taskyard.try_to("enqueue", "app:yard", "fail", "--wait")
        assert done.code == 7
        assert done.complaint.endswith("failed: ValueError: boom")
        told = taskyard.try_to("enqueue", "app:yard", "fail", "--wait", "--json")
        assert (told.code, told.json["state"], told.json["error"]["type"]) == (
            7,
            "failed",
            "ValueError",
        )


def test_waiting_too_short_says_why_the_task_waits(taskyard: Program) -> None:
    done = taskyard.try_to(
        "enqueue", "app:yard", "greet", "name=x", "--wait", "--timeout-wait", "0.1"
    )
    assert done.code == 7
    assert "has not ended within 0.1 s: no live worker serves kind greet" in done.complaint


def test_a_failed_task_shows_its_error_with_its_stack(taskyard: Program) -> None:
    task_id = taskyard.enqueue("fail", "message=no luck")
    with taskyard.worker():
        taskyard.wait_for(task_id, "failed")
    page = taskyard("tasks", "show", task_id)
    assert "ValueError: no luck" in page
    assert "in fail\n" in page
    assert "attempt 1" in page


def test_a_failed_task_is_retried(taskyard: Program) -> None:
    task_id = taskyard.enqueue("refuse")
    with taskyard.worker():
        taskyard.wait_for(task_id, "failed")
    assert taskyard("tasks", "retry", task_id) == f"{task_id}  queued\n"
    assert taskyard.task(task_id)["state"] == "queued"
    with taskyard.worker():
        assert taskyard.wait_for(task_id, "failed").attempt == 2


@pytest.mark.spec("engine-14", "lifecycle-6")
def test_a_task_that_was_tried_says_when_it_is_due_again(taskyard: Program) -> None:
    task_id = taskyard.enqueue("fail_for_now")
    with taskyard.worker():
        taskyard.wait_for(task_id, "pending")
    page = taskyard("tasks", "show", task_id)
    assert "Why it waits" in page
    assert "after a failed attempt" in page
    assert "ConnectionError: nobody there" in page


def test_a_waiting_task_is_cancelled_and_a_running_one_asked_to_stop(taskyard: Program) -> None:
    waiting = taskyard.enqueue("greet", "name=x", "--delay", "3600")
    running = taskyard.enqueue("hold")
    with taskyard.worker():
        taskyard.wait_for(running, "running")
        told = taskyard("tasks", "cancel", waiting, running)
        assert told == f"{waiting}  cancelled\n{running}  asked to stop\n"
        taskyard.wait_for(running, "cancelled")
    assert taskyard.task(waiting)["state"] == "cancelled"


def test_one_refusal_does_not_keep_the_others_from_being_cancelled(taskyard: Program) -> None:
    task_id = taskyard.enqueue("greet", "name=x")
    done = taskyard.try_to("tasks", "cancel", "nonsuch", task_id)
    assert done.code == 3
    assert done.complaint == "error: there is no task nonsuch"
    assert done.out == f"{task_id}  cancelled\n"
    again = taskyard.try_to("tasks", "cancel", task_id, "--json")
    assert again.code == 4
    assert again.json[0]["error"]["code"] == "illegal_transition"


@pytest.mark.spec("lifecycle-4")
def test_prioritize_changes_the_order_of_execution(taskyard: Program) -> None:
    first, second = taskyard.enqueue("greet", "name=1"), taskyard.enqueue("greet", "name=2")
    assert taskyard("tasks", "prioritize", second, "1") == f"{second}  priority 1\n"
    assert taskyard.task(second)["priority"] == 1
    with taskyard.worker("--slots", "1"):
        ended = [taskyard.wait_for(task, "completed") for task in (first, second)]
    assert (ended[1].ended_at or 0) < (ended[0].ended_at or 0)


def test_the_list_is_filtered_and_paged(taskyard: Program) -> None:
    ids = [taskyard.enqueue("greet", f"name={name}", "--key", f"sub:{name}") for name in "abc"]
    other = taskyard.enqueue("hold")

    def listed(*filters: str) -> list[str]:
        return [task["id"] for task in taskyard.json("tasks", "list", *filters)]

    assert listed() == [other, *reversed(ids)]
    assert listed("--kind", "hold") == listed("--lane", "held") == [other]
    assert listed("--key", "sub:b") == [ids[1]]
    assert listed("--state", "failed") == []
    assert listed("--limit", "2") == [other, ids[2]]
    assert listed("--limit", "2", "--after", ids[2]) == [ids[1], ids[0]]
    assert taskyard("tasks", "list", "--state", "failed") == "no tasks\n"


def test_a_duplicate_says_so_and_names_the_task_in_its_way(taskyard: Program) -> None:
    first = taskyard.enqueue("greet", "name=x", "--dedup", "only-one")
    again = taskyard.try_to("enqueue", "app:yard", "greet", "name=y", "--dedup", "only-one")
    assert (again.code, again.out) == (0, f"{first}\n")
    assert again.complaint == f"duplicate: task {first} keeps this dedup key; nothing was enqueued"
    same = taskyard.try_to("enqueue", "app:yard", "greet", "name=x", "--id", first)
    assert same.complaint == f"duplicate: task {first} has this id already; nothing was enqueued"
    assert taskyard.json("enqueue", "app:yard", "greet", "name=x", "--id", first) == {
        "id": first,
        "duplicate": True,
    }


@pytest.mark.spec("engine-14", "lifecycle-6")
def test_lanes_are_limited_paused_and_resumed(taskyard: Program) -> None:
    first, second = taskyard.enqueue("hold"), taskyard.enqueue("hold")
    assert "held" in taskyard("lanes", "set", "held", "--capacity", "1")
    with taskyard.worker():
        taskyard.wait_for(first, "running")
        assert "lane held is full: 1 of 1 running" in taskyard("tasks", "explain", second)
        taskyard("lanes", "set", "held", "--capacity", "none")
        taskyard.wait_for(second, "running")

        paused = taskyard("lanes", "pause", "held", "--reason", "disk [full]")
        assert "paused: disk [full]" in paused
        third = taskyard.enqueue("hold")
        why = taskyard.json("tasks", "explain", third)
        assert why["waits"][0]["code"] == "lane_paused"
        assert "disk [full]" in why["text"]
        taskyard("lanes", "resume", "held")
        taskyard.wait_for(third, "running")
    [held] = [lane for lane in taskyard.json("lanes", "list") if lane["name"] == "held"]
    assert (held["running"], held["capacity"], held["paused"]) == (3, None, False)


@pytest.mark.spec("engine-14", "lifecycle-6")
def test_explain_names_the_holder_of_a_key(taskyard: Program) -> None:
    holder = taskyard.enqueue("hold", "--key", "sub:7")
    with taskyard.worker():
        taskyard.wait_for(holder, "running")
        waiting = taskyard.enqueue("hold", "--key", "sub:7")
        told = taskyard("tasks", "explain", waiting)
        assert f"key sub:7 is full (limit 1): held by {holder}" in told
        keys = taskyard.json("stats")["keys"]
        assert keys == [{"name": "sub:7", "limit": 1, "holders": [holder], "waiting": 1}]


@pytest.mark.spec("engine-14", "lifecycle-6")
def test_a_kind_no_worker_serves_waits_and_explain_says_so(taskyard: Program) -> None:
    with taskyard.worker("--kinds", "fail, read"):
        task_id = taskyard.enqueue("greet", "name=x")
        told = taskyard("tasks", "explain", task_id)
        assert "no live worker serves kind greet" in told
        assert taskyard.task(task_id)["state"] == "queued"


def test_stats_tell_of_tasks_lanes_and_workers(taskyard: Program) -> None:
    running = taskyard.enqueue("hold", "--key", "k")
    taskyard.enqueue("greet", "name=x", "--delay", "3600")
    with taskyard.worker("--node", "my-node", "--slots", "7"):
        taskyard.wait_for(running, "running")
        page = taskyard("stats")
        seen = taskyard.json("stats")
    for told in ("Tasks", "Lanes", "Workers", "Keys", "my-node", "ready", running):
        assert told in page
    assert (seen["counts"]["running"], seen["counts"]["pending"]) == (1, 1)
    [worker] = seen["workers"]
    assert (worker["id"], worker["slots"], worker["running"]) == ("my-node", 7, 1)


def test_doctor_finds_a_fresh_yard_fit(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x")
    told = taskyard("doctor")
    for name in ("store", "SQLite", "schema", "durability", "clock"):
        assert name in told
    assert all(check["ok"] for check in taskyard.json("doctor"))


@pytest.mark.spec("lifecycle-17")
async def test_the_audit_trail_names_the_user(taskyard: Program) -> None:
    task_id = taskyard.enqueue("greet", "name=x")
    taskyard("lanes", "set", "default", "--capacity", "3")
    taskyard("tasks", "prioritize", task_id, "2")
    taskyard("tasks", "cancel", task_id)
    taskyard("tasks", "retry", task_id)
    async with Yard(taskyard.url) as yard:
        trail = await yard.audit()
    who = f"cli:{getpass.getuser()}"
    assert [(one.actor, one.action) for one in reversed(trail)] == [
        (who, "set_capacity"),
        (who, "prioritize"),
        (who, "cancel"),
        (who, "retry"),
    ]


def test_a_command_may_name_its_store_by_url_or_by_application(taskyard: Program) -> None:
    task_id = taskyard.enqueue("greet", "name=x")
    nowhere = "sqlite:///nowhere.db"
    by_url = taskyard("tasks", "list", "--url", taskyard.url, TASKYARD_URL=nowhere)
    by_app = taskyard("tasks", "list", "--app", "app.py:yard")
    assert task_id in by_url
    assert task_id in by_app


def test_stats_can_be_watched(taskyard: Program) -> None:
    """Piped, a page a second; the reader ends it by going away."""
    taskyard.enqueue("greet", "name=x")
    done = taskyard.try_to(
        "stats", "--watch",
        through=["bash", "-c", '"$@" | head -n 20; exit "${PIPESTATUS[0]}"', "-"],
    )  # fmt: skip
    assert done.out.count("Tasks\n") >= 2
    assert (done.code, done.err) == (141, "")
