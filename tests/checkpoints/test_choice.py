from __future__ import annotations

import pytest

from tpu_recovery.checkpoints import Choice, Outcome, Skipped, Unreadable, layouts, newest_complete


class Tree:
    """A listing over a set of file paths; counts the looks and can be made unreadable from the n-th look on."""

    def __init__(self, *paths: str, empty: tuple[str, ...] = (), unreadable_from: int | None = None) -> None:
        self._sizes = {path: 0 if path in empty else 7 for path in paths + empty}
        self._unreadable_from = unreadable_from
        self.looks = 0

    def directories(self, path: str) -> list[str]:
        return sorted({rest.split("/")[0] for rest in self._below(path) if "/" in rest})

    def files(self, path: str) -> dict[str, int]:
        return {rest: self._sizes[f"{path}/{rest}"] for rest in self._below(path) if "/" not in rest}

    def _below(self, path: str) -> list[str]:
        self.looks += 1
        if self._unreadable_from is not None and self.looks >= self._unreadable_from:
            raise Unreadable(path, "the disk is gone")
        return [name[len(path) + 1 :] for name in self._sizes if name.startswith(f"{path}/")]


B = "gs://bucket/run"
D = "/mnt/disk/run"
INTERRUPTED = "no commit_success.txt, the save was interrupted"

CASES = {
    "the newest complete step": (
        B,
        Tree(f"{B}/20/commit_success.txt", f"{B}/40/commit_success.txt"),
        Choice(Outcome.FOUND, 40, f"{B}/40"),
    ),
    "numbers are compared as numbers": (
        B,
        Tree(f"{B}/9/commit_success.txt", f"{B}/1000/commit_success.txt", f"{B}/200/commit_success.txt"),
        Choice(Outcome.FOUND, 1000, f"{B}/1000"),
    ),
    "leading zeros keep their name in the path": (
        B,
        Tree(f"{B}/000040/commit_success.txt", f"{B}/000020/commit_success.txt"),
        Choice(Outcome.FOUND, 40, f"{B}/000040"),
    ),
    "a step may have a prefix": (
        B,
        Tree(f"{B}/my_run_40/commit_success.txt", f"{B}/my_run_9/commit_success.txt"),
        Choice(Outcome.FOUND, 40, f"{B}/my_run_40"),
    ),
    "a step without its marker is skipped and named": (
        B,
        Tree(f"{B}/40/commit_success.txt", f"{B}/60/_CHECKPOINT_METADATA", f"{B}/60/state/d/0"),
        Choice(Outcome.FOUND, 40, f"{B}/40", (Skipped(60, INTERRUPTED),)),
    ),
    "the marker of an item inside the step proves nothing": (
        B,
        Tree(f"{B}/40/commit_success.txt", f"{B}/60/state/commit_success.txt", f"{B}/60/_CHECKPOINT_METADATA"),
        Choice(Outcome.FOUND, 40, f"{B}/40", (Skipped(60, INTERRUPTED),)),
    ),
    "an empty marker proves nothing": (
        B,
        Tree(f"{B}/40/commit_success.txt", empty=(f"{B}/60/commit_success.txt",)),
        Choice(
            Outcome.FOUND,
            40,
            f"{B}/40",
            (Skipped(60, "commit_success.txt is empty, the save was interrupted"),),
        ),
    ),
    "nothing was ever saved": (B, Tree(), Choice(Outcome.EMPTY)),
    "foreign names are nothing": (
        B,
        Tree(f"{B}/tensorboard/events", f"{B}/40.5/commit_success.txt", f"{B}/best/commit_success.txt", f"{B}/60"),
        Choice(Outcome.EMPTY),
    ),
    "names that could mean something to a shell are foreign": (
        B,
        Tree(
            *(f"{B}/{name}_100/commit_success.txt" for name in ("$(touch PWNED)", "`id`", "a;b", "a'b", 'a"b', "a b")),
            f"{B}/a\nb_100/commit_success.txt",
            f"{B}/lr=1e-3_v1.0_40/commit_success.txt",
        ),
        Choice(Outcome.FOUND, 40, f"{B}/lr=1e-3_v1.0_40"),
    ),
    "only an interrupted first save": (
        B,
        Tree(f"{B}/10/state/d/0"),
        Choice(Outcome.INCOMPLETE, skipped=(Skipped(10, INTERRUPTED),)),
    ),
    "on a file system the final name is the proof": (
        D,
        Tree(f"{D}/40/state/d/0", f"{D}/20/state/d/0"),
        Choice(Outcome.FOUND, 40, f"{D}/40"),
    ),
    "a temporary name of either form is never taken, but named when newer": (
        D,
        Tree(
            f"{D}/40/state/d/0",
            f"{D}/60.orbax-checkpoint-tmp-1690000000/state/d/0",
            f"{D}/run_80.orbax-checkpoint-tmp/state/d/0",
            f"{D}/20.orbax-checkpoint-tmp/state/d/0",
        ),
        Choice(
            Outcome.FOUND,
            40,
            f"{D}/40",
            (
                Skipped(80, "run_80.orbax-checkpoint-tmp is a temporary name, the save was interrupted"),
                Skipped(60, "60.orbax-checkpoint-tmp-1690000000 is a temporary name, the save was interrupted"),
            ),
        ),
    ),
    "only temporary names": (
        D,
        Tree(f"{D}/10.orbax-checkpoint-tmp/state/d/0"),
        Choice(
            Outcome.INCOMPLETE,
            skipped=(Skipped(10, "10.orbax-checkpoint-tmp is a temporary name, the save was interrupted"),),
        ),
    ),
}


