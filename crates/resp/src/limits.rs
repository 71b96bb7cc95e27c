//! Bounds on what one connection may make this node hold.

use alloc::string::String;
use alloc::vec::Vec;

/// Every bound of the door. Whatever exceeds one is refused with an error that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Words of one command. Redis has 1,048,576; fewer breaks clients that load in bulk, more costs memory before
    /// anything is known of the command.
    pub words_max: usize,
    /// Bytes of one word. Must not be below [`Limits::value_bytes_max`], or large values fail as protocol errors,
    /// which close the connection, instead of being refused.
    pub bulk_bytes_max: usize,
    /// Bytes of an inline command or of a length line, its end included. Redis has 64 KiB.
    pub inline_bytes_max: usize,
    /// Bytes of all words of one command, counting [`WORD_OVERHEAD_BYTES`] for each. What one connection can make
    /// the node buffer; times the number of connections, what all can.
    pub command_bytes_max: usize,
    /// Bytes of a key.
    pub key_bytes_max: usize,
    /// Bytes of any other argument of a data command.
    pub value_bytes_max: usize,
    /// Commands between MULTI and EXEC. A transaction is one entry of a log: long ones hold up everybody else.
    pub queued_commands_max: usize,
    /// Bytes of the commands between MULTI and EXEC, counted as in [`Limits::command_bytes_max`].
    pub queued_bytes_max: usize,
    /// Keys a connection may watch at once.
    pub watched_keys_max: usize,
}

/// What a word costs apart from its bytes: its handle, and its share of the buffer it lies in.
pub(crate) const WORD_OVERHEAD_BYTES: usize = 48;

impl Limits {
    /// The defaults of a node.
    pub fn production() -> Limits {
        Limits {
            words_max: 1_048_576,
            bulk_bytes_max: 16 << 20,
            inline_bytes_max: 64 << 10,
            command_bytes_max: 64 << 20,
            key_bytes_max: 63 << 10,
            value_bytes_max: 16 << 20,
            queued_commands_max: 1_024,
            queued_bytes_max: 32 << 20,
            watched_keys_max: 1_024,
        }
    }

    /// Limits whose edges are near, for tests.
    pub fn tiny() -> Limits {
        Limits {
            words_max: 8,
            bulk_bytes_max: 64,
            inline_bytes_max: 64,
            command_bytes_max: 600,
            key_bytes_max: 16,
            value_bytes_max: 32,
            queued_commands_max: 4,
            queued_bytes_max: 800,
            watched_keys_max: 3,
        }
    }

    /// Everything that is wrong with these limits, each with what to do; empty if nothing is.
    pub fn complaints(&self) -> Vec<String> {
        use alloc::format;
        let mut complaints = Vec::new();
        let positive = [
            ("words_max", self.words_max),
            ("bulk_bytes_max", self.bulk_bytes_max),
            ("key_bytes_max", self.key_bytes_max),
            ("value_bytes_max", self.value_bytes_max),
            ("queued_commands_max", self.queued_commands_max),
            ("watched_keys_max", self.watched_keys_max),
        ];
        for (name, value) in positive {
            if value == 0 {
                complaints.push(format!("{name} is 0, with which nothing could be served: set at least 1"));
            }
        }
        if self.inline_bytes_max < 32 {
            complaints.push(format!(
                "inline_bytes_max is {}, too short for a length line: set at least 32",
                self.inline_bytes_max
            ));
        }
        let ordered = [
            ("value_bytes_max", self.value_bytes_max, "bulk_bytes_max", self.bulk_bytes_max),
            ("key_bytes_max", self.key_bytes_max, "bulk_bytes_max", self.bulk_bytes_max),
            ("bulk_bytes_max", self.bulk_bytes_max, "command_bytes_max", self.command_bytes_max),
        ];
        for (small, small_value, large, large_value) in ordered {
            if small_value > large_value {
                complaints.push(format!(
                    "{small} is {small_value}, above {large}, which is {large_value}: raise {large}"
                ));
            }
        }
        complaints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_limits_are_consistent() {
        assert_eq!(Limits::production().complaints(), Vec::<String>::new());
        assert_eq!(Limits::tiny().complaints(), Vec::<String>::new());
    }

    #[test]
    fn all_complaints_are_made_at_once() {
        let limits = Limits { words_max: 0, inline_bytes_max: 1, value_bytes_max: 100, ..Limits::tiny() };
        assert_eq!(limits.complaints().len(), 3);
    }
}
