//! The table against a naive one that holds claims in a list and looks at all of them each time.

use super::*;
use alloc::vec;
use quorate_kernel::Rng;

fn id(age: u64) -> TransactionId {
    TransactionId { age, origin: 1, sequence: age }
}

fn read(key: u8) -> Want<u8> {
    Want { key, mode: Mode::Read, expected: None }
}

fn write(key: u8) -> Want<u8> {
    Want { key, mode: Mode::Write, expected: None }
}

#[derive(Default)]
struct Naive {
    claims: Vec<(TransactionId, Vec<Want<u8>>, bool)>,
}

impl Naive {
    fn clash(one: &[Want<u8>], other: &[Want<u8>]) -> bool {
        one.iter()
            .any(|a| other.iter().any(|b| a.key == b.key && (a.mode == Mode::Write || a.mode != b.mode)))
    }

    fn may_take(&self, id: TransactionId, wants: &[Want<u8>]) -> bool {
        !self.claims.iter().any(|(other, theirs, holds)| {
            *other != id && Self::clash(wants, theirs) && (*holds || *other < id)
        })
    }

    fn owners(&self, id: TransactionId, wants: &[Want<u8>]) -> Vec<TransactionId> {
        let owners = self
            .claims
            .iter()
            .filter(|(other, theirs, holds)| *other != id && *holds && Self::clash(wants, theirs));
        let mut owners: Vec<_> = owners.map(|(other, ..)| *other).collect();
        owners.sort_unstable();
        owners
    }

    fn try_all(&mut self, id: TransactionId, wants: &[Want<u8>]) -> Taken {
        let holds = self.may_take(id, wants);
        match self.claims.iter_mut().find(|(known, ..)| *known == id) {
            Some((_, _, held)) if *held => return Taken::All,
            Some((_, _, held)) => *held = holds,
            None => self.claims.push((id, wants.to_vec(), holds)),
        }
        if holds { Taken::All } else { Taken::Waits(self.owners(id, wants)) }
    }

    fn free_waiters(&self) -> Vec<TransactionId> {
        let free = self.claims.iter().filter(|(id, wants, holds)| !holds && self.may_take(*id, wants));
        free.map(|(id, ..)| *id).collect()
    }
}

fn draw(rng: &mut Rng) -> Vec<Want<u8>> {
    let count = rng.between(1, 3);
    let want = |rng: &mut Rng| Want {
        key: rng.below(4) as u8,
        mode: [Mode::Read, Mode::Intend, Mode::Write][rng.below(3) as usize],
        expected: None,
    };
    (0..count).map(|_| want(rng)).collect()
}

/// Tries all that were woken, oldest first, and compares with the naive table after each step.
fn settle(table: &mut LockTable<u8>, naive: &mut Naive, woken: Vec<TransactionId>) {
    let free = naive.free_waiters();
    assert!(woken.is_sorted());
    for id in woken {
        let Some((_, wants, _)) = naive.claims.iter().find(|(known, ..)| *known == id).cloned() else {
            panic!("{id:?} is woken and does not wait")
        };
        assert_eq!(table.try_all(id, &wants), naive.try_all(id, &wants));
    }
    assert!(free.is_empty() || naive.free_waiters().is_empty(), "{free:?} were not all woken");
    assert_eq!(table.overlooked(), vec![]);
    for (id, _, holds) in &naive.claims {
        assert_eq!((table.holds(*id), table.waits(*id)), (*holds, !holds));
    }
    assert_eq!(table.count(), naive.claims.len());
}

#[test]
fn agrees_with_a_naive_table() {
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let (mut table, mut naive) = (LockTable::new(100), Naive::default());
        for _ in 0..60 {
            let picked = rng.pick(&naive.claims).cloned();
            match (rng.below(6), picked) {
                (0 | 1, Some((id, ..))) => {
                    naive.claims.retain(|(known, ..)| *known != id);
                    let woken = table.release(id);
                    settle(&mut table, &mut naive, woken);
                }
                (2, Some((id, wants, true))) => {
                    naive
                        .claims
                        .iter_mut()
                        .filter(|(known, ..)| *known == id)
                        .for_each(|claim| claim.2 = false);
                    let woken = table.wait(id, &wants);
                    settle(&mut table, &mut naive, woken);
                }
                _ => {
                    let id = id(rng.below(1 << 40));
                    let wants = draw(&mut rng);
                    assert_eq!(table.try_all(id, &wants), naive.try_all(id, &wants), "seed {seed}");
                    settle(&mut table, &mut naive, vec![]);
                }
            }
        }
    }
}

