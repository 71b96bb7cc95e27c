//! How two nodes introduce themselves, and what makes one refuse the other.
//!
//! The dialing node sends [`Hello`]; the other answers [`Welcome`] or [`Refused`] and closes. From then on messages
//! flow from the dialing node only.

use std::fmt;

use quorate_kernel::{ClusterId, NodeId, frame, wire};
use quorate_node::{BUCKETS_MAX, Endpoints, Topology};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::founding::{Founding, Question, Said};
use crate::start::Identity;

/// Version of the frames' payloads.
pub(crate) const FRAME_VERSION: u16 = 1;
/// The oldest and the newest version of the conversation that this program speaks.
///
/// - 1: the first.
/// - 2: clusters of several buckets, or of nodes that do not all hold everything. A greeting of such a cluster ends with the
///   number of buckets and that of copies; of any other it is as in version 1.
/// - 3: clusters whose nodes form groups. A greeting of such a cluster has its topology behind that.
/// - 4: a leader tells of all its buckets in one message. Clusters as in version 1 have no such message.
/// - 5: what goes to one node at a beat of several logs is one message. Clusters as in version 1 have one log.
/// - 6: nodes of a ring introduce themselves to each other, and look for groups from node to node; none of them has a view of all.
/// - 7: what a home keeps of a neighbour tells when the link to it was last replaced.
/// - 8: a node that asks its group to let it go says whether it is in another.
/// - 9: transactions over several buckets, and answers to them, that go to one node are one message. Clusters as in version 1 have none.
/// - 10: nodes of a ring tell each other how long nodes live.
/// - 11: who reads several buckets without locks may ask them to hold what was found. Clusters as in version 1 have one bucket.
/// - 12: acknowledgements between buckets travel with votes; copies answer reads of nodes without one. Clusters as in version 1 have neither.
/// - 13: requests that meet go by way of copies. Clusters as in version 1 have none.
/// - 14: votes and decisions say a reply once, and say which requests only read. Clusters as in version 1 have neither.
pub(crate) const VERSIONS: (u16, u16) = (1, 14);

/// Clusters of several buckets, of copies or of groups need this version.
const VERSION_OF_SHAPES: u16 = 14;

/// Kind of a frame that holds a [`Hello`].
pub(crate) const KIND_HELLO: u16 = 1;
/// Kind of a frame that holds a [`Welcome`].
pub(crate) const KIND_WELCOME: u16 = 2;
/// Kind of a frame that holds a [`Refused`].
pub(crate) const KIND_REFUSED: u16 = 3;
/// Kind of a frame that holds a message of the node. 4 and 5 are those of [`crate::founding`], on connections of their own.
pub(crate) const KIND_MESSAGE: u16 = 16;

/// Longest frame before both have introduced themselves.
pub(crate) const GREETING_BYTES_MAX: usize = 4 << 10;

/// What a cluster is made of, for as long as it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shape {
    /// Into how many buckets its keys are cut; 0 as long as that is not known.
    pub buckets: u16,
    /// How many nodes hold each; 0: all.
    pub copies: u8,
    /// Who decides which nodes hold which.
    #[serde(skip)]
    pub topology: Topology,
}

impl Shape {
    /// As all clusters were before there was a choice.
    pub(crate) const PLAIN: Shape = Shape { buckets: 1, copies: 0, topology: Topology::View };

    fn is_plain(self) -> bool {
        self.buckets <= 1 && self.copies == 0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape { buckets, copies: 0, .. } => write!(f, "{buckets} buckets, all on every node"),
            Shape { buckets, copies, topology: Topology::Ring } => {
                write!(f, "{buckets} buckets in groups of about {copies} nodes")
            }
            Shape { buckets, copies, topology: Topology::View } => {
                write!(f, "{buckets} buckets of {copies} copies")
            }
        }
    }
}

/// Begins what nodes say to each other before anything else.
pub(crate) const MAGIC: [u8; 8] = *b"QUORATE\x01";

/// First frame of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    magic: [u8; 8],
    /// The sender's cluster; 0 if it is about to join the receiver's.
    pub(crate) cluster: ClusterId,
    /// The sender.
    pub(crate) id: NodeId,
    /// Where the sender can be reached.
    pub(crate) endpoints: Endpoints,
    /// Oldest and newest version the sender speaks.
    pub(crate) versions: (u16, u16),
    /// What the sender's cluster is made of; no buckets if it does not know yet.
    #[serde(skip)]
    pub(crate) shape: Shape,
}

