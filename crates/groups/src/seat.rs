//! What a group's home keeps of it, and what an operation replaces there.
//!
//! A group has its *home* where its span begins: the shard there keeps three lines, the group and its two neighbours as they are. An
//! operation is one atomic compare-and-replace of lines at all the homes concerned. A change of members alone replaces the lines that
//! name the group, at three homes, and neighbours do that at the same time without meeting. Whatever changes who is beside whom, or
//! where, replaces both lines of each link concerned, one at each home, under one number that both keep as their *link*. So a line
//! that names a neighbour was replaced last by one of two: by an operation on the link, or later by a change of that neighbour's
//! members. Whoever knows the group's own line and its end of the link knows the number of the other end.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::group::{Group, Misfit, Stand};
use crate::operation::Operation;

/// One line of a seat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Grows whenever the line is replaced; 0: it never was.
    pub number: u64,
    /// Of a line that names a neighbour: the number under which both lines of the link were last replaced.
    pub link: u64,
    /// Whom it names; nobody, if no group has its home here.
    pub group: Option<Arc<Group>>,
}

/// What one of the lines is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// The group.
    Own,
    /// The group before it.
    Before,
    /// The group after it.
    After,
}

impl Which {
    /// All, in order.
    pub const ALL: [Which; 3] = [Which::Own, Which::Before, Which::After];
}

/// What a home keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    lines: [Line; 3],
}

/// What becomes of one line of a home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The number that the line has to have.
    pub on: u64,
    /// What it is then.
    pub line: Line,
}

/// What an operation replaces, by the position of the home.
pub type Edits = BTreeMap<(u64, Which), Edit>;

impl Seat {
    /// The seat of a cluster's first group.
    pub fn founded(group: Group) -> Seat {
        let group = Arc::new(group);
        let line = || Line { number: 1, link: 1, group: Some(group.clone()) };
        Seat { lines: [line(), line(), line()] }
    }

    /// These lines.
    pub fn new(own: Line, before: Line, after: Line) -> Seat {
        Seat { lines: [own, before, after] }
    }

    /// One of the lines.
    pub fn line(&self, which: Which) -> &Line {
        &self.lines[which as usize]
    }

    /// The group that has its home here, and its neighbours.
    pub fn stand(&self) -> Option<Stand> {
        let [group, before, after] = &self.lines;
        Some(Stand {
            group: group.group.as_deref()?.clone(),
            before: before.group.as_deref()?.clone(),
            after: after.group.as_deref()?.clone(),
        })
    }

    /// Tells seats of one home apart: it grows whenever a line is replaced. 0: none ever was.
    pub fn age(&self) -> u64 {
        self.lines.iter().map(|line| line.number).sum()
    }

    /// All groups that it names.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.lines.iter().filter_map(|line| line.group.as_deref())
    }

    /// Carries out an edit, if the line is the one that it builds on; whether it was.
    pub fn apply(&mut self, which: Which, edit: &Edit) -> bool {
        let line = &mut self.lines[which as usize];
        let fits = line.number == edit.on && edit.line.number > edit.on;
        if fits {
            *line = edit.line.clone();
        }
        fits
    }

    /// The number of the line that names this group at the other end of a link, if nobody has replaced it meanwhile.
    pub fn far(&self, which: Which) -> u64 {
        self.line(Which::Own).number.max(self.line(which).link)
    }
}

impl Operation {
    /// The one home that it makes where there is none, as its position: the numbers of the lines there have to be known.
    pub fn new_home(&self, seats: &[Seat]) -> Option<u64> {
        let border = match self {
            Operation::Split { border, .. } | Operation::Repartition { border, .. } => *border,
            _ => return None,
        };
        let has_home =
            |seat: &Seat| seat.line(Which::Own).group.as_ref().is_some_and(|own| own.span.start == border);
        (!seats.iter().any(has_home)).then_some(border)
    }

    /// What it replaces. `seats` are those of the groups that it changes, `fresh` is what is known of [`Operation::new_home`].
    /// What is out of date does no harm: the numbers will not be those.
    ///
    /// # Errors
    /// If it makes no sense there.
    pub fn edits(&self, seats: &[Seat], fresh: &Seat) -> Result<Edits, Misfit> {
        let stands: Vec<Stand> = seats.iter().filter_map(Seat::stand).collect();
        let plan = self.plan(&stands)?;
        let lines = seats.iter().chain([fresh]).flat_map(|seat| &seat.lines);
        let number = lines.map(|line| line.number).max().unwrap_or_default() + 1;
        let line = |group| Line { number, link: number, group };
        // Who is beside whom stays as it is, unless a group that is alone is its own neighbour.
        let is_alone = |stand: &Stand| stand.before.name.id == stand.group.name.id;
        let keeps_links = matches!(self, Operation::Members { .. }) && !stands.iter().any(is_alone);
        let replaced = if keeps_links { &Which::ALL[..1] } else { &Which::ALL };
        let mut edits = Edits::new();
        // A group that changes is compared, and replaced, or goes.
        for seat in seats {
            let Some(own) = &seat.line(Which::Own).group else { continue };
            for which in replaced {
                let edit = Edit { on: seat.line(*which).number, line: line(None) };
                edits.insert((own.span.start, *which), edit);
            }
        }
        for Stand { group, before, after } in plan.heirs {
            let home = group.span.start;
            for (which, named) in replaced.iter().zip([group, before, after]) {
                let on = fresh.line(*which).number;
                let edit = edits.entry((home, *which)).or_insert(Edit { on, line: line(None) });
                edit.line.group = Some(Arc::new(named));
            }
        }
        // The other line of a link, at the home of the group that changes, tells what this one has to be.
        let ends = |border: u64, which: Which| {
            let is_there = |seat: &&Seat| {
                let span = seat.line(Which::Own).group.as_ref().map(|group| group.span);
                span.is_some_and(|span| border == if which == Which::Before { span.start } else { span.end })
            };
            let seat = seats.iter().find(is_there);
            seat.map_or((0, 0), |seat| (seat.far(which), seat.line(which).link))
        };
        for (own, [before, after]) in plan.neighbours {
            let (home, end) = (own.span.start, own.span.end);
            for (which, named, (on, link)) in [
                (Which::Before, before, ends(home, Which::After)),
                (Which::After, after, ends(end, Which::Before)),
            ] {
                if named.is_some() {
                    let link = if keeps_links { link } else { number };
                    edits
                        .insert((home, which), Edit { on, line: Line { link, ..line(named.map(Arc::new)) } });
                }
            }
        }
        Ok(edits)
    }
}
