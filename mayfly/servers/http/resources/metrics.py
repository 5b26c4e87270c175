"""``/metrics``: the metrics of all queue managers in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.responses import Response

from mayfly.admin import CHANNEL, inquire
from mayfly.admin.security.roles import Role
from mayfly.channel import ChannelState, channels_of, client_connections
from mayfly.engine import manager_folder
from mayfly.engine.api.operating import (
    BOUNDS_MS,
    Figures,
    LatenessCounts,
    QueueFigures,
    figures,
)
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi.errors import ConnectionBroken, ObjectError
from mayfly.queue_manager import QueueManager
from mayfly.runtime import SystemClock
from mayfly.servers.http.resources.operations import Call, NoQuery, Operation
from mayfly.servers.status import ServerStatus
from mayfly.store.followers import followers_of

#: Number of queues that are shown one by one; the figures of all others are added up.
MAX_QUEUES: Final = 200
#: Channels with their partners that have a value, at each queue manager.
MAX_CHANNELS: Final = 200
#: The label of the others. No queue has this name.
OTHERS: Final = "(others)"
#: The label of clients without a channel, as programs of the same machine.
_NO_CHANNEL: Final = "(none)"


def metrics(call: Call[NoQuery, None]) -> Response:
    """Return all metrics in the text format of Prometheus."""
    text = metrics_text(call.service.managers, call.service.server_status)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def metrics_text(managers: Mapping[str, QueueManager], server_status: ServerStatus) -> bytes:
    """Return all metrics as text in UTF-8.

    A queue manager that has stopped has only ``mayfly_queue_manager_up``, which is 0; one in
    standby has it as well, and it is 1.
    """
    # The library's default registry would add metrics of the Python process.
    registry = CollectorRegistry()
    registry.register(_ManagersCollector(managers, server_status))
    written: bytes = generate_latest(registry)
    return written


class _ManagersCollector(Collector):
    """A Prometheus collector that computes the metrics of all queue managers at each scrape."""

    def __init__(self, managers: Mapping[str, QueueManager], server_status: ServerStatus) -> None:
        """Prepare to compute metrics of ``managers``, by name, with their states."""
        self._server_status = server_status
        self._managers = managers

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering this collector computes no statistics."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of this moment; queue managers that have stopped have only ``up``."""
        states = self._server_status.states()
        up = GaugeMetricFamily(
            "mayfly_queue_manager_up",
            "1 while the queue manager lives; its state as probes are told it.",
            labels=["queue_manager", "state"],
        )
        for name, state in states.items():
            up.add_metric([name, state.value], float(state.is_live))
        taken: dict[str, Figures] = {}
        for name, manager in self._managers.items():
            try:
                taken[name] = figures(manager.engine, MAX_QUEUES)
            except ConnectionBroken:
                # It has stopped since; the gauge shows that.
                continue
        yield up
        yield from _queue_metrics(taken)
        yield from _delay_metrics(taken)
        yield from _store_metrics(taken)
        yield from _claim_metrics({name: self._managers[name] for name in taken})
        yield _channel_metrics({name: self._managers[name] for name in taken})
        yield _client_metrics({name: self._managers[name] for name in taken})
        yield from _backup_metrics({name: self._managers[name] for name in taken})
        yield from _replica_metrics({name: self._managers[name] for name in taken})


