from __future__ import annotations

import pytest

from tpu_recovery.events.methods import CALL_MEANINGS, SYSTEM_METHODS, meaning_of
from tpu_recovery.model.messages import END_MEANINGS, LOSS_MEANINGS, Meaning


@pytest.mark.parametrize("version", ["v1", "v1alpha1", "v2", "v2alpha1", "v3"])
@pytest.mark.parametrize("call", CALL_MEANINGS)
def test_a_call_means_the_same_in_every_version_of_the_api(call: str, version: str) -> None:
    method = f"google.cloud.tpu.{version}.Tpu.{call}"
    began, finished = CALL_MEANINGS[call]
    assert meaning_of(method, ended=False, failed=False) is began
    assert meaning_of(method, ended=True, failed=False) is finished


# fmt: off
FAILED_CALLS = [
    # call                  ended  means
    ("CreateNode",           False, Meaning.CALL_REFUSED),
    ("CreateNode",           True,  Meaning.CREATE_ENDED),  # the operation is over: the look reads its error
    ("CreateQueuedResource", True,  Meaning.CREATE_ENDED),
    ("DeleteNode",           False, Meaning.CALL_REFUSED),
    ("DeleteNode",           True,  Meaning.CALL_REFUSED),  # nobody succeeded in deleting anything
    ("StopNode",             True,  Meaning.CALL_REFUSED),
    ("ReimageNode",          False, Meaning.CALL_REFUSED),
]
# fmt: on


@pytest.mark.parametrize(("call", "ended", "meaning"), FAILED_CALLS)
def test_a_call_that_failed_is_never_taken_for_one_that_did_something(call: str, ended: bool, meaning: Meaning) -> None:
    assert meaning_of(f"google.cloud.tpu.v2.Tpu.{call}", ended=ended, failed=True) is meaning


@pytest.mark.parametrize("method", SYSTEM_METHODS)
@pytest.mark.parametrize(("ended", "failed"), [(True, False), (False, False), (False, True), (True, True)])
def test_a_system_event_means_the_same_whatever_its_severity_and_operation_say(
    method: str, ended: bool, failed: bool
) -> None:
    assert meaning_of(method, ended=ended, failed=failed) is SYSTEM_METHODS[method]


@pytest.mark.parametrize(
    "method",
    [
        "tpu.nodes.preempt",
        "TPU.NODES.TERMINATE",
        "tpu.nodes.terminate ",
        "ScheduledVMs",
        "compute.instances.localSsdFailure",
        "v1.compute.instances.stop",
        "google.cloud.tpu.v1.Tpu.ReimageNode",
        "google.cloud.tpu.v2alpha1.Tpu.PerformMaintenance",
        "google.cloud.tpu.v2.Tpu.CreateNode.More",
        "CreateNode",
        "",
    ],
)
def test_an_unknown_method_is_a_reason_to_look_and_nothing_more(method: str) -> None:
    assert meaning_of(method, ended=True, failed=False) is Meaning.OTHER
    assert Meaning.OTHER not in LOSS_MEANINGS | END_MEANINGS


def test_what_the_platform_does_is_no_sign_that_a_person_wants_the_end() -> None:
    assert not LOSS_MEANINGS & END_MEANINGS
    assert not END_MEANINGS & set(SYSTEM_METHODS.values())
