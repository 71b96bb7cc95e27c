//! Whether a cluster has begun: what first members that keep nothing on disk ask each other before they found it.
//!
//! Whoever keeps nothing must not come back under its id: it would not know what it has promised and stored, could vote a second time, and what
//! others acknowledged because of it would be lost. But it cannot know by itself whether it comes back. So each draws a number for its life
//! and asks all others of the list, at their doors for peers, on connections that are for nothing else:
//!
//! - The first of the list founds once all others say that they wait, in one round of questions. It draws the id of the cluster, so that nobody who
//!   remembers an earlier one takes this one for it, and counts the lives that waited.
//! - The others found once somebody who has founded says that their life is counted.
//! - Whoever hears of a cluster that has begun without its life joins that as a new node.
//!
//! An id therefore belongs to one life of a node: if an earlier one took part, somebody who says so is alive, or all who could know are gone,
//! and with them what they knew.
//!
//! A node that keeps what it knows on disk, and has an empty directory, begins, or has lost its directory. It asks once whether anybody has met a
//! node of its id. Nobody has to be there: a cluster begins with a majority. So this finds a lost directory as long as one of those who are asked
//! has run since before.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use quorate_kernel::{ClusterId, NodeId, frame, wire};
use quorate_node::Member;
use serde::{Deserialize, Serialize};

use crate::config::{Cluster, Config, ConfigError, Durability};
use crate::doors::Doors;
use crate::error::StartError;
use crate::founders;
use crate::open::draw;
use crate::peers::hello::{FRAME_VERSION, GREETING_BYTES_MAX, MAGIC};

/// Kind of a frame that holds a [`Question`].
const KIND_QUESTION: u16 = 4;
/// Kind of a frame that holds a [`Said`].
const KIND_SAID: u16 = 5;
/// Longest answer: it names every first member.
const SAID_BYTES_MAX: usize = 64 << 10;
/// How long a node may take to connect, and to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Between two rounds of questions, and looks at the door.
const ASK_EVERY: Duration = Duration::from_millis(50);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How often an operator is told who is missing.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// A node that knows nothing asks another one whether the cluster has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    magic: [u8; 8],
    /// Stands for the list of first members, if the one who asks knows one.
    list: Option<ClusterId>,
    /// Who asks.
    pub(crate) id: NodeId,
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Said {
    /// This first member waits for the others, in this life.
    Waits { id: NodeId, life: u64 },
    /// The cluster has begun, and these first members may found it, each in the life in which it was counted. Who says so may have
    /// met a node with the id of the one who asks.
    Begun { cluster: ClusterId, lives: BTreeMap<NodeId, u64>, has_met: bool },
    /// The question was for somebody else, or has to be asked again.
    Refused { reason: String },
}

/// What a node that runs knows about how its cluster was founded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Founding {
    /// Stands for the list of first members, if this node knows one.
    list: Option<ClusterId>,
    lives: BTreeMap<NodeId, u64>,
}

impl Founding {
    /// What a member of this cluster answers; 0: it has not joined one yet.
    pub(crate) fn answer(&self, cluster: ClusterId, question: &Question, has_met: bool) -> Said {
        if differs(self.list, question.list) {
            return other_list();
        }
        if cluster == ClusterId(0) {
            return Said::Refused { reason: "it has not joined a cluster itself yet".into() };
        }
        Said::Begun { cluster, lives: self.lives.clone(), has_met }
    }
}

/// Whether two who both know a list know different ones.
fn differs(one: Option<ClusterId>, other: Option<ClusterId>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
}

fn other_list() -> Said {
    Said::Refused { reason: "its cluster.members or cluster.id differ from those here".into() }
}

/// Reads a [`Question`] from the front of `buffer`; `None` if there is none, or not all of it yet.
pub(crate) fn read_question(buffer: &[u8]) -> Option<Question> {
    let frame = frame::cut(buffer, FRAME_VERSION, GREETING_BYTES_MAX).ok().flatten()?;
    let question = (frame.kind == KIND_QUESTION).then(|| wire::decode::<Question>(frame.payload).ok())??;
    (question.magic == MAGIC).then_some(question)
}

/// Appends a frame with an answer.
pub(crate) fn put_said(buffer: &mut Vec<u8>, said: &Said) {
    frame::append(buffer, FRAME_VERSION, KIND_SAID, |bytes| wire::encode_after(said, bytes));
}

fn read_said(buffer: &[u8]) -> io::Result<Option<Said>> {
    let nonsense = |reason: String| io::Error::new(ErrorKind::InvalidData, reason);
    let cut =
        frame::cut(buffer, FRAME_VERSION, SAID_BYTES_MAX).map_err(|error| nonsense(error.to_string()))?;
    let Some(frame) = cut else { return Ok(None) };
    if frame.kind != KIND_SAID {
        return Err(nonsense(format!("a frame of kind {} is no answer", frame.kind)));
    }
    wire::decode(frame.payload).map(Some).map_err(|_| nonsense("an answer that does not decode".into()))
}