def _queue_metrics(taken: Mapping[str, Figures]) -> Iterator[Metric]:
    """Yield the metrics of queues: depths, ages, open handles, puts, outcomes."""
    labels = ["queue_manager", "queue"]
    depth = GaugeMetricFamily(
        "mayfly_queue_depth", "CURDEPTH, messages of open units of work included.", labels=labels
    )
    present = GaugeMetricFamily(
        "mayfly_queue_messages",
        "Messages by where they stand; staged ones wait for their delivery time elsewhere.",
        labels=[*labels, "state"],
    )
    age = GaugeMetricFamily(
        "mayfly_queue_oldest_message_age_seconds",
        "Age of the oldest message, 0 without one.",
        labels=labels,
    )
    inputs = GaugeMetricFamily(
        "mayfly_queue_open_inputs", "IPPROCS, handles that are open for input.", labels=labels
    )
    outputs = GaugeMetricFamily(
        "mayfly_queue_open_outputs", "OPPROCS, handles that are open for output.", labels=labels
    )
    puts = CounterMetricFamily(
        "mayfly_messages_put", "Messages that became part of the queue.", labels=labels
    )
    ended = CounterMetricFamily(
        "mayfly_lives_ended",
        "Lives that ended on the queue, by outcome.",
        labels=[*labels, "outcome"],
    )
    released = SummaryMetricFamily(
        "mayfly_queue_release_lateness_seconds",
        "How long after their delivery times messages were released for the queue.",
        labels=labels,
    )
    discarded = SummaryMetricFamily(
        "mayfly_queue_expiry_lateness_seconds",
        "How long after their deadlines expired messages were discarded on the queue.",
        labels=labels,
    )
    for place, one, age_ms in _each_queue(taken):
        depth.add_metric(place, one.depth)
        inputs.add_metric(place, one.input_count)
        outputs.add_metric(place, one.output_count)
        puts.add_metric(place, one.puts)
        for outcome, count in one.ended.items():
            ended.add_metric([*place, outcome], count)
        for family, late in ((released, one.release_lateness), (discarded, one.expiry_lateness)):
            family.add_metric(place, late.message_count, late.sum_ms / SECOND_MS)
        if one.present is not None:
            age.add_metric(place, (age_ms or 0) / SECOND_MS)
            for state, count in one.present._asdict().items():
                present.add_metric([*place, state], count)
    yield from (depth, present, age, inputs, outputs, puts, ended, released, discarded)


def _each_queue(
    taken: Mapping[str, Figures],
) -> Iterator[tuple[list[str], QueueFigures, int | None]]:
    """Yield labels, statistics, and age of the oldest message (ms) of each queue.

    ``taken`` are the statistics by queue manager. The age is None if it is unknown or the queue is
    empty. Last for each queue manager come the sums of all queues beyond the limit, labelled
    ``(others)``, whose age is None.
    """
    for manager, found in taken.items():
        for name, one in found.queues.items():
            yield [manager, name], one, found.oldest_age_ms(one)
        yield [manager, OTHERS], found.others, None


def _delay_metrics(taken: Mapping[str, Figures]) -> Iterator[Metric]:
    """Yield the metrics of delayed messages and of expiry."""
    labels = ["queue_manager"]
    due = GaugeMetricFamily(
        "mayfly_next_delivery_seconds",
        "Time until the next delayed message is due, negative while it is late.",
        labels=labels,
    )
    releasing = GaugeMetricFamily(
        "mayfly_delay_processor_up",
        "1 unless something keeps delayed messages from being released.",
        labels=labels,
    )
    released = HistogramMetricFamily(
        "mayfly_release_lateness_seconds",
        "How long after their delivery times delayed messages were released.",
        labels=labels,
    )
    expired = HistogramMetricFamily(
        "mayfly_expiry_lateness_seconds",
        "How long after their deadlines expired messages were met and discarded.",
        labels=labels,
    )
    for manager, found in taken.items():
        if found.next_due_ms is not None:
            due.add_metric([manager], (found.next_due_ms - found.now_ms) / SECOND_MS)
        releasing.add_metric([manager], float(found.is_releasing))
        _add_lateness(released, manager, found.release_lateness)
        _add_lateness(expired, manager, found.expiry_lateness)
    yield from (due, releasing, released, expired)


def _add_lateness(family: HistogramMetricFamily, manager: str, found: LatenessCounts) -> None:
    """Add a histogram of lateness for one queue manager to a metric, in seconds."""
    buckets, total = [], 0
    for bound, count in zip((*BOUNDS_MS, None), found.counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound is None else str(bound / SECOND_MS), total))
    family.add_metric([manager], buckets, found.sum_ms / SECOND_MS)


