//! What nodes say, in the words of transcripts.

use quorate_membership::{Change, Cut, Membership, Message, Output, RingSet, Timer, View, Votes};

fn cut(cut: &Cut) -> String {
    let change = |change: &Change| match change {
        Change::Join { id, .. } => format!("+{id}"),
        Change::Remove { id } => format!("-{id}"),
    };
    format!("[{}]", cut.changes.iter().map(change).collect::<Vec<_>>().join(" "))
}

fn view(view: &View) -> String {
    let members = view.members.iter().map(|member| format!("{}@{}", member.id, member.since));
    format!("v{} ({})", view.seq(), members.collect::<Vec<_>>().join(" "))
}

fn votes(votes: &Votes) -> String {
    let voters: Vec<String> = votes.voters.iter().map(|place| place.to_string()).collect();
    format!("{:?} {:?} by places {}", votes.rank, votes.digest, voters.join(","))
}

fn rings(rings: RingSet) -> String {
    format!("{} rings", rings.len())
}

/// A message; nothing for probes, which are everywhere.
pub(super) fn message(msg: &Message) -> String {
    match msg {
        Message::Probe { .. } | Message::ProbeAnswer { .. } => String::new(),
        Message::PreJoin { .. } => "who would observe me?".into(),
        Message::Observers { view, observers } => {
            let observers = observers.iter().map(|(id, over)| format!("{id:?} on {}", rings(*over)));
            format!("in v{} {}", view.seq, observers.collect::<Vec<_>>().join(", "))
        }
        Message::Join { view, .. } => format!("let me in, in v{}", view.seq),
        Message::Welcome { view } => format!("you are in, v{}", view.seq),
        Message::Refused { reason } => format!("no: {reason:?}"),
        Message::News { view, reports, votes: all, .. } => {
            let reports = reports
                .iter()
                .map(|report| format!("{:?} {}", report.subject, rings(report.now.or(report.before))));
            let news: Vec<String> = reports.chain(all.iter().map(votes)).collect();
            format!("news of v{}: {}", view.seq, news.join("; "))
        }
        Message::Phase1a { view, rank } => format!("promise {rank:?} in v{}?", view.seq),
        Message::Phase1b { rank, voted, .. } => match voted {
            Some((voted, digest)) => format!("promised {rank:?}, voted {digest:?} in {voted:?}"),
            None => format!("promised {rank:?}, no vote"),
        },
        Message::Phase2a { rank, cut: value, .. } => format!("vote for {} in {rank:?}", cut(value)),
        Message::Outdone { promised, .. } => format!("outdone by {promised:?}"),
        Message::Ask { digest, .. } => format!("what is {digest:?}?"),
        Message::Value { cut: value, .. } => format!("it is {}", cut(value)),
        Message::Newer { view } => format!("there is v{}", view.seq),
        Message::Pull { view } => format!("what came after v{}?", view.seq),
        Message::Cuts { view, cuts } => {
            format!("after v{}: {}", view.seq, cuts.iter().map(cut).collect::<Vec<_>>().join(", "))
        }
        Message::Whole { view: whole, state } => format!("{}, state {}", view(whole), state.is_some()),
        Message::Leave { view } => format!("let me out, in v{}", view.seq),
    }
}

/// What a node says to its parent.
pub(super) fn output(output: &Output) -> String {
    match output {
        Output::Installed { view: whole, state } => {
            format!(
                "installed {}, {}",
                view(whole),
                if state.is_some() { "with state" } else { "without state" }
            )
        }
        Output::NextView { view: next, joined, left } => {
            let joined = joined.iter().map(|member| format!("+{}", member.id));
            let left = left.iter().map(|member| format!("-{}", member.id));
            format!("next {}: {}", view(next), joined.chain(left).collect::<Vec<_>>().join(" "))
        }
        Output::Kicked { view } => format!("kicked, v{}", view.seq),
        Output::Left { view } => format!("left, v{}", view.seq),
        Output::JoinFailed { reason } => format!("join failed: {reason:?}"),
        Output::Quorum { reachable } => format!("quorum reachable: {reachable}"),
    }
}

/// The name of a timer.
pub(super) fn timer_name(timer: Timer) -> &'static str {
    match timer {
        Timer::Probe => "probe",
        Timer::Batch => "batch",
        Timer::Gossip => "gossip",
        Timer::Resend => "resend",
        Timer::Fallback => "fallback",
        Timer::Join => "join",
        Timer::Farewell => "farewell",
    }
}

/// Who a node is and what it knows.
pub(super) fn state(machine: &Membership) -> String {
    let reported = machine.reported();
    let reported = reported.iter().map(|(id, over)| format!("{id:?} {}", rings(*over)));
    let reported: Vec<String> = reported.collect();
    match machine.view() {
        Some(known) => format!("is in {}, reported [{}]", view(known), reported.join(", ")),
        None if machine.is_joining() => "is joining".into(),
        None => "is outside".into(),
    }
}
