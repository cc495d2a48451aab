"""A crash, a refusal, a second delivery or a freeze at any call of a recovery: it converges all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fakes.wire import Call, Crash, failing, nothing, once
from tests.recovery.shell.world import G1, G2, World, running

from tpu_recovery.errors import Conflict, Unreadable
from tpu_recovery.model.incident import Outcome
from tpu_recovery.model.state import Phase
from tpu_recovery.recovery.records import InboxStatus

HOUR = 3600.0


def silence_story(world: World) -> None:
    """The runner of generation 1 trains and is never heard; it takes minutes to delete its node, with the next one
    READY beside it. Everything that then happens within two hours."""
    world.runners.mute.add(G1)
    world.capacity.delete_seconds = 200
    world.apply()
    world.run(2 * HOUR)


def loss_story(world: World) -> None:
    """The node is taken; everything that then happens within two hours."""
    world.capacity.preempt(G1)
    world.run(2 * HOUR)


def calls_of_the_loss() -> list[Call]:
    """What a loss costs when nothing goes wrong, until the second sweep after it."""
    world = running()
    before = len(world.wire.calls)
    world.capacity.preempt(G1)
    world.run(660)
    return world.wire.calls[before:]


def calls_of_the_silence() -> list[Call]:
    """What is done, not merely read, for a runner that is never heard, until the next generation has made progress."""
    world = World()
    world.sweeping = False
    silence_story(world)
    last = world.wire.made("notifier.tell")[-1]
    doing = [call for call in world.wire.calls if call.port in ("timers", "capacity") or call.method == "commit"]
    first = next(call for call in doing if call.name == "capacity.delete")
    return [call for call in doing if first.number - 3 <= call.number <= last.number]


CALLS = calls_of_the_loss()


def names(calls: list[Call]) -> list[str]:
    return [f"{call.number}-{call.name}" for call in calls]


def assert_recovered_once(world: World) -> None:
    state = world.state()
    assert (state.phase, state.generation) == (Phase.RUNNING, 2), state
    assert list(world.capacity.nodes) == world.runners.training() == [G2]
    assert world.capacity.created == [G1, G2]
    assert set(world.capacity.deleted) == {G1}
    assert world.runners.trained == [(G1, 1), (G2, 1)]
    assert world.runners.most_at_once == 1
    assert (state.leftovers, state.lease, state.incident) == ((), None, "")
    assert not world.messages
    assert not [task for task in world.timers.waiting() if task.at < world.clock()]
    assert InboxStatus.WAITING not in {entry.status for entry in world.inbox()}
    (incident,) = world.incidents()
    assert incident.outcome is Outcome.RESUMED
    actions = {action.what for action in incident.actions}
    assert {"create train-g2", "delete train-g1"} <= actions, incident.actions


def test_a_loss_is_recovered_once() -> None:
    world = running()
    loss_story(world)
    assert_recovered_once(world)


EVERY_CALL = pytest.mark.parametrize("number", range(len(CALLS)), ids=names(CALLS))
EVERY_CHANGE = pytest.mark.parametrize(
    "number", [number for number, call in enumerate(CALLS) if call.name == "store.commit" and "jobs/" in call.subject]
)
AROUND = pytest.mark.parametrize("when", ["before", "after"])


class Story:
    """A loss in which something happens at one call of all those that it makes."""

    def __init__(self, number: int) -> None:
        self.world = running()
        self.number = len(self.world.wire.calls) + number
        self.stepped_in = False

    def tell(self, when: str, do: Callable[[], None]) -> World:
        """From the loss on, with `do` just before or after the call took effect, to the end; gives the world."""

        def step_in(call: Call) -> None:
            self._check_intent(call)
            if call.number == self.number and not self.stepped_in:
                self.stepped_in = True
                do()

        def check(call: Call) -> None:
            self._check_intent(call)

        self.world.wire.before, self.world.wire.after = (step_in, nothing) if when == "before" else (check, step_in)
        loss_story(self.world)
        assert self.stepped_in
        return self.world

    def _check_intent(self, call: Call) -> None:
        """No create leaves, and no delete of the newest generation, that the stored state does not ask for."""
        if call.name == "capacity.create":
            assert call.subject in self.world.state().resources
        if call.name == "capacity.delete":
            assert call.subject != self.world.state().slices[0].name


@EVERY_CALL
@AROUND
def test_an_invocation_dies_at_any_call(number: int, when: str) -> None:
    assert_recovered_once(Story(number).tell(when, failing(Crash())))


@EVERY_CALL
@AROUND
def test_any_call_is_left_without_an_answer(number: int, when: str) -> None:
    assert_recovered_once(Story(number).tell(when, failing(Unreadable("deadline exceeded"))))


@EVERY_CHANGE
def test_any_change_of_a_job_finds_it_changed_by_others(number: int) -> None:
    """By nobody in particular: the next reading is the same, but every write has to be made again."""
    assert_recovered_once(Story(number).tell("before", failing(Conflict("changed"))))


@EVERY_CALL
@AROUND
def test_the_same_entry_is_delivered_a_second_time_at_any_call(number: int, when: str) -> None:
    story = Story(number)
    entry = story.world.preempted()

    def deliver_again() -> None:
        for word in ("first", "second", "first"):
            story.world.event({**entry, "insertId": word})

    assert_recovered_once(story.tell(when, deliver_again))


@EVERY_CALL
@AROUND
@pytest.mark.parametrize("length", [100, HOUR, 3 * HOUR], ids=["100 s", "1 h", "3 h"])
def test_an_invocation_freezes_at_any_call_and_goes_on_much_later(number: int, when: str, length: float) -> None:
    """Its lease has ended, and others have recovered the job; what it still does must do no harm."""
    story = Story(number)
    assert_recovered_once(story.tell(when, lambda: story.world.run(length)))


CALLS_OF_THE_SILENCE = calls_of_the_silence()


@pytest.mark.parametrize("call", CALLS_OF_THE_SILENCE, ids=names(CALLS_OF_THE_SILENCE))
@AROUND
@pytest.mark.parametrize("what", ["dies", "has no answer", "freezes for an hour"])
def test_two_generations_never_train_whatever_happens_at_any_call(call: Call, when: str, what: str) -> None:
    world = World()
    happenings: dict[str, Callable[[], None]] = {
        "dies": failing(Crash()),
        "has no answer": failing(Unreadable("deadline exceeded")),
        "freezes for an hour": lambda: world.run(HOUR),
    }
    setattr(world.wire, when, once(lambda one: one.number == call.number, happenings[what]))
    silence_story(world)
    state = world.state()
    assert world.runners.most_at_once == 1
    assert world.runners.training() == [state.slices[0].name]
    assert (state.phase, state.leftovers) == (Phase.RUNNING, ())
    assert list(world.capacity.nodes) == [state.slices[0].name]


def test_a_hook_at_every_call_is_what_these_tests_are_about() -> None:
    assert {call.name for call in CALLS} >= {
        *("store.get", "store.find", "store.commit", "timers.call_later", "timers.queue_create"),
        *("capacity.describe", "capacity.create", "capacity.delete", "capacity.attributes", "capacity.list_nodes"),
        *("checkpoints.newest", "notifier.tell"),
    }
