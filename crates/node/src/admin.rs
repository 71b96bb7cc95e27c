//! Operators' requests, joining, and who is connected to whom.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_kernel::{Cx, Event, NodeId, wire};
use quorate_replog::{self as replog, ChangeEnd};
use quorate_shard as shard;

use crate::endpoints::Endpoints;
use crate::interface::{AdminOutcome, AdminRequest, Member, Output, Ticket};
use crate::machine::{Node, Out};
use crate::message::Message;
use crate::replica::Replica;

/// How long an operator's request may take at the leader before its outcome counts as unknown here.
pub(crate) const ADMIN_DEADLINE: Duration = Duration::from_secs(180);
/// How often a node that wants to join asks.
const JOIN_EVERY: Duration = Duration::from_millis(500);

/// Who asked for a member change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// An operator at this node.
    Here(Ticket),
    /// A node, under this name.
    There(NodeId, u64),
    /// Nodes that want to join; they see for themselves.
    Joiners,
    /// A bucket whose members follow those of bucket 0; it looks again.
    Follower(Bucket),
}

/// A member as the log keeps it.
pub(crate) fn to_log_member(member: &Member) -> replog::Member {
    replog::Member { id: member.id, info: Bytes::from(wire::encode(&member.endpoints)) }
}

/// A member as nodes know it. One whose addresses cannot be read has none.
pub(crate) fn from_log_member(member: &replog::Member) -> Member {
    let endpoints = wire::decode::<Arc<Endpoints>>(&member.info).unwrap_or_default();
    Member { id: member.id, endpoints }
}

impl Node {
    pub(crate) fn admin_refused(ticket: Ticket, why: &str, out: &mut Out) {
        // Nothing was begun.
        out.output_early(Output::Admin(ticket, AdminOutcome::Refused(why.into())));
    }

    pub(crate) fn admin(&mut self, cx: &mut Cx<'_>, ticket: Ticket, request: AdminRequest, out: &mut Out) {
        if let AdminRequest::Recover { bucket } = request {
            return self.recover(cx, ticket, bucket, out);
        }
        let is_of_groups =
            matches!(request, AdminRequest::ChangeMembers { .. } | AdminRequest::SetCopies { .. });
        if matches!(request, AdminRequest::Group(_)) || (is_of_groups && self.ring().is_some()) {
            return self.ask_of_groups(cx, ticket, request, out);
        }
        let Some(leader) = self.believed_leader(Bucket(0)) else {
            return Node::admin_refused(
                ticket,
                "no leader is known: try again when the cluster has one",
                out,
            );
        };
        if leader == self.config.me.id {
            return self.carry_out(cx, Asker::Here(ticket), request, out);
        }
        let id = self.next_ticket();
        self.handed_on.insert(id, (ticket, leader, cx.now + ADMIN_DEADLINE));
        // A question; nothing about this node's disk is told.
        out.send_early(leader, Message::Admin { id, request });
    }

    pub(crate) fn on_admin(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        id: u64,
        request: AdminRequest,
        out: &mut Out,
    ) {
        let asker = Asker::There(from, id);
        let wishes = || self.roster.iter().flat_map(|roster| &roster.wishes);
        if self.changes.values().any(|other| *other == asker) || wishes().any(|wish| wish.is_of(&asker)) {
            return cx.marks.hit("node.admin.repeated");
        }
        if self.ring().is_some() && !matches!(request, AdminRequest::TransferLeadership { .. }) {
            return self.carry_out_of_groups(cx, asker, request, out);
        }
        self.carry_out(cx, asker, request, out);
    }

