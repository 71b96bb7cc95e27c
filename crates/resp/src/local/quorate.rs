//! QUORATE: what Redis has no command for.

use bytes::Bytes;
use quorate_api::{Consistency, Reply};

use super::{error, is, named, text};
use crate::table::{InMulti, Local};
use crate::{QUORATE_VERSION, Session, Step, World};

pub(super) static COMMANDS: [Local; 1] =
    [Local::container("quorate", "0.1.0", "A container for commands that only Quorate has.", &SUBCOMMANDS)];

static SUBCOMMANDS: [Local; 6] = [
    Local::new(
        "quorate|consistency",
        -2,
        "0.1.0",
        "Returns or sets (STRICT|RELAXED) how fresh the answers to this connection must be.",
        consistency,
    )
    .connection(),
    Local::new(
        "quorate|explain",
        2,
        "0.1.0",
        "Tells what became of the connection's last transaction: what it waited for, which key had changed, and by whom.",
        Session::explain,
    )
    .group("transactions")
    .in_multi(InMulti::Refuse),
    Local::help("quorate|help", "0.1.0"),
    Local::new(
        named::NAME,
        -8,
        "0.1.0",
        "Runs commands at one instant, at most once under the name that the client gives them.",
        named::transaction,
    )
    .group("transactions")
    .in_multi(InMulti::Refuse),
    Local::new("quorate|version", 2, "0.1.0", "Returns the version of Quorate.", version),
    Local::new("quorate|versions", -3, "0.1.0", "Returns the versions of keys.", named::versions)
        .group("transactions")
        .in_multi(InMulti::Refuse),
];

fn version(_: &mut Session, _: &[Bytes], _: &dyn World) -> Step {
    Reply::bulk(QUORATE_VERSION).into()
}

fn consistency(session: &mut Session, words: &[Bytes], _: &dyn World) -> Step {
    let wanted = match &words[2..] {
        [] => return Reply::bulk(name(session.consistency)).into(),
        [word] if is(word, "strict") => Consistency::Strict,
        [word] if is(word, "relaxed") => Consistency::Relaxed,
        words => {
            let asked: alloc::vec::Vec<_> =
                words.iter().map(|word| text(&word[..word.len().min(64)])).collect();
            let asked = asked.join(" ");
            return error(alloc::format!(
                "ERR consistency '{asked}' is not given here, nothing was changed; this keyspace gives: strict, relaxed"
            ));
        }
    };
    session.consistency = wanted;
    Reply::Ok.into()
}

fn name(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Strict | Consistency::Near => "strict",
        Consistency::Relaxed => "relaxed",
    }
}