#: Kind, name, description, and the field of Figures.
_STORE_GAUGES: Final = (
    (GaugeMetricFamily, "ledger_first_position", "Oldest row of the ledger.", "ledger_first"),
    (GaugeMetricFamily, "ledger_last_position", "Newest row of the ledger.", "ledger_last"),
    (
        GaugeMetricFamily,
        "ledger_reader_position",
        "Row behind which a reader, such as the pipeline of a lake, has asked for more.",
        "ledger_asked",
    ),
    (CounterMetricFamily, "transactions", "Transactions of the disk.", "transaction_count"),
    (
        CounterMetricFamily,
        "committed_units",
        "Puts, gets and units of work that these transactions have made durable.",
        "unit_count",
    ),
    (GaugeMetricFamily, "log_pages", "Pages in the write-ahead log.", "log_pages"),
    (GaugeMetricFamily, "disk_full", "1 while puts are refused for it.", "is_disk_full"),
)


def _store_metrics(taken: Mapping[str, Figures]) -> Iterator[Metric]:
    """Yield the metrics of ledger and disk; a value that is None is left out."""
    for kind, name, text, field in _STORE_GAUGES:
        family = kind(f"mayfly_{name}", text, labels=["queue_manager"])
        for manager, found in taken.items():
            value = getattr(found, field)
            if value is not None:
                family.add_metric([manager], float(value))
        yield family


def _claim_metrics(managers: Mapping[str, QueueManager]) -> Iterator[Metric]:
    """Yield metrics of messages that consumers of pipelines (Spark) have reserved: number, age.

    An age is that of the oldest open reservation in seconds.
    """
    labels = ["queue_manager", "queue", "consumer"]
    messages = GaugeMetricFamily(
        "mayfly_claimed_messages",
        "Messages that a consumer has claimed and not ended; they are locked on their queue.",
        labels=labels,
    )
    age = GaugeMetricFamily(
        "mayfly_oldest_claim_age_seconds",
        "How long the oldest open claim of a consumer has been open, 0 without one.",
        labels=labels,
    )
    for name, manager in managers.items():
        now_ms = manager.now_ms()
        for one in manager.claims.figures():
            place = [name, one.queue, one.consumer]
            messages.add_metric(place, one.message_count)
            since_ms = now_ms if one.oldest_claimed_ms is None else one.oldest_claimed_ms
            age.add_metric(place, max(0, now_ms - since_ms) / SECOND_MS)
    yield from (messages, age)


#: Somebody has to do something about a channel, or about its partner.
_DOWN: Final = frozenset((ChannelState.RETRYING, ChannelState.STOPPED))


def _channel_metrics(managers: Mapping[str, QueueManager]) -> Metric:
    """Return the metric of channels, at most 200 for each queue manager, those down first."""
    family = GaugeMetricFamily(
        "mayfly_channel_up",
        "0 while a channel retries or has stopped, else 1; its status as in DISPLAY CHSTATUS.",
        labels=["queue_manager", "channel", "partner", "status"],
    )
    for name, manager in managers.items():
        found = _channel_statuses(manager)
        # Channels that are down come first, as the list may be cut.
        found.sort(key=lambda one: (one[2] not in _DOWN, one))
        for channel, partner, status in found[:MAX_CHANNELS]:
            family.add_metric([name, channel, partner, status], float(status not in _DOWN))
    return family


def _channel_statuses(manager: QueueManager) -> list[tuple[str, str, ChannelState]]:
    """Return name, partner and status of each channel with each of its partners.

    A stopped channel without partners has one entry with an empty partner; others without partners
    have none.
    """
    engine = manager.engine
    channels = channels_of(engine)
    found: list[tuple[str, str, ChannelState]] = []
    for record in inquire(engine, (CHANNEL,), "*"):
        try:
            partners = channels.status(record.name)
        except ObjectError:
            # It was deleted since.
            continue
        found += [(one.name, one.partner, one.status) for one in partners]
        if not partners and channels.is_stopped(record.name):
            # A channel of clients, or a receiver without a sender so far.
            found.append((record.name, "", ChannelState.STOPPED))
    return found


