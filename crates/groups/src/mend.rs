//! What a home has lost whose shard went on without its majority, as the homes of its neighbours tell it.
//!
//! Whoever goes on may lack the last operations, which homes beside it have carried out. From then on the lines of a link are not those that the other
//! end tells, so that no operation fits any more, there and beside it. But everything that stood here is named there as well: the group in
//! the lines of both neighbours, each neighbour in its own, and the numbers follow from these. A home that has lost nothing knows all that they know, as long as no operation is under way.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::group::Group;
use crate::seat::{Line, Seat, Which};

/// The line that names a neighbour, as that neighbour's home tells it, if that is newer or if whom it names is not beside the `border` any more. Not if
/// that neighbour knows of a later group here than `here`: then it is that which is lost.
fn beside(own: &Line, here: &Group, border: u64, neighbour: &Seat, back: Which) -> Line {
    let there = neighbour.line(back);
    let is_later = |group: &Arc<Group>| group.name.id != here.name.id && group.name.epoch > here.name.epoch;
    if there.group.as_ref().is_some_and(is_later) {
        return own.clone();
    }
    let edge = |group: &Group| if back == Which::After { group.span.end } else { group.span.start };
    let Some(group) = neighbour.line(Which::Own).group.as_ref().filter(|group| edge(group) == border) else {
        return own.clone();
    };
    let is_other =
        own.group.as_ref().is_none_or(|known| group.name.epoch > known.name.epoch || edge(known) != border);
    let number = neighbour.far(back);
    match number > own.number {
        true if is_other || there.link > own.link => {
            Line { number, link: there.link, group: Some(group.clone()) }
        }
        // It was replaced later here, by whoever knew no better: there it is from now on as here.
        false if is_other => {
            Line { number: own.number + 1, link: own.number + 1, group: Some(group.clone()) }
        }
        _ => own.clone(),
    }
}

impl Seat {
    /// What the home of a group that begins at `start` should keep, if it lacks what the homes before and after it know. These may lack something as
    /// well: then it gets what they have, and they the rest from here.
    pub fn mended(&self, start: u64, before: &Seat, after: &Seat) -> Option<Seat> {
        let epoch = |line: &Line| line.group.as_ref().map_or(0, |group| group.name.epoch);
        let begins_here = |line: &&Line| line.group.as_ref().is_some_and(|group| group.span.start == start);
        let told = [before.line(Which::After), after.line(Which::Before)].into_iter().filter(begins_here);
        let told: Vec<&Line> = told.collect();
        let mut own = self.line(Which::Own).clone();
        let newest = told.iter().max_by_key(|line| epoch(line)).filter(|line| epoch(line) > epoch(&own));
        if let Some(newest) = newest {
            // A line that names it has the number of the last change of its members, or of the link if that came later: of two the
            // lesser comes after no link that the other does not come after.
            let numbers = told.iter().filter(|line| line.group == newest.group).map(|line| line.number);
            own.number = numbers.min().unwrap_or_default().max(own.number + 1);
            own.group = newest.group.clone();
        }
        let group = own.group.clone().filter(|group| group.span.start == start)?;
        let [line_before, line_after] =
            [(Which::Before, start, before), (Which::After, group.span.end, after)].map(
                |(which, border, neighbour)| {
                    let back = if which == Which::Before { Which::After } else { Which::Before };
                    beside(self.line(which), &group, border, neighbour, back)
                },
            );
        let mended = Seat::new(own, line_before, line_after);
        (mended != *self).then_some(mended)
    }

    /// The same where no group has its home any more.
    pub fn vacated(&self) -> Seat {
        let vacant = |which| match self.line(which) {
            Line { number, group: Some(_), .. } => Line { number: number + 1, ..Line::default() },
            line => line.clone(),
        };
        Seat::new(vacant(Which::Own), vacant(Which::Before), vacant(Which::After))
    }
}