    fn carry_out(&mut self, cx: &mut Cx<'_>, asker: Asker, request: AdminRequest, out: &mut Out) {
        if !self.log().leads() {
            let why = "leadership has just changed: try again";
            return self.admin_ended(asker, AdminOutcome::Refused(why.into()), out);
        }
        match request {
            AdminRequest::ChangeMembers { add, remove } if self.roster.is_some() => {
                let add = add.into_iter().map(|member| member.id).collect();
                self.change_holders(asker, add, remove, out);
            }
            AdminRequest::ChangeMembers { add, remove } => {
                let ticket = self.next_ticket();
                self.changes.insert(ticket, asker);
                let add = add.iter().map(to_log_member).collect();
                self.change(cx, Bucket(0), (ticket, add, remove), out);
            }
            AdminRequest::SetCopies { copies } => self.change_copies(asker, copies, out),
            AdminRequest::Group(_) => {
                let why = "the nodes of this cluster form no groups";
                self.admin_ended(asker, AdminOutcome::Refused(why.into()), out);
            }
            // Whoever is asked by an operator sees to it.
            AdminRequest::Recover { .. } => {
                let why = "a recovery is asked for at any node, which hands it to nobody";
                self.admin_ended(asker, AdminOutcome::Refused(why.into()), out);
            }
            AdminRequest::TransferLeadership { to } => {
                let known = to.is_none_or(|to| self.log().epoch().has(to));
                if !known {
                    let why = "the node named is no member";
                    return self.admin_ended(asker, AdminOutcome::Refused(why.into()), out);
                }
                self.note_handed_over(cx.wall, to);
                self.step_all(cx, &shard::Input::Transfer(to), out);
                self.admin_ended(asker, AdminOutcome::Done, out);
            }
        }
    }

    pub(crate) fn on_change_ended(&mut self, ticket: u64, end: ChangeEnd, out: &mut Out) {
        let Some(asker) = self.changes.remove(&ticket) else { return };
        if let Some(ring) = self.ring_mut() {
            ring.is_news = true;
        }
        let outcome = match end {
            ChangeEnd::Done => AdminOutcome::Done,
            ChangeEnd::Refused(why) => AdminOutcome::Refused(why),
            ChangeEnd::Unknown => {
                AdminOutcome::Unknown("the leader changed on the way: look at the members".into())
            }
        };
        self.admin_ended(asker, outcome, out);
    }

    pub(crate) fn admin_ended(&mut self, asker: Asker, outcome: AdminOutcome, out: &mut Out) {
        match asker {
            Asker::Here(ticket) => out.output(Output::Admin(ticket, outcome)),
            Asker::There(node, id) => out.send(node, Message::AdminEnded { id, outcome }),
            Asker::Joiners | Asker::Follower(_) => {}
        }
    }

    pub(crate) fn on_admin_ended(&mut self, from: NodeId, id: u64, outcome: AdminOutcome, out: &mut Out) {
        if self.handed_on.get(&id).is_some_and(|(_, to, _)| *to == from)
            && let Some((ticket, ..)) = self.handed_on.remove(&id)
        {
            out.output(Output::Admin(ticket, outcome));
        }
    }

    /// A node says who it is, on a new connection.
    pub(crate) fn on_contact(&mut self, from: NodeId, member: Member, out: &mut Out) {
        const CONTACTS_MAX: usize = 64;
        if member.id != from {
            return;
        }
        while self.contacts.len() >= CONTACTS_MAX && !self.contacts.contains_key(&from) {
            self.contacts.pop_first();
        }
        self.contacts.insert(from, member);
        self.tell_peers(out);
        self.acquaint(from, out);
    }

    /// A node wants to be a member, says `from`: the leader remembers it, others hand it on.
    pub(crate) fn on_join(&mut self, cx: &mut Cx<'_>, from: NodeId, member: Member, out: &mut Out) {
        const JOINERS_MAX: usize = 256;
        if self.roster.is_some() {
            return cx.marks.hit("node.join.elsewhere");
        }
        let epoch = self.log().epoch();
        // Who was just removed may have asked before that.
        if epoch.members.contains(&to_log_member(&member)) || epoch.had(member.id) {
            return;
        }
        match self.log().believed_leader() {
            // A question; nothing about this node's disk is told.
            Some(leader) if leader != self.config.me.id => out.send_early(leader, Message::Join(member)),
            Some(_) if self.joiners.len() < JOINERS_MAX => {
                cx.marks.hit("node.join.asked");
                self.joiners.insert(member.id, member);
            }
            // Who finds no room asks again.
            Some(_) => {}
            // Somebody was told to ask here who does not know that this node has left. Only who wants to join is helped
            // so: several that have left would hand the same question to one another without an end.
            None if self.log().is_retired() && from == member.id => {
                cx.marks.hit("node.join.after-leaving");
                for other in epoch.members.iter().filter(|other| other.id != self.config.me.id) {
                    // A question; nothing about this node's disk is told.
                    out.send_early(other.id, Message::Join(member.clone()));
                }
            }
            None => {}
        }
    }

