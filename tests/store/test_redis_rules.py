"""The rules that are written in Lua once more decide as the domain does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis

from taskyard.domain.admission import Candidate, Room, admit, interleave
from taskyard.domain.lane import KeyRule, KeyRules
from taskyard.domain.outcome import POISON_LOSSES, LostRun, decide_lost
from taskyard.store.redis.scripts import compose, key_prefix
from tests.servers.redis import shared_url

Run = Callable[[str, str, tuple[object, ...]], Any]

NAMESPACE = key_prefix("rules")
FAST = settings(max_examples=80, deadline=None)


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Runs a piece of Lua behind a part of ours; it answers something packed."""
    with Redis.from_url(shared_url()) as client:

        def run(part: str, text: str, args: tuple[object, ...]) -> Any:
            script = compose(f"-- uses: {part}\n{text}")
            sha = hashlib.sha1(script.text.encode()).hexdigest()
            keys = [NAMESPACE + key for key in script.keys]
            if not client.script_exists(sha)[0]:
                client.script_load(script.text)
            call: Any = client.evalsha
            packed = call(sha, len(keys), *keys, "0", "hints", "test", msgspec.msgpack.encode(args))
            return msgspec.msgpack.decode(packed)

        yield run


LOSE = """
local nos, verdicts = {}, {}
for at, one in ipairs(args[1]) do
  local task = {}
  task[CHARGED], task[MAX_CHARGED], task[LOSSES] = one[1], one[2], one[3]
  task[STARTED_AT], task[ASKED] = one[4] and now, one[5]
  nos[at] = as_text(at)
  loaded[nos[at]] = task
end
local beside = any_beside(nos)
for at, no in ipairs(nos) do
  verdicts[at] = decide_lost(load(no), args[2], beside)
end
return cmsgpack.pack(verdicts)
"""

lost_runs = st.builds(
    LostRun,
    no=st.just(1),
    id=st.just("x"),
    attempt=st.just(1),
    charged=st.integers(0, 5),
    max_charged=st.integers(1, 5),
    losses=st.integers(0, 4),
    started=st.booleans(),
    asked=st.sampled_from((None, "cancel", "pause")),
)


@pytest.mark.spec("engine-2", "engine-20", "engine-22")
@FAST
@given(runs=st.lists(lost_runs, min_size=1, max_size=4))
def test_lost_runs_are_decided_as_the_domain_does(run: Run, runs: list[LostRun]) -> None:
    facts = [(r.charged, r.max_charged, r.losses, r.started, r.asked or False) for r in runs]

    assert run("losing", LOSE, (facts, POISON_LOSSES)) == [
        {
            "state": wanted.state,
            "reason": wanted.reason,
            "charge": wanted.charge,
            "losses": wanted.losses,
            "keeps_place": wanted.keeps_place,
        }
        for wanted in decide_lost(runs)
    ]


ADMIT = """
local candidates, room = args[1], args[2]
local nos = {}
for at, one in ipairs(candidates) do
  nos[at] = as_text(one[1])
  local task = {}
  task[STREAM], task[REASON] = one[2] .. '00000001', one[4] and 'rescued' or 'created'
  task[KEY_NAMES] = #one[3] > 0 and one[3]
  loaded[nos[at]] = task
end
for lane, figure in pairs(room.lanes) do
  room.lanes[lane] = figure >= 0 and figure
end
room.fifo = {}
local taken = admit(nos, #nos, room)
local parked = {}
for at, one in ipairs(taken.parked) do
  parked[at] = { one.no, one.key }
end
return cmsgpack.pack({ taken.now, taken.later, parked })
"""

LANES = ("00000001", "00000002")
KEYS = ("a", "b", "c")

candidates = st.lists(
    st.tuples(
        st.integers(0, 1), st.lists(st.sampled_from(KEYS), unique=True, max_size=3), st.booleans()
    ),
    max_size=12,
)
figures = st.one_of(st.none(), st.integers(0, 4))


@pytest.mark.spec("engine-8", "engine-11")
@FAST
@given(
    found=candidates,
    slots=st.integers(0, 6),
    ahead=st.integers(0, 4),
    lanes=st.tuples(figures, figures),
    keys=st.fixed_dictionaries({key: st.integers(0, 3) for key in KEYS}),
)
def test_candidates_are_admitted_as_the_domain_does(
    run: Run,
    *,
    found: list[tuple[int, list[str], bool]],
    slots: int,
    ahead: int,
    lanes: tuple[int | None, int | None],
    keys: dict[str, int],
) -> None:
    wanted = admit(
        [
            Candidate(no, lane, 5, no, tuple(names), suspect)
            for no, (lane, names, suspect) in enumerate(found, 1)
        ],
        Room(slots=slots, lanes=dict(enumerate(lanes)), keys=keys, ahead=ahead),
    )
    rows = [(no, LANES[at], names, bad) for no, (at, names, bad) in enumerate(found, 1)]
    # An empty list of pairs would be packed as a list of nothing, hence a figure below 0 for none.
    figure = {lane: -1 if f is None else f for lane, f in zip(LANES, lanes, strict=True)}

    room = {"slots": slots, "ahead": ahead, "lanes": figure, "keys": keys}
    started, later, parked = run("admission", ADMIT, (rows, room))
    assert [int(no, 16) for no in started] == [c.no for c in wanted.admitted]
    assert [int(no, 16) for no in later] == [c.no for c in wanted.ahead]
    assert [(int(no, 16), key) for no, key in parked] == [(c.no, key) for c, key in wanted.parked]


@pytest.mark.spec("engine-9")
@FAST
@given(lengths=st.lists(st.integers(0, 4), max_size=4), start=st.integers(0, 9))
def test_lanes_take_turns_as_in_the_domain(run: Run, lengths: list[int], start: int) -> None:
    queues = [[f"{lane}.{rank}" for rank in range(n)] for lane, n in enumerate(lengths)]

    text = "return cmsgpack.pack(interleave(args[1], args[2]))"
    assert run("admission", text, (queues, start)) == list(interleave(queues, start))


RULES = """
call('DEL', K.key_rules, K.key_prefixes)
for pattern, limit in pairs(args[1]) do
  call('HSET', home_of(pattern), pattern, limit)
end
forget_rules()
return cmsgpack.pack(limit_of(args[2]))
"""

names = st.text("ab", max_size=3)


@pytest.mark.spec("engine-3")
@FAST
@given(
    rules=st.dictionaries(
        st.one_of(names.filter(bool), names.map(lambda name: f"{name}*")), st.integers(0, 9)
    ),
    key=names.filter(bool),
)
def test_a_key_has_the_limit_the_domain_gives_it(
    run: Run, rules: Mapping[str, int], key: str
) -> None:
    wanted = KeyRules(KeyRule(pattern, limit) for pattern, limit in rules.items()).limit(key)

    assert run("keys", RULES, (rules, key)) == wanted
