//! What the live view shows: a function of what the nodes said.

use std::collections::BTreeMap;

use quorate_kernel::NodeId;
use quorate_node::{BucketStatus, GroupStatus, Halt};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};

use super::ring;
use crate::command::status;
use crate::deeds::{Noted, utc};
use crate::view::ClusterView;

/// Lines of what is under way and what happened last.
const EVENTS: u16 = 8;
/// Lines of what is halted.
const ALARMS: usize = 3;

/// What the nodes said.
#[derive(Debug)]
pub(crate) struct Picture {
    /// Of themselves.
    pub(crate) view: ClusterView,
    /// Of what they did for groups, by time.
    pub(crate) deeds: Vec<Noted>,
    /// Why this is not the newest.
    pub(crate) trouble: Option<String>,
}

/// Draws it.
pub(super) fn draw(frame: &mut Frame<'_>, picture: &Picture) {
    let alarms = alarms(&picture.view);
    let parts = [
        Constraint::Length(1),
        Constraint::Length(alarms.len() as u16),
        Constraint::Min(8),
        Constraint::Length(EVENTS),
        Constraint::Length(1),
    ];
    let [top, halted, middle, events, bottom] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(nodes(picture), top);
    frame.render_widget(Paragraph::new(Text::from(alarms)), halted);
    let (groups, buckets) = (picture.view.groups(), picture.view.buckets());
    if groups.is_empty() {
        // No ring to draw: the nodes form no groups, or none answers.
        let tables = Paragraph::new(status::render(&picture.view));
        frame.render_widget(tables, middle.union(events));
    } else {
        let [left, right] =
            Layout::horizontal([Constraint::Percentage(45), Constraint::Min(40)]).areas(middle);
        ring::draw(frame, left, &groups, &buckets);
        frame.render_widget(table(&groups, &buckets), right);
        frame.render_widget(happenings(&picture.deeds, events), events);
    }
    let note = match &picture.trouble {
        Some(trouble) => Line::from(format!("not renewed: {trouble}")).fg(Color::Red),
        None => {
            Line::from("renewed every second; * speaks for the group, n:k leads k buckets; q leaves").dim()
        }
    };
    frame.render_widget(note, bottom);
}

/// Every node and how it is.
fn nodes(picture: &Picture) -> Line<'static> {
    let mut line = vec![Span::from("nodes ")];
    for node in &picture.view.nodes {
        let name = node.id.map_or_else(|| node.endpoints.admin.clone(), |id| id.to_string());
        line.push(match node.state() {
            "serves" => Span::from(format!("{name} ")).fg(Color::Green),
            "down" => Span::from(format!("{name} unreachable ")).fg(Color::Red).bold(),
            state => Span::from(format!("{name} {state} ")).fg(Color::Yellow),
        });
    }
    Line::from(line)
}

/// What is halted, a line for all buckets that lost the same nodes: of a group that is mostly lost these are many.
fn alarms(view: &ClusterView) -> Vec<Line<'static>> {
    /// Who is gone, and who is left.
    type Lost = (Vec<NodeId>, Vec<NodeId>);
    let mut lost: BTreeMap<Lost, (Vec<String>, u64)> = BTreeMap::new();
    for (number, (bucket, _)) in view.halted() {
        let Some(Halt { gone, survivors, blocked }) = bucket.halt else { continue };
        let (numbers, waiting) = lost.entry((gone, survivors)).or_default();
        numbers.push(number.to_string());
        *waiting += blocked;
    }
    let list = |ids: &[NodeId]| ids.iter().map(ToString::to_string).collect::<Vec<String>>().join(", ");
    let more = lost.len().saturating_sub(ALARMS);
    let mut lines: Vec<Line<'static>> = (lost.iter().take(ALARMS))
        .map(|((gone, left), (numbers, waiting))| {
            let waiting = if *waiting > 0 { format!("; {waiting} transactions wait") } else { String::new() };
            let left = if left.is_empty() { "nobody".into() } else { list(left) };
            let text = format!(
                "HALTED: bucket {}: lost with nodes {}, left on {left}{waiting}; `quorate recover`",
                numbers.join(", "),
                list(gone)
            );
            Line::from(text).fg(Color::Red).bold()
        })
        .collect();
    if let Some(last) = lines.last_mut().filter(|_| more > 0) {
        last.push_span(format!(" (and {more} more such: `quorate status`)"));
    }
    lines
}

