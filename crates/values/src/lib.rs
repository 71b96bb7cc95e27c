//! Data types and their commands as pure functions.
//!
//! A command is a function from what it sees of the keyspace ([`Space`]) and its arguments to a reply. It reads no
//! clock (logged time is part of the space), draws no chance (the primary's logged seed is) and touches no store:
//! every replica runs it alike. A new data type is one file with its commands and its part of the table.
//!
//! This crate does not check the number of arguments (whoever finds the [`Spec`] does), does not route and knows
//! neither connections nor transactions. [`model::MemorySpace`] is a keyspace in memory for tests and simulations.
#![no_std]

extern crate alloc;

mod access;
mod args;
mod expire;
mod generic;
mod glob;
mod list;
pub mod model;
mod needs;
mod places;
mod space;
mod string;
mod table;

pub use needs::{Need, needs_of};
pub use places::{keys_of, scan_from};
pub use space::{Kind, Meta, Space};
pub use table::{Arity, Effect, KeyPlaces, Spec};

const PARTS: [&[Spec]; 4] = [&string::SPECS, &list::SPECS, &generic::SPECS, &expire::SPECS];

const COUNT: usize = PARTS[0].len() + PARTS[1].len() + PARTS[2].len() + PARTS[3].len();

/// No command has a longer name; longer words are refused before they are looked at.
const NAME_BYTES_MAX: usize = 16;

/// Numbers are below this bound, so that the way from number to command is one look.
const CODES_MAX: usize = 512;

/// Marks a number that no command has.
const NO_COMMAND: u8 = u8::MAX;

static ALL: [Spec; COUNT] = sorted();

static BY_CODE: [u8; CODES_MAX] = places_by_code();

/// The data command of this name, in any case of letters.
pub fn find(name: &[u8]) -> Option<&'static Spec> {
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let place = ALL.binary_search_by(|spec| spec.name.as_bytes().cmp(lower)).ok()?;
    Some(&ALL[place])
}

/// The data command of this number.
pub fn by_code(code: quorate_api::CommandCode) -> Option<&'static Spec> {
    let place = *BY_CODE.get(usize::from(code.0))?;
    ALL.get(usize::from(place))
}

/// All data commands, in order of their names.
pub fn all() -> &'static [Spec] {
    &ALL
}

/// The parts in one table, in order of names. Runs at compile time, where two commands of one name do not pass.
const fn sorted() -> [Spec; COUNT] {
    let mut table = [PARTS[0][0]; COUNT];
    let mut filled = 0;
    let mut part = 0;
    while part < PARTS.len() {
        let mut index = 0;
        while index < PARTS[part].len() {
            let spec = PARTS[part][index];
            assert!(spec.name.len() <= NAME_BYTES_MAX, "a name is too long for `find`");
            let mut place = filled;
            while place > 0 && is_less(spec.name.as_bytes(), table[place - 1].name.as_bytes()) {
                table[place] = table[place - 1];
                place -= 1;
            }
            table[place] = spec;
            filled += 1;
            index += 1;
        }
        part += 1;
    }
    let mut place = 1;
    while place < COUNT {
        assert!(
            is_less(table[place - 1].name.as_bytes(), table[place].name.as_bytes()),
            "a name is used twice"
        );
        place += 1;
    }
    table
}

/// From number to place in the table. Runs at compile time, where two commands of one number do not pass.
const fn places_by_code() -> [u8; CODES_MAX] {
    assert!(COUNT < NO_COMMAND as usize, "places no longer fit a byte");
    let mut places = [NO_COMMAND; CODES_MAX];
    let mut place = 0;
    while place < COUNT {
        let code = ALL[place].code.0 as usize;
        assert!(places[code] == NO_COMMAND, "a number is used twice");
        places[code] = place as u8;
        place += 1;
    }
    places
}

const fn is_less(left: &[u8], right: &[u8]) -> bool {
    let mut index = 0;
    while index < left.len() && index < right.len() {
        if left[index] != right[index] {
            return left[index] < right[index];
        }
        index += 1;
    }
    left.len() < right.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_nothing_else_is() {
        for spec in all() {
            assert_eq!(find(spec.name.as_bytes()).unwrap().code, spec.code);
            assert_eq!(find(spec.name.to_ascii_uppercase().as_bytes()).unwrap().code, spec.code);
            assert_eq!(by_code(spec.code).unwrap().name, spec.name);
        }
        for name in [&b""[..], b"ge", b"gett", b"get\0", b"an-endless-name-that-is-no-command", b"zzz"] {
            assert!(find(name).is_none());
        }
        assert!(by_code(quorate_api::CommandCode(0)).is_none());
        assert!(by_code(quorate_api::CommandCode(u16::MAX)).is_none());
    }
}
