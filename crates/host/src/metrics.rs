//! A [`Snapshot`] in the text format of Prometheus.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use quorate_node::{BucketStatus, TOOK_BOUNDS_US, Tally};

use crate::process::Usage;
use crate::stats::{Histogram, Kind, Snapshot};

/// Renders the metrics of one node.
pub(crate) fn render(snapshot: &Snapshot, usage: Usage) -> String {
    let mut registry = Registry::with_prefix("quorate");
    registry.register_collector(Box::new(Picture { snapshot: snapshot.clone(), usage }));
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => text,
        Err(fmt::Error) => panic!("writing to a string does not fail"),
    }
}

#[derive(Debug)]
struct Picture {
    snapshot: Snapshot,
    usage: Usage,
}

impl Collector for Picture {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.counters(&mut encoder)?;
        self.gauges(&mut encoder)?;
        self.labelled(&mut encoder)?;
        self.deeds(&mut encoder)?;
        self.histograms(&mut encoder)
    }
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(value).encode(metric)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

impl Picture {
    fn counters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let host = &self.snapshot.host;
        let (clients, peers) = (&host.clients, &host.peers);
        let all = [
            ("client_connections_accepted", "Connections accepted", clients.accepted),
            ("client_connections_turned_away", "Connections above the limit", clients.turned_away),
            (
                "client_slow_closed",
                "Connections closed because their client does not read",
                clients.slow_closed,
            ),
            ("client_idle_closed", "Connections closed for silence", clients.idle_closed),
            ("client_protocol_errors", "Connections closed for malformed input", clients.protocol_errors),
            ("client_accept_failures", "Failures to accept a connection", clients.accept_failures),
            ("client_received_bytes", "Bytes from clients", clients.bytes_in),
            ("client_sent_bytes", "Bytes to clients", clients.bytes_out),
            ("client_commands", "Commands received", clients.commands),
            ("requests_refused", "Requests that ended as refused", clients.refused),
            ("requests_unknown", "Requests whose outcome is unknown", clients.unknown),
            ("peer_received_bytes", "Bytes from other nodes", peers.bytes_in),
            ("peer_sent_bytes", "Bytes to other nodes", peers.bytes_out),
            ("peer_received_messages", "Messages from other nodes", peers.messages_in),
            ("peer_sent_messages", "Messages queued for other nodes", peers.messages_out),
            ("peer_dropped_messages", "Messages dropped for want of a connection or room", peers.dropped),
            ("peer_refused", "Connections of other nodes refused", peers.refused),
            ("peer_garbage", "Peer connections closed for bytes that mean nothing", peers.garbage),
            ("loop_turns", "Turns of the event loop", host.turns),
            ("log_syncs", "Syncs of the log", host.syncs),
            ("log_records", "Records appended to the log", host.records),
            ("process_cpu_milliseconds", "Processor time of the process", self.usage.cpu_ms),
        ];
        all.iter().try_for_each(|(name, help, value)| counter(encoder, name, help, *value))
    }

    fn gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (host, node) = (&self.snapshot.host, &self.snapshot.node);
        let all = [
            ("ready", "1 while strict requests would be served", u64::from(node.ready)),
            ("epoch", "Number of the member list", node.epoch),
            ("members", "Members of the cluster", node.members.len() as u64),
            ("learners", "Nodes that catch up", node.learners.len() as u64),
            ("log_first", "Oldest log entry in memory", node.log_first),
            ("log_last", "Newest log entry", node.log_last),
            ("log_chosen", "Newest chosen log entry", node.log_chosen),
            ("log_applied", "Newest applied log entry", node.log_applied),
            ("log_bytes", "Bytes of the log on disk", host.log_bytes),
            ("keys", "Number of keys", node.keys),
            ("store_bytes", "Bytes of the store", node.store_bytes),
            ("requests_pending", "Requests the node has taken and not answered", node.requests_pending),
            ("client_connections", "Open connections of clients", host.clients.connections),
            ("requests_in_flight", "Requests under way", host.clients.in_flight),
            ("requests_in_flight_bytes", "Their bytes", host.clients.in_flight_bytes),
            ("peer_connected", "Peers to which a connection stands", host.peers.connected),
            ("peer_queued_bytes", "Bytes that wait for peers", host.peers.queued_bytes),
            ("disk_free_bytes", "Bytes free on the disk, or of what memory may hold", host.free_bytes),
            ("disk_full", "1 while writes are refused for want of space", u64::from(host.disk_full)),
            ("log_sync_average_microseconds", "Moving average of a sync", host.sync_average_us),
            ("log_sync_beside", "1 while syncs run beside the loop", u64::from(host.sync_beside)),
            (
                "processors_awake",
                "1 while idle processors of the machine are kept awake",
                u64::from(host.awake),
            ),
            ("timers", "Armed timers", host.timers),
            ("uptime_milliseconds", "Since the start", host.uptime_ms),
            ("process_resident_bytes", "Resident memory of the process", self.usage.resident_bytes),
        ];
        all.iter().try_for_each(|(name, help, value)| gauge(encoder, name, help, *value))
    }

    fn labelled(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family =
            encoder.encode_descriptor("role", "1 for the role it plays", None, MetricType::Gauge)?;
        ConstGauge::new(1_u64)
            .encode(family.encode_family(&[("role", self.snapshot.node.role.as_str())])?)?;
        if !self.snapshot.marks.is_empty() {
            let help = "Notable states the machines have been in";
            let mut family = encoder.encode_descriptor("marks", help, None, MetricType::Counter)?;
            for (name, count) in &self.snapshot.marks {
                ConstCounter::new(*count).encode(family.encode_family(&[("mark", *name)])?)?;
            }
        }
        self.buckets(encoder)?;
        if !self.snapshot.node.followers.is_empty() {
            let help = "Newest log entry each follower acknowledged";
            let mut family =
                encoder.encode_descriptor("follower_acknowledged", help, None, MetricType::Gauge)?;
            for (id, index) in &self.snapshot.node.followers {
                ConstGauge::new(*index).encode(family.encode_family(&[("node", id.0)])?)?;
            }
        }
        Ok(())
    }

    /// Every bucket with its number as the label.
    fn buckets(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Value = fn(&BucketStatus) -> u64;
        let all: [(&str, &str, Value); 9] = [
            ("bucket_slots", "Slots of the bucket", |it| u64::from(it.slot_last - it.slot_first) + 1),
            ("bucket_leader", "Whom this node believes to lead it; 0: nobody", |it| {
                it.believed_leader.map_or(0, |leader| leader.0)
            }),
            ("bucket_members", "Nodes that hold copies", |it| it.members.len() as u64),
            ("bucket_quorum", "1 while it is led and a majority can be reached", |it| u64::from(it.quorum)),
            ("bucket_halted", "1 while it is halted because most of its copies are lost", |it| {
                u64::from(it.halt.is_some())
            }),
            ("bucket_log_last", "Newest log entry here", |it| it.log_last),
            ("bucket_log_chosen", "Newest chosen log entry known here", |it| it.log_chosen),
            ("bucket_log_applied", "Newest log entry applied here", |it| it.log_applied),
            ("bucket_keys", "Number of keys in the copy here", |it| it.keys),
        ];
        for (name, help, value) in all {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for bucket in &self.snapshot.node.buckets {
                let label = [("bucket", bucket.bucket.0)];
                ConstGauge::new(value(bucket)).encode(family.encode_family(&label)?)?;
            }
        }
        Ok(())
    }

    /// Every operation on groups with its name as the label.
    fn deeds(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Value = fn(&Tally) -> u64;
        if self.snapshot.deeds.is_empty() {
            return Ok(());
        }
        let all: [(&str, &str, Value); 4] = [
            ("group_operations_begun", "Operations on groups that this node began", |it| it.begun),
            ("group_operations_completed", "Those that happened", |it| it.completed),
            ("group_operations_given_up", "Those that had no effect", |it| it.given_up),
            ("group_operations_unseen", "Those whose end this node has not seen", |it| it.unseen),
        ];
        for (name, help, value) in all {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (kind, tally) in &self.snapshot.deeds {
                let labels = [("operation", kind.name())];
                ConstCounter::new(value(tally)).encode(family.encode_family(&labels)?)?;
            }
        }
        let (name, help) =
            ("group_operation_duration", "From beginning an operation on groups until it has happened");
        let unit = Some(&Unit::Seconds);
        let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
        let bounds = || TOOK_BOUNDS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
        for (kind, tally) in &self.snapshot.deeds {
            let labels = [("operation", kind.name())];
            let buckets: Vec<(f64, u64)> = bounds().zip(tally.took).collect();
            let (sum, count) = (tally.took_ns as f64 / 1e9, tally.completed);
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }

    fn histograms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let all = &self.snapshot.distributions;
        let unit = Some(&Unit::Seconds);
        let help = "From a command's arrival to its answer";
        let mut family = encoder.encode_descriptor("request_duration", help, unit, MetricType::Histogram)?;
        for (kind, histogram) in Kind::NAMES.iter().zip(&all.requests) {
            let labels = [("kind", *kind)];
            let mut metric = family.encode_family(&labels)?;
            encode_histogram(&mut metric, histogram)?;
        }
        let alone = [
            ("loop_turn_duration", "One turn of the event loop, without the waiting", &all.turn),
            ("log_sync_duration", "One sync of the log", &all.sync),
        ];
        for (name, help, histogram) in alone {
            let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
            encode_histogram(&mut metric, histogram)?;
        }
        Ok(())
    }
}

fn encode_histogram(
    metric: &mut prometheus_client::encoding::MetricEncoder<'_>,
    histogram: &Histogram,
) -> fmt::Result {
    metric.encode_histogram::<NoLabelSet>(
        histogram.sum_seconds(),
        histogram.count(),
        &histogram.buckets(),
        None,
    )
}

/// Keeps the label types honest: what is encoded above must be label sets.
const _: fn() = || {
    fn is_label_set<T: EncodeLabelSet>() {}
    is_label_set::<[(&str, &str); 1]>();
};
