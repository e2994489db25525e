"""`hourwheel reconcile`: what became of every message, by Spark, from the nodes' own files; `apply` mends what can be.

    hourwheel reconcile --data n1/data --data n2/data --data n3/data --out report
    hourwheel reconcile apply report --url http://127.0.0.1:7400
    spark-submit --master spark://HOST:7077 cli/__main__.py reconcile --data ... --out ...

Exit status 6 says that a promise is broken: a message lost, a duplicate that nothing explains, a hand-over before its
time or after a cancel. No error has this exit status, so a script can tell the two apart.
"""

import contextlib
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cli.connection import Connection
from cli.failure import Failure
from cli.output import client_options, output_option, show_fields, show_json, show_table
from cli.time_option import Duration, Span
from node.runtime.exit_code import ExitCode

if TYPE_CHECKING:
    from reconcile.judge.job import Request

_PATHS: Final = {"multiple": True, "type": click.Path(path_type=Path)}
_MS: Final = {"type": Duration(), "show_default": True}
_SECONDS: Final = {"type": Span(least_s=0.1), "show_default": True}


def _size(context: click.Context, option: click.Parameter, text: str) -> str:
    """Return the text if it is a size as a JVM takes it, such as 512m. Raises click's BadParameter."""
    if not re.fullmatch(r"[1-9]\d*[kmgt]", text.lower()):
        raise click.BadParameter(f"{text!r} is no size; give 512m, 2g ...", context, option)
    return text


_SIZE: Final = {"callback": _size, "metavar": "SIZE"}
#: The count of repairs that are not made, because their option was not given.
_LEFT: Final = "left"
#: Each option: its names, its arguments for click.option, and its help.
_OPTIONS: Final[tuple[tuple[tuple[str, ...], dict[str, Any], str], ...]] = (
    (
        ("--data",),
        _PATHS | {"metavar": "DIR"},
        "data directory of a node, an export, or what holds some; all nodes",
    ),
    (("--out",), {"type": click.Path(path_type=Path), "metavar": "DIR"}, "where tables and report go: a new directory"),
    (("--receipts",), _PATHS | {"metavar": "FILE"}, "what consumers got: Parquet, JSON lines or CSV with a column id"),
    (
        ("--receipts-of",),
        {"multiple": True, "metavar": "TOPIC"},
        "the topics whose consumers gave receipts; default: all",
    ),
    (("--acknowledged",), _PATHS | {"metavar": "FILE"}, "ids that producers were answered with, in the same form"),
    (("--master",), {"metavar": "URL"}, "Spark master (default: all cores of this machine)"),
    (("--memory",), _SIZE | {"default": "1g", "show_default": True}, "heap of the Spark driver"),
    (("--late", "late_ms"), _MS | {"default": "100ms"}, "a hand-over so long after its due time counts as late"),
    (("--grace", "grace_ms"), _MS | {"default": "5s"}, "how long what has just happened may take to be on record"),
    (
        ("--lost-after", "lost_after_ms"),
        _MS | {"default": "0s"},
        "due for so long, never handed over: lost; 0: pending",
    ),
    (("--overwrite",), {"is_flag": True}, "write an earlier output again"),
    (("--stream",), {"is_flag": True}, "keep the ledger current while the cluster runs, until interrupted"),
    (("--every", "every_s"), _SECONDS | {"default": "5s"}, "--stream: how often to look"),
)


def _options(function: Callable[..., None]) -> Callable[..., None]:
    for names, settings, told in reversed(_OPTIONS):
        function = click.option(*names, help=told, **settings)(function)
    return function


@click.group(invoke_without_command=True)
@_options
@output_option
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Reconciles what was scheduled, settled and delivered. Exit status 6: a promise is broken."""
    if context.invoked_subcommand is not None:
        return
    for name in ("data", "out"):
        if not options[name]:
            raise click.UsageError(f"Missing option '--{name}'.", context)
    document = _run(options)
    if options["output"] == "json":
        show_json(document)
    else:
        _show(options["out"], document)
    if document["promises_broken"]:
        context.exit(int(ExitCode.CONFLICT))


@contextlib.contextmanager
def _extra() -> Iterator[None]:
    """Wrap imports that need the extra `spark`. Raises Failure, with what to install, in place of a traceback."""
    try:
        yield
    except ModuleNotFoundError as missing:
        package, _, _ = str(missing.name).partition(".")
        detail = f"reconcile needs {package}, which is not installed: pip install 'hourwheel[spark]'"
        raise Failure(ExitCode.USAGE, detail) from None


def _run(options: Mapping[str, Any]) -> dict[str, Any]:
    """Starts Spark, or joins the one that spark-submit started, and reconciles."""
    with _extra():
        from reconcile.files.inventory import Inventory
        from reconcile.files.problem import DataRefused
        from reconcile.judge.job import Request, reconcile
        from reconcile.output.directory import Output, OutputRefused
        from reconcile.spark.java import JavaNotFound
        from reconcile.spark.session import MasterUnreachable, SparkNotStarted, session

    request = Request(
        data=options["data"],
        out=options["out"],
        receipts=options["receipts"],
        acknowledged=options["acknowledged"],
        receipts_of=options["receipts_of"],
        overwrite=options["overwrite"],
        options={name: options[name] for name in ("late_ms", "grace_ms", "lost_after_ms")},
    )
    try:
        Inventory.open(request.data)  # what is wrong is said before a JVM is started
        Output(request.out, request.overwrite).check()
        with _extra():
            spark = session(options["master"], options["memory"])
        try:
            return _follow(spark, request, options) if options["stream"] else reconcile(spark, request)
        finally:
            spark.stop()
    except DataRefused as error:
        raise Failure(ExitCode.DATA, str(error)) from None
    except OutputRefused as error:
        raise Failure(ExitCode.USAGE, str(error)) from None
    except MasterUnreachable as error:
        raise Failure(ExitCode.UNREACHABLE, str(error)) from None
    except (JavaNotFound, SparkNotStarted) as error:
        raise Failure(ExitCode.FAILED, str(error)) from None


def _follow(spark: Any, request: "Request", options: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the ledger current until SIGINT or SIGTERM. Show a line each time that the ledger was made again."""
    from reconcile.judge.job import keep_current

    ended = threading.Event()

    def end(number: int, frame: object) -> None:
        ended.set()

    def told(document: Mapping[str, Any]) -> None:
        shown = {name: document[name] for name in ("scheduled", "duplicates", "took_s")}
        shown |= {"until_ms": document["window"]["until_ms"], "lost": document["classes"]["lost"]}
        if options["output"] == "json":
            show_json(shown)
        else:
            click.echo(", ".join(f"{name} {value}" for name, value in shown.items()))

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return keep_current(spark, request, options["every_s"], ended, told)


