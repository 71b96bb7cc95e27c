//! What always holds of a ring (Scatter 4.1; the invariants S1, S2, S6 and S7 of its checker).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use quorate_kernel::NodeId;

use crate::group::GroupId;
use crate::parliament::Parliament;

/// Looks at all groups of a ring that have begun and not ended, whatever is under way among them: no position has two groups, no
/// node is in two, and neighbours whose link is not locked know each other as they are.
///
/// # Errors
/// What does not hold.
pub fn check(groups: &[&Parliament]) -> Result<(), String> {
    let mut homes: BTreeMap<NodeId, GroupId> = BTreeMap::new();
    let mut starts: BTreeMap<u64, &Parliament> = BTreeMap::new();
    for parliament in groups {
        let group = &parliament.stand().group;
        for node in &group.members {
            if let Some(other) = homes.insert(*node, group.name.id) {
                return Err(format!("node {node} is in {other:?} and in {:?}", group.name));
            }
        }
        if let Some(other) = starts.insert(group.span.start, parliament) {
            return Err(format!("{:?} and {:?} begin at the same position", other.stand().group, group));
        }
    }
    let ordered: alloc::vec::Vec<&&Parliament> = starts.values().collect();
    for (index, left) in ordered.iter().enumerate() {
        let right = ordered[(index + 1) % ordered.len()];
        let (left, right) = (left.stand(), right.stand());
        if ordered.len() > 1 && left.group.span.meets(right.group.span) {
            return Err(format!("{:?} and {:?} have positions in common", left.group, right.group));
        }
    }
    for left in groups {
        let border = left.stand().group.span.end;
        let Some(right) = starts.get(&border) else { continue };
        if left.locked_by(border).is_some() || right.locked_by(border).is_some() {
            continue;
        }
        let (left, right) = (left.stand(), right.stand());
        if left.after != right.group || right.before != left.group {
            return Err(format!(
                "the link at {border:016x} is not locked, and yet {left:?} does not know {right:?}"
            ));
        }
    }
    Ok(())
}

/// The same of a ring in which nothing is under way: besides, every position has a group.
///
/// # Errors
/// What does not hold.
pub fn check_at_rest(groups: &[&Parliament]) -> Result<(), String> {
    check(groups)?;
    if let Some(open) = groups.iter().find(|group| group.is_open()) {
        return Err(format!("{:?} does not know the outcome of something", open.stand().group.name));
    }
    let width: u128 = groups.iter().map(|group| group.stand().group.span.width()).sum();
    let ends = |group: &&&Parliament| {
        let border = group.stand().group.span.end;
        !groups.iter().any(|other| other.stand().group.span.start == border)
    };
    match groups.iter().find(ends) {
        _ if width != 1 << 64 => {
            Err(format!("groups have {width} positions, the circle has {}", 1_u128 << 64))
        }
        Some(last) => Err(format!("nobody begins where {:?} ends", last.stand().group)),
        None => Ok(()),
    }
}
