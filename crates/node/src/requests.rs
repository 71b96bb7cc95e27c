//! Requests of clients: where they belong, when they begin, how they end.

use alloc::vec::Vec;
use quorate_api::{Bucket, Consistency, Outcome, Refusal, Request};
use quorate_kernel::Cx;
use quorate_shard::{Mutant, is_read, may_grow};

use crate::collect::own_ends;
use crate::config::Storage;
use crate::connections::{Kind, Taken};
use crate::gate::Gate;
use crate::interface::{ClientRequest, ConnectionId, Output};
use crate::lane::Lane;
use crate::machine::{Node, Out};
use crate::origin::{Address, size_of_request};
use crate::plan::plan;
use crate::route::{Route, route};

impl Node {
    /// Takes a client's request, or refuses it. Returns the bucket in whose lane it is now, to be sent on.
    pub(crate) fn take(
        &mut self,
        cx: &mut Cx<'_>,
        mut request: ClientRequest,
        out: &mut Out,
    ) -> Option<Bucket> {
        if self.config.limits.breaks(Mutant::NamesIgnored) {
            request.identity = None;
        }
        let address = (request.connection, request.ticket);
        let reads = is_read(&request.request);
        let bucket = match self.placed(cx, &request, reads) {
            // What bears a name is a transaction wherever its keys lie.
            Ok(bucket) => bucket.filter(|_| request.identity.is_none()),
            Err(refusal) => {
                let end = (address.0, address.1, Outcome::Refused(refusal));
                // Nothing was begun, so there is nothing to forget.
                out.output_early(Output::Replies(alloc::vec![end]));
                return None;
            }
        };
        let taken = (request, cx.now);
        match (self.gates.gates.get_mut(&address.0), bucket) {
            (Some(gate), _) => gate.waiting.push_back(taken),
            (None, Some(bucket)) => {
                self.admit(cx, bucket, taken, out);
                return Some(bucket);
            }
            (None, None) => {
                self.gates.gates.insert(address.0, Gate { running: false, waiting: [taken].into() });
                self.pass_gate(cx, address.0, out);
            }
        }
        None
    }

    /// Requests taken from clients and not answered.
    pub(crate) fn pending(&self) -> usize {
        let lanes = self.asked.iter().filter_map(|bucket| self.lanes.get(bucket)).map(Lane::pending);
        lanes.sum::<usize>() + self.transactions.count() + self.gates.waiting()
    }

    /// Requests whose clients wait.
    pub(crate) fn awaited(&self) -> usize {
        self.lanes.values().map(Lane::awaited).sum::<usize>()
            + self.transactions.count()
            + self.gates.waiting()
    }

    /// A request for one bucket begins, or waits for those before it there.
    fn admit(&mut self, cx: &mut Cx<'_>, bucket: Bucket, taken: Taken, out: &mut Out) {
        let kind = if is_read(&taken.0.request) { Kind::Read } else { Kind::Write };
        self.asked.insert(bucket);
        if self.config.limits.breaks(Mutant::OrderIgnored) {
            return self.begin(cx, bucket, kind, taken, out);
        }
        if let Some(taken) = self.lane(bucket).connections.admit(kind, taken) {
            self.begin(cx, bucket, kind, taken, out);
        }
    }

    /// Lets begin what waits at a connection's gate, as far as nothing before it is under way.
    pub(crate) fn pass_gate(&mut self, cx: &mut Cx<'_>, connection: ConnectionId, out: &mut Out) {
        while let Some(gate) = self.gates.gates.get_mut(&connection).filter(|gate| !gate.running) {
            let Some(taken) = gate.waiting.pop_front() else {
                self.gates.gates.remove(&connection);
                break;
            };
            let buckets = self.config.buckets;
            if let (Route::One(bucket), None) = (route(&taken.0.request, buckets), &taken.0.identity) {
                self.admit(cx, bucket, taken, out);
                self.dispatch(cx, bucket, out);
                continue;
            }
            if self.lanes.values().any(|lane| lane.connections.is_busy(connection)) {
                gate.waiting.push_front(taken);
                break;
            }
            let (request, taken_at) = taken;
            let address = (request.connection, request.ticket);
            let plan = plan(&request.request, buckets);
            gate.running = true;
            let (bytes, age) = (size_of_request(&request.request), cx.wall.unix_ms);
            match request.identity {
                Some(name) => self.transactions.named.take(address, *name, plan, bytes, taken_at),
                None if plan.only_reads() => {
                    self.collect(cx, address, (plan, request.consistency), (bytes, age, taken_at), out);
                    continue;
                }
                None => self.take_transaction(cx, address, plan, (bytes, age, taken_at)),
            }
            self.send_transactions(cx, out);
        }
    }

