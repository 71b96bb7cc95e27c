//! `copies`: how many copies there are of each bucket.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::admin::{AdminClient, Answer};
use crate::args::Target;
use crate::command::members::is_passing;
use crate::exit::{self, failure};
use crate::output::{Format, print, print_json};
use crate::view;

/// How long a node may take to describe itself.
const WAIT: Duration = Duration::from_secs(3);
/// How long to wait for the copies. With much data they take longer; they are made all the same.
const CHANGE_WAIT: Duration = Duration::from_secs(600);
const ASK_AGAIN_EVERY: Duration = Duration::from_millis(250);

/// Change how many copies there are of each bucket, or show it.
///
/// For a cluster that was founded with a number of copies (`--copies`, `cluster.copies`) and whose nodes form no groups: those of a ring (`--topology
/// ring`) see to their sizes by themselves, around the number that was given then, or as large as `cluster.nines` takes. New copies are made, or
/// spare ones given up, one step at a time while the cluster serves; this waits until all are there, for ten minutes at most. With fewer nodes than copies each node
/// has one, and further copies are made when nodes join. A bucket goes on while more than half of its copies are there: three bear
/// the loss of one, five of two.
#[derive(Debug, Args)]
pub(crate) struct Copies {
    /// So many from now on; without it, says how many there are.
    pub(crate) copies: Option<u8>,
    /// Which cluster.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Changes the number, or says it.
pub(crate) fn run(args: &Copies, format: Format) -> Result<()> {
    let Some(copies) = args.copies else {
        let view = view::gather_live(&args.target)?;
        let copies = view.newest().map_or(0, |newest| newest.node.copies);
        return match (format, copies) {
            (Format::Json, _) => print_json(&serde_json::json!({ "copies": copies })),
            (Format::Text, 0) => print("every node holds everything\n"),
            (Format::Text, _) => print(&format!("{copies}\n")),
        };
    };
    if copies == 0 {
        let text =
            "every node holds everything only in a cluster founded so: say how many copies there are to be";
        return Err(failure(exit::USAGE, text));
    }
    change(args, copies)?;
    match format {
        Format::Json => print_json(&serde_json::json!({ "copies": copies })),
        Format::Text => print(&format!("copies of each bucket: {copies}\n")),
    }
}

/// Asks until it is done: asking again for the same number does no harm, and leaders change while copies move.
fn change(args: &Copies, copies: u8) -> Result<()> {
    let deadline = Instant::now() + CHANGE_WAIT;
    loop {
        let admin =
            view::gather_live(&args.target)?.admins().into_iter().next().context("no node answers")?;
        let answer = AdminClient::new(WAIT).set_copies(&admin, copies)?;
        let is_passing = match &answer {
            Answer::Done => return Ok(()),
            Answer::Refused(reason) => is_passing(reason),
            Answer::Unknown(_) => true,
        };
        if !is_passing || Instant::now() > deadline {
            return answer.into_result();
        }
        std::thread::sleep(ASK_AGAIN_EVERY);
    }
}
