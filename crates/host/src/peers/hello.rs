//! How two nodes introduce themselves, and what makes one refuse the other.
//!
//! The dialing node sends [`Hello`]; the other answers [`Welcome`] or [`Refused`] and closes. From then on messages
//! flow from the dialing node only.

use quorate_kernel::{ClusterId, NodeId, frame, wire};
use quorate_node::Endpoints;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Version of the frames' payloads.
pub(crate) const FRAME_VERSION: u16 = 1;
/// The oldest and the newest version of the conversation that this program speaks.
pub(crate) const VERSIONS: (u16, u16) = (1, 1);

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
}

/// What answered a [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Welcome(Welcome),
    Refused(Refused),
}

impl Myself {
    pub(crate) fn hello(&self) -> Hello {
        Hello {
            magic: MAGIC,
            cluster: self.cluster,
            id: self.id,
            endpoints: self.endpoints.clone(),
            versions: VERSIONS,
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
        Ok(Welcome { cluster: self.cluster, id: self.id, endpoints: self.endpoints.clone(), version })
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
        Ok(())
    }
}

/// Appends a frame with `value`.
pub(crate) fn put<T: Serialize>(buffer: &mut Vec<u8>, kind: u16, value: &T) {
    frame::append(buffer, FRAME_VERSION, kind, |bytes| wire::encode_after(value, bytes));
}

/// Cuts one greeting frame of `kinds`; `Ok(None)` if it has not arrived whole.
fn cut(buffer: &[u8]) -> Result<Option<frame::Frame<'_>>, String> {
    frame::cut(buffer, FRAME_VERSION, GREETING_BYTES_MAX).map_err(|error| error.to_string())
}

fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, String> {
    wire::decode(payload).map_err(|_| "a greeting that does not decode".to_owned())
}

/// Reads a [`Hello`] from the front of `buffer`, with the bytes it took.
pub(crate) fn read_hello(buffer: &[u8]) -> Result<Option<(Hello, usize)>, String> {
    let Some(frame) = cut(buffer)? else { return Ok(None) };
    match frame.kind {
        KIND_HELLO => Ok(Some((decode(frame.payload)?, frame.bytes))),
        kind => Err(format!("the first frame is of kind {kind}, not a greeting")),
    }
}

/// Reads an [`Answer`] from the front of `buffer`, with the bytes it took.
pub(crate) fn read_answer(buffer: &[u8]) -> Result<Option<(Answer, usize)>, String> {
    let Some(frame) = cut(buffer)? else { return Ok(None) };
    let answer = match frame.kind {
        KIND_WELCOME => Answer::Welcome(decode(frame.payload)?),
        KIND_REFUSED => Answer::Refused(decode(frame.payload)?),
        kind => return Err(format!("the first frame is of kind {kind}, not an answer to a greeting")),
    };
    Ok(Some((answer, frame.bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(cluster: u64, id: u64) -> Myself {
        Myself { cluster: ClusterId(cluster), id: NodeId(id), endpoints: Endpoints::default() }
    }

    #[test]
    fn greetings_survive_the_wire_in_pieces() {
        let hello = node(7, 1).hello();
        let mut bytes = Vec::new();
        put(&mut bytes, KIND_HELLO, &hello);
        for short in 0..bytes.len() {
            assert_eq!(read_hello(&bytes[..short]), Ok(None));
        }
        assert_eq!(read_hello(&bytes), Ok(Some((hello, bytes.len()))));
        let refused = Refused { reason: "no".into() };
        bytes.clear();
        put(&mut bytes, KIND_REFUSED, &refused);
        assert_eq!(read_answer(&bytes), Ok(Some((Answer::Refused(refused), bytes.len()))));
        assert!(read_hello(&bytes).is_err());
    }

    #[test]
    fn members_and_joining_nodes_are_welcome() {
        let me = node(7, 1);
        let welcome = me.judge(&node(7, 2).hello()).expect("same cluster");
        assert_eq!((welcome.cluster, welcome.id, welcome.version), (ClusterId(7), NodeId(1), 1));
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
        assert!(refused(&Hello { versions: (2, 5), ..node(7, 2).hello() }).contains("versions 2 to 5"));
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