/// The answer to a [`Hello`] that is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// The receiver's cluster.
    pub(crate) cluster: ClusterId,
    /// The receiver.
    pub(crate) id: NodeId,
    /// Where it can be reached.
    pub(crate) endpoints: Endpoints,
    /// The version to be spoken.
    pub(crate) version: u16,
    /// What the cluster is made of.
    #[serde(skip)]
    pub(crate) shape: Shape,
}

/// The answer to a [`Hello`] that is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refused {
    /// Why, for the operator of the sender.
    pub(crate) reason: String,
}

/// Who this node is towards others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Myself {
    /// 0 until it is known.
    pub(crate) cluster: ClusterId,
    pub(crate) id: NodeId,
    pub(crate) endpoints: Endpoints,
    /// What the cluster is made of; no buckets until it is known.
    pub(crate) shape: Shape,
    /// What it should be made of, says the configuration; where it says 0: whatever it has.
    asked: Shape,
    /// What others are told who ask whether the cluster has begun.
    founding: Founding,
}

/// What answered a [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Welcome(Welcome),
    Refused(Refused),
}

impl Myself {
    /// A node, and what its configuration asks for (0: whatever there is).
    pub(crate) fn new(identity: &Identity, asked: Shape) -> Myself {
        let Identity { id, cluster, endpoints, shape } = identity.clone();
        Myself { cluster, id, endpoints, shape, asked, founding: Founding::default() }
    }

    /// The same, which knows this of how the cluster was founded.
    pub(crate) fn of(self, founding: Founding) -> Myself {
        Myself { founding, ..self }
    }

    pub(crate) fn hello(&self) -> Hello {
        Hello {
            magic: MAGIC,
            cluster: self.cluster,
            id: self.id,
            endpoints: self.endpoints.clone(),
            versions: VERSIONS,
            shape: self.shape,
        }
    }

    /// Answers whether the cluster has begun, to one who may have been met before.
    pub(crate) fn answer(&self, question: &Question, has_met: bool) -> Said {
        self.founding.answer(self.cluster, question, has_met)
    }

    /// Judges a dialing node.
    pub(crate) fn judge(&self, hello: &Hello) -> Result<Welcome, String> {
        if hello.magic != MAGIC {
            return Err(
                "this is the peer door of a Quorate node, and that was not a Quorate node's greeting".into(),
            );
        }
        if hello.id == self.id {
            return Err(format!(
                "node id {} is mine: a data directory was copied; start the copy with an empty one",
                self.id
            ));
        }
        if self.cluster == ClusterId(0) {
            return Err(
                "this node has not joined a cluster itself yet: try again, or join through a member".into()
            );
        }
        if hello.cluster != ClusterId(0) && hello.cluster != self.cluster {
            return Err(format!(
                "it belongs to cluster {}, this node to cluster {}: nodes of different clusters do not talk; \
                 correct the address, or join with an empty data directory",
                hello.cluster, self.cluster
            ));
        }
        let version = hello.versions.1.min(VERSIONS.1);
        if version < hello.versions.0 || version < VERSIONS.0 {
            return Err(format!(
                "it speaks versions {} to {} between nodes, this node {} to {}: upgrade the older of the two, \
                 one release at a time",
                hello.versions.0, hello.versions.1, VERSIONS.0, VERSIONS.1
            ));
        }
        let needed = if self.shape.is_plain() { VERSIONS.0 } else { VERSION_OF_SHAPES };
        if version < needed {
            return Err(format!(
                "this cluster has {}, for which its version is too old: upgrade it, then start it again",
                self.shape
            ));
        }
        if hello.shape.buckets != 0 && hello.shape != self.shape {
            return Err(self.contradiction(hello.shape));
        }
        let (cluster, id, endpoints) = (self.cluster, self.id, self.endpoints.clone());
        Ok(Welcome { cluster, id, endpoints, version, shape: self.shape })
    }

