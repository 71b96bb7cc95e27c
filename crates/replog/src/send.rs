//! Sending the state to a follower that needs entries the leader no longer has.
//!
//! The state is read from a frozen view of the store, in parts, while writes go on. A part that is lost is sent
//! again; a follower that was away goes on with the part it lacks.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_kernel::{Cx, NodeId};
use quorate_store::{Scan, SnapshotId};

use crate::Config;
use crate::leader::{Mode, Peer};
use crate::machine::{Out, Replog, Role};
use crate::message::{Ballot, Index, Message, Part};
use crate::record::StateMeta;
use crate::restart::read_meta;

/// What nobody acknowledges is sent again after so many beats at the latest.
const AGAIN_BEATS_MAX: u32 = 64;

/// Whether what was sent so many beats ago, and again whenever it was due, is due again: after twice as many beats each time.
pub(crate) fn is_due_again(beats: u32) -> bool {
    beats.is_power_of_two() || (beats > 0 && beats.is_multiple_of(AGAIN_BEATS_MAX))
}

/// A snapshot on its way to one follower.
#[derive(Debug, Clone)]
pub(crate) struct Sending {
    view: SnapshotId,
    meta: StateMeta,
    /// Parts sent and not acknowledged: number, where the part starts, whether it is the last.
    unacknowledged: VecDeque<(u64, Bytes, bool)>,
    /// The next part to read, and where it starts; `None` behind the last one.
    next: Option<(u64, Bytes)>,
    /// The part that the receiver asked for last.
    wanted: u64,
    /// Beats since something was acknowledged.
    idle: u32,
}

impl Replog {
    /// Turns to sending the state.
    pub(crate) fn begin_snapshot(&mut self, cx: &mut Cx<'_>, to: NodeId, out: &mut Out) {
        let (view, meta_key) = (cx.store.snapshot(), self.config.rows().meta_key());
        let row = cx.store.scan_snapshot(view, Scan::range(&meta_key, None).rows(1)).unwrap_or_default();
        let meta = row.first().filter(|(key, _)| *key == meta_key).map(|(_, value)| read_meta(value));
        let Role::Leader(leader) = &mut self.role else { return cx.store.release(view) };
        let Some(peer) = leader.peers.get_mut(&to) else { return cx.store.release(view) };
        let Some(meta) = meta else { panic!("entries were forgotten though no state holds their effects") };
        cx.marks.hit("replog.snapshot.begun");
        let start = Bytes::copy_from_slice(&self.config.rows().area(meta.generation));
        let next = Some((0, start));
        let sending = Sending { view, meta, unacknowledged: VecDeque::new(), next, wanted: 0, idle: 0 };
        peer.mode = Mode::Snapshot(Box::new(sending));
        self.send_parts(cx, to, out);
    }

    /// Sends parts up to the limit of parts under way.
    fn send_parts(&mut self, cx: &mut Cx<'_>, to: NodeId, out: &mut Out) {
        let Role::Leader(leader) = &mut self.role else { return };
        let ballot = leader.ballot;
        let Some(Peer { mode: Mode::Snapshot(sending), .. }) = leader.peers.get_mut(&to) else { return };
        while sending.unacknowledged.len() < self.config.snapshot_parts_max {
            let Some((part, start)) = sending.next.take() else { break };
            let (message, behind) = read_part(cx, &self.config, sending, ballot, (part, &start));
            sending.unacknowledged.push_back((part, start, behind.is_none()));
            sending.next = behind.map(|behind| (part + 1, behind));
            // The rows are chosen state; nothing about this node's disk is told.
            out.send_early(to, Message::Part(message));
        }
    }

    pub(crate) fn on_next_part(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        ballot: Ballot,
        applied: Index,
        part: u64,
        out: &mut Out,
    ) {
        let Role::Leader(leader) = &mut self.role else { return };
        if leader.ballot != ballot {
            return;
        }
        let Some(peer) = leader.peers.get_mut(&from) else { return };
        peer.heard = Some(cx.now);
        let Mode::Snapshot(sending) = &mut peer.mode else { return };
        if sending.meta.applied != applied {
            return;
        }
        sending.wanted = part;
        let before = sending.unacknowledged.len();
        sending.unacknowledged.retain(|(number, ..)| *number >= part);
        if sending.unacknowledged.len() < before {
            sending.idle = 0;
        }
        self.send_parts(cx, from, out);
    }

