"""Judges if the bystanders noticed an attack."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from chaos.hostile.bystanders import PULLED, PUSHED, Bystanders, Look

#: A check of /livez takes at most this long.
LIVEZ_MS: Final = 100.0
#: Lateness may grow by this factor. Below LATENESS_MS it always passes.
LATENESS_TIMES: Final = 2.0
LATENESS_MS: Final = 20.0
#: The most that a node grows, and the most that stays after COMES_BACK_S. Python returns an arena of 1 MB when it is
#: empty, but objects that live on stand between those of many requests. So 8,000 consumers leave 100 MB, which later
#: requests use again.
GROWN_BYTES: Final = 150e6
STAYS_BYTES: Final = 120e6
COMES_BACK_S: Final = 60.0


@dataclass(frozen=True)
class Window:
    """A span of monotonic time: begin_s <= t < end_s."""

    begin_s: float
    end_s: float

    def of(self, looks: Iterable[Look], node: str | None = None) -> list[float]:
        """Return the values measured within the window: those of `node`, or all."""
        return [look.value for look in looks if self.begin_s <= look.at_s < self.end_s and node in (None, look.node)]


@dataclass
class Verdict:
    """The measured figures, and which of them break a bound. `wrong` are violations on a machine of any speed. `slow`
    are times above their bounds, which a busy machine may cause too."""

    figures: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)


def p99(values: Sequence[float]) -> float:
    """The 99th percentile. 0 for no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] if ordered else 0.0


def judge(
    seen: Bystanders, before: Window, during: Window, after: Window, terms: tuple[int, int], stored_bytes: float = 0.0
) -> Verdict:
    """Compare the observations of the three windows with the bounds. `terms`: the leader's term before and after the
    attack. `stored_bytes`: the memory that each node may keep for messages that the attack stored."""
    verdict = Verdict()
    figures, wrong, slow = verdict.figures, verdict.wrong, verdict.slow
    if terms[0] != terms[1]:
        slow.append(f"leadership moved: term {terms[0]} -> {terms[1]}")
    figures["livez_max_ms"] = max(during.of(seen.livez), default=0.0)
    if figures["livez_max_ms"] > LIVEZ_MS:
        slow.append(f"/livez took {figures['livez_max_ms']:.0f} ms")
    for name, topic in (("pull", PULLED), ("push", PUSHED)):
        calm, beside = p99(before.of(seen.lateness[topic])), p99(during.of(seen.lateness[topic]))
        figures[f"{name}_p99_before_ms"], figures[f"{name}_p99_ms"] = calm, beside
        if beside > max(LATENESS_MS, LATENESS_TIMES * calm):
            slow.append(f"lateness of {name} p99 {calm:.1f} -> {beside:.1f} ms")
    figures["ack_p99_before_ms"], figures["ack_p99_ms"] = p99(before.of(seen.acks)), p99(during.of(seen.acks))
    for node in sorted({look.node for look in seen.memory}):
        calm = max(before.of(seen.memory, node), default=0.0)
        grown = max(during.of(seen.memory, node), default=calm) - calm
        stays = min(after.of(seen.memory, node), default=calm) - calm
        figures[f"{node}_grown_mb"], figures[f"{node}_stays_mb"] = grown / 1e6, stays / 1e6
        if grown > GROWN_BYTES:
            wrong.append(f"{node} grew by {grown / 1e6:.0f} MB")
        if stays > STAYS_BYTES + stored_bytes and after.end_s - after.begin_s >= COMES_BACK_S:
            wrong.append(f"{node} stays grown by {stays / 1e6:.0f} MB")
    wrong += sorted(set(seen.failures))
    lost = seen.tally.missing()
    if lost:
        told = "".join(f"; {id_text}: {document}" for id_text, document in seen.missing.items())
        wrong.append(f"{len(lost)} of {len(seen.tally.written)} messages did not arrive{told}")
    again = sum(count > 1 for count in seen.tally.deliveries.values())
    if again:
        wrong.append(f"{again} messages arrived twice")
    return verdict