#[test]
fn what_is_held_for_a_moment_waits_at_its_place_and_is_not_told() {
    let mut table = LockTable::new(2);
    assert_eq!(table.try_all(id(1), &[write(1)]), Taken::All);
    assert!(!table.hold(id(2), &[read(1), read(2)]));
    assert!(!table.hold(id(2), &[read(1), read(2)]), "it may try again");
    assert_eq!(table.try_all(id(3), &[write(2)]), Taken::Waits(vec![]), "not past it");
    assert_eq!(table.release(id(1)), [id(2)]);
    assert_eq!(table.overlooked(), vec![]);
    assert!(table.hold(id(2), &[read(1), read(2)]));
    assert!(table.hold(id(2), &[read(1), read(2)]));
    assert!(table.hold(id(4), &[read(1)]), "readers share");
    assert_eq!(table.try_all(id(3), &[write(2)]), Taken::Waits(vec![id(2)]));
    assert_eq!(table.release(id(2)), [id(3)]);
    assert!(!table.hold(id(5), &[read(3)]), "no room");
    assert!(!table.holds(id(5)) && !table.waits(id(5)));
}

#[test]
fn readers_share_and_writers_do_not() {
    let mut table = LockTable::new(10);
    assert_eq!(table.try_all(id(5), &[read(1)]), Taken::All);
    assert_eq!(table.try_all(id(6), &[read(1)]), Taken::All);
    assert_eq!(table.try_all(id(3), &[write(1)]), Taken::Waits(vec![id(5), id(6)]));
    assert_eq!(table.try_all(id(7), &[read(1)]), Taken::Waits(vec![]), "not past an older writer");
    assert_eq!(table.try_all(id(2), &[read(1)]), Taken::All, "past a younger one");
    assert_eq!(table.pass(id(8), &[read(1)]), Err(vec![]), "behind an older writer");
    assert_eq!(table.pass(id(8), &[write(1)]), Err(vec![id(2), id(5), id(6)]));
    assert_eq!(table.pass(id(1), &[read(1)]), Ok(()), "older than the writer");
    assert_eq!(table.pass(id(8), &[write(2)]), Ok(()));
    assert_eq!(table.release(id(2)), [id(3)]);
    assert_eq!(table.release(id(5)), [id(3)]);
    assert_eq!(table.try_all(id(3), &[write(1)]), Taken::Waits(vec![id(6)]));
    assert_eq!(table.wait(id(6), &[read(1)]), [id(3)]);
    assert_eq!(table.try_all(id(3), &[write(1)]), Taken::All);
    assert_eq!(table.release(id(3)), [id(6), id(7)]);
}

#[test]
fn all_or_nothing() {
    let mut table = LockTable::new(10);
    assert_eq!(table.try_all(id(5), &[write(1)]), Taken::All);
    assert_eq!(table.try_all(id(6), &[write(2), write(1)]), Taken::Waits(vec![id(5)]));
    assert_eq!(table.try_all(id(7), &[write(2)]), Taken::Waits(vec![]), "2 is free, but 6 waits for it");
    assert_eq!(table.try_all(id(4), &[write(2)]), Taken::All);
    assert_eq!(table.release(id(6)), [id(7)], "who stops waiting may have been in the way");
}

#[test]
fn a_key_wanted_twice_is_wanted_once() {
    let mut table = LockTable::new(1);
    assert_eq!(table.try_all(id(5), &[read(1), write(1)]), Taken::All);
    assert_eq!(table.try_all(id(6), &[read(1)]), Taken::Waits(vec![id(5)]));
    assert_eq!(table.try_all(id(7), &[read(2)]), Taken::Full);
    assert!(!table.holds(id(7)) && !table.waits(id(7)));
}

#[test]
fn waiters_for_an_old_version_are_named() {
    let mut table = LockTable::new(10);
    let want = |expected| Want { key: 1_u8, mode: Mode::Read, expected };
    table.try_all(id(1), &[write(1)]);
    table.try_all(id(2), &[want(Some(4))]);
    table.try_all(id(3), &[want(Some(5))]);
    table.try_all(id(4), &[want(None)]);
    assert_eq!(table.overtaken(&1, 5), [id(2)]);
    assert_eq!(table.overtaken(&9, 5), []);
}

#[test]
#[should_panic(expected = "conflicting locks")]
fn a_new_primary_finds_conflicts() {
    let mut table = LockTable::new(10);
    table.relock(id(1), &[write(1)]);
    table.relock(id(2), &[read(1)]);
}
