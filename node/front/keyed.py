"""Asks groups to carry out a request under its `Idempotency-Key`, one time only."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from api.port.forward import RequestKey
from api.port.port import (
    CancelResult,
    MessageIn,
    Principal,
    RescheduleResult,
    ScheduledOne,
    TopicChange,
    TopicView,
)
from api.port.queries import OperationIn, OperationView
from node.front.groups import GroupDirectory, Place
from node.front.scheduled import one
from node.port.codec import decode, encode
from node.port.draft import encode_draft
from node.port.group_port import OnceAsked
from node.port.message_port import CancelAsked, RescheduleAsked, ScheduledRow
from node.port.topic_port import TopicDrop, TopicPut

T = TypeVar("T", bound=msgspec.Struct)


class KeyedFront:
    """Implements api.port.port.KeyedPort for one request."""

    def __init__(self, groups: GroupDirectory, key: RequestKey) -> None:
        self._groups, self._key = groups, key

    async def schedule_one(self, message: MessageIn, principal: Principal) -> ScheduledOne:
        """See KeyedPort."""
        place = self._groups.of_topic(message.topic)
        draft = encode_draft((message,))
        return one(await self._sure(place, "schedule_one", draft, ScheduledRow, principal), place.number)

    async def cancel(self, id: str, *, if_match: int | None, principal: Principal) -> CancelResult:
        """See KeyedPort."""
        place = self._groups.of_message(id)
        return await self._sure(place, "cancel", CancelAsked(id, if_match), CancelResult, principal)

    async def reschedule(
        self, id: str, *, due_ms: int | None, delay_ms: int | None, if_match: int | None, principal: Principal
    ) -> RescheduleResult:
        """See KeyedPort."""
        place, asked = self._groups.of_message(id), RescheduleAsked(id, due_ms, delay_ms, if_match)
        return await self._sure(place, "reschedule", asked, RescheduleResult, principal)

    async def put_topic(
        self, name: str, change: TopicChange, *, create: bool, if_match: int | None, principal: Principal
    ) -> TopicView:
        """See KeyedPort."""
        place, asked = self._groups.of_topic(name), TopicPut(name, change, create, if_match)
        return await self._sure(place, "put_topic", asked, TopicView, principal)

    async def delete_topic(self, name: str, *, if_match: int | None, principal: Principal) -> None:
        """See KeyedPort."""
        place = self._groups.of_topic(name)
        await self._once(place, "delete_topic", TopicDrop(name, if_match), msgspec.Struct, principal)

    async def begin_operation(self, wish: OperationIn, *, principal: Principal) -> OperationView:
        """See KeyedPort."""
        return await self._sure(self._groups.home, "begin_operation", wish, OperationView, principal)

    async def _sure(self, place: Place, name: str, asked: msgspec.Struct, kind: type[T], principal: Principal) -> T:
        answer = await self._once(place, name, asked, kind, principal)
        assert answer is not None, f"{name} has an answer"
        return answer

    async def _once(
        self, place: Place, name: str, asked: msgspec.Struct, kind: type[T], principal: Principal
    ) -> T | None:
        """Carry out the call `name`. Return its answer of the type `kind`, or None."""
        key = self._key
        done = await place.leading.once(
            OnceAsked(name, encode(asked), key.key.encode(), key.fingerprint, principal.name)
        )
        key.replayed = done.replayed
        return None if done.frame is None else decode(kind, done.frame)