@pytest.mark.parametrize(("path", "tree", "expected"), CASES.values(), ids=CASES.keys())
def test_the_choice_is(path: str, tree: Tree, expected: Choice) -> None:
    assert newest_complete(tree, path, "orbax") == expected


def test_a_slash_at_the_end_of_the_path_changes_nothing() -> None:
    tree = Tree(f"{B}/40/commit_success.txt")
    assert newest_complete(tree, f"{B}/", "orbax") == Choice(Outcome.FOUND, 40, f"{B}/40")


def test_a_skipped_step_reads_as_a_sentence_of_an_incident() -> None:
    choice = newest_complete(Tree(f"{B}/60/state/d/0"), B, "orbax")
    assert [str(one) for one in choice.skipped] == ["step 60: no commit_success.txt, the save was interrupted"]


def test_a_look_costs_one_listing_and_one_more_for_each_step_examined() -> None:
    tree = Tree(*(f"{B}/{step}/commit_success.txt" for step in range(10, 60)), f"{B}/60/state/d/0")
    newest_complete(tree, B, "orbax")
    assert tree.looks == 3  # the names, step 60, step 59


def test_a_look_ends_after_twenty_incomplete_steps_without_a_word_on_the_others() -> None:
    tree = Tree(f"{B}/1/commit_success.txt", *(f"{B}/{step}/state/d/0" for step in range(100, 1100)))
    with pytest.raises(Unreadable, match="too many incomplete steps: the newest 20 of 1001, from 1099 down to 1080"):
        newest_complete(tree, B, "orbax")
    assert tree.looks == 21


@pytest.mark.parametrize("others", [(), ("9/commit_success.txt",)])
def test_twenty_steps_are_examined_to_the_last(others: tuple[str, ...]) -> None:
    incomplete = 20 - len(others)
    tree = Tree(*(f"{B}/{other}" for other in others), *(f"{B}/{10 + step}/d/0" for step in range(incomplete)))
    choice = newest_complete(tree, B, "orbax")
    assert choice.step == (9 if others else None)
    assert len(choice.skipped) == incomplete


@pytest.mark.parametrize("look", [1, 2])
def test_what_cannot_be_read_is_never_taken_for_none(look: int) -> None:
    with pytest.raises(Unreadable, match="the disk is gone"):
        newest_complete(Tree(f"{B}/40/commit_success.txt", unreadable_from=look), B, "orbax")


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'orbaks' is not known; known are: .*orbax"):
        newest_complete(Tree(), B, "orbaks")


@pytest.mark.parametrize("path", ["s3://bucket/run", "relative/run", ""])
def test_a_path_of_no_known_kind_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="must start with gs://"):
        newest_complete(Tree(), path, "orbax")


def test_a_format_that_is_only_known_on_a_bucket_is_refused_on_a_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "LAYOUTS", tuple(one for one in layouts.LAYOUTS if one.on_bucket))
    with pytest.raises(ValueError, match="'orbax' is not known on a file system"):
        layouts.layout_of("/mnt/disk", "orbax")
