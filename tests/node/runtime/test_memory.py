"""Big blocks are used again instead of being mapped and cleared anew each time."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import node.runtime.memory
from node.runtime.memory import memory_bytes, resident_bytes

PROGRAM = """
import resource
from node.runtime.memory import settle_memory
if {settled}:
    settle_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(200):
    bytearray(b"x" * (1 << 20))
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(*, settled: bool) -> int:
    """Page faults of 200 times 2 MiB, in a process of its own."""
    program = PROGRAM.format(settled=settled)
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return int(ran.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts faults as Linux does")
def test_blocks_of_a_megabyte_are_mapped_once() -> None:
    """Hardly a page fault after the first."""
    assert faults(settled=True) < faults(settled=False) / 5


FREED = """
from node.runtime.memory import GiveBack, settle_memory
from pathlib import Path
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
settle_memory()
memory = GiveBack()
before = resident()
held = [b"x" * 100_000 for _ in range(1_000)]
last = b"x" * 100_000
del held
if {given_back}:
    memory.look()
print(resident() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads memory as Linux tells it")
@pytest.mark.parametrize("given_back", [True, False])
def test_what_is_free_below_what_is_in_use_goes_back_to_the_kernel(given_back: bool) -> None:
    """glibc returns by itself what lies above the last block in use."""
    program = FREED.format(given_back=given_back)
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert (int(ran.stdout) < 20e6) is given_back


AGAIN = """
from node.runtime.memory import GiveBack, resident_bytes, settle_memory
settle_memory()
memory, trims = GiveBack(), []
trim = memory._trim
memory._trim = lambda pad: trims.append(trim(pad))
before = resident_bytes()
held = [b"x" * 100_000 for _ in range(2_000)]
last = b"x" * 100_000
memory.look()
held.clear()
for _ in range(3):
    memory.look()
for looks in {looks}:
    held += [b"x" * 100_000 for _ in range(2_000)]
    if looks:
        memory.look()
    held.clear()
    memory.look()
print(len(trims), resident_bytes() - before < 20e6)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks glibc")
@pytest.mark.parametrize("looks", [(True, True), (False, False), (True, False), (False, True)])
def test_only_what_became_free_is_given_back(looks: tuple[bool, bool]) -> None:
    """The event loop waits meanwhile: not for what was given back before, and not while all is in use. What was used
    and freed again between two looks stayed with the process for good."""
    ran = subprocess.run([sys.executable, "-c", AGAIN.format(looks=looks)], check=True, capture_output=True, text=True)
    assert ran.stdout == "3 True\n"


def test_it_goes_back_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the process ends."""
    monkeypatch.setattr(node.runtime.memory, "GIVE_BACK_S", 0.001)
    ended, times = threading.Event(), threading.Semaphore(0)
    monkeypatch.setattr(node.runtime.memory.GiveBack, "look", lambda _: times.release())
    thread = node.runtime.memory.give_back_often(ended)
    for _ in range(3):
        assert times.acquire(timeout=10)
    ended.set()
    thread.join(10)
    assert not thread.is_alive()


CYCLES = """
import gc
from node.runtime.memory import GiveBack, settle_memory

class Held:
    alive = 0
    def __init__(self):
        Held.alive += 1
        self.own = self
    def __del__(self):
        Held.alive -= 1

settle_memory()
memory = GiveBack()
most = 0
for _ in range(40):
    for _ in range(5_000):
        Held()
    most = max(most, Held.alive)
    memory.look()
print(most)
"""


def test_what_is_given_back_puts_off_no_look_for_cycles() -> None:
    """A look at nothing counted as one, and what it passed by was looked at no more."""
    ran = subprocess.run([sys.executable, "-c", CYCLES], check=True, capture_output=True, text=True)
    assert int(ran.stdout) < 100_000


@pytest.mark.parametrize(
    ("own", "limits", "least"),
    [
        ("0::/system.slice/hourwheel.service", {"system.slice/hourwheel.service/memory.max": "300000000"}, 300_000_000),
        (
            "0::/a/b",
            {"a/b/memory.max": "max", "a/memory.max": "200000000\n", "memory.max": "900000000"},
            200_000_000,
        ),
        ("4:cpu,memory:/box\n0::/", {"memory/box/memory.limit_in_bytes": "100000000"}, 100_000_000),
        ("0::/", {"memory.max": "400000000"}, 400_000_000),
        ("2:cpu:/box", {"memory/box/memory.limit_in_bytes": "100000000"}, None),
    ],
)
def test_memory_is_what_the_control_groups_leave(
    tmp_path: Path, own: str, limits: dict[str, str], least: int | None
) -> None:
    """The limit of a service that systemd started stands in its own group, not in the outermost one."""
    (tmp_path / "own").write_text(own)
    for name, text in limits.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = memory_bytes(tmp_path / "own", tmp_path / "groups")
    assert found == (least or memory_bytes(tmp_path / "none", tmp_path / "none"))


def test_without_proc_the_most_that_the_process_had_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes, whatever unit the system has."""
    now = resident_bytes()

    def none(path: Path) -> bytes:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_bytes", none)
    assert now * 0.9 < resident_bytes() < now + (1 << 40)
