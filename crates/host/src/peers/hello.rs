//! How two nodes introduce themselves, and what makes one refuse the other.
//!
//! The dialing node sends [`Hello`]; the other answers [`Welcome`] or [`Refused`] and closes. From then on messages
//! flow from the dialing node only.

use quorate_kernel::{ClusterId, NodeId, frame, wire};
use quorate_node::{BUCKETS_MAX, Endpoints};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::start::Identity;

/// Version of the frames' payloads.
pub(crate) const FRAME_VERSION: u16 = 1;
/// The oldest and the newest version of the conversation that this program speaks.
///
/// - 1: the first.
/// - 2: clusters of several buckets. A greeting of such a cluster ends with their number; of one with a single bucket it
///   is as in version 1.
pub(crate) const VERSIONS: (u16, u16) = (1, 2);

/// Since this version nodes know of several buckets.
const VERSION_OF_BUCKETS: u16 = 2;

/// Kind of a frame that holds a [`Hello`].
pub(crate) const KIND_HELLO: u16 = 1;
/// Kind of a frame that holds a [`Welcome`].
pub(crate) const KIND_WELCOME: u16 = 2;
/// Kind of a frame that holds a [`Refused`].
pub(crate) const KIND_REFUSED: u16 = 3;
/// Kind of a frame that holds a message of the node.
pub(crate) const KIND_MESSAGE: u16 = 16;

/// Longest frame before both have introduced themselves.
pub(crate) const GREETING_BYTES_MAX: usize = 4 << 10;

const MAGIC: [u8; 8] = *b"QUORATE\x01";

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
    /// How many buckets the sender's cluster has; 0 if it does not know yet.
    #[serde(skip)]
    pub(crate) buckets: u16,
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
    /// How many buckets the cluster has.
    #[serde(skip)]
    pub(crate) buckets: u16,
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
    /// How many buckets the cluster has; 0 until it is known.
    pub(crate) buckets: u16,
    /// How many it should have, says the configuration; 0: whatever it has.
    buckets_asked: u16,
}

/// What answered a [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Welcome(Welcome),
    Refused(Refused),
}

impl Myself {
    /// A node, and how many buckets its configuration asks for (0: however many there are).
    pub(crate) fn new(identity: &Identity, buckets_asked: u16) -> Myself {
        let Identity { id, cluster, endpoints, buckets } = identity.clone();
        Myself { cluster, id, endpoints, buckets, buckets_asked }
    }

    pub(crate) fn hello(&self) -> Hello {
        Hello {
            magic: MAGIC,
            cluster: self.cluster,
            id: self.id,
            endpoints: self.endpoints.clone(),
            versions: VERSIONS,
            buckets: self.buckets,
        }
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
        if version < VERSION_OF_BUCKETS && self.buckets > 1 {
            return Err(format!(
                "this cluster has {} buckets, of which its version knows nothing: upgrade it, then start it again",
                self.buckets
            ));
        }
        if hello.buckets != 0 && hello.buckets != self.buckets {
            return Err(self.contradiction(hello.buckets));
        }
        let (cluster, id, endpoints) = (self.cluster, self.id, self.endpoints.clone());
        Ok(Welcome { cluster, id, endpoints, version, buckets: self.buckets })
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
        if self.buckets != 0 && welcome.buckets != self.buckets {
            return Err(self.contradiction(welcome.buckets));
        }
        if self.buckets_asked != 0 && welcome.buckets != self.buckets_asked {
            return Err(format!(
                "its cluster has {} buckets, but cluster.buckets here asks for {}: take that setting (or --buckets) away, \
                 a node that joins learns the number",
                welcome.buckets, self.buckets_asked
            ));
        }
        Ok(())
    }

