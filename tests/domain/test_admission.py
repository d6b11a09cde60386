from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.domain.admission import Admission, Candidate, Room, admit, interleave

KEYS = ("a", "b", "c")

candidates = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.lists(st.sampled_from(KEYS), unique=True, max_size=3).map(tuple),
        st.booleans(),
    ),
    max_size=30,
).map(
    lambda rows: [
        Candidate(no, lane, 5, no, keys, suspect) for no, (lane, keys, suspect) in enumerate(rows)
    ]
)
rooms = st.builds(
    Room,
    slots=st.integers(0, 8),
    lanes=st.fixed_dictionaries(
        {lane: st.none() | st.integers(-1, 4) for lane in range(3)},
    ),
    keys=st.fixed_dictionaries({key: st.integers(-1, 3) for key in KEYS}),
    ahead=st.integers(0, 4),
)


def left(room: Room, admission: Admission) -> Room:
    """The room that is left when these have started."""
    lanes = Counter(c.lane for c in admission.admitted)
    keys = Counter(key for c in admission.admitted for key in c.keys)
    return Room(
        slots=room.slots - len(admission.admitted),
        lanes={lane: None if n is None else n - lanes[lane] for lane, n in room.lanes.items()},
        keys={key: n - keys[key] for key, n in room.keys.items()},
        ahead=room.ahead - len(admission.ahead),
    )


def fits(candidate: Candidate, room: Room) -> bool:
    lane = room.lanes[candidate.lane]
    return (lane is None or lane > 0) and all(room.keys[key] > 0 for key in candidate.keys)


@pytest.mark.spec("engine-8")
@given(candidates, rooms)
def test_room_is_never_overdrawn(waiting: list[Candidate], room: Room) -> None:
    admission = admit(waiting, room)

    after = left(room, admission)
    assert after.slots >= 0
    assert after.ahead >= 0
    for lane, before in room.lanes.items():
        now = after.lanes[lane]
        assert (before is None) == (now is None)
        if before is not None and now is not None:
            assert now >= min(before, 0)
    assert all(after.keys[key] >= min(before, 0) for key, before in room.keys.items())


@pytest.mark.spec("engine-8", "engine-10")
@given(candidates, rooms)
def test_nothing_that_fits_is_left_while_there_is_a_slot(
    waiting: list[Candidate], room: Room
) -> None:
    admission = admit(waiting, room)

    after = left(room, admission)
    taken = {c.no for c in (*admission.admitted, *admission.ahead)}
    if after.slots > 0:
        assert not any(fits(c, after) for c in waiting if c.no not in taken)


@pytest.mark.spec("engine-9")
@given(candidates, rooms)
def test_each_is_taken_if_it_fits_when_its_turn_comes(waiting: list[Candidate], room: Room) -> None:
    admission = admit(waiting, room)

    for at, candidate in enumerate(waiting):
        before = left(room, admit(waiting[:at], room))
        if before.slots > 0:
            assert (candidate in admission.admitted) == fits(candidate, before)
        else:
            assert candidate not in admission.admitted


@pytest.mark.spec("engine-9")
@given(candidates, rooms)
def test_the_order_is_kept_and_nothing_is_taken_twice(waiting: list[Candidate], room: Room) -> None:
    admission = admit(waiting, room)

    for part in (admission.admitted, admission.ahead, [c for c, _ in admission.parked]):
        numbers = [c.no for c in part]
        assert numbers == sorted(set(numbers))
    everything = [*admission.admitted, *admission.ahead, *(c for c, _ in admission.parked)]
    assert len({c.no for c in everything}) == len(everything)


@pytest.mark.spec("engine-11")
@given(candidates, rooms)
def test_only_what_is_free_of_limits_and_suspicion_is_taken_ahead(
    waiting: list[Candidate], room: Room
) -> None:
    admission = admit(waiting, room)

    for candidate in admission.ahead:
        assert candidate.keys == ()
        assert room.lanes[candidate.lane] is None
        assert not candidate.suspect
    if admission.ahead:
        assert left(room, admission).slots == 0


@pytest.mark.spec("engine-12")
@given(candidates, rooms)
def test_what_is_parked_waits_for_a_key_of_its_own_that_is_full(
    waiting: list[Candidate], room: Room
) -> None:
    admission = admit(waiting, room)

    after = left(room, admission)
    for candidate, key in admission.parked:
        assert key in candidate.keys
        assert after.keys[key] <= 0


@pytest.mark.spec("engine-9")
def test_the_blocked_are_passed_over() -> None:
    full, keyed, free = Candidate(1, 0, 1, 1), Candidate(2, 1, 1, 2, ("a",)), Candidate(3, 1, 9, 3)
    room = Room(slots=5, lanes={0: 0, 1: None}, keys={"a": 0})

    admission = admit([full, keyed, free], room)

    assert admission.admitted == [free]
    assert admission.parked == [(keyed, "a")]


@pytest.mark.spec("engine-11")
def test_a_keyed_task_does_not_keep_others_from_being_taken_ahead() -> None:
    first, keyed, plain = (
        Candidate(1, 0, 5, 1),
        Candidate(2, 0, 5, 2, ("a",)),
        Candidate(3, 0, 5, 3),
    )

    admission = admit([first, keyed, plain], Room(1, {0: None}, {"a": 1}, ahead=1))

    assert (admission.admitted, admission.ahead) == ([first], [plain])


@pytest.mark.spec("engine-9")
def test_lanes_are_interleaved_head_by_head() -> None:
    assert list(interleave(["abc", "x", "12"])) == ["a", "x", "1", "b", "2", "c"]


@pytest.mark.spec("engine-9")
def test_the_start_rotates_who_is_first() -> None:
    queues = ["ab", "x", "12"]

    assert [next(interleave(queues, start)) for start in range(4)] == ["a", "x", "1", "a"]
    assert list(interleave(queues, 1)) == ["x", "1", "a", "2", "b"]


@pytest.mark.spec("engine-9")
@given(st.lists(st.lists(st.integers(), max_size=8), max_size=5), st.integers(0, 10))
def test_interleaving_loses_and_reorders_nothing(queues: list[list[int]], start: int) -> None:
    tagged = [[(lane, rank) for rank in range(len(q))] for lane, q in enumerate(queues)]

    mixed = list(interleave(tagged, start))

    for lane, queue in enumerate(tagged):
        assert [item for item in mixed if item[0] == lane] == queue
    assert [rank for _, rank in mixed] == sorted(rank for _, rank in mixed)
