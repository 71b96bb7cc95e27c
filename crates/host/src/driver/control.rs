//! What other threads ask for, and what is looked at now and then.

use std::sync::mpsc::TryRecvError;

use quorate_engine::wal::Room;
use quorate_kernel::{Event, Time};
use quorate_node::{AdminOutcome, BucketStatus, DeedKind, Input, Journal, Status, Tally, Ticket};

use super::{Driver, HOUSEKEEPING, has_disk};
use crate::control::Control;
use crate::error::RunError;
use crate::hosted::Hosted;
use crate::stats::{Distributions, HostStats, Snapshot};
use crate::sync::SyncPlace;

/// Operators' requests under way; further ones are refused.
const ADMIN_MAX: usize = 64;
/// In durability "memory" so much of what may be held stays free: room for what comes between two looks.
const MEMORY_RESERVE_PART: u64 = 32;

impl<M: Hosted> Driver<M> {
    pub(super) fn take_controls(&mut self) {
        loop {
            match self.controls.try_recv() {
                // Whoever asked may have gone; that is no concern of the loop.
                Ok(Control::Snapshot(told)) => drop(told.send(self.snapshot())),
                Ok(Control::Journal(told)) => drop(told.send(self.machine.journal().cloned())),
                Ok(Control::Stop) => self.stop(),
                Ok(Control::Admin(request, told)) if self.live.admin.len() < ADMIN_MAX => {
                    self.live.next_admin += 1;
                    let ticket = Ticket(self.live.next_admin);
                    self.live.admin.insert(ticket, told);
                    self.step(Event::Input(Input::Admin(ticket, request)));
                }
                Ok(Control::Admin(_, told)) => {
                    let reason = format!("{ADMIN_MAX} operators' requests are under way: try again later");
                    drop(told.send(AdminOutcome::Refused(reason)));
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    fn host_stats(&self) -> HostStats {
        HostStats {
            uptime_ms: self.clock.now().0 / 1_000_000,
            sync_average_us: u64::try_from(self.sync_policy.average().as_micros()).unwrap_or(u64::MAX),
            sync_beside: self.sync_policy.place() == SyncPlace::Beside,
            awake: self.wakefulness.is_awake(),
            log_bytes: self.wal.stats().bytes_on_disk,
            syncs: self.wal.stats().syncs,
            store_bytes: self.store.size_bytes(),
            timers: self.live.timers.len() as u64,
            clients: self.clients.stats,
            peers: self.peers.stats(),
            ..self.live.stats.clone()
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            node: Status { store_bytes: self.store.size_bytes(), ..self.machine.status() },
            host: self.host_stats(),
            marks: self.marks.iter().collect(),
            deeds: self.machine.journal().into_iter().flat_map(tallies).collect(),
            distributions: Distributions {
                requests: self.clients.latency.clone(),
                ..self.live.distributions.clone()
            },
        }
    }

    /// What is looked at a few times a second.
    pub(super) fn housekeeping(&mut self, now: Time) -> Result<(), RunError> {
        self.live.housekeeping_at = now + HOUSEKEEPING;
        self.clients.sweep(now);
        if !self.live.syncing {
            self.prepare()?;
        }
        self.look_for_room();
        let status = self.machine.status();
        self.clients.keeper.doubt();
        let about = &mut self.clients.about;
        about.replicas = status.members.len().saturating_sub(1) as u64 / 2;
        about.facts.loading = !status.ready && status.members.is_empty();
        about.facts.keys = status.keys;
        let commands = self.clients.stats.commands - self.live.commands_before;
        about.facts.commands_per_second = commands * 1_000 / HOUSEKEEPING.as_millis() as u64;
        self.live.commands_before = self.clients.stats.commands;
        about.facts.cluster = vec![
            ("role".into(), status.role.clone()),
            ("ready".into(), u8::from(status.ready).to_string()),
            ("epoch".into(), status.epoch.to_string()),
            ("members".into(), status.members.len().to_string()),
            ("log_applied".into(), status.log_applied.to_string()),
            ("buckets".into(), status.buckets.len().to_string()),
        ];
        about.facts.cluster.extend(status.buckets.iter().map(bucket_line));
        self.live.told.tell(now, &status, self.machine.agreement(), self.machine.journal());
        Ok(())
    }

    /// Tells the machine when the disk, or what may be held in memory, runs out of room, and when there is enough again; between the two it stays
    /// as it is, so that it does not swing.
    pub(super) fn look_for_room(&mut self) {
        let (free, reserve) = if let Some(room) = &mut self.room {
            match room() {
                Ok(free) => (free, self.config.durable.reserve_bytes.0),
                Err(error) => {
                    tracing::warn!(%error, "cannot see how much room the disk has");
                    return;
                }
            }
        } else if has_disk(self.config.durable.mode) {
            return;
        } else {
            let most = self.config.storage.memory_bytes_max.0;
            (most.saturating_sub(self.store.size_bytes()), most / MEMORY_RESERVE_PART)
        };
        self.live.stats.free_bytes = free;
        let low = if self.live.full { free < reserve + reserve / 4 } else { free < reserve };
        let full = low || self.live.write_blocked || self.wal.room() == Room::Low;
        if full != self.live.full {
            self.live.full = full;
            self.live.stats.disk_full = full;
            if full {
                tracing::error!(free, reserve, "there is no room: writes are refused until there is");
            } else {
                tracing::info!(free, "there is room again");
            }
            self.step(Event::Input(Input::Full(full)));
        }
    }
}

fn tallies(journal: &Journal) -> impl Iterator<Item = (DeedKind, Tally)> {
    journal.tallies().map(|(kind, tally)| (kind, *tally))
}

/// A bucket as INFO tells it.
fn bucket_line(bucket: &BucketStatus) -> (String, String) {
    let leader = bucket.believed_leader.map_or_else(String::new, |leader| leader.to_string());
    let members: Vec<String> = bucket.members.iter().map(ToString::to_string).collect();
    let value = format!(
        "slots={}-{},leader={leader},members={},quorum={},chosen={},applied={},keys={}",
        bucket.slot_first,
        bucket.slot_last,
        members.join("/"),
        u8::from(bucket.quorum),
        bucket.log_chosen,
        bucket.log_applied,
        bucket.keys
    );
    (format!("bucket_{}", bucket.bucket.0), value)
}
