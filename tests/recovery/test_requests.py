"""Everything that people wrote arrives in the call that creates the node and in the hand-off."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.recovery.builders import (
    NOW,
    OTHER_ZONE,
    TOKEN,
    UID,
    ZONE,
    created,
    fresh_job,
    job,
    minutes,
    name_of,
    waiting_job,
    wishing,
)

from tpu_recovery.model.duration import Duration
from tpu_recovery.model.handoff import Timing
from tpu_recovery.model.job import Job
from tpu_recovery.model.names import LABEL_GENERATION, LABEL_JOB, LABEL_UID
from tpu_recovery.model.spec import (
    AcceleratorConfig,
    AcceleratorKind,
    AttachedDisk,
    Attempts,
    BootDiskConfig,
    CapacityKind,
    Checkpoints,
    CustomerEncryptionKey,
    Deadlines,
    DiskMode,
    JobSpec,
    NetworkConfig,
    Placement,
    Program,
    ServiceAccount,
    ShieldedInstanceConfig,
)
from tpu_recovery.model.state import Progress, Slice
from tpu_recovery.recovery.ports import NodeRequest
from tpu_recovery.recovery.requests import handoff_of, node_request
from tpu_recovery.recovery.settings import Settings

SETTINGS = Settings(
    project="demo-proj",
    service_account="recover@demo-proj.iam.gserviceaccount.com",
    reports_topic="projects/demo-proj/topics/reports",
    timing=Timing(poll=3, alive=30),
)
SCRIPT = "#!/bin/sh\necho boot\n"


@dataclass(frozen=True)
class Field:
    """One field of a specification that goes into the node, and what arrives there."""

    name: str
    value: Any
    arrives: Any
    also: dict[str, Any] = field(default_factory=dict)


NODE = (
    Field("description", "ours", "ours"),
    Field("accelerator_type", "v6e-8", "v6e-8"),
    Field(
        "accelerator_config",
        AcceleratorConfig(type=AcceleratorKind.V5P, topology="2x2x2"),
        {"type": "V5P", "topology": "2x2x2"},
        {"accelerator_type": None},
    ),
    Field("runtime_version", "v2-alpha-tpuv6e", "v2-alpha-tpuv6e"),
    Field(
        "network_config",
        NetworkConfig(network="n", enable_external_ips=True, queue_count=4),
        {"network": "n", "enable_external_ips": True, "queue_count": 4},
    ),
    Field("network_configs", (NetworkConfig(subnetwork="s"),), [{"subnetwork": "s"}]),
    Field("cidr_block", "10.0.0.0/29", "10.0.0.0/29"),
    Field("service_account", ServiceAccount(email="a@b", scope=("x",)), {"email": "a@b", "scope": ["x"]}),
    Field("tags", ("one", "two"), ["one", "two"]),
    Field(
        "data_disks",
        (AttachedDisk(source_disk="d", mode=DiskMode.READ_ONLY), AttachedDisk(source_disk="e")),
        [{"source_disk": "d", "mode": "READ_ONLY"}, {"source_disk": "e"}],
    ),
    Field("shielded_instance_config", ShieldedInstanceConfig(enable_secure_boot=True), {"enable_secure_boot": True}),
    Field("autocheckpoint_enabled", True, True),
    Field(
        "boot_disk_config",
        BootDiskConfig(
            customer_encryption_key=CustomerEncryptionKey(kms_key_name="k"), enable_confidential_compute=True
        ),
        {"customer_encryption_key": {"kms_key_name": "k"}, "enable_confidential_compute": True},
    ),
)
NOT_IN_THE_NODE = frozenset(
    {
        *("name", "placements", "program", "command", "checkpoints", "setup", "environment", "user"),
        *("working_directory", "when_done", "deadlines", "attempts"),
        *("labels", "metadata"),  # there with ours added: see below
    }
)
"""Fields that the hand-off or the service itself uses."""


def request(one: Job) -> NodeRequest:
    return node_request(one, SETTINGS, SCRIPT)


class TestTheNode:
    def test_has_a_test_for_every_field_that_a_specification_can_give_it(self) -> None:
        assert {one.name for one in NODE} | NOT_IN_THE_NODE == set(JobSpec.__struct_fields__)

    @pytest.mark.parametrize("one", NODE, ids=lambda one: one.name)
    def test_gets_every_field_of_the_specification(self, one: Field) -> None:
        wished = wishing(waiting_job(), **{one.name: one.value, **one.also})
        assert json.loads(json.dumps(request(wished).node[one.name])) == one.arrives

    def test_gets_no_field_that_nobody_set(self) -> None:
        assert set(request(waiting_job()).node) == {
            *("accelerator_type", "runtime_version", "labels", "metadata", "scheduling_config")
        }

    @pytest.mark.parametrize(
        ("name", "value", "arrives"),
        [
            ("accelerator_type", "v6e-16", "v6e-16"),
            ("runtime_version", "other", "other"),
            ("network_config", NetworkConfig(network="there"), {"network": "there"}),
            ("service_account", ServiceAccount(email="there@b"), {"email": "there@b"}),
        ],
    )
    def test_gets_what_the_placement_sets_instead_of_what_the_job_says(
        self, name: str, value: Any, arrives: Any
    ) -> None:
        usual: dict[str, Any] = {
            "network_config": NetworkConfig(network="here", queue_count=4),
            "service_account": ServiceAccount(email="here@b", scope=("x",)),
        }
        wished = wishing(waiting_job(), placements=(Placement(zone=ZONE, **{name: value}),), **usual)
        assert request(wished).node[name] == arrives

    def test_gets_the_placements_type_instead_of_the_jobs_topology(self) -> None:
        placements = (Placement(zone=ZONE, accelerator_type="v6e-16"),)
        config = AcceleratorConfig(type=AcceleratorKind.V5P, topology="2x2x2")
        wished = wishing(waiting_job(), placements=placements, accelerator_type=None, accelerator_config=config)
        assert "accelerator_config" not in request(wished).node

    def test_gets_what_the_placement_of_this_very_creation_sets(self) -> None:
        placements = (Placement(zone=ZONE), Placement(zone=OTHER_ZONE, runtime_version="there"))
        create = created(placement=1, accepted=None, operation="")
        wished = wishing(waiting_job(create=create), placements=placements)
        assert request(wished).node["runtime_version"] == "there"

    @pytest.mark.parametrize(
        ("kind", "scheduling"),
        [
            (CapacityKind.SPOT, {"spot": True, "reserved": False}),
            (CapacityKind.ON_DEMAND, {"spot": False, "reserved": False}),
            (CapacityKind.RESERVED, {"spot": False, "reserved": True}),
        ],
    )
    def test_is_paid_for_as_the_placement_says(self, kind: CapacityKind, scheduling: dict[str, bool]) -> None:
        assert request(wishing(waiting_job(), kind=kind)).node["scheduling_config"] == scheduling

    def test_carries_labels_by_which_it_is_ours_beside_those_of_the_job(self) -> None:
        labels = request(wishing(waiting_job(), labels={"team": "vision", LABEL_UID: "forged"})).node["labels"]
        assert labels == {"team": "vision", LABEL_JOB: "train", LABEL_UID: UID, LABEL_GENERATION: "1"}

    def test_carries_our_startup_script_and_the_hand_off_beside_the_jobs_metadata(self) -> None:
        wished = wishing(waiting_job(), metadata={"startup-script": "echo mine", "other": "x"})
        metadata = request(wished).node["metadata"]
        assert set(metadata) == {"startup-script", "other", "tpu-recovery"}
        assert (metadata["startup-script"], metadata["other"]) == (SCRIPT, "x")
        assert json.loads(metadata["tpu-recovery"])["startup_script"] == "echo mine"

    def test_is_asked_for_by_the_name_and_the_request_id_of_its_generation(self) -> None:
        one = request(waiting_job(generation=7, slices=(Slice(name=name_of(7, OTHER_ZONE)),)))
        assert (one.parent, one.node_id, one.request_id) == (
            f"projects/demo-proj/locations/{OTHER_ZONE}",
            "train-g7",
            "r",
        )

    def test_is_the_same_to_the_byte_however_often_it_is_asked_for(self) -> None:
        one = wishing(waiting_job(), environment={"B": "1", "A": "2"}, labels={"b": "1", "a": "2"})
        other = wishing(waiting_job(), environment={"A": "2", "B": "1"}, labels={"a": "2", "b": "1"})
        assert request(one) == request(one)
        assert request(one).node["metadata"] == request(other).node["metadata"]

    @pytest.mark.parametrize("one", [fresh_job(), job(create=None), job(slices=())])
    def test_that_nobody_intends_to_create_is_not_asked_for(self, one: Job) -> None:
        with pytest.raises(LookupError, match="train has no create to carry out"):
            request(one)


class TestTheHandOff:
    def at_creation(self, one: Job) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(request(one).node["metadata"]["tpu-recovery"])
        return found

    def test_says_everything_that_a_fresh_vm_needs(self) -> None:
        wished = wishing(
            waiting_job(
                launch_before=NOW + minutes(50),
                progress=Progress(checkpoint_step=40),
                create=created(resume_step=40, resume_path="gs://b/c/40", accepted=None),
            ),
            program=Program(archive="gs://b/x.tar.gz", sha256="a" * 64),
            command="python3 train.py --from {resume_step}",
            setup="pip install .",
            user="ann",
            working_directory="src",
            environment={"LR": "0.1"},
            checkpoints=Checkpoints(path="gs://b/c"),
            deadlines=Deadlines(
                startup_script=Duration(minutes=1), setup=Duration(minutes=2), stop=Duration(seconds=9)
            ),
            attempts=Attempts(crash=5),
            metadata={"startup-script": "echo mine"},
        )
        assert self.at_creation(wished) == {
            "version": 1,
            "job": "train",
            "uid": UID,
            "generation": 1,
            "launch": 1,
            "launch_before": "2026-12-01T12:50:00Z",
            "wanted": "run",
            "token": TOKEN,
            "program": {"archive": "gs://b/x.tar.gz", "sha256": "a" * 64},
            "startup_script": "echo mine",
            "setup": "pip install .",
            "command": "python3 train.py --from {resume_step}",
            "user": "ann",
            "working_directory": "src",
            "environment": {"LR": "0.1"},
            "checkpoints": {"path": "gs://b/c", "format": "orbax", "seen_step": 40},
            "resume": {"step": 40, "path": "gs://b/c/40"},
            "reports": {"topic": "projects/demo-proj/topics/reports"},
            "deadlines": {"startup_script": 60, "setup": 120, "stop": 9},
            "crashes": {"limit": 5, "first_backoff": 10, "longest_backoff": 300},
            "timing": {"poll": 3, "alive": 30},
        }

    def test_of_a_plain_job_says_that_there_is_nothing_to_bring_or_to_resume(self) -> None:
        found = self.at_creation(waiting_job())
        assert found["program"] == {"none": True}
        assert [found[key] for key in ("checkpoints", "resume", "setup", "startup_script", "user")] == [None] * 5

    def test_has_the_launch_that_was_decided_when_the_creation_was(self) -> None:
        one = waiting_job(launch=3, create=created(launch=0, accepted=None))
        assert self.at_creation(one)["launch"] == 0
        assert handoff_of(one, SETTINGS, launch=3).launch == 3

    def test_of_a_job_whose_creation_is_unknown_gives_no_advice(self) -> None:
        assert handoff_of(job(create=None), SETTINGS, launch=1).resume is None

    def test_of_step_zero_is_advice_too(self) -> None:
        advice = handoff_of(job(create=created(resume_step=0, resume_path="p/0")), SETTINGS, launch=1).resume
        assert advice is not None
        assert advice.step == 0


def test_the_token_is_nowhere_but_in_the_hand_off() -> None:
    one = request(waiting_job(token="very-secret"))
    metadata = dict(one.node["metadata"])
    assert "very-secret" in metadata.pop("tpu-recovery")
    assert "very-secret" not in str((one.parent, one.node_id, one.request_id, {**one.node, "metadata": metadata}))
