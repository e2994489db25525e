"""What an hour of failures says of the memory of each node."""

from chaos.hostile.soak import grown

MINUTES, SETTLED = 60, 10
FOLLOWS = [90.0] * MINUTES
LEADS = [120.0] * MINUTES


def test_a_node_that_grows_is_named() -> None:
    """By more than what fragments and caches add."""
    grows = [90.0 + minute for minute in range(MINUTES)]
    led = dict.fromkeys(range(MINUTES), "n1")
    assert grown({"n1": LEADS, "n2": FOLLOWS}, led, SETTLED) == {}
    assert grown({"n1": LEADS, "n2": grows}, led, SETTLED) == {"n2": "grew from 102 to 147 MB"}
    assert grown({"n1": grows, "n2": FOLLOWS}, led, SETTLED) == {"n1": "grew from 102 to 147 MB"}


def test_who_came_to_lead_is_compared_with_itself_since_then() -> None:
    """A leader holds more: one that was elected in minute 30 had grown by as much."""
    elected = FOLLOWS[:30] + LEADS[30:]
    led = dict.fromkeys(range(30), "n1") | dict.fromkeys(range(30, MINUTES), "n2")
    assert grown({"n1": LEADS, "n2": elected, "n3": FOLLOWS}, led, SETTLED) == {}
    assert grown({"n1": LEADS, "n2": FOLLOWS, "n3": elected}, led, SETTLED) == {"n3": "grew from 90 to 120 MB"}
    grows = elected[:45] + [140.0] * 15
    assert grown({"n1": LEADS, "n2": grows, "n3": FOLLOWS}, led, SETTLED) == {"n2": "grew from 120 to 140 MB"}
    assert grown({"n1": grows}, {minute: who for minute, who in led.items() if minute != 10}, SETTLED) != {}


def test_who_leads_or_follows_for_a_few_minutes_is_not_known() -> None:
    """A follower that led for one minute of the last five was compared with the leader, though it had doubled."""
    doubles = FOLLOWS[:30] + [180.0] * 30
    led = dict.fromkeys(range(MINUTES), "n1")
    for_a_minute = led | {56: "n2"}
    assert grown({"n2": doubles}, for_a_minute, SETTLED) == {"n2": "not known: it follows since minute 57"}
    assert grown({"n1": LEADS}, led | {56: "n2"}, SETTLED) == {"n1": "not known: it leads since minute 57"}
    once_led = [300.0] * 20 + [150.0] * 10 + [290.0] * 30
    led_first = led | dict.fromkeys(range(20), "n3")
    assert grown({"n3": once_led}, led_first, SETTLED) == {"n3": "grew from 150 to 290 MB"}


def test_what_was_not_weighed_is_not_known() -> None:
    """A median of nothing is no proof. A minute in which nobody noted who leads is as the one before."""
    away = FOLLOWS[:56] + [float("nan")] * 4
    led = {minute: "n1" for minute in range(MINUTES) if minute not in (30, 55)}
    assert grown({"n2": away}, led, SETTLED) == {"n2": "not known: it was not weighed"}
    assert grown({"n1": LEADS, "n2": FOLLOWS[:58] + [float("nan")] * 2}, led, SETTLED) == {}
