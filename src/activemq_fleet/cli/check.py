"""Define ``activemq-fleet check``, which checks a fleet or any activemq.xml before a host is touched."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from activemq_fleet import FleetError, InputError
from activemq_fleet.cli.completion_values import complete_releases, complete_rule_list
from activemq_fleet.cli.configuration import CheckConfiguration, read_nearest_configuration
from activemq_fleet.cli.formats import FORMATS, report_formatter
from activemq_fleet.cli.options import (
    INVENTORY_VARIABLE_OPTIONS,
    InventoryOptions,
    format_option,
    inventory_options,
    refuse_options_with,
    require_option,
)
from activemq_fleet.cli.output_paths import require_output_differs_from_inputs
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import print_warning

_PATH = NonEmptyPath(path_type=Path)
_OPTIONS_WITHOUT_EFFECT_ON_DIFF = ("fix", "backup", "baseline", "write_baseline", "strict", "form", "output")


@click.command("check")
@inventory_options(required=False)
@click.option(
    "--file",
    "named",
    metavar="FILE",
    multiple=True,
    type=_PATH,
    help="Check this activemq.xml, or every activemq.xml below this directory, without an inventory. May be repeated.",
)
@click.argument("files", nargs=-1, type=_PATH)
@click.option(
    "--release",
    metavar="X",
    shell_complete=complete_releases,
    help="ActiveMQ release of the brokers of --file, such as 5.18.3.",
)
@click.option(
    "--release-from",
    type=_PATH,
    metavar="FILE",
    help="File with the ActiveMQ releases of --file. Each line has a file name pattern and a release, such "
    "as: conf/*.xml 5.18.3",
)
@click.option(
    "--select",
    multiple=True,
    metavar="RULES",
    shell_complete=complete_rule_list,
    help="Apply only these rules, such as N,L003. N selects all rules whose ID begins with N. "
    "errors-that-stop-a-broker selects the rules about errors with which a broker does not start. May be repeated.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="RULES",
    shell_complete=complete_rule_list,
    help="Do not apply these rules, such as N,L003. N selects all rules whose ID begins with N. May be repeated.",
)
@click.option(
    "--baseline",
    type=_PATH,
    metavar="FILE",
    help="File that --write-baseline wrote. Report only findings that this file does not contain.",
)
@click.option(
    "--write-baseline",
    type=_PATH,
    metavar="FILE",
    help="Write the current findings to this file. Later runs with --baseline do not report them.",
)
@click.option(
    "--config/--no-config",
    "use_configuration",
    default=True,
    help="Whether to read settings from activemq-fleet.toml or [tool.activemq-fleet] of pyproject.toml, in the "
    "current directory or above it.",
)
@click.option("--strict", is_flag=True, help="Exit with code 1 for warnings, in addition to errors.")
@click.option(
    "--fix", is_flag=True, help="Repair the findings marked [fixable] in the files of --file, and print the changes."
)
@click.option("--diff", is_flag=True, help="Print what --fix would change, and do not change the files.")
@click.option(
    "--backup/--no-backup",
    default=True,
    show_default=True,
    help="Whether --fix keeps the previous content of each changed file as FILE.orig.",
)
@format_option(*FORMATS, help="Output format. codeclimate: for GitLab, sarif: for code scanning.")
@click.option(
    "-o",
    "--output",
    type=NonEmptyPath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the findings in the format of --format to this file, and print them as text on the terminal.",
)
def check_command(
    inventory: InventoryOptions,
    named: tuple[Path, ...],
    files: tuple[Path, ...],
    release: str | None,
    release_from: Path | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    baseline: Path | None,
    write_baseline: Path | None,
    use_configuration: bool,
    strict: bool,
    fix: bool,
    diff: bool,
    backup: bool,
    form: str,
    output: Path | None,
) -> int:
    """Check a fleet (-i INVENTORY), or existing files (--file activemq.xml --release X).

    The check of a fleet covers its topology, every activemq.xml against its release's schema and
    the linter's rules, and the routes of messages. The check of a file covers what one file can
    show, and the files in the same directory (accounts, console, logging). Without --release, the
    command takes the release from the jars of the installation that contains the file, or from the
    comment at the beginning of a rendered file.

    A comment <!-- activemq-fleet: disable=N019 REASON --> in a file suppresses findings about the
    element after it.

    --fix repairs findings that are marked [fixable]: misspelt and deprecated names, the order of
    elements where the release requires one, unescaped ampersands, and addresses of schemas that the release does not
    have. Nothing else in the file changes.

    Exit codes: 0 no errors; 1 at least one error (with --strict, also a warning) that is neither waived
    nor in the baseline; 2 unusable input, which is reported on stderr, and as findings T000 in the
    other formats. With --diff, the exit code is 1 if --fix would change a file.
    """
    from activemq_fleet.cli.checking import (
        print_proposed_repairs,
        print_report_and_return_exit_code,
        report_on_files,
        report_on_fleet,
        write_repairs_and_print_diffs,
        write_report_file,
    )
    from activemq_fleet.cli.file_repairs import raise_for_special_files
    from activemq_fleet.cli.input_error_findings import report_on_error
    from activemq_fleet.cli.unused_settings import unused_setting_warnings
    from activemq_fleet.validation import select_rules

    paths = (*named, *files)
    if not paths:
        inventory = inventory.with_inventory_from_ansible_config()
    if inventory and paths:
        raise click.UsageError(
            "-i and files cannot be used together: check the inventory and the files in separate commands"
        )
    if not inventory and not paths:
        raise click.UsageError("nothing to check: set -i INVENTORY, or --file activemq.xml --release X")
    if inventory and (release or release_from):
        raise click.UsageError(
            "--release and --release-from require --file: for an inventory, set the variable activemq_release"
        )
    if inventory and (fix or diff):
        raise click.UsageError(
            "--fix and --diff require --file: they cannot change an inventory. In the inventory, correct the "
            "variables that the findings name"
        )
    if paths:
        refuse_options_with("--file", "the check of files reads no inventory", *INVENTORY_VARIABLE_OPTIONS)
    if diff:
        refuse_options_with("--diff", "--diff only prints the changes of --fix", *_OPTIONS_WITHOUT_EFFECT_ON_DIFF)
    elif not fix:
        require_option("--fix", "backup")
    configuration = read_nearest_configuration(Path.cwd()) if use_configuration else CheckConfiguration()
    _check_configured_rules(configuration)
    for warning in unused_setting_warnings(configuration, paths):
        print_warning(warning)
    select, ignore = select or configuration.select, ignore or configuration.ignore
    if baseline is None and write_baseline is None and configuration.baseline is not None:
        baseline = configuration.baseline
        if not baseline.exists():
            raise InputError(
                f"{configuration.setting_file_and_line('baseline')}: baseline {baseline} does not exist: correct the "
                f"path, or write the file with --write-baseline {baseline}"
            )
    inputs = {
        **inventory.input_paths_by_option(),
        "--file": paths,
        "--release-from": [release_from] if release_from else [],
        "--config": [configuration.path] if configuration.path else [],
    }
    _check_output_files(output, write_baseline, inputs, baseline)
    written = True
    select_rules(select, ignore)  # This reports an unknown rule as a usage error before any input is read.
    try:
        if paths:
            arguments = (paths, release, select, ignore, release_from, configuration.releases)
            if fix:
                raise_for_special_files(paths)
            report = report_on_files(*arguments)
            if diff:
                return print_proposed_repairs(report)
            if fix:
                written = write_repairs_and_print_diffs(
                    report, keep_original=backup, to_stderr=form != "text" and output is None
                )
                report = report_on_files(*arguments)
        else:
            report = report_on_fleet(inventory, select, ignore)
    except FleetError as error:
        if form != "text":  # For text, the lines on stderr are the report.
            text = report_formatter(form)(report_on_error(error, ", ".join(map(str, paths or inventory.sources))))
            if output is not None:
                write_report_file(output, text)
            else:
                click.echo(text)
        raise
    code = print_report_and_return_exit_code(report, form, baseline, write_baseline, output, strict=strict)
    return code if written else 2


def _check_output_files(
    output: Path | None, write_baseline: Path | None, inputs: Mapping[str, Sequence[Path]], baseline: Path | None
) -> None:
    """Raise InputError if ``check`` would overwrite one of its inputs, or one output with another.

    An output inside the directory of the inventory is an error, too.

    The baseline that is read may be written again. ``inputs`` are the paths of each option.
    """
    from activemq_fleet.cli.checked_files import paths_read_by_check

    if output and write_baseline and os.path.realpath(output) == os.path.realpath(write_baseline):
        raise InputError(f"-o and --write-baseline name the same file {output}: set one of them to another file")
    input_paths = dict(inputs)
    if any(path and os.path.isfile(path) for path in (output, write_baseline)):
        input_paths["--file"] = paths_read_by_check(inputs["--file"])
    require_output_differs_from_inputs("--write-baseline", write_baseline, input_paths)
    if baseline is not None:
        input_paths["--baseline"] = [baseline]
    require_output_differs_from_inputs("-o", output, input_paths)


def _check_configured_rules(configuration: CheckConfiguration) -> None:
    """Raise InputError that names file and line of the settings where these name an unknown rule."""
    from activemq_fleet.validation import select_rules

    for setting, select, ignore in (("select", configuration.select, ()), ("ignore", (), configuration.ignore)):
        try:
            select_rules(select, ignore)
        except InputError as error:
            message = str(error).removeprefix("--")
            raise InputError(f"{configuration.setting_file_and_line(setting)}: {message}") from None
