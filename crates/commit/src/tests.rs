//! What the simulation does not look at: limits, rows, forgetting, formats.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_kernel::{Marks, Rng, Time, wire};

use crate::locks::{LockTable, Mode, Taken, Want};
use crate::*;

const ME: LogId = LogId(1);
const OTHER: LogId = LogId(2);

fn id(sequence: u64) -> TransactionId {
    TransactionId { age: sequence, origin: 7, sequence }
}

/// One key for everybody; a part is what is exported.
struct Key {
    locks: LockTable<u8>,
    carried_out: Vec<TransactionId>,
}

const WANTS: &[Want<u8>] = &[Want { key: 1, mode: Mode::Write, expected: None }];

impl Resources for Key {
    fn prepare(&mut self, transaction: &Transaction) -> Attempt {
        match self.locks.try_all(transaction.id, WANTS) {
            Taken::All => Attempt::Ready { export: transaction.part.clone(), stays: false },
            Taken::Waits(owners) => Attempt::Waits(owners),
            Taken::Full => Attempt::Full,
        }
    }

    fn relock(&mut self, transaction: &Transaction) {
        self.locks.relock(transaction.id, WANTS);
    }

    fn wait(&mut self, transaction: &Transaction) -> Vec<TransactionId> {
        self.locks.wait(transaction.id, WANTS)
    }

    fn release(&mut self, id: TransactionId) -> Vec<TransactionId> {
        self.locks.release(id)
    }

    fn in_the_way(&self, transaction: &Transaction) -> Option<(Bytes, TransactionId)> {
        self.locks
            .hindrance(transaction.id)
            .map(|(key, owner)| (Bytes::from(alloc::format!("{key:?}")), owner))
    }

    fn decide(&mut self, _: &Transaction, exports: &BTreeMap<LogId, Bytes>) -> Verdict {
        Verdict::Commit(exports.values().flatten().copied().collect::<Vec<u8>>().into())
    }

    fn carry_out(&mut self, transaction: &Transaction, _: &Bytes) {
        self.carried_out.push(transaction.id);
    }

    fn share(&mut self, decision: &Bytes, _: LogId) -> Bytes {
        decision.clone()
    }

    fn bundle(&mut self, parts: &[(usize, Bytes)]) -> Bytes {
        parts.iter().flat_map(|(_, part)| part.iter().copied()).collect()
    }

    fn excerpts(&mut self, _: TransactionId, decision: &Bytes, count: usize) -> Vec<Bytes> {
        (0..count).map(|member| decision.slice(member..=member)).collect()
    }
}

/// One log, moved by hand.
struct Desk {
    commit: Commit,
    key: Key,
    now: Time,
    rng: Rng,
    marks: Marks,
}

impl Desk {
    fn new(config: Config) -> Self {
        let key = Key { locks: LockTable::new(10), carried_out: vec![] };
        let commit = Commit::new(ME, config, Ledger::new(ME));
        let mut desk = Desk { commit, key, now: Time(1), rng: Rng::new(1), marks: Marks::default() };
        desk.call(|commit, turn| commit.lead(turn, View { epoch: 0, number: 1, node: 1 }));
        desk
    }