/// What a first member comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// It founds the cluster, under the id that is known to all who do, or under a new one.
    Founds { cluster: Option<ClusterId>, lives: BTreeMap<NodeId, u64> },
    /// The cluster has begun without it.
    Joins,
}

/// A node that knows nothing, in a life of its own.
#[derive(Debug)]
struct Founder {
    id: NodeId,
    life: u64,
    list: Option<ClusterId>,
    /// Whom it asks: who they are, if it knows, and where.
    others: Vec<(Option<NodeId>, String)>,
}

/// Settles what a node is that knows nothing, before anything else is known of it: changes the configuration to that of a node that founds a
/// cluster nobody has heard of, or that joins one under an id that nobody had. Without a disk it may wait for long: until the other first
/// members are there.
///
/// # Errors
/// [`StartError`] if the list of first members is wrong, or the system gives no chance.
pub(crate) fn settle(config: &mut Config, doors: &mut Doors) -> Result<(), StartError> {
    if config.durable.mode != Durability::Memory {
        return look_for_former(config, doors);
    }
    let cluster = &mut config.cluster;
    if !cluster.join.is_empty() {
        if cluster.node != 0 && !cluster.node_is_new {
            tracing::warn!(
                node = cluster.node,
                "with durable.mode = \"memory\" a node that joins draws its id, since it must not come back under one that it had"
            );
            cluster.node = 0;
        }
        return Ok(());
    }
    let founders = founders::parse(&cluster.members).map_err(|complaints| ConfigError { complaints })?;
    let (id, list) = (NodeId(cluster.node), founders::cluster_id(&cluster.id, &founders));
    let is_first = founders.first().is_none_or(|first| first.id == id);
    let others = others(founders, id);
    if others.is_empty() {
        cluster.id = format!("{:x}", draw()?);
        return Ok(());
    }
    let founder = Founder { id, life: draw()?, list: Some(list), others };
    doors.founding.list = Some(list);
    match founder.wait(&doors.peer, is_first) {
        Outcome::Founds { cluster: known, lives } => {
            cluster.id = format!("{:x}", known.map_or_else(draw, |known| Ok(known.0))?);
            doors.founding.lives = lives;
        }
        Outcome::Joins => {
            tracing::warn!(
                %id,
                "the cluster has begun without this life of the node, and durable.mode = \"memory\" kept nothing of an earlier one: joining as a new node"
            );
            founder.become_new(cluster);
        }
    }
    Ok(())
}

/// All first members but this one.
fn others(founders: Vec<Member>, id: NodeId) -> Vec<(Option<NodeId>, String)> {
    let others = founders.into_iter().filter(|member| member.id != id);
    others.map(|member| (Some(member.id), member.endpoints.peer.clone())).collect()
}

/// Settles what a node with an empty directory is: if somebody has met its id, it joins under another one.
fn look_for_former(config: &mut Config, doors: &Doors) -> Result<(), StartError> {
    let cluster = &mut config.cluster;
    if cluster.node == 0 {
        return Ok(());
    }
    let founders = founders::parse(&cluster.members).map_err(|complaints| ConfigError { complaints })?;
    let list = (!founders.is_empty()).then(|| founders::cluster_id(&cluster.id, &founders));
    let id = NodeId(cluster.node);
    let mut others = others(founders, id);
    others.extend(cluster.join.iter().map(|address| (None, address.clone())));
    let founder = Founder { id, life: draw()?, list, others };
    if founder.was_met(&doors.peer) {
        tracing::warn!(
            %id,
            directory = cluster.data,
            "the directory is empty, and others have met a node with this id: what it had is lost with its directory, so this joins as a new node; if the \
             directory is only elsewhere, stop this node and start it with that one"
        );
        founder.become_new(cluster);
    }
    Ok(())
}

impl Founder {
    fn waits(&self) -> Said {
        Said::Waits { id: self.id, life: self.life }
    }

    /// It joins those whom it asked, under an id that is drawn.
    fn become_new(self, cluster: &mut Cluster) {
        (cluster.node, cluster.id) = (0, String::new());
        cluster.members.clear();
        cluster.join = self.others.into_iter().map(|(_, address)| address).collect();
    }

    /// Whether somebody has met a node of this id.
    fn was_met(&self, door: &TcpListener) -> bool {
        let is_met = |said: &io::Result<Said>| matches!(said, Ok(Said::Begun { has_met: true, .. }));
        self.meanwhile(door, || self.ask_all().iter().any(is_met))
    }

    /// Asks the others until it is known what to do.
    fn wait(&self, door: &TcpListener, is_first: bool) -> Outcome {
        let mut told = Instant::now();
        self.meanwhile(door, || {
            loop {
                let said = self.ask_all();
                if let Some(outcome) = self.decide(is_first, &said) {
                    break outcome;
                }
                if told.elapsed() > TELL_EVERY {
                    told = Instant::now();
                    self.tell(&said);
                }
                thread::sleep(ASK_EVERY);
            }
        })
    }

