//! `why`: who is responsible for something, and what happened of late, and by which policy.

use anyhow::Result;
use clap::{Args, Subcommand};
use quorate_api::{Bucket, slot_of};
use quorate_kernel::NodeId;
use quorate_node::{GroupId, GroupStatus, What};
use serde::Serialize;

use crate::args::Target;
use crate::deeds::{self, Deeds, Noted, utc};
use crate::exit::{self, failure};
use crate::output::{Format, Table, print, print_json};
use crate::view::{self, ClusterView};

/// Say who is responsible for a key, a node or a group, and what happened to it of late, by which policy and by which figures.
///
/// For a cluster that was founded with `--topology ring`. Each node remembers the last 256 things that it did for groups since it was
/// started; whoever decided something noted why. All nodes are asked, and what they tell is put together by time (UTC, by the clock of the
/// node that noted it).
#[derive(Debug, Subcommand)]
pub(crate) enum Why {
    /// Which bucket, group and nodes are responsible for a key, and what happened to that group and those it came of.
    Key {
        /// The key.
        key: String,
        /// The rest.
        #[command(flatten)]
        rest: Rest,
    },
    /// In which group a node is, what it leads, and what named it.
    Node {
        /// Its id.
        node: u64,
        /// The rest.
        #[command(flatten)]
        rest: Rest,
    },
    /// What a group is, or became, and what happened to it and to those it came of.
    Group {
        /// Which, as `quorate groups` names it; one that is no more is known as long as somebody remembers it.
        group: GroupId,
        /// The rest.
        #[command(flatten)]
        rest: Rest,
    },
}

/// How much is told, and of which cluster.
#[derive(Debug, Args)]
pub(crate) struct Rest {
    /// Tell no more than the newest so many events.
    #[arg(long, value_name = "N", default_value_t = 50)]
    last: usize,
    /// Print JSON; the same as `--output json`.
    #[arg(long)]
    json: bool,
    /// Which cluster.
    #[command(flatten)]
    target: Target,
}

/// What is told.
#[derive(Debug, Serialize)]
struct Answer {
    /// Who is responsible.
    now: Now,
    /// What happened, by time.
    events: Vec<Noted>,
    /// Nodes that do not answer: what they noted is missing.
    silent: Vec<String>,
    /// Nodes that have forgotten their oldest events, and how many.
    forgotten: Vec<(NodeId, u64)>,
}

/// Who is responsible.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Now {
    /// In words.
    text: String,
    /// Of a key: its slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u16>,
    /// Of a key: its bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket: Option<Bucket>,
    /// Who leads the bucket, of a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<NodeId>,
    /// The group, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<GroupStatus>,
}

/// Answers.
pub(crate) fn run(why: &Why, format: Format) -> Result<()> {
    let (Why::Key { rest, .. } | Why::Node { rest, .. } | Why::Group { rest, .. }) = why;
    let view = view::gather_live(&rest.target)?;
    if view.groups().is_empty() {
        let text = "the nodes of this cluster form no groups: that is settled when it is founded, with --topology ring";
        return Err(failure(exit::FAILED, text));
    }
    let deeds = deeds::gather(&view);
    let answer = answer(why, &view, deeds)?;
    match format {
        Format::Text if !rest.json => print(&render(&answer)),
        Format::Json | Format::Text => print_json(&answer),
    }
}

/// Whether a deed is about what was asked for.
type IsAbout = Box<dyn Fn(&What) -> bool>;

