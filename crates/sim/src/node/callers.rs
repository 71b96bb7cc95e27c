//! Clients that name their requests and insist: whatever was not answered is asked for again at another node, under the same name.
//!
//! Each life of a caller has two counters of its own, which only its requests bump, one of them or both at once. So what they stand at
//! tells how often its requests happened: each that is done once, each that was given up in doubt at most once, others never.

use quorate_api::{Identity, Outcome, Refusal, Reply, Request};
use quorate_kernel::Rng;
use quorate_node::ConnectionId;

use super::words;
use crate::Verdict;

/// What is known of a counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    done: i64,
    unknown: i64,
    looked: bool,
}

/// A request that has not ended.
#[derive(Debug, Clone)]
struct Open {
    identity: Identity,
    /// Places of counters among those of the caller.
    counters: Vec<usize>,
    /// Whether it may have happened under this name.
    doubt: bool,
    /// What was answered, if it was and is asked once more.
    answered: Option<Reply>,
    asked: u32,
    in_flight: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Caller {
    id: u64,
    pub(crate) connection: Option<ConnectionId>,
    origin: u64,
    sequence: u64,
    /// Two for each life.
    counts: Vec<Count>,
    open: Option<Open>,
    looking: bool,
    pub(crate) done: u64,
    /// Requests that were answered when they were asked for again.
    pub(crate) found: u64,
}

impl Caller {
    pub(crate) fn new(id: u64) -> Self {
        Caller {
            id,
            connection: None,
            origin: 0,
            sequence: 0,
            counts: Vec::new(),
            open: None,
            looking: false,
            done: 0,
            found: 0,
        }
    }

    fn key(&self, counter: usize) -> String {
        format!("named:{}.{counter}", self.id)
    }

    /// Somebody new, with new counters.
    fn begin_life(&mut self, rng: &mut Rng) {
        (self.origin, self.sequence) = (rng.next_u64(), 0);
        self.counts.extend([Count::default(); 2]);
    }

    /// The next request: the one that has not ended, or a new one if `may_begin`.
    pub(crate) fn next(
        &mut self,
        may_begin: bool,
        age_ms: u64,
        rng: &mut Rng,
    ) -> Option<(Identity, Request)> {
        const GIVES_UP_AFTER: u32 = 40;
        if self.open.as_ref().is_some_and(|open| open.in_flight) {
            return None;
        }
        if self.open.as_ref().is_some_and(|open| open.asked > GIVES_UP_AFTER) {
            self.give_up();
        }
        if self.open.is_none() {
            if !may_begin {
                return None;
            }
            if self.counts.is_empty() || rng.chance(1, 60) {
                self.begin_life(rng);
            }
            let last = self.counts.len() - 1;
            let counters = [vec![last], vec![last - 1], vec![last - 1, last]][rng.below(3) as usize].clone();
            let identity = self.name(age_ms);
            let (doubt, answered, asked, in_flight) = (false, None, 0, false);
            self.open = Some(Open { identity, counters, doubt, answered, asked, in_flight });
        }
        let open = self.open.as_mut()?;
        (open.in_flight, open.asked) = (true, open.asked + 1);
        let open = open.clone();
        let bump = |counter: &usize| words::command(&["INCR", &self.key(*counter)]);
        let commands = open.counters.iter().map(bump).collect();
        Some((open.identity, Request::Transaction { watched: Vec::new(), commands }))
    }

    /// The next name. All before have ended, so they are settled.
    fn name(&mut self, age_ms: u64) -> Identity {
        self.sequence += 1;
        let (origin, sequence) = (self.origin, self.sequence);
        Identity { age_ms, origin, sequence, settled_before: sequence }
    }

    /// It ends in whatever state it is.
    fn give_up(&mut self) {
        let Some(open) = self.open.take() else { return };
        if open.doubt && open.answered.is_none() {
            open.counters.iter().for_each(|counter| self.counts[*counter].unknown += 1);
        }
    }

    /// Its request has come to this.
    ///
    /// # Errors
    /// If it happened twice, or is answered otherwise than before, or no correct store answers so.
    pub(crate) fn ended(&mut self, outcome: Outcome, rng: &mut Rng) -> Verdict {
        let Some(open) = &mut self.open else { return Err("an answer that nobody waits for".into()) };
        open.in_flight = false;
        match outcome {
            Outcome::Done(reply) => return self.answered(reply, rng),
            Outcome::Unknown => open.doubt = true,
            Outcome::Refused(Refusal::Aborted) => {
                if let Some(reply) = &open.answered {
                    return Err(format!("{:?} was answered with {reply:?} and is aborted", open.identity));
                }
                // Nothing happened under this name: the next one, of the same age, or nothing at all.
                let age_ms = open.identity.age_ms;
                open.doubt = false;
                if rng.chance(1, 2) {
                    self.open = None;
                } else {
                    let identity = self.name(age_ms);
                    self.open.iter_mut().for_each(|open| open.identity = identity);
                }
            }
            Outcome::Refused(Refusal::Settled) => {
                self.give_up();
                self.begin_life(rng);
            }
            // Nothing happened this time. What was in doubt still is.
            Outcome::Refused(_) if open.doubt || open.answered.is_some() || rng.chance(1, 2) => {}
            Outcome::Refused(_) => self.open = None,
        }
        Ok(())
    }