def _show(out: Path, document: Mapping[str, Any]) -> None:
    """Print the figures that people look for first."""
    show_table(("class", "messages"), document["classes"].items())
    click.echo()
    counts = {name: document[name] for name in ("scheduled", "duplicates", "causes", "flags", "lost")}
    show_fields((name, value) for name, value in counts.items() if value)
    for problem in document["problems"]:
        click.echo(f"problem: {' '.join(str(value) for value in problem.values() if value != '')}", err=True)
    if document["repairs"]["redeliver"]:
        for sentence in document["redeliver_refused"]:
            click.echo(f"apply will send nothing again: {sentence}", err=True)
    for sentence in document["promises_broken"]:
        click.echo(f"broken: {sentence}", err=True)
    click.echo(f"report: {out / 'report.html'}")


@command.command("apply")
@click.argument("out", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--dry-run", is_flag=True, help="say what would be done")
@click.option("--scheduled-twice", "guessed", is_flag=True, help="cancel messages that equal another one, too")
@client_options
def apply(out: Path, dry_run: bool, guessed: bool, url: str, timeout: float, output: str) -> None:
    """Carries out the repairs of the reconciliation in DIR. Messages that were lost are sent again, and messages that
    would be delivered again are cancelled.

    Running it twice changes nothing more. A message that equals another one may be meant: it is left alone without
    --scheduled-twice. Nothing is sent again (exit status 14) where the account of a member is missing or has a gap.
    """
    with _extra():
        from reconcile.files.problem import DataRefused
        from reconcile.output.repair import LATER, OUTCOMES, REFUSED, carry_out, read_refusals, read_repairs
        from reconcile.output.tables import REDELIVER

    counts = dict.fromkeys((*OUTCOMES, _LEFT), 0)
    connection = Connection(url, timeout)
    try:
        refusals = read_refusals(out)
        for repair in read_repairs(out):
            if refusals and repair.action == REDELIVER:
                counts[REFUSED] += 1
                if dry_run or output == "table":
                    click.echo(f"{repair.action} {repair.id} ({repair.reason}): {REFUSED}")
                continue
            if repair.guessed and not guessed:
                counts[_LEFT] += 1
                continue
            if dry_run:
                click.echo(f"{repair.action} {repair.id} ({repair.reason})")
                continue
            outcome = carry_out(repair, _caller(connection))
            counts[outcome.word] += 1
            if output == "table":
                click.echo(f"{repair.action} {repair.id} ({repair.reason}): {outcome.word}, {outcome.said}")
    except DataRefused as error:
        raise Failure(ExitCode.DATA, str(error)) from None
    if output == "json":
        show_json(counts)
    elif not dry_run:
        show_fields(counts.items())
    if counts[_LEFT] and output == "table":
        said = f"{counts[_LEFT]} messages equal another one and were left alone; --scheduled-twice cancels them"
        click.echo(said, err=True)
    if counts[REFUSED]:
        said = f"{counts[REFUSED]} messages were not sent again, since their receivers may have them:"
        raise Failure(ExitCode.INCOMPLETE, "\n".join([said, *refusals, "give all of it, and reconcile again"]))
    if counts[LATER]:
        raise Failure(ExitCode.UNAVAILABLE, f"{counts[LATER]} repairs could not be made now; run this again")


def _caller(connection: Connection) -> Any:
    """Return the function by which reconcile/output/repair.py sends requests: from method, path and document to status
    and answer. A refusal is an answer too. The function raises Failure if no node answers."""

    def call(method: str, path: str, document: Mapping[str, Any] | None) -> tuple[int, Mapping[str, Any]]:
        try:
            answer = connection.call(method, path, document)
            return answer.status, answer.document
        except Failure as failure:
            status = (failure.document or {}).get("status")
            if not isinstance(status, int):
                raise
            return status, failure.document

    return call