/// The groups: who is in them, who leads what.
fn table(groups: &[&GroupStatus], buckets: &[&BucketStatus]) -> Table<'static> {
    let rows = groups.iter().enumerate().map(|(order, group)| {
        let slots =
            ring::slots(group, buckets).map_or_else(String::new, |(first, last)| format!("{first}-{last}"));
        let state = match (group.quorum, group.settled) {
            (false, _) => Cell::from("not led").fg(Color::Red),
            (true, Some(false)) => Cell::from("moves").fg(Color::Yellow),
            (true, _) => Cell::from("ok"),
        };
        let id = Cell::from(group.id.to_string()).fg(ring::color(order));
        let members = Cell::from(members(group, buckets));
        Row::new([id, Cell::from(slots), members, Cell::from(format!("{}/s", group.load)), state])
    });
    let widths = [
        Constraint::Length(15),
        Constraint::Length(11),
        Constraint::Min(10),
        Constraint::Length(9),
        Constraint::Length(7),
    ];
    let heading = Row::new(["GROUP", "SLOTS", "MEMBERS", "LOAD", "STATE"]).style(Style::new().bold());
    Table::new(rows, widths).header(heading)
}

/// Members, how many of the group's buckets each leads, and which of them speaks for it.
fn members(group: &GroupStatus, buckets: &[&BucketStatus]) -> String {
    let leads = |id: NodeId| {
        let own = buckets.iter().filter(|bucket| group.buckets.contains(&bucket.bucket));
        own.filter(|bucket| bucket.believed_leader == Some(id)).count()
    };
    let name = |id: &NodeId| {
        let star = if group.speaker == Some(*id) { "*" } else { "" };
        format!("{id}{star}:{}", leads(*id))
    };
    group.members.iter().map(name).collect::<Vec<String>>().join(" ")
}