def _client_metrics(managers: Mapping[str, QueueManager]) -> Metric:
    """Return the metric of client connections, counted by channel."""
    family = GaugeMetricFamily(
        "mayfly_client_connections",
        "Connections of clients, by the channel that they have come by.",
        labels=["queue_manager", "channel"],
    )
    for name, manager in managers.items():
        clients = client_connections(manager.engine)
        counted = Counter(client.channel or _NO_CHANNEL for client in clients)
        for channel, count in sorted(counted.items()):
            family.add_metric([name, channel], count)
    return family


def _backup_metrics(managers: Mapping[str, QueueManager]) -> Iterator[Metric]:
    """Yield the metrics of backups that follow: whether they run, and what a loss would cost."""
    labels = ["queue_manager", "target"]
    running = GaugeMetricFamily(
        "mayfly_backup_running",
        "1 while mayfly backup --follow copies to the target, else 0.",
        labels=labels,
    )
    loss = GaugeMetricFamily(
        "mayfly_backup_loss_seconds",
        "What was committed in the last so many seconds would be lost with the disk.",
        labels=labels,
    )
    now_ms = SystemClock().now_ms()
    for name, manager in managers.items():
        folder = manager_folder(manager.engine)
        for each in [] if folder is None else followers_of(folder):
            running.add_metric([name, each.target], float(each.is_running))
            if each.safe_at_ms:
                loss.add_metric([name, each.target], max(now_ms - each.safe_at_ms, 0) / SECOND_MS)
    yield from (running, loss)


def _replica_metrics(managers: Mapping[str, QueueManager]) -> Iterator[Metric]:
    """Yield the metrics of owners of a replica: epoch, lease, and how far standbys are behind."""
    labels = ["queue_manager"]
    epoch = GaugeMetricFamily(
        "mayfly_replica_epoch",
        "The epoch of this owner; each change of owners adds 1.",
        labels=labels,
    )
    age = GaugeMetricFamily(
        "mayfly_replica_lease_age_seconds",
        "How long ago the owner renewed its lease.",
        labels=labels,
    )
    term = GaugeMetricFamily(
        "mayfly_replica_lease_seconds",
        "How long nobody takes over after the owner has renewed its lease.",
        labels=labels,
    )
    standbys = GaugeMetricFamily(
        "mayfly_replica_standbys",
        "Standbys that follow, and could take over.",
        labels=labels,
    )
    rows = GaugeMetricFamily(
        "mayfly_replica_standby_lag_rows",
        "Rows of the log that a standby has not applied.",
        labels=[*labels, "standby"],
    )
    lag = GaugeMetricFamily(
        "mayfly_replica_standby_lag_seconds",
        "What was committed in the last so many seconds a standby may lack.",
        labels=[*labels, "standby"],
    )
    for name, manager in managers.items():
        replica = manager.engine.replica
        if replica is not None:
            found = replica.standbys()
            epoch.add_metric([name], replica.position.epoch)
            age.add_metric([name], replica.lease.age_ms / SECOND_MS)
            term.add_metric([name], replica.lease.lease_ms / SECOND_MS)
            standbys.add_metric([name], len(found))
            for each in found:
                rows.add_metric([name, each.name], each.lag_rows)
                lag.add_metric([name, each.name], each.lag_ms / SECOND_MS)
    yield from (epoch, age, term, standbys, rows, lag)


OPERATIONS: Final = (
    Operation(
        "GET",
        "/metrics",
        metrics,
        Role.LOOK,
        media_type=CONTENT_TYPE_LATEST,
        answers_standby=True,
    ),
)