    /// Judges the node that answered; `expected` is who was to be found there.
    pub(crate) fn judge_welcome(&self, welcome: &Welcome, expected: Option<NodeId>) -> Result<(), String> {
        if welcome.id == self.id {
            return Err("the address is my own".into());
        }
        if let Some(expected) = expected.filter(|expected| *expected != welcome.id) {
            return Err(format!("node {} answers where node {expected} was to be found", welcome.id));
        }
        if welcome.cluster == ClusterId(0)
            || (self.cluster != ClusterId(0) && welcome.cluster != self.cluster)
        {
            return Err(format!(
                "it belongs to cluster {}, this node to cluster {}",
                welcome.cluster, self.cluster
            ));
        }
        if welcome.version < VERSIONS.0 || welcome.version > VERSIONS.1 {
            return Err(format!("it chose version {}, which this node does not speak", welcome.version));
        }
        if self.shape.buckets != 0 && welcome.shape != self.shape {
            return Err(self.contradiction(welcome.shape));
        }
        let differs = |asked: u32, has: u32| asked != 0 && asked != has;
        let (asked, has) = (self.asked, welcome.shape);
        if differs(asked.buckets.into(), has.buckets.into())
            || differs(asked.copies.into(), has.copies.into())
            || (asked.topology == Topology::Ring && has.topology == Topology::View)
        {
            return Err(format!(
                "its cluster has {has}, but the configuration here asks for {asked}: take cluster.buckets, cluster.copies and \
                 cluster.topology (or --buckets, --copies and --topology) away, a node that joins learns them"
            ));
        }
        Ok(())
    }

    fn contradiction(&self, other: Shape) -> String {
        format!(
            "the cluster has {} here and {other} there: its first members must be started with the same cluster.buckets, \
             cluster.copies and cluster.topology; begin again with empty data directories",
            self.shape
        )
    }
}

/// Cuts one greeting frame of `kinds`; `Ok(None)` if it has not arrived whole.
fn cut(buffer: &[u8]) -> Result<Option<frame::Frame<'_>>, String> {
    frame::cut(buffer, FRAME_VERSION, GREETING_BYTES_MAX).map_err(|error| error.to_string())
}

fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, String> {
    wire::decode(payload).map_err(|_| UNREADABLE.to_owned())
}

const UNREADABLE: &str = "a greeting that does not decode";

/// Decodes a greeting, with the shape that may stand behind it.
fn decode_with_shape<T: DeserializeOwned>(payload: &[u8]) -> Result<(T, Shape), String> {
    let (greeting, rest) = wire::decode_front(payload).map_err(|_| UNREADABLE.to_owned())?;
    if rest.is_empty() {
        return Ok((greeting, Shape::PLAIN));
    }
    let (shape, rest) = wire::decode_front::<Shape>(rest).map_err(|_| UNREADABLE.to_owned())?;
    let topology = if rest.is_empty() { Topology::View } else { decode(rest)? };
    match (Shape { topology, ..shape }) {
        shape @ Shape { buckets: 1..=BUCKETS_MAX, .. } => Ok((greeting, shape)),
        other => Err(format!("a greeting of a cluster with {other}")),
    }
}

/// Appends a frame with a greeting of a cluster of this shape.
fn put_with_shape<T: Serialize>(buffer: &mut Vec<u8>, kind: u16, greeting: &T, shape: Shape) {
    frame::append(buffer, FRAME_VERSION, kind, |bytes| match wire::encode_after(greeting, bytes) {
        bytes if shape.is_plain() => bytes,
        bytes => match wire::encode_after(&shape, bytes) {
            bytes if shape.topology == Topology::View => bytes,
            bytes => wire::encode_after(&shape.topology, bytes),
        },
    });
}

/// Appends a frame with a [`Hello`].
pub(crate) fn put_hello(buffer: &mut Vec<u8>, hello: &Hello) {
    put_with_shape(buffer, KIND_HELLO, hello, hello.shape);
}

/// Appends a frame with the answer to a greeting.
pub(crate) fn put_answer(buffer: &mut Vec<u8>, answer: &Answer) {
    match answer {
        Answer::Welcome(welcome) => put_with_shape(buffer, KIND_WELCOME, welcome, welcome.shape),
        Answer::Refused(refused) => put_with_shape(buffer, KIND_REFUSED, refused, Shape::PLAIN),
    }
}

/// Reads a [`Hello`] from the front of `buffer`, with the bytes it took.
pub(crate) fn read_hello(buffer: &[u8]) -> Result<Option<(Hello, usize)>, String> {
    let Some(frame) = cut(buffer)? else { return Ok(None) };
    if frame.kind != KIND_HELLO {
        return Err(format!("the first frame is of kind {}, not a greeting", frame.kind));
    }
    let (mut hello, shape): (Hello, Shape) = decode_with_shape(frame.payload)?;
    // Whoever has no cluster yet does not know.
    hello.shape = if hello.cluster == ClusterId(0) { Shape::default() } else { shape };
    Ok(Some((hello, frame.bytes)))
}

