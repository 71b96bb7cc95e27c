//! The hash table without agreement under the same load: its nodes know each other, nothing fails, and every user's key is there.
//!
//! Clients ask one node, always the same, which has the request go to the root of the key; the root counts as who has answered, as in the
//! paper. That is generous: the others on the way have worked for it as well.

use std::rc::Rc;
use std::time::Duration;

use quorate_kernel::{NodeId, Rng};
use quorate_node::Ticket;

use super::chirps::{Chirper, Step, Trend, Users};
use super::harness::{BEGIN_WITHIN_US, CLIENT};
use super::setup::Setup;
use super::tally::{Crowd, Tally};
use crate::harness::{Input, Output};
use crate::node::scatter::land::{Answer, Call, Dht, DhtWord};
use crate::{Agenda, Boot, Harness, Seen, Verdict};

/// What a post says.
const TEXT: &str = "a post";

/// See the module's documentation.
pub(super) struct Table {
    setup: Setup,
    rng: Rng,
    users: Rc<Users>,
    trend: Trend,
    clients: Vec<Chirper>,
    /// When each client's request leaves it, and whose key it is about.
    asked: Vec<(Duration, u64)>,
    tally: Tally,
}

impl Table {
    pub(super) fn new(setup: Setup) -> Table {
        let mut rng = setup.chance();
        let users = Users::draw(&setup, &mut rng);
        let clients: Vec<Chirper> = (0..setup.clients()).map(|_| Chirper::new(rng.fork())).collect();
        let asked = vec![(Duration::MAX, 0); clients.len()];
        let trend = Trend::draw(&setup, &users, &mut rng);
        let tally = Tally::new(setup.nodes);
        Table { setup, rng, users, trend, clients, asked, tally }
    }

    /// A client's next operation.
    fn ask(&mut self, client: usize) -> (NodeId, Call) {
        let (step, user) = self.clients[client].next(&self.setup, &self.users, &self.trend);
        let value = (step == Step::Set).then(|| TEXT.to_owned());
        self.asked[client].1 = user as u64;
        let node = NodeId((client % self.setup.nodes) as u64 + 1);
        (node, Call::Ask(Ticket(client as u64), user as u64, value))
    }
}

impl Crowd for Table {
    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn open(&mut self) -> Vec<(Duration, NodeId, Input<Self>)> {
        let clients = self.setup.clients();
        let begin = |client| {
            let after = Duration::from_micros(self.rng.below(BEGIN_WITHIN_US));
            let (node, call) = self.ask(client);
            (after + CLIENT, node, call)
        };
        (0..clients).map(begin).collect()
    }

    fn move_now(&mut self) {
        self.trend = Trend::draw(&self.setup, &self.users, &mut self.rng);
    }
}

impl Harness for Table {
    type Machine = Dht;

    fn machine(&mut self, node: NodeId, _: Boot) -> Dht {
        let size = (self.setup.nodes as u64, usize::from(self.setup.copies));
        Dht::at_rest(node, size, 0..self.setup.users as u64)
    }

    fn output(
        &mut self,
        seen: Seen<'_, Dht>,
        output: Output<Self>,
        agenda: &mut Agenda<Input<Self>>,
    ) -> Verdict {
        for (ticket, answer) in output {
            let client = ticket.0 as usize;
            let (asked, key) = self.asked[client];
            match answer {
                Answer::Value(None) => return Err(format!("the key of user {key} is not there")),
                Answer::Nonsense(text) => return Err(text),
                Answer::Value(_) | Answer::Written => {
                    let root = seen.nodes.live().find(|(_, node)| node.is_root(key)).map(|(id, _)| id);
                    let Some(root) = root else { return Err(format!("the key of user {key} has no root")) };
                    self.tally.done(root, (seen.now + CLIENT).checked_sub(asked));
                }
                Answer::Refused | Answer::Unknown => self.tally.failed(),
            }
            let leaves = CLIENT + self.clients[client].pause(&self.setup);
            let (node, call) = self.ask(client);
            self.asked[client].0 = agenda.now() + leaves;
            agenda.input(leaves + CLIENT, node, call);
        }
        Ok(())
    }

    fn carry(&mut self, msg: DhtWord) -> (DhtWord, usize) {
        (msg, 0)
    }
}
