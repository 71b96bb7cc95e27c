//! `copies`: how many copies there are of each bucket.

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::admin::AdminClient;
use crate::args::Target;
use crate::exit::{self, failure};
use crate::output::{Format, print, print_json};
use crate::view;

/// How long a node may take to describe itself.
const WAIT: Duration = Duration::from_secs(3);

/// Change how many copies there are of each bucket, or show it.
///
/// For a cluster that was founded with a number of copies (`--copies`, `cluster.copies`). New copies are made, or
/// spare ones given up, one step at a time while the cluster serves; this waits until all are there. With fewer nodes than copies each node
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
    let view = view::gather_live(&args.target)?;
    let admin = view.admins().into_iter().next().context("no node answers")?;
    let Some(copies) = args.copies else {
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
    AdminClient::new(WAIT).set_copies(&admin, copies)?.into_result()?;
    print(&format!("copies of each bucket: {copies}\n"))
}