fn answer(why: &Why, view: &ClusterView, deeds: Deeds) -> Result<Answer> {
    let (now, is_about): (Now, IsAbout) = match why {
        Why::Key { key, .. } => {
            let now = of_key(view, key)?;
            let lineage = now.group.as_ref().map(|group| deeds.ancestors(group.id)).unwrap_or_default();
            let bucket = now.bucket;
            let is_about = move |what: &What| match what {
                What::Lead { buckets, .. } => bucket.is_some_and(|bucket| buckets.contains(&bucket)),
                _ => what.groups().iter().chain(what.heirs()).any(|group| lineage.contains(group)),
            };
            (now, Box::new(is_about))
        }
        Why::Node { node, .. } => {
            let node = NodeId(*node);
            (of_node(view, &deeds, node)?, Box::new(move |what| what.nodes().contains(&node)))
        }
        Why::Group { group, .. } => {
            let now = of_group(view, &deeds, *group)?;
            let lineage = deeds.ancestors(*group);
            let is_about =
                move |what: &What| what.groups().iter().chain(what.heirs()).any(|it| lineage.contains(it));
            (now, Box::new(is_about))
        }
    };
    let (Why::Key { rest, .. } | Why::Node { rest, .. } | Why::Group { rest, .. }) = why;
    let mut events: Vec<Noted> = deeds.all.into_iter().filter(|noted| is_about(&noted.deed.what)).collect();
    events.drain(..events.len().saturating_sub(rest.last));
    let silent = view.nodes.iter().filter(|node| node.report.is_none());
    let name = |node: &view::NodeView| {
        node.id.map_or_else(|| node.endpoints.admin.clone(), |id| format!("node {id}"))
    };
    let silent = silent.map(name).collect();
    Ok(Answer { now, events, silent, forgotten: deeds.forgotten.into_iter().collect() })
}

fn of_key(view: &ClusterView, key: &str) -> Result<Now> {
    let slot = slot_of(key.as_bytes());
    let buckets = view.buckets();
    let bucket = buckets.into_iter().find(|it| (it.slot_first..=it.slot_last).contains(&slot));
    let Some(bucket) = bucket else {
        return Err(failure(exit::TRY_AGAIN, format!("no node knows the bucket of slot {slot}: try again")));
    };
    let (number, leader) = (bucket.bucket, bucket.believed_leader);
    let group = view.groups().into_iter().find(|group| group.buckets.contains(&number)).cloned();
    let who = leader.map_or_else(|| "nobody leads it".into(), |leader| format!("node {leader} leads it"));
    let text = format!("key {key:?}: slot {slot}, bucket {}; {who}\n", number.0);
    let of_group = group.as_ref().map_or_else(|| "no group is known to hold it\n".into(), describe);
    Ok(Now { text: text + &of_group, slot: Some(slot), bucket: Some(number), leader, group })
}

fn of_node(view: &ClusterView, deeds: &Deeds, node: NodeId) -> Result<Now> {
    let seen = view.nodes.iter().find(|it| it.id == Some(node));
    let is_member = view.newest().is_some_and(|it| it.node.members.iter().any(|member| member.id == node));
    let is_known =
        seen.is_some() || is_member || deeds.all.iter().any(|it| it.deed.what.nodes().contains(&node));
    if !is_known {
        let text = format!("nobody knows a node {node}: `quorate nodes` lists them");
        return Err(failure(exit::FAILED, text));
    }
    let state = match seen {
        Some(seen) => seen.state(),
        None if is_member => "down",
        None => "no member of the cluster any more",
    };
    let group = view.groups().into_iter().find(|group| group.members.contains(&node)).cloned();
    let led: Vec<String> = view
        .buckets()
        .iter()
        .filter(|bucket| bucket.believed_leader == Some(node))
        .map(|bucket| bucket.bucket.0.to_string())
        .collect();
    let led = if led.is_empty() { "leads nothing".into() } else { format!("leads bucket {}", led.join(",")) };
    let of_group = group.as_ref().map_or_else(|| "it is in no group\n".into(), describe);
    let text = format!("node {node}: {state}; {led}\n{of_group}");
    Ok(Now { text, group, ..Now::default() })
}

