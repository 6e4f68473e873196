"""Makes a pass when somebody outside of ATF asks for one (Poll). Implements atf.rpc.api.StoreConsumer."""

from __future__ import annotations

from atf.errors import InvalidArgument
from atf.rpc import store_consumer_pb2 as s

from .consumer import Consumer, made_progress


class PollService:
    """The passes of a store consumer that makes none by itself."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    async def poll(self, request: s.PollRequest, *, timeout: float = 10) -> s.PollReply:
        """One bounded pass over the partitions that are named, or all."""
        if len(request.partitions) > self._consumer.partitions:
            raise InvalidArgument(
                f"{len(request.partitions)} partitions: the store has {self._consumer.partitions}, name each once"
            )
        partitions = sorted(set(request.partitions)) or range(self._consumer.partitions)
        for each in partitions:
            if not 0 <= each < self._consumer.partitions:
                raise InvalidArgument(f"partitions: {each}; the store has 0 to {self._consumer.partitions - 1}")
        passes, last = await self._consumer.poll(partitions)
        waits = [each.next_in_us for each in last if each.next_in_us is not None]
        return s.PollReply(
            enqueued=sum(each.enqueued for each in passes),
            enqueued_again=sum(each.enqueued_again for each in passes),
            lost=sum(each.lost for each in passes),
            ticks=sum(len(each.jobs) for each in passes),
            more=any(each.next_in_us == 0 and made_progress(each) for each in last),
            next_in_us=min(waits, default=None),
        )