    fn call(&mut self, act: impl FnOnce(&mut Commit, &mut Turn<'_, Key>)) -> Vec<Effect> {
        let mut out = Vec::new();
        let Desk { commit, key, now, rng, marks } = self;
        act(commit, &mut Turn { now: *now, rng, marks, resources: key, out: &mut out });
        commit.check();
        out.retain(|effect| !matches!(effect, Effect::Arm(_)));
        out
    }

    fn request(&mut self, transaction: Transaction) -> Vec<Effect> {
        self.call(|commit, turn| commit.request(turn, transaction, View::default()))
    }

    fn hear(&mut self, id: TransactionId, word: Word) -> Vec<Effect> {
        self.call(|commit, turn| commit.message(turn, Message { from: OTHER, id, word }))
    }

    /// Everything appended is chosen; what comes of it.
    fn choose(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let (mut appended, mut rest): (Vec<_>, Vec<_>) =
            effects.into_iter().partition(|effect| matches!(effect, Effect::Append(_)));
        while !appended.is_empty() {
            let Effect::Append(entry) = appended.remove(0) else { continue };
            for effect in self.call(|commit, turn| commit.applied(turn, &entry)) {
                if matches!(effect, Effect::Append(_)) { &mut appended } else { &mut rest }.push(effect);
            }
        }
        rest
    }
}

fn alone(sequence: u64) -> Transaction {
    let (id, logs, part) = (id(sequence), vec![ME], Bytes::from_static(b"x"));
    let (others, members) = (vec![], vec![]);
    Transaction { id, coordinator: ME, logs, part, others, settled_before: 0, shares: false, members }
}

fn shared(sequence: u64) -> Transaction {
    let others = vec![(OTHER, Bytes::from_static(b"y"))];
    Transaction { logs: vec![ME, OTHER], others, ..alone(sequence) }
}

#[test]
fn one_log_needs_one_entry() {
    let mut desk = Desk::new(Config::tiny());
    let effects = desk.request(alone(1));
    assert!(matches!(&effects[..], [Effect::Append(Entry::AtOnce { .. })]), "{effects:?}");
    let effects = desk.choose(effects);
    let outcome = Outcome::Committed(Bytes::from_static(b"x"));
    assert_eq!(effects, [Effect::Result { id: id(1), outcome: outcome.clone() }]);
    assert_eq!(desk.key.carried_out, [id(1)]);
    assert_eq!(
        desk.request(alone(1)),
        [Effect::Result { id: id(1), outcome }],
        "asked again, it answers again"
    );
    assert_eq!(desk.key.carried_out.len(), 1);
}

#[test]
fn the_coordinator_hands_parts_on_and_joins_what_is_exported() {
    let mut desk = Desk::new(Config::tiny());
    let effects = desk.request(shared(1));
    let cv = desk.commit.view().expect("it leads");
    let handed = Effect::Send {
        to: OTHER,
        message: Message {
            from: ME,
            id: id(1),
            word: Word::QueryLocal { cv, min_epoch: 0, transaction: shared(1).for_log(OTHER) },
        },
    };
    assert!(effects.contains(&handed), "{effects:?}");
    assert_eq!(desk.choose(effects), [handed]);
    let yes = Word::Vote { cv, epoch: 0, vote: Vote::Yes(Bytes::from_static(b"y")) };
    let effects = desk.hear(id(1), yes.clone());
    assert_eq!(desk.hear(id(1), yes), [], "it has decided");
    let effects = desk.choose(effects);
    let outcome = Outcome::Committed(Bytes::from_static(b"xy"));
    assert_eq!(effects[0], Effect::Result { id: id(1), outcome });
    assert!(matches!(
        &effects[1..],
        [Effect::Send { message: Message { word: Word::Global { .. }, .. }, .. }]
    ));
}

#[test]
fn full_tables_refuse_and_nothing_happens() {
    let mut desk = Desk::new(Config { live_max: 2, ..Config::tiny() });
    for sequence in 1..=2 {
        let effects = desk.request(shared(sequence));
        desk.choose(effects);
    }
    let refused = [Effect::NotTaken { id: id(3), why: NotTaken::Busy }];
    assert_eq!(desk.request(alone(3)), refused);
    assert!(desk.commit.ledger().get(id(3)).is_none() && !desk.key.locks.waits(id(3)));
}

#[test]
fn a_refused_request_still_says_what_is_settled() {
    let mut desk = Desk::new(Config { records_max: 2, live_max: 2, ..Config::tiny() });
    for sequence in 1..=2 {
        let effects = desk.request(alone(sequence));
        desk.choose(effects);
    }
    let third = Transaction { settled_before: 3, ..alone(3) };
    let effects = desk.request(third.clone());
    assert!(effects.contains(&Effect::NotTaken { id: id(3), why: NotTaken::Busy }), "{effects:?}");
    desk.choose(effects);
    assert_eq!(desk.commit.ledger().count(), 0, "both are forgotten");
    let effects = desk.request(third);
    assert_eq!(desk.choose(effects).len(), 1);
    assert_eq!(desk.request(alone(2)), [Effect::NotTaken { id: id(2), why: NotTaken::Settled }]);
}

#[test]
fn nonsense_is_refused() {
    let mut desk = Desk::new(Config::tiny());
    let malformed = |transaction: Transaction| {
        let refused = [Effect::NotTaken { id: transaction.id, why: NotTaken::Malformed }];
        assert_eq!(desk.request(transaction), refused);
    };
    let bad: [fn(&mut Transaction); 7] = [
        |bad| bad.logs = vec![OTHER, ME],
        |bad| bad.logs = vec![OTHER],
        |bad| bad.coordinator = LogId(9),
        |bad| bad.settled_before = 2,
        |bad| bad.part = vec![0; 5_000].into(),
        |bad| bad.others.push((LogId(9), Bytes::new())),
        |bad| bad.coordinator = OTHER,
    ];
    let spoilt = bad.map(|spoil| {
        let mut transaction = shared(1);
        spoil(&mut transaction);
        transaction
    });
    spoilt.into_iter().for_each(malformed);
}

#[test]
fn what_waits_too_long_is_explained() {
    let mut desk = Desk::new(Config { patience: Some(Duration::from_millis(300)), ..Config::tiny() });
    let effects = desk.request(shared(1));
    desk.choose(effects);
    desk.request(shared(2));
    assert_eq!(desk.commit.waits_for(id(2), Time(1)).map(|(behind, _)| behind), Some(Some(id(1))));
    desk.now = desk.now + Duration::from_millis(301);
    let effects = desk.call(|commit, turn| commit.tick(turn));
    let effects = desk.choose(effects);
    let refusal = |sequence| {
        effects.iter().find_map(|effect| match effect {
            Effect::Result { id: told, outcome: Outcome::Aborted(refusal) } if *told == id(sequence) => {
                Some(refusal.clone())
            }
            _ => None,
        })
    };
    let one = refusal(1).expect("it ends");
    assert_eq!((one.log, one.cause, one.waited_ms), (OTHER, Cause::GaveUp, 301));
    let two = refusal(2).expect("it ends");
    assert_eq!((two.log, two.cause, two.by), (ME, Cause::GaveUp, Some(id(1))));
}

/// What origins are told of a transaction that waits.
fn waits_told(effects: &[Effect]) -> Vec<(TransactionId, Wait)> {
    let told = |effect: &Effect| match effect {
        Effect::Waits { id, wait } => Some((*id, wait.clone())),
        _ => None,
    };
    effects.iter().filter_map(told).collect()
}

#[test]
fn origins_are_told_what_takes_long_while_it_lasts_and_when_it_is_over() {
    let mut desk = Desk::new(Config::tiny());
    let effects = desk.request(shared(1));
    desk.choose(effects);
    let effects = desk.request(shared(2));
    assert_eq!(waits_told(&effects), [], "it has only just come");
    desk.now = desk.now + Duration::from_millis(200);
    let [(told, wait)] = &waits_told(&desk.call(|commit, turn| commit.tick(turn)))[..] else {
        panic!("one waits")
    };
    assert_eq!((*told, wait.log, wait.by, wait.waited_ms), (id(2), ME, id(1), 200));
    assert!(!wait.resource.is_empty());
    // The first is voted for elsewhere, ends, and the other gets its locks.
    let vote = Word::Vote { cv: desk.commit.view().unwrap(), epoch: 0, vote: Vote::Yes(Bytes::new()) };
    desk.now = desk.now + Duration::from_millis(100);
    let effects = desk.hear(id(1), vote);
    let all = desk.choose(effects);
    let told: Vec<_> = waits_told(&all).into_iter().map(|(id, wait)| (id, wait.by, wait.waited_ms)).collect();
    assert_eq!(told, [(id(2), id(1), 300)]);
}

#[test]
fn what_a_participant_waits_for_is_handed_on_to_the_origin() {
    let mut desk = Desk::new(Config::tiny());
    let effects = desk.request(shared(1));
    desk.choose(effects);
    let wait = Wait { log: OTHER, resource: Bytes::from_static(b"k"), by: id(9), waited_ms: 7 };
    assert_eq!(waits_told(&desk.hear(id(1), Word::Waits(wait.clone()))), [(id(1), wait.clone())]);
    assert_eq!(
        waits_told(&desk.hear(id(1), Word::Waits(Wait { log: ME, ..wait.clone() }))),
        [],
        "not its own"
    );
    assert_eq!(waits_told(&desk.hear(id(5), Word::Waits(wait))), [], "nobody asked for it here");
}

#[test]
fn who_follows_another_primary_is_asked_at_once() {
    let mut desk = Desk::new(Config::tiny());
    let effects = desk.request(shared(1));
    desk.choose(effects);
    let asked = |effects: &[Effect]| {
        let to_other = |effect: &&Effect| {
            matches!(
                effect,
                Effect::Send { to: OTHER, message: Message { word: Word::QueryLocal { .. }, .. } }
            )
        };
        effects.iter().filter(to_other).count()
    };
    // Nobody answers, and it asks ever more rarely.
    for _ in 0..20 {
        desk.now = desk.now + Duration::from_millis(100);
        desk.call(|commit, turn| commit.tick(turn));
    }
    desk.now = desk.now + Duration::from_millis(10);
    assert_eq!(asked(&desk.call(|commit, turn| commit.say_again(turn, LogId(9)))), 0);
    assert_eq!(asked(&desk.call(|commit, turn| commit.tick(turn))), 0, "that log has no part in it");
    desk.call(|commit, turn| commit.say_again(turn, OTHER));
    assert_eq!(asked(&desk.call(|commit, turn| commit.tick(turn))), 1);
    desk.now = desk.now + Duration::from_millis(80);
    assert_eq!(asked(&desk.call(|commit, turn| commit.tick(turn))), 1, "and soon again");
}

#[test]
fn the_origins_of_members_are_told_what_their_bundle_waits_for() {
    let mut desk = Desk::new(Config::tiny());
    let shares = |sequence| Transaction { shares: true, ..shared(sequence) };
    let effects = desk.request(shares(1));
    for sequence in [2, 3] {
        assert_eq!(desk.request(shares(sequence)), [], "it waits for the first");
    }
    desk.choose(effects);
    let cv = desk.commit.view().expect("it leads");
    let yes = Word::Vote { cv, epoch: 0, vote: Vote::Yes(Bytes::from_static(b"y")) };
    let decided = desk.hear(id(1), yes);
    let begun = desk.choose(decided);
    let bundle = begun.iter().find_map(|effect| match effect {
        Effect::Send { message: Message { id, word: Word::QueryLocal { .. }, .. }, .. } => Some(*id),
        _ => None,
    });
    let wait = Wait { log: OTHER, resource: Bytes::from_static(b"k"), by: id(9), waited_ms: 70 };
    let effects = desk.hear(bundle.expect("a bundle"), Word::Waits(wait.clone()));
    assert_eq!(waits_told(&effects), [(id(2), wait.clone()), (id(3), wait.clone())]);
    let again = desk.hear(bundle.expect("a bundle"), Word::Waits(wait));
    assert_eq!(waits_told(&again), [], "once for each");
}

#[test]
fn what_is_too_long_is_refused_before_it_is_logged() {
    let mut desk = Desk::new(Config { payload_bytes_max: 3, ..Config::tiny() });
    let effects = desk.request(Transaction { part: Bytes::from_static(b"long"), ..alone(1) });
    let effects = desk.choose(effects);
    let [Effect::Result { outcome: Outcome::Aborted(refusal), .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(refusal.cause, Cause::TooLarge);
    assert_eq!(desk.key.locks.count(), 0);
}

#[test]
fn finished_ones_are_forgotten_once_all_know_and_nobody_asks() {
    let mut desk = Desk::new(Config::tiny());
    let effects = desk.request(shared(1));
    desk.choose(effects);
    let cv = desk.commit.view().expect("it leads");
    let effects = desk.hear(id(1), Word::Vote { cv, epoch: 0, vote: Vote::Yes(Bytes::new()) });
    desk.choose(effects);
    let effects = desk.call(|commit, turn| commit.settle(turn, 7, 2));
    desk.choose(effects);
    assert_eq!(desk.commit.ledger().count(), 1, "the other log may still ask");
    desk.hear(id(1), Word::Acknowledge);
    desk.now = desk.now + Duration::from_secs(1);
    let effects = desk.call(|commit, turn| commit.tick(turn));
    assert!(matches!(&effects[..], [Effect::Append(Entry::Forget { .. })]), "{effects:?}");
    desk.choose(effects);
    assert_eq!((desk.commit.ledger().count(), desk.commit.live_count()), (0, 0));
    let late = desk.hear(id(1), Word::QueryGlobal { logs: vec![ME, OTHER] });
    let [Effect::Send { message: Message { word: Word::Global { outcome, .. }, .. }, .. }] = &late[..] else {
        panic!("{late:?}")
    };
    assert!(!outcome.is_commit(), "whoever asks so late knows already");
}

/// Origins outside the cluster may use a number twice: what they settle is forgotten nevertheless.
#[test]
fn one_number_of_two_ages_is_forgotten_whole() {
    let mut desk = Desk::new(Config::tiny());
    let older = Transaction { id: TransactionId { age: 0, ..id(1) }, ..alone(1) };
    for transaction in [alone(1), older] {
        let wanted = desk.request(transaction);
        desk.choose(wanted);
    }
    assert_eq!(desk.commit.ledger().count(), 2);
    let wanted = desk.call(|commit, turn| commit.settle(turn, 7, 2));
    desk.choose(wanted);
    assert_eq!(desk.commit.ledger().count(), 0);
}

#[test]
fn horizons_of_the_gone_are_kept_for_long() {
    let mut ledger = Ledger::new(ME);
    for origin in 1..=2_000 {
        ledger.apply(&Entry::Settle { origin, before: u64::MAX });
    }
    assert_eq!(ledger.origins(), 0);
    let settled = |origin| ledger.is_settled(TransactionId { age: 0, origin, sequence: 5 });
    assert!(settled(2_000) && settled(977) && !settled(976) && !settled(1));
    let mut loaded = Ledger::new(ME);
    for (row, value) in ledger.rows() {
        loaded.load(&row.to_bytes(), &value).expect("a row");
    }
    assert!(loaded == ledger);
    assert!(loaded.load(b"x", b"").is_err() && loaded.load(&Row::Origin(1).to_bytes(), b"").is_err());
}

#[test]
fn names_of_rows_are_read_as_written_and_ordered() {
    let rows = [Row::Origin(1), Row::Origin(256), Row::Transaction(id(1)), Row::Transaction(id(256))];
    assert!(rows.map(Row::to_bytes).is_sorted() && rows.is_sorted());
    assert!(rows.iter().all(|row| Row::of_bytes(&row.to_bytes()) == Some(*row)));
    assert_eq!(Row::of_bytes(&[1, 2, 3]), None);
}

#[test]
fn golden_bytes() {
    let vote = Vote::No(Refusal {
        log: ME,
        cause: Cause::Unreached,
        resource: Bytes::from_static(b"k"),
        by: Some(id(3)),
        waited_ms: 300,
    });
    let entry = Entry::Local { id: id(2), epoch: 1, vote, begins: None };
    assert_eq!(wire::encode(&entry), [0, 2, 7, 2, 1, 1, 1, 1, 1, b'k', 1, 3, 7, 3, 0xac, 2, 0]);
    let word = Word::RevertGrant { epoch: 4, cv: View { epoch: 1, number: 2, node: 3 }, pv: View::default() };
    let message = Message { from: OTHER, id: id(2), word };
    assert_eq!(wire::encode(&message), [2, 2, 7, 2, 4, 4, 1, 2, 3, 0, 0, 0]);
    let wait = Wait { log: OTHER, resource: Bytes::from_static(b"k"), by: id(3), waited_ms: 300 };
    let message = Message { from: OTHER, id: id(2), word: Word::Waits(wait) };
    assert_eq!(wire::encode(&message), [2, 2, 7, 2, 7, 2, 1, b'k', 3, 7, 3, 0xac, 2]);
}
