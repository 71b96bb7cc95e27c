//! What a workload is to do.

use crate::Distribution;

/// The kinds of workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// GET and SET.
    Register,
    /// GET, and compare-and-set by WATCH, GET, MULTI, SET, EXEC.
    Swap,
    /// INCRBY and GET.
    Counter,
    /// RPUSH and LRANGE.
    Append,
    /// APPEND and GET of strings that hold elements with separators.
    AppendString,
    /// MULTI, several RPUSH and LRANGE, EXEC.
    AppendTransaction,
    /// Pushes and pops at both ends, LMOVE between two neighbours, LRANGE.
    List,
    /// Transfers between accounts that must not be overdrawn, and reads of all accounts.
    Bank,
    /// Exchanges of neighbours in a ring of keys that name each other, and reads of the whole ring.
    Cycle,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 9] = [
        Kind::Register,
        Kind::Swap,
        Kind::Counter,
        Kind::Append,
        Kind::AppendString,
        Kind::AppendTransaction,
        Kind::List,
        Kind::Bank,
        Kind::Cycle,
    ];

    /// Its name, as on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Register => "register",
            Kind::Swap => "swap",
            Kind::Counter => "counter",
            Kind::Append => "append",
            Kind::AppendString => "append-string",
            Kind::AppendTransaction => "append-transaction",
            Kind::List => "list",
            Kind::Bank => "bank",
            Kind::Cycle => "cycle",
        }
    }

    /// The kind of this name.
    pub fn find(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The fewest keys that make sense.
    fn keys_min(self) -> u64 {
        match self {
            Kind::Bank | Kind::List => 2,
            // An exchange moves two keys between two others.
            Kind::Cycle => 4,
            _ => 1,
        }
    }
}

/// Describes a workload.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Spec {
    /// What it does.
    pub kind: Kind,
    /// How many keys it uses. Few keys make conflicts, many spread over shards.
    pub keys: u64,
    /// What all keys begin with; one with a hash tag, such as `{a}`, puts all of them into one slot.
    pub prefix: String,
    /// Which keys are used how often.
    pub distribution: Distribution,
    /// Share of operations that only read, from 0 to 100.
    pub read_percent: u64,
}

/// Why a [`Spec`] makes no workload.
#[derive(Debug, Clone, PartialEq)]
pub enum SpecError {
    /// Too few keys.
    Keys {
        /// The kind.
        kind: Kind,
        /// How many it was to use.
        keys: u64,
    },
    /// More than 100 percent.
    ReadPercent(u64),
    /// The skew of a Zipf distribution is not between 0 and 1.
    Skew(f64),
}

impl std::fmt::Display for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SpecError::Keys { kind, keys } => {
                let (name, least) = (kind.name(), kind.keys_min());
                write!(f, "the workload {name} cannot use {keys} keys: give it {least} or more")
            }
            SpecError::ReadPercent(share) => {
                write!(f, "{share} percent of reads: choose a share from 0 to 100")
            }
            SpecError::Skew(skew) => {
                write!(
                    f,
                    "a skew of {skew}: choose more than 0 (hardly any) and less than 1 (strong); YCSB has 0.99"
                )
            }
        }
    }
}

impl std::error::Error for SpecError {}

impl Spec {
    /// A workload of this kind with few keys and many conflicts.
    pub fn new(kind: Kind) -> Self {
        let keys = if kind == Kind::Bank { 8 } else { 10 };
        Spec {
            kind,
            keys,
            prefix: format!("{}:", kind.name()),
            distribution: Distribution::Uniform,
            read_percent: 50,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), SpecError> {
        if self.keys < self.kind.keys_min() {
            return Err(SpecError::Keys { kind: self.kind, keys: self.keys });
        }
        if self.read_percent > 100 {
            return Err(SpecError::ReadPercent(self.read_percent));
        }
        match self.distribution {
            Distribution::Zipf { skew } if !(skew > 0.0 && skew < 1.0) => Err(SpecError::Skew(skew)),
            Distribution::Uniform | Distribution::Zipf { .. } => Ok(()),
        }
    }

    /// The name of a key by number.
    pub(crate) fn key(&self, number: u64) -> String {
        format!("{}{number}", self.prefix)
    }

    /// The names of all keys.
    pub(crate) fn all_keys(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.keys).map(|number| self.key(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_advice() {
        let spec = Spec::new(Kind::Cycle);
        let error = Spec { keys: 3, ..spec.clone() }.validate().expect_err("no exchange in a ring of three");
        assert!(error.to_string().contains("4 or more"));
        let error = Spec { read_percent: 101, ..spec.clone() }.validate().expect_err("too many");
        assert!(error.to_string().contains("from 0 to 100"));
        for skew in [0.0, 1.0, f64::NAN, -0.5] {
            let error = Spec { distribution: Distribution::Zipf { skew }, ..spec.clone() }.validate();
            assert!(error.expect_err("no such skew").to_string().contains("less than 1"));
        }
        assert_eq!(spec.validate(), Ok(()));
    }

    #[test]
    fn names_are_found_again() {
        for kind in Kind::ALL {
            assert_eq!(Kind::find(kind.name()), Some(kind));
            assert_eq!(Spec::new(kind).validate(), Ok(()));
        }
    }
}
