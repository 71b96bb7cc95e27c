//! Applying chosen entries: every replica does it alike.

use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_api::{Culprit, Reply, Request};
use quorate_commit::LogId;
use quorate_kernel::{Cx, Event, wire};
use quorate_replog::session::Admission;
use quorate_replog::{self as replog, Content, Index};

use crate::Mutant;
use crate::batch::{BatchHeader, Payload, decode_batch};
use crate::layout::counters_key;
use crate::machine::{Out, Output, Shard, Timer};
use crate::reasons::{Asked, by_node, by_transaction};
use crate::run::run_request;
use crate::view::View;

/// Bytes of entries applied in one step, about.
const BYTES_MAX: usize = 1 << 20;
/// Replies of a session that are kept for retries, newest first; a retry whose reply is lost ends as unknown. They are
/// written with every entry that uses the session, so they must stay few.
const REPLIES_KEPT_BYTES_MAX: usize = 16 << 10;

impl Shard {
    /// Applies what is chosen, in bounded steps, as one batch of the store.
    pub(crate) fn apply(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if !self.loaded {
            return;
        }
        let first = self.log.applied() + 1;
        let last = self.applicable(first);
        if last < first {
            return;
        }
        let (area, limits) = (self.log.data_prefix(), self.limits.clone());
        let mut view = View::applying(&*cx.store, &limits, area, self.state);
        view.exchange(&mut self.transactions.shield, &mut self.fronts);
        let (mut answers, mut effects) = (Vec::new(), Vec::new());
        self.sessions.bury_ended(area, &mut view.overlay);
        let mut noted = false;
        for index in first..=last {
            let payload = match self.log.chosen_entry(index).map(|entry| &entry.content) {
                Some(Content::Command(command)) => Payload::decode(command),
                Some(Content::Seal(_)) => continue,
                None => panic!("entry {index} is chosen and not in memory"),
            };
            match payload {
                Ok(mut payload) => {
                    if limits.breaks(Mutant::ApplyByLocalClock) {
                        payload.now_ms = cx.wall.unix_ms;
                    }
                    self.apply_payload(&mut view, index, &payload, &mut answers);
                    for entry in &payload.commits {
                        let world = (cx.now, &mut *cx.rng, &mut *cx.marks);
                        self.transactions.apply(world, &mut view, (index, entry), &mut effects);
                        let culprit = entry.id().map(by_transaction);
                        self.writers.gave(view.state.versions, culprit.unwrap_or_default());
                        noted |= self.replace_notes(&mut view);
                    }
                    noted |= self.notes.apply_all(area, &payload.notes, &mut view.overlay);
                    view.sweep();
                    if index == last || !limits.breaks(Mutant::SessionsForgottenByStep) {
                        self.sessions.forget_oldest(
                            (area, index),
                            &limits,
                            &mut view.overlay,
                            &mut self.appended,
                        );
                    }
                }
                Err(_) => cx.marks.hit("shard.entry.malformed"),
            }
        }
        if !self.limits.breaks(Mutant::SessionRowMissing) {
            self.sessions.write(area, &mut view.overlay);
        }
        self.transactions.write(area, &mut view.overlay);
        view.exchange(&mut self.transactions.shield, &mut self.fronts);
        let (state, mut batch) = view.into_batch();
        batch.put(counters_key(area), wire::encode(&state));
        let (meta_key, meta) = self.log.applied_row(last);
        batch.put(meta_key, meta);
        cx.store.apply(batch);
        self.state = state;
        self.step_log(cx, Event::Input(replog::Input::Applied(last)), out);
        self.answer(cx, answers, out);
        if noted {
            out.output(Output::Noted);
        }
        self.carry_on(cx, effects, out);
        self.serve_reads(cx, out);
        if self.log.chosen() > self.log.applied() {
            out.arm(Timer::Apply, Duration::ZERO);
        }
    }