/// What is under way, and what happened last, the newest first.
fn happenings(deeds: &[Noted], area: Rect) -> Paragraph<'static> {
    let room = usize::from(area.height.saturating_sub(1));
    let (open, ended): (Vec<&Noted>, Vec<&Noted>) =
        deeds.iter().rev().partition(|noted| noted.deed.end.is_none());
    let line = |noted: &&Noted| {
        let time = utc(noted.deed.unix_ms);
        let text = format!(
            "{} {} ({}: {}): {}",
            time.get(11..19).unwrap_or_default(),
            noted.did,
            noted.policy,
            noted.because,
            noted.end()
        );
        match noted.deed.end {
            None => Line::from(text).fg(Color::Yellow),
            Some(_) => Line::from(text),
        }
    };
    let count = open.len();
    let lines: Vec<Line<'static>> = open.iter().chain(&ended).take(room).map(line).collect();
    let title = format!(" {count} under way; times are UTC ");
    Paragraph::new(Text::from(lines)).block(Block::new().borders(ratatui::widgets::Borders::TOP).title(title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deeds::tests::{done, split};
    use crate::view::NodeView;
    use quorate_api::Bucket;
    use quorate_host::StatusReport;
    use quorate_node::{Endpoints, GroupId};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    /// What a node says; each pair of groups holds four buckets.
    fn report(groups: &[(u64, &[u16])]) -> StatusReport {
        let group = |(id, buckets): &(u64, &[u16])| GroupStatus {
            id: GroupId(*id),
            epoch: 3,
            buckets: buckets.iter().copied().map(Bucket).collect(),
            members: [1, 2, 3].map(NodeId).into(),
            speaker: Some(NodeId(2)),
            quorum: true,
            settled: None,
            load: 120,
        };
        let bucket = |number: u16| {
            serde_json::json!({
                "bucket": number, "slot_first": number * 4_096, "slot_last": number * 4_096 + 4_095,
                "believed_leader": 2 + number % 2, "members": [1, 2, 3], "quorum": number != 3, "here": true,
                "epoch": 3, "log_last": 1, "log_chosen": 1, "log_applied": 1, "keys": 0,
            })
        };
        let halted = |bucket: &mut serde_json::Value| {
            bucket["halt"] = serde_json::json!({ "survivors": [1], "gone": [2, 3], "blocked": 7 });
        };
        let mut buckets = (0..4).map(bucket).collect::<Vec<_>>();
        buckets[2..].iter_mut().for_each(halted);
        let node = serde_json::json!({
            "id": 1, "role": "member", "ready": true, "believed_leader": 2, "epoch": 3, "members": [],
            "learners": [], "log_last": 1, "log_chosen": 1, "log_applied": 1, "log_first": 1, "keys": 0,
            "store_bytes": 0, "requests_pending": 0, "followers": [],
            "groups": groups.iter().map(group).collect::<Vec<_>>(),
            "buckets": buckets,
        });
        let process = serde_json::json!({ "resident_bytes": 1, "peak_bytes": 1, "cpu_ms": 1 });
        let host = quorate_host::HostStats::default();
        let whole = serde_json::json!({ "node": node, "host": host, "process": process, "version": "1" });
        serde_json::from_value(whole).unwrap()
    }

    fn picture(groups: &[(u64, &[u16])]) -> Picture {
        let node = |id: u64, report: Option<StatusReport>| NodeView {
            id: Some(NodeId(id)),
            endpoints: Endpoints::default(),
            pid: None,
            error: report.is_none().then(|| "it does not answer".into()),
            report,
        };
        let view = ClusterView { nodes: vec![node(1, Some(report(groups))), node(3, None)] };
        let mut open = done(2, split(0xb, [0xc, 0xd]));
        open.deed.end = None;
        Picture { view, deeds: vec![done(1, split(1, [2, 3])), open], trouble: None }
    }

    fn drawn(picture: &Picture, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, picture)).unwrap();
        let cells = terminal.backend().buffer().content();
        let line =
            |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
        cells.chunks(usize::from(width)).map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_ring_its_groups_and_what_is_under_way_are_shown() {
        let text = drawn(&picture(&[(0xa, &[1, 2]), (0xb, &[3, 0])]), 120, 36);
        for part in [
            "nodes 1 3 unreachable",
            "HALTED: bucket 2, 3: lost with nodes 2, 3, left on 1; 14 transactions wait; `quorate recover`",
            "2 groups",
            "240/s",
            "4096-12287",
            "12288-4095",
            "1:0 2*:1 3:1",
            "1 under way",
            "gb splits at bucket 4: gc with nodes 1,2, gd with nodes 3 (by hand: an operator asked for it): under way",
            "done in 3.4ms",
            "q leaves",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        let middle: String =
            text.lines().skip(1).take(26).map(|line| line.chars().take(54).collect::<String>()).collect();
        assert!(
            middle.contains("ga") && middle.contains("gb") && middle.contains('?'),
            "names, and who leads\n{text}"
        );
        let dots = middle.chars().filter(|c| ('\u{2801}'..='\u{28ff}').contains(c)).count();
        assert!(dots > 60, "{dots} cells of a circle\n{text}");
        let happened: Vec<&str> = text.lines().filter(|line| line.contains("splits at")).collect();
        assert!(
            happened[0].contains("under way") && happened[1].contains("done"),
            "what is open comes first"
        );
    }

    #[test]
    fn any_terminal_will_do_and_so_will_nobody_who_answers() {
        let mut one = picture(&[(0xa, &[0, 1, 2, 3])]);
        for (width, height) in [(1, 1), (20, 5), (80, 24), (300, 100)] {
            drawn(&one, width, height);
        }
        one.trouble = Some("nobody listens".into());
        assert!(drawn(&one, 80, 24).contains("not renewed: nobody listens"));
        let silent = Picture { view: ClusterView { nodes: one.view.nodes.split_off(1) }, ..one };
        let text = drawn(&silent, 80, 24);
        assert!(text.contains("3 unreachable") && text.contains("no node answers"), "{text}");
        let plain = Picture { view: picture(&[]).view, ..silent };
        assert!(drawn(&plain, 160, 24).contains("BUCKET"), "without groups: as `status` has it");
    }
}