fn of_group(view: &ClusterView, deeds: &Deeds, id: GroupId) -> Result<Now> {
    if let Some(group) = view.groups().into_iter().find(|group| group.id == id) {
        return Ok(Now { text: describe(group), group: Some(group.clone()), ..Now::default() });
    }
    let names = |what: &What| what.groups().contains(&id) || what.heirs().contains(&id);
    if !deeds.all.iter().any(|noted| names(&noted.deed.what)) {
        let text = format!("there is no group {id}, and nobody remembers one: `quorate groups` lists them");
        return Err(failure(exit::FAILED, text));
    }
    let heirs: Vec<String> = deeds.heirs(id).iter().map(ToString::to_string).collect();
    let text = match heirs.is_empty() {
        true => format!("group {id} is no more\n"),
        false => format!("group {id} is no more: it became {}\n", heirs.join(" and ")),
    };
    Ok(Now { text, ..Now::default() })
}

/// A group in words.
fn describe(group: &GroupStatus) -> String {
    let members: Vec<String> = group.members.iter().map(ToString::to_string).collect();
    let speaker = group.speaker.map_or_else(
        || "nobody speaks for it just now".into(),
        |speaker| format!("node {speaker} speaks for it"),
    );
    let led = if group.quorum { "" } else { "; not all of its buckets are led" };
    format!(
        "group {}, epoch {}: members {}; {speaker}; {} buckets, {}/s{led}\n",
        group.id,
        group.epoch,
        members.join(","),
        group.buckets.len(),
        group.load,
    )
}

fn render(answer: &Answer) -> String {
    let mut text = answer.now.text.clone();
    text.push('\n');
    if answer.events.is_empty() {
        text.push_str("nothing happened that anybody remembers\n");
    } else {
        let mut table = Table::new(&["TIME (UTC)", "NODE", "WHAT", "POLICY", "BECAUSE", "END"]);
        for noted in &answer.events {
            table.row([
                utc(noted.deed.unix_ms),
                noted.by.to_string(),
                noted.did.clone(),
                noted.policy.to_owned(),
                noted.because.clone(),
                noted.end(),
            ]);
        }
        text.push_str(&table.render());
    }
    for (node, count) in &answer.forgotten {
        text.push_str(&format!("node {node} has forgotten its {count} oldest events\n"));
    }
    if !answer.silent.is_empty() {
        text.push_str(&format!("no answer from {}: what they noted is missing\n", answer.silent.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deeds::tests::{done, split};
    use std::collections::BTreeMap;

    #[test]
    fn events_are_shown_with_their_reasons_and_what_is_missing() {
        let answer = Answer {
            now: Now { text: "group g2\n".into(), ..Now::default() },
            events: vec![done(951_782_400_000, split(1, [2, 3]))],
            silent: vec!["node 3".into()],
            forgotten: vec![(NodeId(2), 7)],
        };
        let text = render(&answer);
        for part in [
            "2000-02-29 00:00:00.000",
            "g1 splits at bucket 4: g2 with nodes 1,2, g3 with nodes 3",
            "by hand",
            "an operator asked for it",
            "done in 3.4ms",
            "node 2 has forgotten its 7 oldest events",
            "no answer from node 3",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        let json = serde_json::to_value(&answer).unwrap();
        let event = &json["events"][0];
        assert_eq!(event["what"]["kind"], "split");
        assert_eq!((&event["policy"], &event["end"]["how"]), (&"by hand".into(), &"done".into()));
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        let view = ClusterView { nodes: Vec::new() };
        let deeds = Deeds { all: vec![done(1, split(1, [2, 3]))], forgotten: BTreeMap::new() };
        let error = of_group(&view, &deeds, GroupId(9)).unwrap_err();
        assert_eq!(exit::code_of(&error), exit::FAILED);
        assert!(error.to_string().contains("there is no group g9"), "{error}");
        let ended = of_group(&view, &deeds, GroupId(1)).unwrap();
        assert_eq!(ended.text, "group g1 is no more: it became g2 and g3\n");
        let error = of_node(&view, &deeds, NodeId(9)).unwrap_err();
        assert!(error.to_string().contains("nobody knows a node 9"), "{error}");
        let gone = of_node(&view, &deeds, NodeId(3)).unwrap();
        assert!(gone.text.starts_with("node 3: no member of the cluster any more"), "{}", gone.text);
        assert!(of_key(&view, "a").is_err());
    }
}
