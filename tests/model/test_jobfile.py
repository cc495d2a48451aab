"""Job files: what people write, and what they are told when it is wrong."""

from __future__ import annotations

import json

import pytest
import yaml
from tests.model.job_files import COMPLETE, complete, short, written

from tpu_recovery.errors import Invalid
from tpu_recovery.model.duration import Duration
from tpu_recovery.model.jobfile import parse_job_file
from tpu_recovery.model.spec import (
    CapacityKind,
    CheckpointFormat,
    Checkpoints,
    JobSpec,
    Placement,
    Program,
    ServiceAccount,
    WhenDone,
)

SHA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def test_the_short_example_says_what_it_says_and_the_rest_is_default() -> None:
    assert short() == JobSpec(
        name="llama-7b",
        placements=(Placement(zone="us-east5-b", capacity=CapacityKind.SPOT),),
        program=Program(archive="gs://my-bucket/train.tar.gz", sha256=SHA),
        command="python3 train.py --from={resume_step}",
        accelerator_type="v5litepod-16",
        runtime_version="v2-alpha-tpuv5-lite",
        checkpoints=Checkpoints(path="gs://my-bucket/llama-7b", format=CheckpointFormat.ORBAX, every=Duration(hours=1)),
    )


def test_the_complete_example_is_read_field_by_field() -> None:
    job = complete()
    first, second = job.placements
    assert (first.zone, first.capacity, second.capacity) == ("us-south1-ai1b", "on-demand", "reserved")
    assert first.service_account == ServiceAccount(
        email="other@my-project.iam.gserviceaccount.com", scope=("devstorage.read_only",)
    )
    assert job.command == "python3 train.py \\\n  --from={resume_step}\n"
    assert job.checkpoints is not None
    assert (job.checkpoints.every, job.checkpoints.in_bucket) == (Duration(minutes=90), False)
    assert job.environment == {"WANDB_API_KEY": "123", "LIBTPU_INIT_ARGS": "--xla_tpu_enable_flag=true"}
    assert (job.when_done, job.deadlines.stop, job.attempts.loss) == (WhenDone.KEEP, Duration(seconds=20), 100)
    assert [network.queue_count for network in job.network_configs] == [4, 0]
    assert job.labels["cost-centre"] == "42"


def test_checkpoints_in_a_bucket_can_be_looked_at_before_anything_is_created() -> None:
    where = short().checkpoints
    assert where is not None
    assert where.in_bucket


def test_a_job_file_may_be_json() -> None:
    assert parse_job_file(json.dumps(yaml.safe_load(COMPLETE))) == complete()


def test_a_program_may_be_none_when_the_image_or_the_startup_script_brings_it() -> None:
    assert parse_job_file(written({"program": "none"})).program == "none"


def test_anchors_let_placements_share_what_they_have_in_common() -> None:
    text = written({"placements": None, "name": None}) + (
        "name: &name train\ndescription: *name\n"
        "placements: [&first {zone: us-east5-b, capacity: spot}, {<<: *first, zone: us-east5-a}]\n"
    )
    assert [placement.zone for placement in parse_job_file(text).placements] == ["us-east5-b", "us-east5-a"]


# fmt: off
ZONES = ["us-east5-b", "us-central2-b", "europe-west4-a", "asia-northeast1-b", "southamerica-west1-a",
         "us-south1-ai1b", "us-central1-ai1a", "northamerica-northeast2-c"]
# fmt: on


@pytest.mark.parametrize("zone", ZONES)
def test_every_zone_that_google_names_is_accepted(zone: str) -> None:
    assert parse_job_file(written({"placements": [{"zone": zone}]})).placements[0].zone == zone


def test_scripts_of_the_largest_size_are_accepted() -> None:
    changes = {"setup": "x" * 65_536, "metadata": {"startup-script": "x" * 65_536}}
    assert parse_job_file(written(changes)).setup == "x" * 65_536


def test_a_field_that_is_written_twice_is_refused_because_yaml_would_drop_one() -> None:
    text = "name: a\nenvironment: {A: x, B: [1, {C: 1, C: 2}]}\nname: b\n"
    with pytest.raises(Invalid, match="name: 'again in line 3' is not valid; write each field once"):
        parse_job_file(text)
    with pytest.raises(Invalid, match="C: 'again in line 1' is not valid"):
        parse_job_file("environment: {A: x, B: [1, {C: 1, C: 2}], ? [k] : 3}\n")


def test_a_value_that_is_named_once_and_used_twice_is_not_written_twice() -> None:
    with pytest.raises(Invalid, match="there is no such field"):
        parse_job_file("a: &x {k: 1}\nb: *x\n")
