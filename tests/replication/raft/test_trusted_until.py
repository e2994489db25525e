"""Until when a leader is trusted, told to who acts for it."""

from pathlib import Path

from tests.replication.sim_network import SimNetwork


def test_who_acts_for_the_leader_hears_of_each_end_of_its_trust(tmp_path: Path) -> None:
    """With every echo, of a later one; in the step in which an echo turns out to be void, of an earlier one."""
    network = SimNetwork(tmp_path)
    node = network.elect()
    network.run(1)
    told: list[float] = []
    node.group.on_renewed = lambda: told.append(node.group.trusted_until)
    network.run(0.2)
    assert told[-1] > network.now
    assert told == sorted(told)
    for each in network.others(node):
        node.group.peer_connected(each.id, b"another disk")
    assert told[-1] == node.group.trusted_until < network.now
    assert not node.group.trusted(network.now)


def test_who_is_alone_is_trusted_for_ever(tmp_path: Path) -> None:
    """Nobody else can be elected; no echo comes."""
    network = SimNetwork(tmp_path, "A")
    node = network.elect()
    network.run(1)
    assert node.group.trusted_until == float("inf")
