"""docs/operating.md: its table names every metric of a node, each with its kind."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from node.node import Node
from tests.node.single_node import run_node

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"
_ROW = re.compile(r"^\| `(hourwheel_\w+)` \| (counter|gauge|histogram|summary) \| \S", re.MULTILINE)


def test_the_table_is_what_a_node_shows(tmp_path: Path) -> None:
    """None is left out, none is made up."""
    rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(dict(rows)) == len(rows) > 20

    async def play(node: Node) -> None:
        node.group.topic_metrics.of("orders").acked += 1
        families = text_string_to_metric_families((await node.front.metrics()).decode())
        shown = {family.name + "_total" * (family.type == "counter"): family.type for family in families}
        assert shown == dict(rows)

    run_node(tmp_path, play)
