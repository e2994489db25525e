"""Spans and times as people type them: what is read, what is refused, and that a value may begin with a minus."""

import re

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cli.time_option import BadTime, Duration, Span, Time, parse_duration, parse_time

NOW_MS = 1_800_000_000_000
YEAR_10000_MS = 253_402_300_800_000
UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
COUNTS = st.dictionaries(st.sampled_from(list(UNITS)), st.integers(0, 10**9), min_size=1)


def written(counts: dict[str, int]) -> str:
    """The units given, the largest first."""
    return "".join(f"{counts[unit]}{unit}" for unit in UNITS if unit in counts)


@given(COUNTS)
def test_any_units_in_falling_order_are_their_sum(counts: dict[str, int]) -> None:
    """`1d0h5ms` too."""
    assert parse_duration(written(counts)) == sum(count * UNITS[unit] for unit, count in counts.items())


@given(COUNTS, st.sampled_from("+-"))
def test_relative_times_count_from_now(counts: dict[str, int], sign: str) -> None:
    """`+10m` is as far after now as `-10m` is before it. What lies outside of the years 1970 to 9999 is refused."""
    away_ms = parse_duration(written(counts))
    time_ms = NOW_MS + (away_ms if sign == "+" else -away_ms)
    if 0 <= time_ms <= YEAR_10000_MS - 1:
        assert parse_time(sign + written(counts), NOW_MS) == time_ms
    else:
        with pytest.raises(BadTime, match="outside of the years 1970 to 9999"):
            parse_time(sign + written(counts), NOW_MS)


@given(st.text(st.sampled_from("0123456789dhms.,+- \n٣"), max_size=8))
def test_a_duration_is_this_and_nothing_else(text: str) -> None:
    """Held against a dumb reader: split into pairs, each unit once, in falling order."""
    pairs = re.findall(r"([0-9]+)([a-z]+)", text, re.ASCII)
    units = [unit for _, unit in pairs]
    good = bool(text) and "".join(map("".join, pairs)) == text and units == [unit for unit in UNITS if unit in units]
    if good:
        assert parse_duration(text) == sum(int(count) * UNITS[unit] for count, unit in pairs)
    else:
        with pytest.raises(BadTime, match="is no duration; write"):
            parse_duration(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("now", NOW_MS),
        ("1800000000000", 1_800_000_000_000),
        ("2026-11-21T02:10:20.125Z", "2026-11-21T02:10:20.125Z"),
        ("2026-11-21t02:10:20+02:00", "2026-11-21t02:10:20+02:00"),
    ],
)
def test_times(text: str, read: int | str) -> None:
    """An absolute time goes to the node as it was typed."""
    assert parse_time(text, NOW_MS) == read


@pytest.mark.parametrize("text", ["", "-", "+", "1h", "--1h", "-1", "now-1h", "2026-11-21", "2026-11-21T02:10:20", "٣"])
def test_what_is_no_time(text: str) -> None:
    """A span needs its sign, a date its offset: neither is guessed."""
    with pytest.raises(BadTime, match="is no time; write now, -1h"):
        parse_time(text, NOW_MS)


@click.command()
@click.option("--span", type=Duration())
@click.option("--wait", type=Span(least_s=0.5, most_s=30), default="1s")
@click.option("--from", "since", type=Time())
def shown(span: int | None, wait: float, since: int | str | None) -> None:
    """Prints what it got."""
    click.echo(f"{span} {wait} {since}")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "None 1.0 None"),
        (("--span", "250"), "250 1.0 None"),
        (("--span", "1h30m"), "5400000 1.0 None"),
        (("--wait", "0.5"), "None 0.5 None"),
        (("--wait", "1500ms"), "None 1.5 None"),
        (("--from", "2026-11-21T00:00:00Z"), "None 1.0 2026-11-21T00:00:00Z"),
    ],
)
def test_options(args: tuple[str, ...], said: str) -> None:
    """Digits alone are in the option's own unit."""
    assert CliRunner().invoke(shown, args).stdout == f"{said}\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--span", "1,5h"), "Invalid value for '--span': \"1,5h\" is no duration"),
        (("--span", "-5s"), "'--span'"),
        (("--wait", "soon"), "'--wait': \"soon\" is no duration"),
        (("--wait", "1m"), "'--wait': at most 30s is allowed, got 1m"),
        (("--wait", "0"), "'--wait': at least 0.5s is needed, got 0"),
        (("--wait", "nan"), "'--wait'"),
        (("--from", "yesterday"), "'--from': \"yesterday\" is no time; write now, -1h, +10m"),
    ],
)
def test_bad_input_names_the_option_and_what_is_allowed(args: tuple[str, ...], said: str) -> None:
    """With the exit code of wrong use."""
    result = CliRunner().invoke(shown, args)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


def test_a_value_may_begin_with_a_minus() -> None:
    """`--from -1h` and `--from=-1h`."""
    for args in (("--from", "-1h"), ("--from=-1h",)):
        result = CliRunner().invoke(shown, args)
        assert result.exit_code == 0, result.stderr
        assert int(result.stdout.split()[2]) > 0


def test_no_command_waits_for_more_than_a_year() -> None:
    """A socket takes no timeout of centuries: `--timeout 99999999999d` ended in a traceback."""
    assert Span().convert("365d", None, None) == 365 * 86_400
    with pytest.raises(click.BadParameter, match="at most"):
        Span().convert("366d", None, None)
