"""`hourwheel reconcile` and `apply`: exit status, what is refused before Spark is started, repairs on a real node."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from bench.dataset.make import make
from chaos.cluster.cluster import Cluster
from cli.connection import Connection
from cli.local.local_nodes import this_build
from cli.main import main
from node.runtime.exit_code import ExitCode
from reconcile.output.directory import REDELIVER_REFUSED, REPAIRS_TABLE, REPORT
from reconcile.output.tables import REPAIRS_SCHEMA, write_parquet
from tests.cli.scripted_node import ScriptedNode


def reconcile(*args: object) -> Result:
    """Calls the subcommand in this process."""
    return CliRunner().invoke(main, ["reconcile", *map(str, args)])


def started(*args: object) -> "subprocess.Popen[str]":
    """Starts it in a process of its own: a Spark session is one for a process."""
    command = [sys.executable, "-m", "cli", "reconcile", *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=this_build())


@pytest.mark.parametrize(("hidden", "output"), [("pyspark", "table"), ("pyarrow", "json"), ("jinja2", "table")])
def test_without_its_extra_it_says_what_to_install(tmp_path: Path, hidden: str, output: str) -> None:
    """One line and exit 2, before any work; help is there all the same, and so is `apply` if it can read Parquet."""
    (tmp_path / "hours").mkdir()
    done = run_without(hidden, "--data", str(tmp_path), "--out", str(tmp_path / "out"), "-o", output)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, ""), done.stderr
    (line,) = done.stderr.splitlines()
    said = f"reconcile needs {hidden}, which is not installed: pip install 'hourwheel[spark]'"
    assert said in line
    assert run_without(hidden, "--help").returncode == 0
    assert (said in run_without(hidden, "apply", str(tmp_path)).stderr) == (hidden == "pyarrow")


def run_without(package: str, *args: str) -> "subprocess.CompletedProcess[str]":
    """The subcommand in a process that has not this package."""
    code = f"import sys; sys.modules[{package!r}] = None; from cli.main import main; main(['reconcile', *sys.argv[1:]])"
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, capture_output=True, text=True, env=this_build(), check=False)


def test_what_is_missing_or_refused_is_said_by_name(tmp_path: Path) -> None:
    """Each with the exit code that scripts know, and no Spark."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "n1" / "hours").mkdir(parents=True)
    for args, code, said in (
        ((), ExitCode.USAGE, "--data"),
        (("--data", tmp_path), ExitCode.USAGE, "--out"),
        (("--data", tmp_path / "nowhere", "--out", tmp_path / "o"), ExitCode.DATA, "nowhere"),
        (("--data", tmp_path / "n1", "--out", tmp_path / "full"), ExitCode.USAGE, "--overwrite"),
        (("--data", tmp_path / "n1", "--out", tmp_path / "full", "--overwrite"), ExitCode.USAGE, "file"),
        (
            ("--data", tmp_path / "n1", "--out", tmp_path / "o", "--master", "spark://127.0.0.1:1"),
            ExitCode.UNREACHABLE,
            "127.0.0.1:1",
        ),
        (
            ("--data", tmp_path / "n1", "--out", tmp_path / "o", "--master", "127.0.0.1:7077"),
            ExitCode.UNREACHABLE,
            "no Spark master",
        ),
        (("--data", tmp_path / "n1", "--out", tmp_path / "o", "--memory", "lots"), ExitCode.USAGE, "512m"),
        (("apply", tmp_path / "n1"), ExitCode.DATA, "report.json"),
    ):
        result = reconcile(*args)
        assert (result.exit_code, said in result.output) == (int(code), True), (args, result.output)
    assert not (tmp_path / "o").exists()


def test_a_stream_ends_when_it_is_told_and_a_broken_promise_is_exit_status_six(tmp_path: Path) -> None:
    """A line for each time; the report of the last one is the output, as that of a run without --stream."""
    (tmp_path / "data").mkdir()
    planted = make(tmp_path / "data", messages=2_000, each=2, kills=2)
    stream = started(
        "--data", tmp_path / "data", "--out", tmp_path / "out", "--master", "local[1]", "-o", "json", "--stream"
    )
    try:
        assert stream.stdout is not None
        first = json.loads(stream.stdout.readline())
        stream.send_signal(signal.SIGTERM)
        said, errors = stream.communicate(timeout=120)
    finally:
        stream.kill()
        stream.communicate()
    assert stream.returncode == int(ExitCode.CONFLICT), errors
    document = json.loads(said.splitlines()[-1])
    assert document == json.loads((tmp_path / "out" / REPORT).read_bytes())
    assert document["scheduled"] == first["scheduled"] == planted.messages
    assert "2 messages lost" in document["promises_broken"]


