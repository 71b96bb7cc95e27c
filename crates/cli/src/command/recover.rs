//! `recover`: buckets that lost most of their copies go on with what is left.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use quorate_host::RecoverBody;
use quorate_node::{BucketStatus, Halt};

use crate::admin::{AdminClient, Answer};
use crate::args::Target;
use crate::exit::{self, failure};
use crate::output::print;
use crate::view;

/// How long a node may take to describe itself.
const WAIT: Duration = Duration::from_secs(3);
/// How long until nodes tell that a bucket is not halted any more.
const SEEN_WAIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Let a bucket that lost most of its copies go on with what is left of it.
///
/// A bucket whose copies are lost on half of its nodes or more is halted: it answers nothing, and nothing is lost, until those nodes
/// come back. If they never will, this gives them up: of the copies that are left, the one that reaches furthest counts,
/// alone at first, and others are made from it. Writes that no copy left has are missing from then on, though they were acknowledged;
/// transactions over several buckets may have happened in some of them only. What the lost nodes have does not count any more,
/// should they come back nevertheless: make sure first that they are stopped, and not only cut off from here.
///
/// Without --accept-data-loss this says what is halted and what may be missing, changes nothing, and ends with exit code 1 if
/// anything is halted. It works while most nodes of the cluster are there.
#[derive(Debug, Args)]
pub(crate) struct Recover {
    /// Which bucket; `quorate status` shows them.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) bucket: Option<u16>,
    /// All buckets that are halted.
    #[arg(long)]
    pub(crate) all: bool,
    /// Give up what only the lost nodes have.
    #[arg(long)]
    pub(crate) accept_data_loss: bool,
    /// Which cluster.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Says what may be missing, and does it if that is accepted.
pub(crate) fn run(recover: &Recover) -> Result<()> {
    let view = view::gather_live(&recover.target)?;
    let mut halted = view.halted();
    halted.retain(|number, _| recover.bucket.is_none_or(|wanted| wanted == *number));
    if halted.is_empty() {
        return match recover.bucket {
            Some(number) => {
                Err(failure(exit::USAGE, format!("bucket {number} is not halted; nothing was changed")))
            }
            None => print("no bucket is halted\n"),
        };
    }
    for (bucket, _) in halted.values() {
        print(&format!("{}\n", losses(bucket)))?;
    }
    if !recover.accept_data_loss {
        let text = "nothing was changed. If the lost nodes can be started again, do that: nothing is missing then. \
                    If not, say --accept-data-loss";
        return Err(failure(exit::FAILED, text));
    }
    for (number, (_, admin)) in halted {
        let body = RecoverBody { bucket: number, accept_data_loss: true };
        match AdminClient::new(WAIT).recover(admin, &body)? {
            Answer::Done => wait_seen(&recover.target, number)?,
            other => return other.into_result(),
        }
        print(&format!("bucket {number} goes on\n"))?;
    }
    Ok(())
}

/// What may be missing once a bucket is recovered.
fn losses(bucket: &BucketStatus) -> String {
    let Some(Halt { survivors, gone, .. }) = &bucket.halt else { return String::new() };
    let list = |ids: &[quorate_kernel::NodeId]| {
        ids.iter().map(ToString::to_string).collect::<Vec<String>>().join(", ")
    };
    let (number, first, last) = (bucket.bucket.0, bucket.slot_first, bucket.slot_last);
    match survivors.as_slice() {
        [] => format!(
            "bucket {number}, slots {first} to {last}: all nodes that held it are gone ({}). Unless another kept an old copy, all of \
             its keys are missing",
            list(gone)
        ),
        left => format!(
            "bucket {number}, slots {first} to {last}: nodes {} are left, nodes {} are gone. Writes to these slots that only those \
             had who are gone may be missing, and transactions may have happened in other slots only",
            list(left),
            list(gone)
        ),
    }
}

/// Waits until no node tells that the bucket is halted.
fn wait_seen(target: &Target, number: u16) -> Result<()> {
    let deadline = Instant::now() + SEEN_WAIT;
    while view::gather_live(target)?.halted().contains_key(&number) {
        if Instant::now() > deadline {
            let text = format!("bucket {number} was recovered, and some node still tells that it is halted");
            return Err(failure(exit::UNKNOWN, text));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
