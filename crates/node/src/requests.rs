//! Requests of clients: where they belong, when they begin, how they end.

use alloc::vec::Vec;
use quorate_api::{Bucket, Consistency, Outcome, Refusal, Request};
use quorate_kernel::Cx;
use quorate_shard::{Mutant, is_read};

use crate::connections::{Kind, Taken};
use crate::interface::{ClientRequest, ConnectionId, Output};
use crate::machine::{Node, Out};
use crate::origin::{Address, size_of_request};
use crate::route::{Route, route};

impl Node {
    /// Takes a client's request, or refuses it.
    pub(crate) fn take(&mut self, cx: &mut Cx<'_>, request: ClientRequest, out: &mut Out) {
        let address = (request.connection, request.ticket);
        let reads = is_read(&request.request);
        let bucket = match self.placed(cx, &request.request, reads) {
            Ok(bucket) => bucket,
            Err(refusal) => {
                let end = (address.0, address.1, Outcome::Refused(refusal));
                // Nothing was begun, so there is nothing to forget.
                return out.output_early(Output::Replies(alloc::vec![end]));
            }
        };
        let kind = if reads { Kind::Read } else { Kind::Write };
        if self.config.limits.breaks(Mutant::OrderIgnored) {
            return self.begin(cx, bucket, kind, (request, cx.now), out);
        }
        if let Some(request) = self.lane(bucket).connections.admit(kind, (request, cx.now)) {
            self.begin(cx, bucket, kind, request, out);
        }
    }

    /// The bucket of a request that may be taken.
    fn placed(&self, cx: &Cx<'_>, request: &Request, reads: bool) -> Result<Bucket, Refusal> {
        let limits = &self.config.limits;
        if self.stopping || self.log().is_retired() {
            return Err(Refusal::NotServing);
        }
        let Route::One(bucket) = route(request, self.config.buckets) else {
            return Err(Refusal::SeveralBuckets);
        };
        let lane = &self.lanes[usize::from(bucket.0)];
        if !reads && (self.disk_full || cx.now < lane.leader_full_until) {
            return Err(Refusal::NoSpace);
        }
        let held: usize = self.lanes.iter().map(|lane| lane.origin.bytes()).sum();
        let too_long = held > 0 && held + size_of_request(request) > limits.bytes_max;
        if self.pending() >= limits.requests_max || too_long {
            return Err(Refusal::Busy);
        }
        Ok(bucket)
    }

    fn begin(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        kind: Kind,
        (request, taken_at): Taken,
        out: &mut Out,
    ) {
        match (kind, request.consistency, self.replicas.get(&bucket)) {
            (Kind::Write, ..) => self.lane(bucket).origin.take(request, taken_at),
            (Kind::Read, Consistency::Relaxed, Some(replica)) => {
                let reply = replica.shard.read_relaxed(cx, &request.request);
                let address = (request.connection, request.ticket);
                self.reply(cx, bucket, alloc::vec![(address, Outcome::Done(reply))], out);
            }
            // Without a copy here, the leader's is the nearest.
            (Kind::Read, ..) => self.lane(bucket).reads.take(request, taken_at),
        }
    }

    /// Gives ends to clients, and lets what waited for them begin.
    pub(crate) fn reply(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        ends: Vec<(Address, Outcome)>,
        out: &mut Out,
    ) {
        if ends.is_empty() {
            return;
        }
        let connections: Vec<ConnectionId> = ends.iter().map(|((connection, _), _)| *connection).collect();
        let replies = ends.into_iter().map(|((connection, ticket), outcome)| (connection, ticket, outcome));
        // What happened is chosen, on a quorum's disks; what was refused never began.
        out.output_early(Output::Replies(replies.collect()));
        for connection in connections {
            self.ended(cx, bucket, connection, out);
        }
    }

    /// One of a connection's requests for a bucket has ended: what waited for it begins.
    fn ended(&mut self, cx: &mut Cx<'_>, bucket: Bucket, connection: ConnectionId, out: &mut Out) {
        for (kind, request) in self.lane(bucket).connections.ended(connection) {
            self.begin(cx, bucket, kind, request, out);
        }
    }

    pub(crate) fn connection_closed(&mut self, cx: &mut Cx<'_>, connection: ConnectionId, out: &mut Out) {
        for bucket in self.every_bucket() {
            let lane = self.lane(bucket);
            lane.connections.closed(connection);
            for _ in 0..lane.origin.forget_unsent(connection) {
                self.ended(cx, bucket, connection, out);
            }
            self.dispatch(cx, bucket, out);
        }
    }
}