    fn contradiction(&self, other: u16) -> String {
        format!(
            "the cluster has {} buckets here and {other} there: its first members must be started with the same \
             cluster.buckets; begin again with empty data directories",
            self.buckets
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

/// Decodes a greeting, with the number of buckets that may stand behind it.
fn decode_with_buckets<T: DeserializeOwned>(payload: &[u8]) -> Result<(T, u16), String> {
    let (greeting, rest) = wire::decode_front(payload).map_err(|_| UNREADABLE.to_owned())?;
    if rest.is_empty() {
        return Ok((greeting, 1));
    }
    match decode(rest)? {
        buckets @ 2..=BUCKETS_MAX => Ok((greeting, buckets)),
        other => Err(format!("a greeting of a cluster with {other} buckets")),
    }
}

/// Appends a frame with a greeting of a cluster of so many buckets.
fn put_with_buckets<T: Serialize>(buffer: &mut Vec<u8>, kind: u16, greeting: &T, buckets: u16) {
    frame::append(buffer, FRAME_VERSION, kind, |bytes| match wire::encode_after(greeting, bytes) {
        bytes if buckets > 1 => wire::encode_after(&buckets, bytes),
        bytes => bytes,
    });
}

/// Appends a frame with a [`Hello`].
pub(crate) fn put_hello(buffer: &mut Vec<u8>, hello: &Hello) {
    put_with_buckets(buffer, KIND_HELLO, hello, hello.buckets);
}

/// Appends a frame with the answer to a greeting.
pub(crate) fn put_answer(buffer: &mut Vec<u8>, answer: &Answer) {
    match answer {
        Answer::Welcome(welcome) => put_with_buckets(buffer, KIND_WELCOME, welcome, welcome.buckets),
        Answer::Refused(refused) => put_with_buckets(buffer, KIND_REFUSED, refused, 0),
    }
}

/// Reads a [`Hello`] from the front of `buffer`, with the bytes it took.
pub(crate) fn read_hello(buffer: &[u8]) -> Result<Option<(Hello, usize)>, String> {
    let Some(frame) = cut(buffer)? else { return Ok(None) };
    if frame.kind != KIND_HELLO {
        return Err(format!("the first frame is of kind {}, not a greeting", frame.kind));
    }
    let (mut hello, buckets): (Hello, u16) = decode_with_buckets(frame.payload)?;
    // Whoever has no cluster yet does not know.
    hello.buckets = if hello.cluster == ClusterId(0) { 0 } else { buckets };
    Ok(Some((hello, frame.bytes)))
}

/// Reads an [`Answer`] from the front of `buffer`, with the bytes it took.
pub(crate) fn read_answer(buffer: &[u8]) -> Result<Option<(Answer, usize)>, String> {
    let Some(frame) = cut(buffer)? else { return Ok(None) };
    let answer = match frame.kind {
        KIND_WELCOME => {
            let (welcome, buckets): (Welcome, u16) = decode_with_buckets(frame.payload)?;
            Answer::Welcome(Welcome { buckets, ..welcome })
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
        Myself::new(&Identity { cluster, id, endpoints: Endpoints::default(), buckets }, asked)
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
        assert_eq!(&several[12..], [&payload[..payload.len() - 1], &[2, 4]].concat());
        assert_eq!(read_hello(&several).map(|read| read.map(|(hello, _)| hello.buckets)), Ok(Some(4)));
        for wrong in [0, 1, BUCKETS_MAX + 1] {
            let mut bytes = Vec::new();
            frame::append(&mut bytes, FRAME_VERSION, KIND_HELLO, |bytes| {
                wire::encode_after(&wrong, wire::encode_after(&node(7, 1).hello(), bytes))
            });
            assert!(read_hello(&bytes).is_err(), "{wrong} buckets");
        }
    }

    #[test]
    fn who_joins_learns_the_number_of_buckets_and_others_must_agree() {
        let me = with_buckets(7, 1, 4, 4);
        let welcome = me.judge(&with_buckets(0, 2, 0, 0).hello()).expect("it joins");
        assert_eq!(welcome.buckets, 4);
        assert_eq!(with_buckets(0, 2, 0, 0).judge_welcome(&welcome, None), Ok(()));
        assert_eq!(with_buckets(0, 2, 0, 4).judge_welcome(&welcome, None), Ok(()));
        let refused = with_buckets(0, 2, 0, 8).judge_welcome(&welcome, None).expect_err("it asks for 8");
        assert!(refused.contains("has 4 buckets") && refused.contains("asks for 8"), "{refused}");
        let other = with_buckets(7, 2, 8, 8);
        let refused = me.judge(&other.hello()).expect_err("founded with 8");
        assert!(refused.contains("4 buckets here and 8 there"), "{refused}");
        assert!(other.judge_welcome(&welcome, None).is_err());
        let old = Hello { versions: (1, 1), ..node(0, 2).hello() };
        assert!(me.judge(&old).expect_err("too old").contains("upgrade"));
        assert!(node(7, 1).judge(&old).is_ok());
    }

    #[test]
    fn members_and_joining_nodes_are_welcome() {
        let me = node(7, 1);
        let welcome = me.judge(&node(7, 2).hello()).expect("same cluster");
        assert_eq!((welcome.cluster, welcome.id, welcome.version), (ClusterId(7), NodeId(1), 2));
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
        assert!(refused(&Hello { versions: (3, 5), ..node(7, 2).hello() }).contains("versions 3 to 5"));
        assert!(refused(&Hello { magic: [0; 8], ..node(7, 2).hello() }).contains("not a Quorate"));
        assert!(node(0, 1).judge(&node(7, 2).hello()).expect_err("refused").contains("not joined"));
    }

    #[test]
    fn a_wrong_answer_is_refused() {
        let welcome = node(7, 1).judge(&node(7, 2).hello()).expect("welcome");
        assert!(node(7, 2).judge_welcome(&welcome, Some(NodeId(3))).is_err());
        assert!(node(8, 2).judge_welcome(&welcome, None).is_err());
        assert!(node(7, 1).judge_welcome(&welcome, None).is_err());
        assert!(node(7, 2).judge_welcome(&Welcome { version: 9, ..welcome.clone() }, None).is_err());
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
