//! What a group's home keeps of it, and what an operation replaces there.
//!
//! A group has its *home* where its span begins: the shard there keeps three lines, the group and its two neighbours as they are. An
//! operation is one atomic compare-and-replace of lines at all the homes concerned. The two lines of a link, one at each home, are
//! always replaced together and under the same number; so whoever knows one knows what the other has to be built on.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::group::{Group, Misfit, Stand};
use crate::operation::Operation;

/// One line of a seat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Grows whenever the line is replaced; 0: it never was.
    pub number: u64,
    /// Whom it names; nobody, if no group has its home here.
    pub group: Option<Group>,
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
    /// The number it gets.
    pub number: u64,
    /// Whom it names then.
    pub group: Option<Group>,
}

/// What an operation replaces, by the position of the home.
pub type Edits = BTreeMap<(u64, Which), Edit>;

impl Seat {
    /// The seat of a cluster's first group.
    pub fn founded(group: Group) -> Seat {
        let line = || Line { number: 1, group: Some(group.clone()) };
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
            group: group.group.clone()?,
            before: before.group.clone()?,
            after: after.group.clone()?,
        })
    }

    /// Tells seats of one home apart: it grows whenever a line is replaced. 0: none ever was.
    pub fn age(&self) -> u64 {
        self.lines.iter().map(|line| line.number).sum()
    }

    /// All groups that it names.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.lines.iter().filter_map(|line| line.group.as_ref())
    }

    /// Carries out an edit, if the line is the one that it builds on; whether it was.
    pub fn apply(&mut self, which: Which, edit: &Edit) -> bool {
        let line = &mut self.lines[which as usize];
        let fits = line.number == edit.on && edit.number > edit.on;
        if fits {
            *line = Line { number: edit.number, group: edit.group.clone() };
        }
        fits
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
        let mut edits = Edits::new();
        // A group that changes is compared whole, and replaced, or goes.
        for seat in seats {
            let Some(own) = &seat.line(Which::Own).group else { continue };
            for which in Which::ALL {
                let edit = Edit { on: seat.line(which).number, number, group: None };
                edits.insert((own.span.start, which), edit);
            }
        }
        for Stand { group, before, after } in plan.heirs {
            let home = group.span.start;
            for (which, named) in Which::ALL.into_iter().zip([group, before, after]) {
                let on = fresh.line(which).number;
                let edit = edits.entry((home, which)).or_insert(Edit { on, number, group: None });
                edit.group = Some(named);
            }
        }
        // The other line of a link, at the home of the group that changes, has the same number.
        let link = |border: u64, which: Which| {
            let ends = |seat: &&Seat| {
                let span = seat.line(Which::Own).group.as_ref().map(|group| group.span);
                span.is_some_and(|span| border == if which == Which::Before { span.start } else { span.end })
            };
            seats.iter().find(ends).map_or(0, |seat| seat.line(which).number)
        };
        for (own, [before, after]) in plan.neighbours {
            let (home, end) = (own.span.start, own.span.end);
            for (which, named, on) in [
                (Which::Before, before, link(home, Which::After)),
                (Which::After, after, link(end, Which::Before)),
            ] {
                if named.is_some() {
                    edits.insert((home, which), Edit { on, number, group: named });
                }
            }
        }
        Ok(edits)
    }
}
