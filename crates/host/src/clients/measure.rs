//! What requests count as, and what the protocol allows of them.

use bytes::Bytes;
use quorate_api::Request;
use quorate_values::Effect;

use crate::config::Limits;
use crate::stats::Kind;

/// The bounds of the protocol that follow from a node's limits.
pub(super) fn wire_limits(limits: &Limits) -> quorate_resp::Limits {
    quorate_resp::Limits {
        words_max: limits.request_words_max,
        bulk_bytes_max: limits.value_bytes_max.get().max(limits.key_bytes_max.get()),
        command_bytes_max: limits.request_bytes_max.get(),
        key_bytes_max: limits.key_bytes_max.get(),
        value_bytes_max: limits.value_bytes_max.get(),
        queued_bytes_max: limits.request_bytes_max.get(),
        watched_keys_max: limits.transaction_keys_max,
        queued_commands_max: limits.transaction_keys_max,
        ..quorate_resp::Limits::production()
    }
}

/// What a request counts as, and its bytes.
pub(super) fn measure(request: &Request) -> (Kind, usize) {
    const OVERHEAD: usize = 64;
    let words = |words: &[Bytes]| words.iter().map(|word| word.len() + OVERHEAD).sum::<usize>();
    match request {
        Request::One(command) => {
            let reads = quorate_values::by_code(command.code).is_some_and(|spec| spec.effect == Effect::Read);
            (if reads { Kind::Read } else { Kind::Write }, OVERHEAD + words(&command.args))
        }
        Request::Versions(keys) => (Kind::Read, OVERHEAD + words(keys)),
        Request::Collect { part, .. } => (Kind::Read, OVERHEAD + part.len()),
        Request::Transaction { watched, commands } => {
            let keys: usize = watched.iter().map(|(key, _)| key.len() + OVERHEAD).sum();
            let inner: usize = commands.iter().map(|command| OVERHEAD + words(&command.args)).sum();
            (Kind::Transaction, OVERHEAD + keys + inner)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_the_protocol_fit_together() {
        assert_eq!(wire_limits(&Limits::default()).complaints(), Vec::<String>::new());
    }
}