    /// Answers others while it asks them.
    fn meanwhile<T>(&self, door: &TcpListener, ask: impl FnOnce() -> T) -> T {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| self.attend(door, &is_over));
            let found = ask();
            is_over.store(true, Ordering::Release);
            found
        })
    }

    /// What to do after a round of questions, if that is clear.
    fn decide(&self, is_first: bool, said: &[io::Result<Said>]) -> Option<Outcome> {
        let begun = said.iter().filter_map(|said| match said {
            Ok(Said::Begun { cluster, lives, .. }) => Some((*cluster, lives)),
            _ => None,
        });
        if let Some((cluster, lives)) =
            begun.clone().find(|(_, lives)| lives.get(&self.id) == Some(&self.life))
        {
            return Some(Outcome::Founds { cluster: Some(cluster), lives: lives.clone() });
        }
        if begun.clone().next().is_some() {
            return Some(Outcome::Joins);
        }
        let mut lives = BTreeMap::from([(self.id, self.life)]);
        for ((other, _), said) in self.others.iter().zip(said) {
            match said {
                Ok(Said::Waits { id, life }) if Some(*id) == *other => lives.insert(*id, *life),
                _ => return None,
            };
        }
        is_first.then_some(Outcome::Founds { cluster: None, lives })
    }

    /// Says who keeps the cluster from beginning.
    fn tell(&self, said: &[io::Result<Said>]) {
        let reason = |said: &io::Result<Said>| match said {
            Ok(Said::Waits { id, .. }) => format!("node {id} answers"),
            Ok(Said::Refused { reason }) => reason.clone(),
            Ok(Said::Begun { .. }) => "it has begun".into(),
            Err(error) => error.to_string(),
        };
        let waits = |other: &Option<NodeId>, said: &io::Result<Said>| matches!(said, Ok(Said::Waits { id, .. }) if Some(*id) == *other);
        let missing: Vec<String> = (self.others.iter().zip(said))
            .filter(|((other, _), said)| !waits(other, said))
            .map(|((_, address), said)| format!("{address}: {}", reason(said)))
            .collect();
        tracing::warn!(
            missing = missing.join("; "),
            "waiting: with durable.mode = \"memory\" a cluster begins once all of cluster.members are there at the same time, and a member that comes \
             later, or again, joins once one of them says that it has begun; if the cluster runs elsewhere, set cluster.join in the place of cluster.members"
        );
    }

    /// The answers, in the order of the others.
    fn ask_all(&self) -> Vec<io::Result<Said>> {
        let mut question = Vec::new();
        let words = Question { magic: MAGIC, list: self.list, id: self.id };
        frame::append(&mut question, FRAME_VERSION, KIND_QUESTION, |bytes| wire::encode_after(&words, bytes));
        thread::scope(|scope| {
            let question = &question;
            let asked: Vec<_> =
                (self.others.iter()).map(|other| scope.spawn(move || ask(&other.1, question))).collect();
            let lost = |_| Err(io::Error::other("asking it panicked"));
            asked.into_iter().map(|thread| thread.join().unwrap_or_else(lost)).collect()
        })
    }

    /// Answers who comes to the door, and leaves all else for later.
    fn attend(&self, door: &TcpListener, is_over: &AtomicBool) {
        let mut guests = Vec::new();
        while !is_over.load(Ordering::Acquire) {
            while let Ok((stream, _)) = door.accept() {
                guests.push(Guest { stream, input: Vec::new(), until: Instant::now() + ANSWER_WITHIN });
            }
            guests.retain_mut(|guest| guest.until > Instant::now() && self.listen(guest));
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether there is more to hear.
    fn listen(&self, guest: &mut Guest) -> bool {
        let mut bytes = [0; 256];
        match guest.stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(count) => guest.input.extend_from_slice(&bytes[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return true;
            }
            Err(_) => return false,
        }
        let Some(question) = read_question(&guest.input) else {
            return guest.input.len() < GREETING_BYTES_MAX;
        };
        let mut answer = Vec::new();
        put_said(&mut answer, &if differs(question.list, self.list) { other_list() } else { self.waits() });
        // It fits the system's buffer; whoever did not get it asks again.
        let _ = guest.stream.write(&answer);
        false
    }
}

/// Somebody at the door while this node waits.
struct Guest {
    stream: mio::net::TcpStream,
    input: Vec<u8>,
    until: Instant,
}

/// Asks one node.
fn ask(address: &str, question: &[u8]) -> io::Result<Said> {
    let found = address.to_socket_addrs()?.next();
    let found = found.ok_or_else(|| io::Error::other("it has no address"))?;
    let mut stream = TcpStream::connect_timeout(&found, ANSWER_WITHIN)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.write_all(question)?;
    let (mut input, mut bytes) = (Vec::new(), [0; 4_096]);
    loop {
        if let Some(said) = read_said(&input)? {
            return Ok(said);
        }
        match stream.read(&mut bytes)? {
            0 => return Err(io::Error::other("it gives no answer; it may be of an older version")),
            count => input.extend_from_slice(&bytes[..count]),
        }
    }
}

#[cfg(test)]
mod tests;
