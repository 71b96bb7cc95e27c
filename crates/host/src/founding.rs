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

use crate::config::{Config, ConfigError, Durability};
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

/// A first member that keeps nothing on disk asks another one whether the cluster has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    magic: [u8; 8],
    /// Stands for the list of first members.
    list: ClusterId,
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Said {
    /// This first member waits for the others, in this life.
    Waits { id: NodeId, life: u64 },
    /// The cluster has begun, and these first members may found it, each in the life in which it was counted.
    Begun { cluster: ClusterId, lives: BTreeMap<NodeId, u64> },
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
    pub(crate) fn answer(&self, cluster: ClusterId, question: &Question) -> Said {
        if self.list.is_some_and(|list| list != question.list) {
            return other_list();
        }
        if cluster == ClusterId(0) {
            return Said::Refused { reason: "it has not joined a cluster itself yet".into() };
        }
        Said::Begun { cluster, lives: self.lives.clone() }
    }
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

/// A first member, in a life of its own.
#[derive(Debug)]
struct Founder {
    id: NodeId,
    life: u64,
    list: ClusterId,
    others: Vec<Member>,
}

/// Settles what a node without a disk is, before anything else is known of it: changes the configuration to that of a node that founds a
/// cluster nobody has heard of, or that joins one under an id that nobody had. May wait for long: until the other first members are there.
///
/// # Errors
/// [`StartError`] if the list of first members is wrong, or the system gives no chance.
pub(crate) fn settle(config: &mut Config, doors: &mut Doors) -> Result<(), StartError> {
    if config.durable.mode != Durability::Memory {
        return Ok(());
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
    let others: Vec<Member> = founders.into_iter().filter(|member| member.id != id).collect();
    if others.is_empty() {
        cluster.id = format!("{:x}", draw()?);
        return Ok(());
    }
    let founder = Founder { id, life: draw()?, list, others };
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
            (cluster.node, cluster.id) = (0, String::new());
            cluster.members.clear();
            cluster.join = founder.others.iter().map(|other| other.endpoints.peer.clone()).collect();
        }
    }
    Ok(())
}

impl Founder {
    fn waits(&self) -> Said {
        Said::Waits { id: self.id, life: self.life }
    }

