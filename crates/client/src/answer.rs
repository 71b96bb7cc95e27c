//! What an error reply says about a request, by its first word.

use quorate_api::{ErrorReply, Reply};

/// What an answer means for whoever asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It is an answer.
    Answer,
    /// Another node is to be asked: the one at this address leads.
    Moved(String),
    /// This node did nothing, now; another, or this one later, may.
    Passing(String),
    /// This node may have done it.
    Doubt(String),
    /// Nothing happened under this name, and nothing will.
    Aborted(String),
    /// This name is no longer known.
    Settled(String),
    /// Nothing was done, and waiting does not help.
    Refused(String),
}

/// What one reply means.
pub(crate) fn meaning(reply: &Reply) -> Meaning {
    let Reply::Error(ErrorReply(text)) = reply else { return Meaning::Answer };
    let why = text.clone();
    match text.split(' ').next().unwrap_or_default() {
        "MOVED" => match text.rsplit_once(' ') {
            Some((_, address)) if address.contains(':') => Meaning::Moved(address.to_owned()),
            _ => Meaning::Passing(why),
        },
        // The clock that is wrong may be that of the node.
        "TRYAGAIN" | "LOADING" | "BUSY" | "CLUSTERDOWN" | "CLOCK" => Meaning::Passing(why),
        "UNKNOWN" => Meaning::Doubt(why),
        "ABORTED" => Meaning::Aborted(why),
        "SETTLED" => Meaning::Settled(why),
        _ => Meaning::Refused(why),
    }
}

/// What several replies to one question mean together: the first that is no answer decides.
pub(crate) fn meaning_of_all(replies: &[Reply]) -> Meaning {
    replies.iter().map(meaning).find(|meaning| *meaning != Meaning::Answer).unwrap_or(Meaning::Answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::{Refusal, UNKNOWN_MESSAGE};

    #[test]
    fn each_refusal_of_a_server_is_understood() {
        let of = |text: &str| meaning(&Reply::error(text));
        let all = [Refusal::NoLeader, Refusal::Busy, Refusal::NotServing, Refusal::Halted, Refusal::Outdated];
        for passing in all {
            assert!(matches!(of(passing.message()), Meaning::Passing(_)), "{passing:?}");
        }
        for final_one in [Refusal::NoSpace, Refusal::NoMemory, Refusal::TooLarge, Refusal::ValuesTooLarge] {
            assert!(matches!(of(final_one.message()), Meaning::Refused(_)), "{final_one:?}");
        }
        assert!(matches!(of(Refusal::Aborted.message()), Meaning::Aborted(_)));
        assert!(matches!(of(Refusal::Settled.message()), Meaning::Settled(_)));
        assert!(matches!(of(UNKNOWN_MESSAGE), Meaning::Doubt(_)));
        assert_eq!(of("MOVED 12 ::1:6380"), Meaning::Moved("::1:6380".into()));
        assert!(matches!(of("MOVED"), Meaning::Passing(_)));
        assert!(matches!(of("WRONGTYPE no"), Meaning::Refused(_)));
        assert_eq!(meaning(&Reply::Nil), Meaning::Answer);
        let both = [Reply::Ok, Reply::error("MOVED 1 a:1")];
        assert_eq!(meaning_of_all(&both), Meaning::Moved("a:1".into()));
    }
}
