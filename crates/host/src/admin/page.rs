//! The console: one plain page, made here, that needs nothing from anywhere else.

use std::fmt::Write as _;

use quorate_node::BucketStatus;

use crate::stats::Snapshot;

const STYLE: &str = "body{font:15px system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em}\
                     table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em 1em .25em 0;text-align:left}\
                     th{font-weight:600}td.n{text-align:right}.ok{color:#176d2c}.no{color:#a11}";

/// Text as it may stand in a page.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

/// The page for one picture.
pub(super) fn render(picture: &Snapshot) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut page, picture);
    page
}

fn write(page: &mut String, picture: &Snapshot) -> std::fmt::Result {
    let (node, host) = (&picture.node, &picture.host);
    let (class, state) = if node.ready { ("ok", "serves") } else { ("no", "does not serve") };
    write!(
        page,
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=3>\
         <title>Quorate node {id}</title><style>{STYLE}</style>\
         <h1>Node {id}</h1><p class={class}>{role}, {state}</p>",
        id = node.id,
        role = escape(&node.role),
    )?;
    for alarm in node.buckets.iter().filter_map(BucketStatus::alarm) {
        write!(page, "<p class=no>{}", escape(&alarm))?;
    }
    members(page, picture)?;
    buckets(page, picture)?;
    let numbers = [
        (
            "Log entries: applied / chosen / last",
            format!("{} / {} / {}", node.log_applied, node.log_chosen, node.log_last),
        ),
        ("Keys", node.keys.to_string()),
        ("Store", mebibytes(host.store_bytes)),
        ("Log on disk", mebibytes(host.log_bytes)),
        ("Free on the disk", mebibytes(host.free_bytes)),
        ("Sync of the log, average", format!("{} us", host.sync_average_us)),
        ("Client connections", host.clients.connections.to_string()),
        ("Commands", host.clients.commands.to_string()),
        ("Requests under way", host.clients.in_flight.to_string()),
        ("Peers connected", host.peers.connected.to_string()),
        ("Up for", format!("{} s", host.uptime_ms / 1_000)),
    ];
    page.push_str("<table>");
    for (name, value) in numbers {
        write!(page, "<tr><th>{name}<td class=n>{value}")?;
    }
    page.push_str("</table><p>");
    for path in ["/status", "/metrics", "/health/live", "/health/ready"] {
        write!(page, "<a href={path}>{path}</a> ")?;
    }
    page.push_str("</html>\n");
    Ok(())
}

fn members(page: &mut String, picture: &Snapshot) -> std::fmt::Result {
    let node = &picture.node;
    write!(
        page,
        "<h2>Members, list {}</h2><table><tr><th>Node<th>Clients<th>Redis Cluster<th>Peers<th>Operators<th>",
        node.epoch
    )?;
    for member in &node.members {
        let ends = &member.endpoints;
        let leads = if node.believed_leader == Some(member.id) { "leads" } else { "" };
        let (client, cluster) = (escape(&ends.client), escape(&ends.cluster));
        let (peer, admin) = (escape(&ends.peer), escape(&ends.admin));
        write!(
            page,
            "<tr><td>{}<td>{client}<td>{cluster}<td>{peer}<td><a href=\"http://{admin}/\">{admin}</a><td>{leads}",
            member.id
        )?;
    }
    page.push_str("</table>");
    Ok(())
}

fn buckets(page: &mut String, picture: &Snapshot) -> std::fmt::Result {
    page.push_str(
        "<h2>Buckets</h2><table><tr><th>Bucket<th>Slots<th>Leader<th>Members<th>Quorum\
         <th>Applied / chosen / last<th>Keys",
    );
    for bucket in &picture.node.buckets {
        let leader = bucket.believed_leader.map_or("none".into(), |leader| leader.to_string());
        let members: Vec<String> = bucket.members.iter().map(ToString::to_string).collect();
        let (class, quorum) = if bucket.quorum { ("ok", "yes") } else { ("no", "no") };
        write!(
            page,
            "<tr><td>{}<td>{}-{}<td>{leader}<td>{}<td class={class}>{quorum}<td>{} / {} / {}<td class=n>{}",
            bucket.bucket.0,
            bucket.slot_first,
            bucket.slot_last,
            members.join(" "),
            bucket.log_applied,
            bucket.log_chosen,
            bucket.log_last,
            bucket.keys
        )?;
    }
    page.push_str("</table>");
    Ok(())
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_of_others_stays_text() {
        assert_eq!(super::escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
