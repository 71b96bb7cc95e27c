//! The requests of workloads as bytes on a connection, and their answers as outcomes.

use quorate_api::{ErrorReply, Outcome, Refusal, Reply};
use quorate_workload::Request;

use quorate_client::resp;

/// What a server that has enough connections says instead of an answer.
const TURNED_AWAY: &str = "ERR max number of clients reached";

/// Appends a request; says how many replies it will get.
pub(crate) fn encode(out: &mut Vec<u8>, request: &Request) -> usize {
    match request {
        Request::Command(words) => {
            resp::encode(out, words);
            1
        }
        Request::Watch(keys) => {
            resp::push_number(out, b'*', keys.len() + 1);
            resp::push_bulk(out, b"WATCH");
            keys.iter().for_each(|key| resp::push_bulk(out, key));
            1
        }
        Request::Transaction { commands, .. } => {
            resp::encode(out, &["MULTI"]);
            commands.iter().for_each(|words| resp::encode(out, words));
            resp::encode(out, &["EXEC"]);
            commands.len() + 2
        }
        Request::Unwatch => {
            resp::encode(out, &["UNWATCH"]);
            1
        }
    }
}

/// What the replies to a request mean together: of a transaction, the one to EXEC counts.
pub(crate) fn outcome(request: &Request, mut replies: Vec<Reply>) -> Outcome {
    let Some(last) = replies.pop() else { return Outcome::Unknown };
    if is_turned_away(&last) || replies.first().is_some_and(is_turned_away) {
        return Outcome::Refused(Refusal::Busy);
    }
    if let (Request::Transaction { .. }, Some(begun)) = (request, replies.first())
        && *begun != Reply::Ok
    {
        // Without MULTI the commands may have run one by one: a surprise, whatever the words were.
        return Outcome::Done(Reply::Simple(format!("MULTI was answered {begun:?}")));
    }
    Outcome::Done(last)
}

/// Whether the server had no room for the connection.
pub(crate) fn is_turned_away(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(ErrorReply(message)) if message == TURNED_AWAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn transaction() -> Request {
        let words = vec![Bytes::from_static(b"INCR"), Bytes::from_static(b"a")];
        Request::Transaction { watched: Vec::new(), commands: vec![words] }
    }

    #[test]
    fn transactions_are_sent_whole() {
        let mut out = Vec::new();
        assert_eq!(encode(&mut out, &transaction()), 3);
        assert_eq!(out, b"*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\na\r\n*1\r\n$4\r\nEXEC\r\n");
        out.clear();
        assert_eq!(encode(&mut out, &Request::Watch(vec![Bytes::from_static(b"k")])), 1);
        assert_eq!(out, b"*2\r\n$5\r\nWATCH\r\n$1\r\nk\r\n");
    }

    #[test]
    fn the_reply_to_exec_counts_if_there_was_a_multi() {
        let exec = Reply::Array(vec![Reply::Int(1)]);
        let replies = vec![Reply::Ok, Reply::Simple("QUEUED".into()), exec.clone()];
        assert_eq!(outcome(&transaction(), replies), Outcome::Done(exec));
        let replies = vec![Reply::error("BUSY a"), Reply::Int(1), Reply::error("ERR EXEC without MULTI")];
        assert!(matches!(outcome(&transaction(), replies), Outcome::Done(Reply::Simple(_))));
        let replies = vec![Reply::error(TURNED_AWAY)];
        assert_eq!(outcome(&Request::Unwatch, replies), Outcome::Refused(Refusal::Busy));
    }
}