    fn answered(&mut self, reply: Reply, rng: &mut Rng) -> Verdict {
        let Some(open) = &mut self.open else { return Ok(()) };
        let name = open.identity;
        if open.asked > 1 {
            self.found += 1;
        }
        if let Some(before) = &open.answered {
            if *before != reply {
                return Err(format!("{name:?} was answered with {before:?}, and then with {reply:?}"));
            }
            self.open = None;
            return Ok(());
        }
        let Reply::Array(values) = &reply else {
            return Err(format!("{name:?} was answered with {reply:?}"));
        };
        if values.len() != open.counters.len() {
            return Err(format!("{name:?} was answered with {reply:?}"));
        }
        for (counter, value) in open.counters.iter().zip(values) {
            let count = &mut self.counts[*counter];
            count.done += 1;
            let value = words::number(value)?;
            if !(count.done..=count.done + count.unknown).contains(&value) {
                return Err(format!(
                    "{name:?} brought counter {counter} to {value}, which is to be {count:?}"
                ));
            }
        }
        self.done += 1;
        open.answered = Some(reply);
        // What is settled is not asked for again; until then it is found, wherever it is asked for.
        if rng.chance(3, 4) {
            self.open = None;
        }
        Ok(())
    }

    /// A counter of which it is not known where it stands.
    pub(crate) fn last_look(&self) -> Option<(u64, Request)> {
        let counter = self.counts.iter().position(|count| !count.looked)?;
        Some((counter as u64, words::one(&["GET", &self.key(counter)])))
    }

    /// The next last look, once nothing else is under way.
    pub(crate) fn look(&mut self) -> Option<(u64, Request)> {
        if self.looking {
            return None;
        }
        self.give_up();
        let look = self.last_look();
        self.looking = look.is_some();
        look
    }

    /// What the last look at a counter showed.
    ///
    /// # Errors
    /// If requests happened twice, or not although they were acknowledged, or although they were refused.
    pub(crate) fn looked(&mut self, counter: u64, outcome: &Outcome) -> Verdict {
        self.looking = false;
        let Outcome::Done(reply) = outcome else { return Ok(()) };
        let value = words::text(reply)?.unwrap_or_else(|| "0".to_owned());
        let value: i64 = value.parse().map_err(|_| format!("a counter is {value:?}"))?;
        let count = &mut self.counts[counter as usize];
        count.looked = true;
        match (count.done..=count.done + count.unknown).contains(&value) {
            true => Ok(()),
            false => Err(format!("counter {counter} of caller {} is {value}, and {count:?}", self.id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(value: i64) -> Outcome {
        Outcome::Done(Reply::Array(vec![Reply::Int(value)]))
    }

    /// A caller whose request about one counter is under way.
    fn asking(rng: &mut Rng) -> Caller {
        loop {
            let mut caller = Caller::new(1);
            let (_, request) = caller.next(true, 5, rng).expect("a request");
            if matches!(&request, Request::Transaction { commands, .. } if commands.len() == 1) {
                return caller;
            }
        }
    }

    #[test]
    fn doing_it_twice_is_noticed() {
        let mut rng = Rng::new(1);
        assert!(asking(&mut rng).ended(done(2), &mut rng).is_err());
        let mut caller = asking(&mut rng);
        assert_eq!(caller.ended(Outcome::Unknown, &mut rng), Ok(()));
        let (name, _) = caller.next(true, 9, &mut rng).expect("the same again");
        assert_eq!((name.sequence, name.age_ms), (1, 5));
        assert!(caller.ended(done(2), &mut rng).is_err(), "both happened");
    }

    #[test]
    fn another_answer_than_before_is_noticed() {
        let mut rng = Rng::new(2);
        let mut caller = loop {
            let mut caller = asking(&mut rng);
            assert_eq!(caller.ended(done(1), &mut rng), Ok(()));
            if caller.open.is_some() {
                break caller;
            }
        };
        let mut other = Caller { open: caller.open.clone(), counts: caller.counts.clone(), ..Caller::new(2) };
        assert!(caller.next(true, 5, &mut rng).is_some());
        assert!(caller.ended(done(2), &mut rng).is_err());
        assert!(other.ended(Outcome::Refused(Refusal::Aborted), &mut rng).is_err());
    }

    #[test]
    fn last_looks_find_what_is_lost_and_what_was_refused() {
        let mut rng = Rng::new(3);
        let looked = |caller: &mut Caller, value: &'static str| {
            let at = caller.counts.iter().position(|count| count.done + count.unknown > 0).unwrap_or(0);
            caller.looked(at as u64, &Outcome::Done(Reply::bulk(value)))
        };
        let mut caller = asking(&mut rng);
        assert_eq!(caller.ended(done(1), &mut rng), Ok(()));
        assert!(looked(&mut caller, "0").is_err() && looked(&mut caller, "2").is_err());
        assert_eq!(looked(&mut caller, "1"), Ok(()));
        let mut caller = asking(&mut rng);
        assert_eq!(caller.ended(Outcome::Unknown, &mut rng), Ok(()));
        caller.give_up();
        assert_eq!((looked(&mut caller, "0"), looked(&mut caller, "1")), (Ok(()), Ok(())));
        assert!(looked(&mut caller, "2").is_err());
        let mut caller = asking(&mut rng);
        assert_eq!(caller.ended(Outcome::Refused(Refusal::NoLeader), &mut rng), Ok(()));
        caller.give_up();
        assert!(looked(&mut caller, "1").is_err());
    }
}
