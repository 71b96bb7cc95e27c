//! Reasons why requests did nothing: whether they are true.
//!
//! A key that is said to have changed was watched in the version that is said, lies where it is said, and has another
//! version. That other one is not believed: the key is read again, anywhere. Versions of a key grow, so that it has the one
//! that was told by then, or a later one, and never again the one that was watched.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use bytes::Bytes;
use quorate_api::{Bucket, Outcome, Reason, ReasonKind, Reply, Request, Version};
use quorate_node::Ticket;

use crate::Verdict;

/// That a key had another version than the one that was watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) key: Bytes,
    watched: Version,
    found: Version,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// To be verified, by the connection on which the key is read.
    open: BTreeMap<u64, Claim>,
    /// Requests that wait and are said to do nothing.
    outrun: BTreeSet<Ticket>,
    verified: u64,
    waits: u64,
    again: u64,
    /// EXECs that did nothing because of their watched keys: explained, and not.
    nil: (u64, u64),
}

impl Claims {
    /// A client is told something of its request. What is to be verified by reading a key again.
    ///
    /// # Errors
    /// If it cannot be so.
    pub(crate) fn told(
        &mut self,
        (ticket, request): (Ticket, Option<&Request>),
        reason: &Reason,
        buckets: NonZeroU16,
    ) -> Result<Option<Claim>, String> {
        // Nobody listens any more.
        let Some(request) = request else { return Ok(None) };
        if reason.bucket.0 >= buckets.get() {
            return Err(format!("there is no such bucket: {reason:?}"));
        }
        match reason.kind {
            ReasonKind::Changed => {}
            ReasonKind::Waited => {
                self.waits += 1;
                return Ok(None);
            }
            _ => {
                self.again += 1;
                return Ok(None);
            }
        }
        let claim =
            claim(request, reason, buckets).map_err(|why| format!("{why}: {reason:?} of {request:?}"))?;
        self.outrun.insert(ticket);
        Ok(Some(claim))
    }

    /// The key is read again on this connection.
    pub(crate) fn verify(&mut self, connection: u64, claim: Claim) {
        self.open.insert(connection, claim);
    }

    /// A request has ended.
    ///
    /// # Errors
    /// If it happened although a watched key is said to have changed.
    pub(crate) fn ended(&mut self, ticket: Ticket, request: Option<&Request>, outcome: &Outcome) -> Verdict {
        let told = self.outrun.remove(&ticket);
        let Some(Request::Transaction { watched, .. }) =
            request.filter(|_| matches!(outcome, Outcome::Done(_)))
        else {
            return Ok(());
        };
        match outcome {
            Outcome::Done(Reply::NilArray) if !watched.is_empty() => {
                *if told { &mut self.nil.0 } else { &mut self.nil.1 } += 1;
                Ok(())
            }
            _ if told => Err(format!("a watched key is said to have changed, and it ended with {outcome:?}")),
            _ => Ok(()),
        }
    }

    /// The key was read again.
    ///
    /// # Errors
    /// If it never had the version that was told, or has the one that was watched.
    pub(crate) fn verified(&mut self, connection: u64, outcome: &Outcome) -> Verdict {
        let Some(claim) = self.open.remove(&connection) else {
            return Err("a claim that nobody made".into());
        };
        let Outcome::Done(Reply::Array(items)) = outcome else { return Ok(()) };
        let [Reply::Int(now)] = items[..] else { return Err(format!("a version was answered {items:?}")) };
        let now = Version(now.cast_unsigned());
        self.verified += 1;
        // The mark of a key whose time is over and which is not removed yet.
        let number = |version: Version| version.0 & !(1 << 62);
        match number(now) >= number(claim.found) && now != claim.watched {
            true => Ok(()),
            false => {
                Err(format!("a request was explained by {claim:?}, and then the key had version {}", now.0))
            }
        }
    }