    /// Whether the node has no room for anything that others want in its logs.
    pub(crate) fn takes_nothing(&self) -> bool {
        self.full && self.config.limits.storage == Storage::Disk
    }

    /// The bucket of a request that may be taken; `None`: it is about several.
    fn placed(&self, cx: &Cx<'_>, request: &ClientRequest, reads: bool) -> Result<Option<Bucket>, Refusal> {
        let (limits, consistency) = (&self.config.limits, request.consistency);
        let (name, request) = (&request.identity, &request.request);
        if self.stopping || self.is_out() {
            return Err(Refusal::NotServing);
        }
        let bucket = match route(request, self.config.buckets) {
            Route::One(bucket) => Some(bucket),
            Route::Several | Route::All => None,
        };
        let age_max = u64::try_from(limits.age_max.as_millis()).unwrap_or(u64::MAX);
        if name.as_ref().is_some_and(|name| name.age_ms < cx.wall.unix_ms.saturating_sub(age_max)) {
            return Err(Refusal::Outdated);
        }
        if consistency != Consistency::Relaxed && self.is_halted(request) {
            return Err(Refusal::Halted);
        }
        let is_full = |lane: &Lane| cx.now < lane.leader_full_until;
        let leader_full = match bucket {
            Some(bucket) => self.lanes.get(&bucket).is_some_and(is_full),
            None => self.lanes.values().any(is_full),
        };
        if !reads && (self.full || leader_full) {
            match limits.storage {
                Storage::Disk => return Err(Refusal::NoSpace),
                Storage::Memory if may_grow(request) => return Err(Refusal::NoMemory),
                Storage::Memory => {}
            }
        }
        let held =
            self.asked.iter().filter_map(|bucket| self.lanes.get(bucket)).map(|lane| lane.origin.bytes());
        let held = held.sum::<usize>() + self.transactions.bytes();
        let too_long = held > 0 && held + size_of_request(request) > limits.bytes_max;
        if self.pending() >= limits.requests_max || too_long {
            return Err(Refusal::Busy);
        }
        Ok(bucket)
    }

    /// Whether it is about a bucket that has lost its majority.
    fn is_halted(&self, request: &Request) -> bool {
        let is_halted = |bucket| self.halt(bucket).is_some();
        if self.roster.as_ref().is_none_or(|roster| roster.recoveries.halted.is_empty()) {
            return false;
        }
        match route(request, self.config.buckets) {
            Route::One(bucket) => is_halted(bucket),
            Route::Several => plan(request, self.config.buckets).parts.into_keys().any(is_halted),
            Route::All => true,
        }
    }

    fn begin(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        kind: Kind,
        (request, taken_at): Taken,
        out: &mut Out,
    ) {
        let copy = self.replicas.get(&bucket);
        let copy = copy.filter(|replica| self.roster.is_none() || replica.log().holds());
        match (kind, request.consistency, copy) {
            (Kind::Write, ..) => self.lane(bucket).origin.take(request, taken_at),
            (Kind::Read, Consistency::Relaxed, Some(replica)) => {
                let reply = replica.shard.read_relaxed(cx, &request.request);
                let address = (request.connection, request.ticket);
                self.reply(cx, bucket, alloc::vec![(address, Outcome::Done(reply))], out);
            }
            (Kind::Read, ..) => self.take_read(bucket, (request, false), taken_at),
        }
    }

    /// Gives ends to clients, and lets what waited for them begin.
    pub(crate) fn reply(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        mut ends: Vec<(Address, Outcome)>,
        out: &mut Out,
    ) {
        for end in own_ends(&mut ends) {
            self.collected(cx, bucket, end, out);
        }
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
        self.pass_gate(cx, connection, out);
    }

    pub(crate) fn connection_closed(&mut self, cx: &mut Cx<'_>, connection: ConnectionId, out: &mut Out) {
        self.gates.closed(connection);
        for bucket in self.asked.clone() {
            let lane = self.lane(bucket);
            lane.connections.closed(connection);
            for _ in 0..lane.origin.forget_unsent(connection) {
                self.ended(cx, bucket, connection, out);
            }
            self.dispatch(cx, bucket, out);
        }
    }
}