    /// At each beat: what was not acknowledged for a whole beat is sent again, oldest first; then after twice as many beats
    /// each time, so that a slow link is not filled with the same part. A receiver that lacks a part it once had has begun
    /// anew, and so does the sender.
    pub(crate) fn resend_parts(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let Role::Leader(leader) = &mut self.role else { return };
        let ballot = leader.ballot;
        let mut anew = Vec::new();
        for (to, peer) in &mut leader.peers {
            let Mode::Snapshot(sending) = &mut peer.mode else { continue };
            let idle = sending.idle;
            sending.idle = idle.saturating_add(1);
            if !is_due_again(idle) {
                continue;
            }
            let front = sending.unacknowledged.front().cloned();
            match front.filter(|(part, ..)| *part <= sending.wanted) {
                Some((part, start, _)) => {
                    cx.marks.hit("replog.snapshot.part_again");
                    let (message, _) = read_part(cx, &self.config, sending, ballot, (part, &start));
                    // As in `send_parts`.
                    out.send_early(*to, Message::Part(message));
                }
                None => {
                    cx.marks.hit("replog.snapshot.anew");
                    let start = Bytes::copy_from_slice(&self.config.rows().area(sending.meta.generation));
                    sending.unacknowledged.clear();
                    sending.next = Some((0, start));
                    anew.push(*to);
                }
            }
        }
        anew.into_iter().for_each(|to| self.send_parts(cx, to, out));
    }

    /// The follower has installed what it was sent: entries again.
    pub(crate) fn end_snapshot(&mut self, cx: &mut Cx<'_>, to: NodeId, matched: Index) {
        let Role::Leader(leader) = &mut self.role else { return };
        let Some(peer) = leader.peers.get_mut(&to) else { return };
        let Mode::Snapshot(sending) = &peer.mode else { return };
        if matched >= sending.meta.applied {
            cx.marks.hit("replog.snapshot.sent");
            cx.store.release(sending.view);
            peer.probe(matched + 1);
        }
    }
}

impl Peer {
    /// The frozen view this peer is served from, if any.
    pub(crate) fn view(&self) -> Option<SnapshotId> {
        match &self.mode {
            Mode::Snapshot(sending) => Some(sending.view),
            Mode::Probe { .. } | Mode::Stream => None,
        }
    }

    /// How many parts of the state it is being sent it has.
    pub(crate) fn parts(&self) -> u64 {
        match &self.mode {
            Mode::Snapshot(sending) => sending.wanted,
            Mode::Probe { .. } | Mode::Stream => 0,
        }
    }
}

/// Reads a part; also tells where the next one starts, `None` if this is the last.
fn read_part(
    cx: &mut Cx<'_>,
    config: &Config,
    sending: &Sending,
    ballot: Ballot,
    (part, start): (u64, &[u8]),
) -> (Part, Option<Bytes>) {
    let (places, bytes_max) = (config.rows(), config.snapshot_part_bytes);
    let end = places.area_end(sending.meta.generation);
    let scan = Scan::range(start, Some(&end)).bytes(bytes_max);
    let Some(rows) = cx.store.scan_snapshot(sending.view, scan) else { panic!("a frozen view went away") };
    let prefix_bytes = places.area(sending.meta.generation).len();
    let read: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
    let behind = (read >= bytes_max).then(|| rows.last().map(|(key, _)| key_after(key))).flatten();
    let rows = rows.into_iter().map(|(key, value)| (key.slice(prefix_bytes..), value)).collect();
    (Part { ballot, meta: sending.meta.clone(), part, rows, last: behind.is_none() }, behind)
}

/// The smallest key above `key`.
fn key_after(key: &[u8]) -> Bytes {
    let mut after = Vec::with_capacity(key.len() + 1);
    after.extend_from_slice(key);
    after.push(0);
    Bytes::from(after)
}
