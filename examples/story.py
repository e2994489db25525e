"""The options of the programs, and the lines that they print."""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from hourwheel.core.errors import HourwheelError


def say(text: str) -> None:
    """Print this with the time of now, in UTC as in Hourwheel's answers."""
    print(f"{datetime.now(UTC):%H:%M:%S.%f}"[:-3] + f"Z  {text}", flush=True)


def command_line(name: str, steps: tuple[str, ...]) -> argparse.ArgumentParser:
    """Return the parser of a program's options. If the command line names no step, the first of `steps` is taken."""
    parser = argparse.ArgumentParser(prog=f"python -m examples.{name}")
    parser.add_argument("step", nargs="?", choices=steps, default=steps[0])
    parser.add_argument("id", nargs="?", default="7", help=f"of the {name.partition('_')[2]} [default: 7]")
    parser.add_argument(
        "--after", help="when its time is up, such as 30m (one unit: d, h, m, s) [default: 5s in the story]"
    )
    parser.add_argument("--database", default=f"{name}.sqlite", help="[default: %(default)s]")
    parser.add_argument("--url", default=os.environ.get("HOURWHEEL_URL", "http://127.0.0.1:7400"))
    return parser


@contextlib.contextmanager
def told_to_the_end() -> Iterator[None]:
    """End the program with one line at Ctrl-C or SIGTERM, or when a request or a look-up in the database fails."""
    signals = (signal.SIGINT, signal.SIGTERM)
    # A shell that starts a program in the background lets it ignore Ctrl-C.
    before = [signal.signal(each, signal.default_int_handler) for each in signals]
    try:
        yield
    except (HourwheelError, LookupError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        say("stopped")
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)
