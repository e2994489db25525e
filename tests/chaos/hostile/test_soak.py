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


def test_who_came_to_lead_is_compared_with_who_led_before() -> None:
    """A leader holds more: one that was elected in minute 47 had grown by as much."""
    elected = FOLLOWS[:47] + LEADS[47:]
    led = dict.fromkeys(range(47), "n1") | dict.fromkeys(range(47, MINUTES), "n2")
    assert grown({"n1": LEADS, "n2": elected, "n3": FOLLOWS}, led, SETTLED) == {}
    assert grown({"n1": LEADS, "n2": FOLLOWS, "n3": elected}, led, SETTLED) == {"n3": "grew from 90 to 120 MB"}
    grows = elected[:47] + [140.0] * 13
    assert grown({"n1": LEADS, "n2": grows, "n3": FOLLOWS}, led, SETTLED) == {"n2": "grew from 120 to 140 MB"}