    /// What was seen, by the names of marks.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 5] {
        [
            ("node.sim.explained.verified", self.verified),
            ("node.sim.explained.waits", self.waits),
            ("node.sim.explained.again", self.again),
            ("node.sim.explained.nil", self.nil.0),
            ("node.sim.unexplained.nil", self.nil.1),
        ]
    }
}

/// What a reason claims of a request.
fn claim(request: &Request, reason: &Reason, buckets: NonZeroU16) -> Result<Claim, &'static str> {
    let Request::Transaction { watched: keys, .. } = request else { return Err("it watches nothing") };
    let Some((key, (watched, found))) = reason.key.clone().zip(reason.versions) else {
        return Err("it names no key or no version");
    };
    if !keys.contains(&(key.clone(), watched)) {
        return Err("that key was not watched in that version");
    }
    if found == watched {
        return Err("the key has not changed");
    }
    if Bucket::of_key(&key, buckets) != reason.bucket {
        return Err("the key lies elsewhere");
    }
    Ok(Claim { key, watched, found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::Culprit;

    const ONE: NonZeroU16 = NonZeroU16::MIN;

    fn request() -> Request {
        let watched = vec![(Bytes::from_static(b"a"), Version(3)), (Bytes::from_static(b"b"), Version(4))];
        Request::Transaction { watched, commands: Vec::new() }
    }

    fn changed(key: &'static str, watched: u64, found: u64) -> Reason {
        let versions = Some((Version(watched), Version(found)));
        let (kind, key, by) = (ReasonKind::Changed, Some(Bytes::from(key)), Culprit::default());
        Reason { kind, bucket: Bucket(0), key, versions, by, waited_ms: 0 }
    }

    fn told(claims: &mut Claims, reason: &Reason) -> Result<Option<Claim>, String> {
        claims.told((Ticket(1), Some(&request())), reason, ONE)
    }

    fn read(version: i64) -> Outcome {
        Outcome::Done(Reply::Array(vec![Reply::Int(version)]))
    }

    #[test]
    fn what_cannot_be_so_is_noticed() {
        let mut claims = Claims::default();
        for lie in [changed("c", 3, 5), changed("a", 4, 5), changed("a", 3, 3)] {
            assert!(told(&mut claims, &lie).is_err(), "{lie:?}");
        }
        assert!(told(&mut claims, &Reason { bucket: Bucket(1), ..changed("a", 3, 5) }).is_err());
        assert!(told(&mut claims, &Reason { versions: None, ..changed("a", 3, 5) }).is_err());
        assert!(told(&mut claims, &Reason { key: None, ..changed("a", 3, 5) }).is_err());
        let plain = Request::Versions(Vec::new());
        assert!(claims.told((Ticket(1), Some(&plain)), &changed("a", 3, 5), ONE).is_err());
    }

    #[test]
    fn a_version_that_never_was_is_noticed_when_the_key_is_read() {
        for (version, is_true) in [(7, true), (5, true), (4, false), (3, false)] {
            let mut claims = Claims::default();
            let claim = told(&mut claims, &changed("a", 3, 5)).unwrap().expect("something to read");
            assert_eq!(claim.key, "a");
            claims.verify(7, claim);
            assert_eq!(claims.verified(7, &read(version)).is_ok(), is_true, "{version}");
        }
    }

    #[test]
    fn what_was_outrun_does_not_happen() {
        let mut claims = Claims::default();
        let done = Outcome::Done(Reply::Array(Vec::new()));
        for (outcome, is_true) in
            [(Outcome::Done(Reply::NilArray), true), (Outcome::Unknown, true), (done, false)]
        {
            told(&mut claims, &changed("a", 3, 5)).unwrap();
            assert_eq!(claims.ended(Ticket(1), Some(&request()), &outcome).is_ok(), is_true, "{outcome:?}");
        }
        assert_eq!(claims.nil, (1, 0));
    }
}
