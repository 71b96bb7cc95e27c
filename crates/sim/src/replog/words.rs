//! Logs and their messages in words, for transcripts.

use quorate_replog::{Append, ChangeEnd, Content, Epoch, Message, Output, Prepare, Replog, Timer};

/// A message.
pub(super) fn message(msg: &Message) -> String {
    match msg {
        Message::Prepare(Prepare { ballot, log_ballot, last, trial, handed_over_by }) => {
            let kind = if *trial { "trial " } else { "" };
            let by = handed_over_by.map_or(String::new(), |by| format!(" handed over by {by:?}"));
            format!("{kind}prepare {ballot:?} with log {log_ballot:?} to {last}{by}")
        }
        Message::Promise { ballot, trial } => {
            format!("{}promise {ballot:?}", if *trial { "trial " } else { "" })
        }
        Message::Append(Append { ballot, takeover, prev, prev_ballot, entries, chosen, .. }) => {
            let entries: Vec<String> = entries.iter().map(|entry| content(&entry.content)).collect();
            let after = if *prev == 0 { "nothing".to_owned() } else { format!("{prev}@{prev_ballot:?}") };
            format!(
                "append {ballot:?} takeover {takeover} after {after} [{}] chosen {chosen}",
                entries.join(" ")
            )
        }
        Message::Accepted { ballot, matched, .. } => format!("accepted {ballot:?} to {matched}"),
        Message::Conflict { ballot, matched_max, .. } => {
            format!("conflict {ballot:?} to {matched_max} at most")
        }
        Message::Stale { promised, epoch, settled } => {
            format!(
                "stale, promised {promised:?}, epoch {}{}",
                epoch.number,
                if *settled { " settled" } else { "" }
            )
        }
        Message::Part(part) => format!(
            "part {}{} of the state at {}, {} rows",
            part.part,
            if part.last { " (last)" } else { "" },
            part.meta.applied,
            part.rows.len()
        ),
        Message::NextPart { applied, part, .. } => format!("wants part {part} of the state at {applied}"),
        Message::Handover { ballot } => format!("handover of {ballot:?}"),
        Message::Retire { ballot, epoch } => format!("retire, says {ballot:?}, epoch {}", epoch.number),
    }
}

/// What an entry says.
pub(super) fn content(content: &Content) -> String {
    match content {
        Content::Command(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Content::Seal(seal) => {
            let members: Vec<String> = seal.members.iter().map(|member| member.id.to_string()).collect();
            format!("seal({})", members.join(","))
        }
    }
}

/// What a log says to its parent.
pub(super) fn output(output: &Output) -> String {
    match output {
        Output::Read { ticket, index } => format!("read {ticket} at {index}"),
        Output::ReadRefused { ticket } => format!("read {ticket} refused"),
        Output::ChangeEnded { ticket, end: ChangeEnd::Done } => format!("change {ticket} done"),
        Output::ChangeEnded { ticket, end: ChangeEnd::Unknown } => format!("change {ticket} unknown"),
        Output::ChangeEnded { ticket, end: ChangeEnd::Refused(why) } => {
            format!("change {ticket} refused: {why}")
        }
        other => format!("{other:?}").to_lowercase(),
    }
}

/// The name of a timer.
pub(super) fn timer_name(timer: Timer) -> &'static str {
    match timer {
        Timer::Election => "election",
        Timer::Heartbeat => "heartbeat",
        Timer::Install => "install",
        Timer::Sweep => "sweep",
        Timer::Spared => "spared",
    }
}

/// Who a log is and what it holds.
pub(super) fn state(log: &Replog) -> String {
    let role = match log.leading() {
        Some(ballot) if log.is_member() => format!("leads {ballot:?}"),
        Some(ballot) => format!("is caretaker in {ballot:?}"),
        None if log.is_retired() => "is retired".to_owned(),
        None => log.believed_leader().map_or("follows nobody".into(), |leader| format!("follows {leader:?}")),
    };
    let mut entries = Vec::new();
    for index in log.base() + 1..=log.last() {
        if let Some(ballot) = log.ballot_at(index) {
            let mark = if index == log.chosen() { "|" } else { "" };
            entries.push(format!("{}@{}.{}{mark}", index, ballot.epoch, ballot.number));
        }
    }
    let Epoch { number, members, .. } = log.epoch();
    let members: Vec<String> = members.iter().map(|member| member.id.to_string()).collect();
    format!(
        "{role}, epoch {number} of ({}), behind {}: [{}]",
        members.join(","),
        log.base(),
        entries.join(" ")
    )
}
