"""The tpu-recovery command."""

from __future__ import annotations

import getpass
import os
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any

import click
from google.auth.exceptions import GoogleAuthError
from rich.console import Console

from tpu_recovery.cli import jobs, render
from tpu_recovery.errors import Invalid, TpuRecoveryError
from tpu_recovery.model.jobfile import parse_job_file


def _says_what_is_wrong(command: Callable[..., None]) -> Callable[..., None]:
    """Our own errors become one message and exit code 1; a traceback is for faults of the program."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except TpuRecoveryError as problem:
            raise click.ClickException(str(problem)) from problem
        except GoogleAuthError as problem:
            hint = "sign in with: gcloud auth application-default login"
            raise click.ClickException(f"Google does not know who you are ({problem}); {hint}") from problem

    return run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--project", envvar="GOOGLE_CLOUD_PROJECT", help="Project that the service is installed in.")
@click.option("--database", envvar="DATABASE", default="tpu-recovery", show_default=True, help="Firestore database.")
@click.version_option(package_name="tpu-recovery")
@click.pass_context
def main(context: click.Context, project: str | None, database: str) -> None:
    """Keep training jobs on Cloud TPU VMs running."""
    context.obj = (project, database)


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only check the file.")
@click.pass_obj
@_says_what_is_wrong
def apply(connection: tuple[str | None, str], file: Path, dry_run: bool) -> None:
    """Register the job in FILE, or change it."""
    spec = parse_job_file(_text(file))
    if dry_run:
        click.echo(f"{spec.name}: the file is valid")
        return
    click.echo(f"{spec.name}: {jobs.apply(_desk(connection), spec)}")


@main.command(name="list")
@click.pass_obj
@_says_what_is_wrong
def list_jobs(connection: tuple[str | None, str]) -> None:
    """Show all jobs."""
    views = jobs.view_all(_desk(connection))
    if views:
        Console().print(render.jobs_table(views))
    else:
        click.echo("no jobs yet; tpu-recovery apply FILE registers one")


@main.command()
@click.argument("job")
@click.pass_obj
@_says_what_is_wrong
def show(connection: tuple[str | None, str], job: str) -> None:
    """Show one job and its incidents."""
    Console().print(render.job_page(jobs.view(_desk(connection), job)))


@main.command()
@click.argument("job")
@click.pass_obj
@_says_what_is_wrong
def pause(connection: tuple[str | None, str], job: str) -> None:
    """Stop looking after JOB. What runs goes on running; what is lost stays lost."""
    changed = jobs.set_paused(_desk(connection), job, paused=True)
    click.echo(f"{job}: paused" if changed else f"{job}: was paused already")


@main.command()
@click.argument("job")
@click.pass_obj
@_says_what_is_wrong
def resume(connection: tuple[str | None, str], job: str) -> None:
    """Go on with JOB: unpause it, release its hold, try again."""
    jobs.resume(_desk(connection), job)
    click.echo(f"{job}: told to go on")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(str(file), f"byte {error.start}", "a job file is text in UTF-8") from error


def _desk(connection: tuple[str | None, str]) -> jobs.Desk:
    from tpu_recovery.cloud import clients
    from tpu_recovery.cloud.commands import send
    from tpu_recovery.cloud.store import FirestoreStore

    project, database = connection
    if not project:
        raise Invalid("--project", project, "name the project here or in GOOGLE_CLOUD_PROJECT")
    topic = os.environ.get("COMMANDS_TOPIC") or f"projects/{project}/topics/commands"
    return jobs.Desk(
        store=FirestoreStore(clients.firestore_client(project, database)),
        send=lambda command: send(clients.publisher_client(), topic, command),
        clock=lambda: datetime.now(UTC),
        fresh=lambda: uuid.uuid4().hex,
        person=getpass.getuser(),
    )
