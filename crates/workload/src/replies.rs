//! Reads results out of replies.

use quorate_api::Reply;
use quorate_api::history::Op;

use crate::operation::Words;

/// Stands after each element of a string that holds several.
pub(crate) const SEPARATOR: char = ',';

/// Completes `op` by what the command `words` was answered; `None` if the reply is of a wrong kind.
pub(crate) fn fill(op: &mut Op, words: &Words, reply: &Reply) -> Option<()> {
    let name = words.first().map_or(&b""[..], |name| name);
    match op {
        Op::Read { result, .. } => *result = Some(text(reply)?),
        Op::PopFront { result, .. } | Op::PopBack { result, .. } | Op::Move { result, .. } => {
            *result = Some(text(reply)?);
        }
        Op::Write { .. } => return matches!(reply, Reply::Ok | Reply::Int(_)).then_some(()),
        Op::Cas { result, .. } => {
            *result = Some(true);
            return (*reply == Reply::Ok).then_some(());
        }
        Op::Add { result, .. } => *result = Some(number(reply)?),
        Op::Count { result, .. } => {
            *result = Some(text(reply)?.map_or(Some(0), |digits| digits.parse().ok())?);
        }
        Op::Append { result, .. } | Op::Prepend { result, .. } => {
            let length = u64::try_from(number(reply)?).ok()?;
            // APPEND counts bytes.
            *result = (name != b"APPEND").then_some(length);
        }
        Op::List { result, .. } if name == b"GET" => {
            let string = text(reply)?.unwrap_or_default();
            *result = Some(string.split_terminator(SEPARATOR).map(str::to_owned).collect());
        }
        Op::List { result, .. } => {
            let Reply::Array(items) = reply else { return None };
            *result = Some(items.iter().map(|item| text(item)?).collect::<Option<Vec<String>>>()?);
        }
    }
    Some(())
}

/// A string or nothing.
pub(crate) fn text(reply: &Reply) -> Option<Option<String>> {
    match reply {
        Reply::Nil | Reply::NilArray => Some(None),
        Reply::Bulk(bytes) => Some(Some(String::from_utf8_lossy(bytes).into_owned())),
        _ => None,
    }
}

fn number(reply: &Reply) -> Option<i64> {
    match reply {
        Reply::Int(number) => Some(*number),
        _ => None,
    }
}
