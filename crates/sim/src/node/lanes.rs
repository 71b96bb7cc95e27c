//! Clients that do one thing at a time, as the generators of `quorate-workload` say, and write down what came of it.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use quorate_api::history::{Op, Record};
use quorate_api::{Outcome, Reply, Request, Version};
use quorate_checker::{History, Verdict as Judged};
use quorate_kernel::Rng;
use quorate_workload::{Client, Operation, Workload};

use super::words;
use crate::Verdict;

/// Elements of lists in a history after which little is added to it. Lists that are read whole as they grow, in a run that
/// lasts, would fill the memory: 20 GB in one of 2,000 runs.
const ELEMENTS_MAX: usize = 1 << 20;
/// One in so many operations is done all the same.
const AFTERWARDS: u32 = 64;

/// A workload and the history that came of it.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) workload: Workload,
    pub(crate) records: Vec<Record>,
    /// Of lists in these.
    elements: usize,
    left_out: u32,
    /// What has to be done before anything else.
    setup: VecDeque<Operation>,
    /// The last look.
    finish: VecDeque<Operation>,
}

impl Course {
    pub(crate) fn new(workload: Workload) -> Self {
        let (setup, finish) = (workload.setup().into(), workload.finish().into());
        Course { workload, records: Vec::new(), elements: 0, left_out: 0, setup, finish }
    }

    /// Judges the history; says how many checks gave up.
    ///
    /// # Errors
    /// If no correct store has such a history.
    pub(crate) fn judge(&mut self) -> Result<u64, String> {
        let records = std::mem::take(&mut self.records);
        let history = History::from_records(records).map_err(|error| error.to_string())?;
        let mut gave_up = 0;
        for check in self.workload.checks() {
            let report = quorate_checker::check(&history, *check);
            match report.verdict {
                Judged::Ok => {}
                Judged::GaveUp(_) => gave_up += 1,
                Judged::Violated(_) => return Err(format!("{report}")),
            }
        }
        Ok(gave_up)
    }

    fn add(&mut self, record: Record) {
        let lists = record.ops.iter().filter_map(|op| match op {
            Op::List { result, .. } => result.as_ref(),
            _ => None,
        });
        self.elements += lists.map(Vec::len).sum::<usize>();
        self.records.push(record);
    }

    /// Whether one more operation is wanted.
    fn has_room(&mut self) -> bool {
        let has_room = self.elements < ELEMENTS_MAX || self.left_out >= AFTERWARDS;
        self.left_out = if has_room { 0 } else { self.left_out + 1 };
        has_room
    }

    /// Whether nothing is left to do before or after.
    pub(crate) fn is_over(&self) -> bool {
        self.setup.is_empty() && self.finish.is_empty()
    }
}

/// What a client does in its course.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// What the generator says.
    Work,
    /// The first and the last things.
    Frame,
}

/// How far the run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Go on.
    Work,
    /// Begin nothing new.
    Leave,
    /// Everyone has left: look at everything once more.
    Look,
}

#[derive(Debug)]
struct Running {
    operation: Operation,
    start: Duration,
    watched: Vec<(Bytes, Version)>,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) course: usize,
    duty: Duty,
    client: Client,
    running: Option<Running>,
    pub(crate) acknowledged: u64,
}

impl Lane {
    pub(crate) fn new(id: u64, course: usize, duty: Duty, rng: Rng) -> Self {
        Lane { course, duty, client: Client::new(id, rng), running: None, acknowledged: 0 }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Begins the next operation, if there is one and none is under way.
    pub(crate) fn begin(&mut self, course: &mut Course, stage: Stage, now: Duration) -> bool {
        if self.running.is_some() {
            return false;
        }
        let operation = match self.duty {
            Duty::Work if stage == Stage::Work && course.setup.is_empty() && course.has_room() => {
                Some(course.workload.next(&mut self.client))
            }
            Duty::Work => None,
            Duty::Frame if !course.setup.is_empty() => course.setup.front().cloned(),
            Duty::Frame if stage == Stage::Look => course.finish.front().cloned(),
            Duty::Frame => None,
        };
        let Some(operation) = operation else { return false };
        self.running = Some(Running { operation, start: now, watched: Vec::new() });
        true
    }

    /// What is to be sent next; ends the operation if that is nothing.
    ///
    /// # Errors
    /// If an answer was none that a correct store gives.
    pub(crate) fn ask(&mut self, course: &mut Course, now: Duration) -> Result<Option<Request>, String> {
        use quorate_workload::Request as Wish;
        loop {
            let Some(running) = &mut self.running else { return Ok(None) };
            let request = match running.operation.request() {
                Some(Wish::Command(words)) => words::one(words),
                Some(Wish::Watch(keys)) => Request::Versions(keys.clone()),
                Some(Wish::Transaction { commands, .. }) => Request::Transaction {
                    watched: running.watched.clone(),
                    commands: commands.iter().map(|words| words::command(words)).collect(),
                },
                Some(Wish::Unwatch) => {
                    running.watched.clear();
                    let answer = Outcome::Done(Reply::Ok);
                    running.operation.answered(answer).map_err(|surprise| surprise.to_string())?;
                    continue;
                }
                None => {
                    self.end(course, now);
                    return Ok(None);
                }
            };
            return Ok(Some(request));
        }
    }

    /// An answer has come, or never will.
    ///
    /// # Errors
    /// If no correct store answers so.
    pub(crate) fn answered(&mut self, outcome: Outcome) -> Verdict {
        let Some(running) = &mut self.running else { return Err("an answer that nobody waits for".into()) };
        let outcome = match (running.operation.request(), outcome) {
            (Some(quorate_workload::Request::Watch(keys)), Outcome::Done(reply)) => {
                let versions = words::versions(keys, &reply).ok_or_else(|| format!("versions: {reply:?}"))?;
                running.watched.extend(versions);
                Outcome::Done(Reply::Ok)
            }
            (_, outcome) => outcome,
        };
        running.operation.answered(outcome).map_err(|surprise| surprise.to_string())
    }

    fn end(&mut self, course: &mut Course, now: Duration) {
        let Some(Running { operation, start, .. }) = self.running.take() else { return };
        let nanos = |time: Duration| time.as_nanos() as u64;
        let is_ok = operation.is_ok();
        course.add(operation.record(self.client.id, nanos(start), nanos(now)));
        if !is_ok {
            return;
        }
        self.acknowledged += 1;
        if self.duty == Duty::Frame && course.setup.pop_front().is_none() {
            course.finish.pop_front();
        }
    }
}
