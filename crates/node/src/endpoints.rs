//! Where a node can be reached.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt::Write as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where a node can be reached, each as `host:port`; empty: there is no such door.
///
/// On the wire and in logs there are three addresses, as there were before the last one: that of the cluster view stands
/// behind the client's, after a space, which no address has. So members of any age understand each other, and what was
/// written before is read as it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Endpoints {
    /// By other nodes.
    pub peer: String,
    /// By Redis clients.
    pub client: String,
    /// By operators (HTTP).
    pub admin: String,
    /// By Redis Cluster clients.
    pub cluster: String,
}

/// How people and their tools read it.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Endpoints")]
struct Readable<'a> {
    peer: Cow<'a, str>,
    client: Cow<'a, str>,
    admin: Cow<'a, str>,
    #[serde(default)]
    cluster: Cow<'a, str>,
}

/// How nodes read it.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Endpoints")]
struct Packed<'a> {
    peer: Cow<'a, str>,
    client: Cow<'a, str>,
    admin: Cow<'a, str>,
}

impl Serialize for Endpoints {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (peer, admin) = (Cow::Borrowed(&*self.peer), Cow::Borrowed(&*self.admin));
        if serializer.is_human_readable() {
            let (client, cluster) = (Cow::Borrowed(&*self.client), Cow::Borrowed(&*self.cluster));
            return Readable { peer, client, admin, cluster }.serialize(serializer);
        }
        let mut client = self.client.clone();
        if !self.cluster.is_empty() {
            // Writing to a string does not fail.
            let _ = write!(client, " {}", self.cluster);
        }
        Packed { peer, client: client.into(), admin }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Endpoints {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let Readable { peer, client, admin, cluster } = Readable::deserialize(deserializer)?;
            return Ok(Endpoints {
                peer: peer.into(),
                client: client.into(),
                admin: admin.into(),
                cluster: cluster.into(),
            });
        }
        let Packed { peer, client, admin } = Packed::deserialize(deserializer)?;
        let (client, cluster) = client.split_once(' ').unwrap_or((&client, ""));
        Ok(Endpoints {
            peer: peer.into(),
            client: client.into(),
            admin: admin.into(),
            cluster: cluster.into(),
        })
    }
}
