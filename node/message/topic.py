"""Converts a topic's settings between the API and the catalog, which keeps only the fields that were set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from api.port.message import Target
from api.port.port import RETRY_DEFAULTS, TOPIC_DEFAULTS, RetryPolicy, TopicChange, TopicView
from api.port.problem import FieldFault, Problem
from storage.format.states import STANDINGS
from storage.tables.topic import Topic


class TopicCounts(NamedTuple):
    """The messages of a topic by state. `held`: so many of them paused operations hold."""

    by_state: Mapping[str, int]
    held: int


NO_MESSAGES: Final = TopicCounts(dict.fromkeys(STANDINGS, 0), 0)
_PLAIN: Final = ("mode", "lease_ms", "handover", "paused")
_REMOVABLE: Final = ("target", "retry", "dead_letter")
_DEFAULTS: Final[dict[str, Any]] = {name: getattr(TOPIC_DEFAULTS, name) for name in _PLAIN + _REMOVABLE}


def settings_of(change: TopicChange) -> dict[str, Any]:
    """The settings that a request changes, by name. The value None means that the setting is to be removed. A map (such
    as `retry`) has only the fields that were sent."""
    settings = {name: value for name in _PLAIN if (value := getattr(change, name)) is not None}
    for name in _REMOVABLE:
        value = getattr(change, name)
        if not isinstance(value, msgspec.UnsetType):
            settings[name] = value
    return settings


def check_target(settings: dict[str, Any], topic: Topic | None) -> None:
    """Raise `invalid-field` if these changed settings would leave the topic with a target that has no url."""
    change = settings.get("target")
    if change is None:
        return
    before = (topic.settings.get("target") or {}) if topic is not None else {}
    if not {**before, **change}.get("url"):
        detail = "a target needs a url; send target.url too, or target = null to have none"
        raise Problem("invalid-field", detail, errors=[FieldFault("/target/url", detail)])


def view_topic(topic: Topic, counts: TopicCounts | None = None) -> TopicView:
    """The topic as GET shows it, with the default for each setting that was never set."""
    settings = {**_DEFAULTS, **topic.settings}
    target, retry = settings["target"], settings["retry"] or {}
    return TopicView(
        name=topic.name,
        mode=settings["mode"],
        lease_ms=settings["lease_ms"],
        handover=settings["handover"],
        paused=settings["paused"],
        # A target that two changes at once left without its url is none.
        target=Target(**target) if target and target.get("url") else None,
        retry=RetryPolicy(**{**msgspec.structs.asdict(RETRY_DEFAULTS), **retry}),
        dead_letter=settings["dead_letter"],
        revision=topic.revision,
        created_ms=topic.created_ms,
        counts=None if counts is None else counts.by_state,
        held=0 if counts is None else counts.held,
    )