    /// Asks to join, lets joiners in, and gives up on operators' requests that got lost.
    pub(crate) fn look_after_members(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let lost: Vec<u64> =
            self.handed_on.iter().filter(|(_, (_, _, until))| cx.now >= *until).map(|(id, _)| *id).collect();
        for id in lost {
            if let Some((ticket, ..)) = self.handed_on.remove(&id) {
                let why = String::from("the leader did not answer: look at the members before trying again");
                // Says that nothing is known.
                out.output_early(Output::Admin(ticket, AdminOutcome::Unknown(why)));
            }
        }
        if self.roster.is_some() {
            self.look_after_roster(cx, out);
            return self.look_after_buckets(cx, out);
        }
        self.ask_to_join(cx, out);
        let idle = self.changes.values().all(|asker| matches!(asker, Asker::Follower(_)))
            && self.log().is_ready()
            && self.log().can_propose();
        if !self.log().leads() {
            self.joiners.clear();
        } else if idle && !self.joiners.is_empty() {
            let ticket = self.next_ticket();
            self.changes.insert(ticket, Asker::Joiners);
            let joiners = core::mem::take(&mut self.joiners);
            let add = joiners.values().map(to_log_member).collect();
            self.change(cx, Bucket(0), (ticket, add, Vec::new()), out);
        }
        self.look_after_buckets(cx, out);
    }

    /// Has the members of a bucket changed that this node leads.
    pub(crate) fn change(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        (ticket, add, remove): (u64, Vec<replog::Member>, Vec<NodeId>),
        out: &mut Out,
    ) {
        let change = shard::Input::Change { ticket, add, remove };
        self.step_shard(cx, bucket, Event::Input(change), out);
    }

    /// A node that is no member, or is one under other addresses, asks whomever it is connected to.
    fn ask_to_join(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let epoch = self.log().epoch();
        let mine = to_log_member(&self.config.me);
        let removed = self.log().is_retired() || epoch.had(mine.id);
        let settled = epoch.members.contains(&mine) || removed || self.stopping;
        if settled || cx.now.since(self.joined_at) < JOIN_EVERY {
            return;
        }
        self.joined_at = cx.now;
        for peer in &self.connected {
            // A question; nothing about this node's disk is told.
            out.send_early(*peer, Message::Join(self.config.me.clone()));
        }
    }

    /// It may have changed whom this node wants to be connected to. In a ring somebody comes or goes all the time: it is looked at soon.
    pub(crate) fn tell_peers(&mut self, out: &mut Out) {
        match self.ring_mut() {
            Some(ring) => ring.people.is_news = true,
            None => self.tell_peers_now(out),
        }
    }

    /// Says whom this node wants to be connected to, if that has changed.
    pub(crate) fn tell_peers_now(&mut self, out: &mut Out) {
        if self.ring().is_some() {
            let peers = self.acquaintances();
            return peers.into_iter().for_each(|peers| self.output_peers(peers, out));
        }
        let known = self.roster.as_ref().map(|roster| roster.peers());
        let is_member = known.is_none() && self.log().is_member();
        // The newest word first: a node's own, that of the view, that of the logs, which keep what they were told once.
        let mut peers: Vec<Member> = Vec::new();
        if !is_member {
            peers.extend(self.contacts.values().cloned());
        }
        peers.extend(known.into_iter().flatten());
        let logs = self.replicas.values().map(Replica::log);
        peers.extend(logs.flat_map(|log| log.peers()).map(|peer| from_log_member(&peer)));
        if self.is_out() {
            // It may still be asked by those who want to join.
            peers.extend(self.log().epoch().members.iter().map(from_log_member));
        }
        let me = self.config.me.id;
        peers.retain(|peer| peer.id != me);
        peers.sort_by_key(|peer| peer.id);
        peers.dedup_by_key(|peer| peer.id);
        self.output_peers(peers, out);
    }

    fn output_peers(&mut self, peers: Vec<Member>, out: &mut Out) {
        if peers != self.peers_told {
            self.peers_told.clone_from(&peers);
            out.output(Output::Peers(peers));
        }
    }
}
