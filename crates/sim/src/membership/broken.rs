//! Kinds of runs in which a broken rule shows soon.

use quorate_membership::Mutant;

use super::profile::{Kind, swarm};

/// The kind of run that a broken rule shows in soonest.
pub fn kind_for(mutant: Mutant) -> Kind {
    match mutant {
        _ => swarm(),
    }
}
