//! What leaders and followers of many logs say to each other all the time, said together.
//!
//! Each log's leader lets its followers hear from it many times in a second. On a node with many logs that is most of what it says and hears
//! when little is asked of it. So all logs that it leads beat when one does, and from then on at the same moments; and what
//! goes to one node then, and what comes back, is one message.

use alloc::vec::Vec;
use quorate_api::Bucket;
use quorate_kernel::{Cx, Event, NodeId};
use quorate_replog as replog;
use quorate_shard as shard;

use crate::machine::{Node, Out};
use crate::message::Message;

/// Logs in one message: so that it fits a frame, however many there are. Each is short.
const TOGETHER: (usize, usize) = (512, 0);

impl Node {
    /// It is time for one log that this node leads to beat: all do.
    pub(crate) fn beat(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let led = self.replicas.iter().filter(|(_, replica)| replica.leads);
        let led: Vec<Bucket> = led.map(|(bucket, _)| *bucket).collect();
        for bucket in led {
            let timer = shard::Timer::Log(replog::Timer::Heartbeat);
            self.step_shard(cx, bucket, Event::Timer(timer), out);
            self.dispatch(cx, bucket, out);
        }
        out.gather(TOGETHER, |msg| small(msg).then_some(0), together);
    }

    /// What somebody said about several logs.
    pub(crate) fn receive_logs(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        all: Vec<(Bucket, replog::Message)>,
        out: &mut Out,
    ) {
        let count = self.config.buckets.get();
        for (bucket, msg) in all.into_iter().filter(|(bucket, _)| bucket.0 < count) {
            self.receive_log(cx, bucket, from, msg, out);
        }
        out.gather(TOGETHER, |msg| small(msg).then_some(0), together);
    }
}

/// A beat or the answer to one.
fn small(msg: &Message) -> bool {
    match msg {
        Message::Log(replog::Message::Append(append)) => append.entries.is_empty(),
        Message::Log(replog::Message::Accepted { .. }) => true,
        Message::In(_, msg) => matches!(**msg, Message::Log(_)) && small(msg),
        _ => false,
    }
}

fn together(all: Vec<Message>) -> Message {
    let about = |msg| match msg {
        Message::Log(msg) => Some((Bucket(0), msg)),
        Message::In(bucket, msg) => match *msg {
            Message::Log(msg) => Some((bucket, msg)),
            _ => None,
        },
        _ => None,
    };
    Message::Logs(all.into_iter().filter_map(about).collect())
}