    /// Asks the others, and answers them, until it is known what to do.
    fn wait(&self, door: &TcpListener, is_first: bool) -> Outcome {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| self.attend(door, &is_over));
            let mut told = Instant::now();
            let outcome = loop {
                let said = self.ask_all();
                if let Some(outcome) = self.decide(is_first, &said) {
                    break outcome;
                }
                if told.elapsed() > TELL_EVERY {
                    told = Instant::now();
                    self.tell(&said);
                }
                thread::sleep(ASK_EVERY);
            };
            is_over.store(true, Ordering::Release);
            outcome
        })
    }

    /// What to do after a round of questions, if that is clear.
    fn decide(&self, is_first: bool, said: &[io::Result<Said>]) -> Option<Outcome> {
        let begun = said.iter().filter_map(|said| match said {
            Ok(Said::Begun { cluster, lives }) => Some((*cluster, lives)),
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
        for (other, said) in self.others.iter().zip(said) {
            match said {
                Ok(Said::Waits { id, life }) if *id == other.id => lives.insert(*id, *life),
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
        let waits = |(other, said): &(&Member, &io::Result<Said>)| matches!(said, Ok(Said::Waits { id, .. }) if *id == other.id);
        let missing: Vec<String> = (self.others.iter().zip(said))
            .filter(|both| !waits(both))
            .map(|(other, said)| format!("node {} at {}: {}", other.id, other.endpoints.peer, reason(said)))
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
        let words = Question { magic: MAGIC, list: self.list };
        frame::append(&mut question, FRAME_VERSION, KIND_QUESTION, |bytes| wire::encode_after(&words, bytes));
        thread::scope(|scope| {
            let question = &question;
            let asked: Vec<_> = (self.others.iter())
                .map(|other| scope.spawn(move || ask(&other.endpoints.peer, question)))
                .collect();
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
        put_said(&mut answer, &if question.list == self.list { self.waits() } else { other_list() });
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
mod tests {
    use super::*;

    fn founder(id: u64, others: &[u64]) -> Founder {
        let member =
            |id: &u64| Member { id: NodeId(*id), endpoints: quorate_node::Endpoints::default().into() };
        Founder {
            id: NodeId(id),
            life: 100 + id,
            list: ClusterId(9),
            others: others.iter().map(member).collect(),
        }
    }

    fn waits(id: u64) -> io::Result<Said> {
        Ok(founder(id, &[]).waits())
    }

    fn begun(lives: &[(u64, u64)]) -> io::Result<Said> {
        let lives = lives.iter().map(|(id, life)| (NodeId(*id), *life)).collect();
        Ok(Said::Begun { cluster: ClusterId(5), lives })
    }

    fn silent() -> io::Result<Said> {
        Err(io::Error::other("nobody is there"))
    }

    #[test]
    fn the_first_founds_once_all_others_wait_and_not_before() {
        let first = founder(1, &[2, 3]);
        assert_eq!(first.decide(true, &[waits(2), silent()]), None);
        assert_eq!(first.decide(true, &[waits(2), waits(2)]), None, "another node answers at its address");
        assert_eq!(first.decide(true, &[waits(2), Ok(other_list())]), None);
        let lives = [(1, 101), (2, 102), (3, 103)].map(|(id, life)| (NodeId(id), life)).into();
        let founds = Some(Outcome::Founds { cluster: None, lives });
        assert_eq!(first.decide(true, &[waits(2), waits(3)]), founds);
        assert_eq!(founder(2, &[1, 3]).decide(false, &[waits(1), waits(3)]), None, "the first decides");
    }

    #[test]
    fn whose_life_is_counted_founds_and_who_comes_back_joins() {
        let third = founder(3, &[1, 2]);
        let Some(Outcome::Founds { cluster, .. }) =
            third.decide(false, &[silent(), begun(&[(1, 101), (3, 103)])])
        else {
            panic!("its life is counted")
        };
        assert_eq!(cluster, Some(ClusterId(5)));
        for lives in [vec![(1, 101), (3, 77)], Vec::new()] {
            assert_eq!(third.decide(false, &[waits(1), begun(&lives)]), Some(Outcome::Joins), "{lives:?}");
        }
        let first = founder(1, &[2, 3]);
        assert_eq!(first.decide(true, &[waits(2), begun(&[(1, 77)])]), Some(Outcome::Joins));
    }

    #[test]
    fn members_tell_what_they_know_and_strangers_are_refused() {
        let founding = Founding { list: Some(ClusterId(9)), lives: [(NodeId(3), 103)].into() };
        let question = |list| Question { magic: MAGIC, list: ClusterId(list) };
        let Ok(expected) = begun(&[(3, 103)]) else { panic!("an answer") };
        assert_eq!(founding.answer(ClusterId(5), &question(9)), expected);
        assert_eq!(founding.answer(ClusterId(5), &question(8)), other_list());
        assert!(matches!(founding.answer(ClusterId(0), &question(9)), Said::Refused { .. }));
        let Said::Begun { lives, .. } = Founding::default().answer(ClusterId(5), &question(8)) else {
            panic!("whoever joined knows no list")
        };
        assert!(lives.is_empty());
    }

    #[test]
    fn answers_survive_the_wire_in_pieces_and_garbage_does_not() {
        let mut bytes = Vec::new();
        let Ok(said) = begun(&[(1, u64::MAX), (2, 0)]) else { panic!("an answer") };
        put_said(&mut bytes, &said);
        for short in 0..bytes.len() {
            assert_eq!(read_said(&bytes[..short]).expect("it may come"), None);
        }
        assert_eq!(read_said(&bytes).expect("it decodes"), Some(said));
        assert_eq!(read_question(&bytes), None);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        read_said(&bytes).expect_err("a checksum");
        // As any later version has to read and write them.
        let mut question = Vec::new();
        let words = Question { magic: MAGIC, list: ClusterId(9) };
        frame::append(&mut question, FRAME_VERSION, KIND_QUESTION, |bytes| wire::encode_after(&words, bytes));
        assert_eq!(question[8..], *b"\x01\0\x04\0QUORATE\x01\x09");
        assert_eq!(read_question(&question), Some(words));
        let Ok(said) = begun(&[(1, 7)]) else { panic!("an answer") };
        for (said, payload) in [(founder(3, &[]).waits(), &[0, 3, 103][..]), (said, &[1, 5, 1, 1, 7])] {
            let mut bytes = Vec::new();
            put_said(&mut bytes, &said);
            assert_eq!(bytes[12..], *payload);
        }
    }

    #[test]
    fn three_that_start_together_found_one_cluster_and_who_comes_back_joins() {
        let door = || std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let doors = [(); 3].map(|()| door());
        let members: Vec<Member> = (doors.iter().zip(1..))
            .map(|(door, id)| {
                let peer = door.local_addr().expect("an address").to_string();
                let endpoints = quorate_node::Endpoints { peer, ..Default::default() };
                Member { id: NodeId(id), endpoints: endpoints.into() }
            })
            .collect();
        let doors = doors.map(|door| {
            door.set_nonblocking(true).expect("a socket");
            TcpListener::from_std(door)
        });
        let one = |id: u64, life: u64| Founder {
            id: NodeId(id),
            life,
            list: ClusterId(9),
            others: members.iter().filter(|member| member.id.0 != id).cloned().collect(),
        };
        let lives: BTreeMap<NodeId, u64> = [(NodeId(1), 11), (NodeId(2), 12), (NodeId(3), 13)].into();
        let founding = Founding { list: Some(ClusterId(9)), lives: lives.clone() };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let first = scope.spawn(|| {
                let outcome = one(1, 11).wait(&doors[0], true);
                // From now on it runs: its door answers as one of a node does.
                scope.spawn(|| run(&doors[0], &founding, &is_over));
                outcome
            });
            let second = scope.spawn(|| one(2, 12).wait(&doors[1], false));
            let third = scope.spawn(|| one(3, 13).wait(&doors[2], false));
            let founds = |cluster| Outcome::Founds { cluster, lives: lives.clone() };
            assert_eq!(first.join().expect("no panic"), founds(None));
            assert_eq!(second.join().expect("no panic"), founds(Some(ClusterId(5))));
            assert_eq!(third.join().expect("no panic"), founds(Some(ClusterId(5))));
            assert_eq!(one(2, 22).wait(&doors[1], false), Outcome::Joins);
            is_over.store(true, Ordering::Release);
        });
    }

    /// Answers as a node that runs.
    fn run(door: &TcpListener, founding: &Founding, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Acquire) {
            let Ok((mut stream, _)) = door.accept() else {
                thread::yield_now();
                continue;
            };
            let (mut input, mut bytes) = (Vec::new(), [0; 256]);
            while read_question(&input).is_none() {
                match stream.read(&mut bytes) {
                    Ok(0) => break,
                    Ok(count) => input.extend_from_slice(&bytes[..count]),
                    Err(_) => thread::yield_now(),
                }
            }
            let Some(question) = read_question(&input) else { continue };
            let mut answer = Vec::new();
            put_said(&mut answer, &founding.answer(ClusterId(5), &question));
            let _ = stream.write(&answer);
        }
    }
}
