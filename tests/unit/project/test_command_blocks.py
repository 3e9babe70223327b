"""The support that runs the command blocks of documentation pages: tests.support.command_blocks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.command_blocks import (
    Command,
    Page,
    matches,
    read_page,
    replace_values,
    run_command,
    run_page,
    select_commands,
)

PAGE = """\
```yaml title="hosts.yml"
all:
```

```console
$ cat hosts.yml
all:
$ echo 'started as 4711'
started as PID
```

<!-- not executed: it needs a host -->

```sh
ansible-playbook site
```

```sh
touch one \\
  two
for name in three; do
    touch $name
done
```

<!-- exit code: 3 -->

```console
$ echo a \\
    b
a b
$ exit 3
```
"""


def test_read_page_returns_files_commands_and_reasons_of_excluded_blocks(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(PAGE)

    page = read_page(path)

    assert page.steps[0] == ("hosts.yml", "all:\n")
    assert page.steps[1] == Command("cat hosts.yml", ("all:",))
    assert page.excluded == ("it needs a host",)


def test_commands_of_documentation_page_run_in_given_directory(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    directory = tmp_path / "work"
    directory.mkdir()

    run_page(read_page(path), directory)

    assert sorted(os.listdir(directory)) == ["hosts.yml", "one", "three", "two"]


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (["a", "b", "c"], ["a", "...", "c"]),
        (["a", "c"], ["a", "...", "c"]),
        (["took 3 s"], ["took TIME"]),
        (["1,024 events"], ["N events"]),
        (["a", "b", "a", "c", "d"], ["a", "...", "c", "..."]),
        (["a", "b", "c", "a", "c"], ["...", "b", "...", "c"]),
        (["a", "b"], ["..."]),
    ],
)
def test_printed_output_matches_page_with_masks(printed: list[str], shown: list[str]) -> None:
    assert matches(printed, shown)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (["a", "b"], ["a"]),
        (["a"], ["a", "b"]),
        (["pid x"], ["pid PID"]),
        (["a", "b"], ["a", "...", "c"]),
        (["a"], ["a", "...", "a"]),
    ],
)
def test_printed_output_that_differs_does_not_match_page(printed: list[str], shown: list[str]) -> None:
    assert not matches(printed, shown)


def test_error_of_failed_command_names_exit_code(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="false: the exit code is 1 instead of 0"):
        run_command(Command("false", None), tmp_path, os.environ)


def test_error_of_different_output_shows_printed_and_documented_output(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="printed\nb\nbut the page shows\na"):
        run_command(Command("echo b", ("a",)), tmp_path, os.environ)


def test_values_of_test_replace_example_values_of_page(tmp_path: Path) -> None:
    page = Page((Command("echo a-host", ("a-host",)), ("file", "a-host"), Command("false", None)), ())

    replaced = replace_values(page, {"a-host": "127.0.0.1"})

    assert replaced.steps[:2] == (Command("echo 127.0.0.1", ("127.0.0.1",)), ("file", "127.0.0.1"))
    run_page(select_commands(replaced, "echo "), tmp_path)