    /// Answers what was applied, if this node leads, and says before why something did nothing.
    fn answer(&mut self, cx: &mut Cx<'_>, answers: Vec<(BatchHeader, Vec<Bytes>)>, out: &mut Out) {
        let reasons = core::mem::take(&mut self.reasons);
        if !self.log.leads() {
            return;
        }
        // As with the answers.
        reasons.into_iter().for_each(|reason| out.output_early(reason));
        for (header, replies) in answers {
            let BatchHeader { origin, session, first_seq, .. } = header;
            // The entry is chosen: a quorum's disks have it, whether this node's is among them or not.
            out.output_early(Output::Answers { origin, session, first_seq, replies });
        }
        self.arm_expiry(cx, out);
    }

    /// The last entry of the next bounded step.
    fn applicable(&self, first: Index) -> Index {
        let mut bytes = 0;
        let mut last = first - 1;
        while last < self.log.chosen()
            && last + 1 - first < self.limits.apply_entries_max as u64
            && bytes < BYTES_MAX
        {
            last += 1;
            bytes += self.log.chosen_entry(last).map_or(0, replog::Entry::size_bytes);
        }
        last
    }

    fn apply_payload(
        &mut self,
        view: &mut View<'_>,
        index: Index,
        payload: &Payload,
        answers: &mut Vec<(BatchHeader, Vec<Bytes>)>,
    ) {
        self.writers.begin(view.state.versions);
        view.begin_entry(payload.now_ms, payload.seed);
        view.expire_due();
        self.writers.gave(view.state.versions, Culprit { expiry: true, ..Culprit::default() });
        for batch in &payload.batches {
            // A batch that a peer garbled is refused whole, by every replica alike.
            if let Ok((header, requests)) = decode_batch(batch) {
                let replies = self.apply_batch(view, index, &header, &requests);
                answers.push((header, replies));
            }
        }
    }

    /// Applies each request of a batch that was not applied before, and gives the replies of all of them.
    fn apply_batch(
        &mut self,
        view: &mut View<'_>,
        index: Index,
        header: &BatchHeader,
        requests: &[Request],
    ) -> Vec<Bytes> {
        let create = header.first_seq == 1 && self.limits.is_new(header.since, index);
        let again = self.limits.breaks(Mutant::ApplyAgain);
        let mut replies = Vec::with_capacity(requests.len());
        let Some(session) = self.sessions.change(header.session.0, create) else {
            // Nothing of it happens: whoever asks again is to hear that the session is lost.
            self.appended.remove(&header.session.0);
            return replies;
        };
        session.touch(index);
        session.settle_before(header.settled_before);
        for (request, seq) in requests.iter().zip(header.first_seq..) {
            let reply = match session.admit(seq) {
                Admission::Replay(_) if again => Bytes::from(wire::encode(&run_request(view, request))),
                Admission::Apply => {
                    let reply = run_request(view, request);
                    if let Some(moved) = view.outrun.take() {
                        let me = LogId(self.log.number().into());
                        let asked = Asked::Request { session: header.session, seq };
                        let reason = self.writers.reason(me, moved);
                        self.reasons.push(Output::Reason { to: Some(header.origin), asked, reason });
                    }
                    self.writers.gave(view.state.versions, by_node(header.origin));
                    let encoded = Bytes::from(wire::encode(&reply));
                    session.finish(seq, encoded.clone(), index);
                    encoded
                }
                Admission::Replay(reply) => reply,
                Admission::Settled => Bytes::new(),
                Admission::Gap(_) => break,
            };
            replies.push(reply);
        }
        session.keep_replies(REPLIES_KEPT_BYTES_MAX);
        replies
    }
}

/// Reads an encoded reply; `None` if it is no longer known.
///
/// # Errors
/// [`wire::Malformed`] if it is not one.
pub fn decode_reply(bytes: &[u8]) -> Result<Option<Reply>, wire::Malformed> {
    if bytes.is_empty() {
        return Ok(None);
    }
    wire::decode(bytes).map(Some)
}