@pytest.fixture
def repairs(tmp_path: Path) -> Any:
    """Writes an output directory with these repairs: (action, reason, id). `refused`: why nothing may be sent again; an
    older build's report has no such key."""

    def write(*rows: tuple[str, str, str], refused: list[str] | None = None, older: bool = False) -> Path:
        out = tmp_path / "out"
        (out / REPAIRS_TABLE).mkdir(parents=True)
        (out / REPORT).write_text(json.dumps({} if older else {REDELIVER_REFUSED: refused or []}))
        columns = [*zip(*rows, strict=True), ["orders"] * len(rows), ["lost"] * len(rows), [0] * len(rows)]
        arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, REPAIRS_SCHEMA, strict=True)]
        write_parquet(pa.Table.from_arrays(arrays, schema=REPAIRS_SCHEMA), out / REPAIRS_TABLE / "1.parquet")
        return out

    return write


def test_repairs_are_made_once_on_a_real_node(tmp_path: Path, repairs: Any) -> None:
    """A delivered message comes again, with its body, once; a pending one that equals another is cancelled only if that
    is asked for; an unknown one is told."""

    async def mend() -> None:
        async with Cluster(tmp_path / "cluster", count=1) as cluster:
            cluster.start()
            await cluster.wait_ready()
            call = Connection(cluster.nodes["n1"].url).call
            url = cluster.nodes["n1"].url
            await asyncio.to_thread(_mend, call, url, repairs)
            await cluster.stop("n1")

    asyncio.run(mend())


def _mend(call: Any, url: str, repairs: Any) -> None:
    first = call("POST", "/v1/messages", {"topic": "orders", "body": {"n": 1}, "tags": ["eu"]}).document["id"]
    (taken,) = call("POST", "/v1/topics/orders/pull", {"max": 1, "wait": "5s"}, 6.0).document["messages"]
    call("POST", "/v1/topics/orders/ack", {"receipts": [taken["receipt"]]})
    later = call("POST", "/v1/messages", {"topic": "orders", "body": 2, "delay": "1h"}).document["id"]
    gone = first[:-1] + ("0" if first[-1] != "0" else "1")
    out = repairs(("redeliver", "never_received", first), ("suppress", "scheduled_twice", later), ("redeliver", "no_trace", gone))  # fmt: skip  # noqa: E501
    dry = reconcile("apply", out, "--url", url, "--dry-run", "--scheduled-twice")
    assert (dry.exit_code, dry.output.count("\n")) == (0, 3)
    left = reconcile("apply", out, "--url", url)
    assert (left.exit_code, "1 messages equal another one" in left.output) == (0, True)
    assert call("GET", f"/v1/messages/{later}").document["state"] == "scheduled"
    for _ in range(2):
        result = reconcile("apply", out, "--url", url, "--scheduled-twice", "-o", "json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.output) == {"done": 2, "not_needed": 0, "gone": 1, "refused": 0, "later": 0, "left": 0}
    assert call("GET", f"/v1/messages/{later}").document["state"] == "cancelled"
    (again,) = call("POST", "/v1/topics/orders/pull", {"max": 5, "wait": "5s"}, 6.0).document["messages"]
    assert (again["body"], again["tags"], again["headers"]) == ({"n": 1}, ["eu"], {"repair-of": first})


def test_a_node_that_is_not_there_is_told(repairs: Any) -> None:
    """Nothing was done, and a later run goes on."""
    out = repairs(("suppress", "delivered_unsettled", "0" * 26))
    assert reconcile("apply", out, "--url", "http://127.0.0.1:1").exit_code == int(ExitCode.UNREACHABLE)


@pytest.mark.parametrize(
    ("older", "refused", "said"),
    [
        (False, ["no directory and no export of member n2 was given"], "member n2"),
        (True, [], "an older build made this report"),
    ],
)
def test_nothing_is_sent_again_where_an_account_is_missing(
    repairs: Any, node: ScriptedNode, older: bool, refused: list[str], said: str
) -> None:
    """What seems lost is named and left alone, with an exit status of its own; the cancel beside it goes."""
    node.say(200, {"result": "cancelled"})
    lost, open_ = "0" * 26, "1" * 26
    out = repairs(
        ("redeliver", "no_trace", lost), ("suppress", "delivered_unsettled", open_), refused=refused, older=older
    )
    for options, requests in ((["--dry-run"], []), ([], [("DELETE", f"/v1/messages/{open_}", None)])):
        result = reconcile("apply", out, "--url", node.url, *options)
        assert result.exit_code == int(ExitCode.INCOMPLETE)
        assert said in result.stderr
        assert f"redeliver {lost} (no_trace): refused" in result.stdout
        assert node.requests == requests


def test_a_report_that_is_damaged_is_no_ground(repairs: Any) -> None:
    """No JSON, or no list of sentences: refused by name."""
    out = repairs(("redeliver", "no_trace", "0" * 26))
    for text in ("{", '{"redeliver_refused": true}', '{"redeliver_refused": [1]}'):
        (out / REPORT).write_text(text)
        result = reconcile("apply", out)
        assert (result.exit_code, REPORT in result.stderr) == (int(ExitCode.DATA), True)
