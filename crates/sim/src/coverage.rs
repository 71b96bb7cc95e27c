//! What runs reached, and what they must reach: a simulation that commits nothing proves nothing.

use std::fmt;

use quorate_kernel::Marks;

use crate::world::Counts;

/// Sums over one run or many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// How many runs.
    pub runs: u64,
    /// Marks of machines, world and harness.
    pub marks: Marks,
    /// How much of what happened.
    pub counts: Counts,
}

impl Coverage {
    /// Adds what another run reached.
    pub fn merge(&mut self, other: &Coverage) {
        self.runs += other.runs;
        self.marks.merge(&other.marks);
        let (sum, more) = (&mut self.counts, &other.counts);
        sum.events += more.events;
        sum.steps += more.steps;
        sum.messages_sent += more.messages_sent;
        sum.bytes_sent += more.bytes_sent;
        sum.messages_delivered += more.messages_delivered;
        sum.records += more.records;
        sum.syncs += more.syncs;
    }

    /// Compares with the least that must be reached.
    ///
    /// # Errors
    /// All marks that were hit too rarely.
    pub fn check(&self, floors: &[(&'static str, u64)]) -> Result<(), String> {
        let missed: Vec<String> = floors
            .iter()
            .filter(|(name, least)| self.marks.count(name) < *least)
            .map(|(name, least)| format!("{name} was hit {} times, not {least}", self.marks.count(name)))
            .collect();
        if missed.is_empty() { Ok(()) } else { Err(missed.join("; ")) }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { events, steps, messages_sent, bytes_sent, messages_delivered, records, syncs } =
            self.counts;
        writeln!(f, "{:>12}  runs", self.runs)?;
        for (count, name) in [
            (events, "events"),
            (steps, "steps"),
            (messages_sent, "messages sent"),
            (bytes_sent, "bytes sent"),
            (messages_delivered, "messages delivered"),
            (records, "records"),
            (syncs, "syncs"),
        ] {
            writeln!(f, "{count:>12}  {name}")?;
        }
        for (name, count) in self.marks.iter() {
            writeln!(f, "{count:>12}  {name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_are_kept_or_named() {
        let mut coverage = Coverage::default();
        coverage.marks.hit("log.chosen");
        assert_eq!(coverage.check(&[("log.chosen", 1)]), Ok(()));
        let complaint = coverage.check(&[("log.chosen", 2), ("log.elected", 1)]).unwrap_err();
        assert_eq!(complaint, "log.chosen was hit 1 times, not 2; log.elected was hit 0 times, not 1");
    }
}