/// Reads an [`Answer`] from the front of `buffer`, with the bytes it took.
pub(crate) fn read_answer(buffer: &[u8]) -> Result<Option<(Answer, usize)>, String> {
    let Some(frame) = cut(buffer)? else { return Ok(None) };
    let answer = match frame.kind {
        KIND_WELCOME => {
            let (welcome, shape): (Welcome, Shape) = decode_with_shape(frame.payload)?;
            Answer::Welcome(Welcome { shape, ..welcome })
        }
        KIND_REFUSED => Answer::Refused(decode(frame.payload)?),
        kind => return Err(format!("the first frame is of kind {kind}, not an answer to a greeting")),
    };
    Ok(Some((answer, frame.bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(cluster: u64, id: u64) -> Myself {
        with_buckets(cluster, id, u16::from(cluster != 0), 0)
    }

    fn with_buckets(cluster: u64, id: u64, buckets: u16, asked: u16) -> Myself {
        let (cluster, id) = (ClusterId(cluster), NodeId(id));
        let shape = |buckets| Shape { buckets, ..Shape::default() };
        let (shape, asked) = (shape(buckets), shape(asked));
        Myself::new(&Identity { cluster, id, endpoints: Endpoints::default(), shape }, asked)
    }

    #[test]
    fn greetings_survive_the_wire_in_pieces() {
        let hello = node(7, 1).hello();
        let mut bytes = Vec::new();
        put_hello(&mut bytes, &hello);
        for short in 0..bytes.len() {
            assert_eq!(read_hello(&bytes[..short]), Ok(None));
        }
        assert_eq!(read_hello(&bytes), Ok(Some((hello, bytes.len()))));
        let welcome = with_buckets(7, 1, 9, 0).judge(&node(0, 2).hello()).expect("welcome");
        for answer in [Answer::Refused(Refused { reason: "no".into() }), Answer::Welcome(welcome)] {
            bytes.clear();
            put_answer(&mut bytes, &answer);
            assert_eq!(read_answer(&bytes), Ok(Some((answer, bytes.len()))));
            assert!(read_hello(&bytes).is_err());
        }
    }

    #[test]
    fn with_one_bucket_greetings_are_those_of_version_1() {
        let mut bytes = Vec::new();
        put_hello(&mut bytes, &Hello { versions: (1, 1), ..node(7, 300).hello() });
        let payload = b"QUORATE\x01\x07\xac\x02\0\0\0\x01\x01";
        assert_eq!(&bytes[12..], payload);
        let mut several = Vec::new();
        put_hello(&mut several, &Hello { versions: (1, 2), ..with_buckets(7, 300, 4, 0).hello() });
        assert_eq!(&several[12..], [&payload[..payload.len() - 1], &[2, 4, 0]].concat());
        assert_eq!(read_hello(&several).map(|read| read.map(|(hello, _)| hello.shape.buckets)), Ok(Some(4)));
        for wrong in [0, BUCKETS_MAX + 1].map(|buckets| Shape { buckets, copies: 3, ..Shape::default() }) {
            let mut bytes = Vec::new();
            frame::append(&mut bytes, FRAME_VERSION, KIND_HELLO, |bytes| {
                wire::encode_after(&wrong, wire::encode_after(&node(7, 1).hello(), bytes))
            });
            assert!(read_hello(&bytes).is_err(), "{wrong}");
        }
    }

    #[test]
    fn groups_are_told_behind_all_else() {
        let topology = Topology::Ring;
        let ring = Shape { buckets: 4, copies: 3, topology };
        let founder = Myself { shape: ring, asked: ring, ..with_buckets(7, 1, 4, 4) };
        let mut bytes = Vec::new();
        put_hello(&mut bytes, &founder.hello());
        assert_eq!(bytes[bytes.len() - 3..], [4, 3, 1]);
        assert_eq!(read_hello(&bytes), Ok(Some((founder.hello(), bytes.len()))));
        let welcome = founder.judge(&with_buckets(0, 2, 0, 0).hello()).expect("it joins");
        assert_eq!(welcome.shape, ring);
        let old = Hello { versions: (1, 2), ..node(0, 2).hello() };
        assert!(founder.judge(&old).expect_err("too old").contains("in groups of about 3 nodes"));
        let joiner = Myself { asked: Shape { topology, ..Shape::default() }, ..with_buckets(0, 2, 0, 0) };
        assert_eq!(joiner.judge_welcome(&welcome, None), Ok(()));
        let plain = with_buckets(7, 1, 4, 4).judge(&joiner.hello()).expect("it joins");
        assert!(joiner.judge_welcome(&plain, None).expect_err("no groups there").contains("--topology"));
    }

    #[test]
    fn who_joins_learns_the_number_of_buckets_and_others_must_agree() {
        let me = with_buckets(7, 1, 4, 4);
        let welcome = me.judge(&with_buckets(0, 2, 0, 0).hello()).expect("it joins");
        assert_eq!(welcome.shape.buckets, 4);
        assert_eq!(with_buckets(0, 2, 0, 0).judge_welcome(&welcome, None), Ok(()));
        assert_eq!(with_buckets(0, 2, 0, 4).judge_welcome(&welcome, None), Ok(()));
        let refused = with_buckets(0, 2, 0, 8).judge_welcome(&welcome, None).expect_err("it asks for 8");
        assert!(refused.contains("has 4 buckets") && refused.contains("asks for 8"), "{refused}");
        let placed = Shape { buckets: 4, copies: 3, ..Shape::default() };
        let founder = Myself { shape: placed, asked: placed, ..with_buckets(7, 1, 4, 4) };
        let placed = founder.judge(&with_buckets(0, 2, 0, 0).hello()).expect("it joins");
        assert_eq!((placed.shape.copies, with_buckets(0, 2, 0, 4).judge_welcome(&placed, None)), (3, Ok(())));
        assert!(founder.judge(&with_buckets(7, 2, 4, 4).hello()).is_err(), "founded without copies");
        let other = with_buckets(7, 2, 8, 8);
        let refused = me.judge(&other.hello()).expect_err("founded with 8");
        assert!(refused.contains("4 buckets, all on every node here and 8 buckets"), "{refused}");
        assert!(other.judge_welcome(&welcome, None).is_err());
        let old = Hello { versions: (1, 1), ..node(0, 2).hello() };
        assert!(me.judge(&old).expect_err("too old").contains("upgrade"));
        assert!(node(7, 1).judge(&old).is_ok());
    }

    #[test]
    fn members_and_joining_nodes_are_welcome() {
        let me = node(7, 1);
        let welcome = me.judge(&node(7, 2).hello()).expect("same cluster");
        assert_eq!((welcome.cluster, welcome.id, welcome.version), (ClusterId(7), NodeId(1), VERSIONS.1));
        assert!(me.judge(&node(0, 2).hello()).is_ok());
        assert_eq!(node(0, 2).judge_welcome(&welcome, None), Ok(()));
        assert_eq!(node(7, 2).judge_welcome(&welcome, Some(NodeId(1))), Ok(()));
    }

    #[test]
    fn strangers_twins_and_newer_ones_are_refused_with_a_reason() {
        let me = node(7, 1);
        let refused = |hello: &Hello| me.judge(hello).expect_err("refused");
        assert!(refused(&node(8, 2).hello()).contains("different clusters"));
        assert!(refused(&node(7, 1).hello()).contains("copied"));
        let newer = (VERSIONS.1 + 1, VERSIONS.1 + 3);
        let words = format!("versions {} to {}", newer.0, newer.1);
        assert!(refused(&Hello { versions: newer, ..node(7, 2).hello() }).contains(&words));
        assert!(refused(&Hello { magic: [0; 8], ..node(7, 2).hello() }).contains("not a Quorate"));
        assert!(node(0, 1).judge(&node(7, 2).hello()).expect_err("refused").contains("not joined"));
    }

    #[test]
    fn a_wrong_answer_is_refused() {
        let welcome = node(7, 1).judge(&node(7, 2).hello()).expect("welcome");
        assert!(node(7, 2).judge_welcome(&welcome, Some(NodeId(3))).is_err());
        assert!(node(8, 2).judge_welcome(&welcome, None).is_err());
        assert!(node(7, 1).judge_welcome(&welcome, None).is_err());
        assert!(
            node(7, 2).judge_welcome(&Welcome { version: VERSIONS.1 + 1, ..welcome.clone() }, None).is_err()
        );
        assert!(node(0, 2).judge_welcome(&Welcome { cluster: ClusterId(0), ..welcome }, None).is_err());
    }

    #[test]
    fn garbage_is_refused() {
        let mut rng = quorate_kernel::Rng::new(1);
        for _ in 0..1_000 {
            let bytes: Vec<u8> = (0..rng.between(12, 64)).map(|_| rng.next_u64() as u8).collect();
            assert!(!matches!(read_hello(&bytes), Ok(Some(_))));
        }
        assert!(read_hello(b"GET / HTTP/1.1\r\n\r\n").is_err(), "told before the claimed length arrives");
    }
}
