//! Drawn histories: cuts, steps, reports and operators' words in any order.

mod common;

use common::*;
use quorate_api::Bucket;
use quorate_buckets::{Cut, Node, Placement};
use quorate_kernel::{NodeId, Rng, wire};

const SEEDS: u64 = 400;

fn draw_cut(placement: &Placement, landscape: &mut Landscape, rng: &mut Rng) -> Cut {
    let room = 10 - placement.nodes().len().min(10) as u64;
    let joins = landscape.nodes(rng.below(room.min(3) + 1), rng);
    let mut all: Vec<NodeId> = placement.nodes().iter().map(|node| node.id).collect();
    rng.shuffle(&mut all);
    let spare = all.len() - usize::from(joins.is_empty());
    let most = if rng.chance(1, 4) { 3 } else { 1 };
    all.truncate((rng.below(most + 1) as usize).min(spare));
    Cut { joins, leaves: all }
}

/// Nobody moves but who must: survivors keep their places, only joiners come, and only to vacancies.
fn check_cut(before: &Placement, after: &Placement, cut: &Cut) {
    let joined: Vec<NodeId> = cut.joins.iter().map(|node| node.id).collect();
    assert_eq!(moved_needlessly(&table(before), &table(after), &joined, &cut.leaves), 0);
    for (was, is) in table(before).iter().zip(table(after)) {
        let stay = was.iter().filter(|id| !cut.leaves.contains(id)).count();
        assert!(is.len() <= after.members_wanted().max(stay), "only vacancies are filled");
    }
}

/// What holds for every placement at rest.
fn check_rest(placement: &Placement, is_even: bool) {
    let halted = halted(placement);
    let wanted = placement.members_wanted();
    if wanted == 0 {
        return;
    }
    let best = fewest_pairs(placement.nodes(), wanted);
    for bucket in buckets(placement).filter(|bucket| !halted.contains(bucket)) {
        let members: Vec<_> =
            placement.members(bucket).iter().map(|id| placement.node(*id).expect("a node")).collect();
        assert_eq!(members.len(), wanted, "as many copies as can be");
        assert_eq!(pairs(&members), best, "no set of nodes is spread better");
        assert!(members.iter().all(|node| node.capacity > 0));
    }
    if !halted.is_empty() || !is_even {
        return;
    }
    let loads = loads(placement);
    let able = || placement.nodes().iter().filter(|node| node.capacity > 0);
    for left in able() {
        for right in able().filter(|right| (&right.zone, &right.rack) == (&left.zone, &left.rack)) {
            assert!(
                loads[&left.id].abs_diff(loads[&right.id]) <= 1,
                "within a rack loads differ by one at most"
            );
        }
    }
}

fn rejects_nonsense(placement: &Placement) {
    let known = placement.nodes()[0].clone();
    let mut copy = placement.clone();
    assert!(copy.advance(&Cut { joins: vec![known.clone()], leaves: vec![] }).is_err());
    assert!(copy.advance(&Cut { joins: vec![], leaves: ids([999_999]) }).is_err());
    let everybody = placement.nodes().iter().map(|node| node.id).collect();
    assert!(copy.advance(&Cut { joins: vec![], leaves: everybody }).is_err());
    assert!(copy.settle(Bucket(0), copy.number() + 1, &[known.id]).is_err());
    assert!(copy.settle(Bucket(0), copy.number(), &[]).is_err());
    assert_eq!(copy, *placement, "a refusal changes nothing");
}

/// Applies drawn things; returns the hashes on the way.
fn history(seed: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let mut landscape = Landscape::draw(&mut rng);
    let mut is_even = landscape.is_even();
    let start = rng.between(1, 6);
    let count = *rng.pick(&[1, 2, 5, 7, 16]).expect("not empty");
    let mut placement = founded(count, rng.between(1, 5) as u8, landscape.nodes(start, &mut rng));
    check_rest(&placement, is_even);
    let mut hashes = vec![placement.hash()];
    for _ in 0..25 {
        let before = placement.clone();
        match rng.below(11) {
            0..=3 => {
                let cut = draw_cut(&placement, &mut landscape, &mut rng);
                let mut mixed = cut.clone();
                rng.shuffle(&mut mixed.joins);
                rng.shuffle(&mut mixed.leaves);
                let lost = placement.advance(&cut).expect("fits");
                assert_eq!(before.clone().advance(&mixed).expect("fits"), lost);
                let mut other = before.clone();
                other.advance(&mixed).expect("fits");
                assert_eq!(other, placement, "the order within a cut does not matter");
                check_cut(&before, &placement, &cut);
                let were = halted(&before);
                assert!(lost.iter().all(|lost| !were.contains(&lost.bucket)), "each loss is told once");
            }
            4 | 5 => {
                if let Some(step) = placement.next_step() {
                    check_step(&mut placement, &step);
                }
            }
            6 => settle_all(&mut placement),
            7 => {
                rest(&mut placement);
                check_rest(&placement, is_even);
                assert_eq!(rest(&mut placement), 0, "rest is rest");
            }
            8 => {
                let nodes = placement.nodes();
                let (id, capacity) = (nodes[rng.below(nodes.len() as u64) as usize].id, rng.below(2) as u32);
                is_even &= capacity == 0 || placement.node(id).is_some_and(|node| node.capacity == 1);
                placement.set_capacity(id, capacity).expect("a node");
            }
            9 => {
                let known = rng.pick(placement.nodes()).expect("some").clone();
                let elsewhere = landscape.nodes(1, &mut rng).remove(0);
                let said = Node { id: known.id, ..elsewhere };
                let is_news = placement.describe(&said).expect("a node");
                let now = placement.node(known.id).expect("a node").clone();
                assert_eq!((&now.zone, &now.rack), (&said.zone, &said.rack));
                assert_eq!(now.capacity == 0, known.capacity == 0, "an operator's word");
                assert_eq!((placement.describe(&said), is_news), (Ok(false), now != known));
            }
            _ => match halted(&placement).first() {
                Some(bucket) => drop(placement.recover(*bucket).expect("it is halted")),
                None => placement.set_copies(rng.between(1, 5) as u8).expect("few"),
            },
        }
        assert!(placement == before || placement.number() > before.number());
        assert_eq!(wire::decode(&wire::encode(&placement)), Ok(placement.clone()));
        rejects_nonsense(&placement);
        hashes.push(placement.hash());
    }
    for bucket in halted(&placement) {
        placement.recover(bucket).expect("it is halted");
    }
    rest(&mut placement);
    check_rest(&placement, is_even);
    hashes
}

#[test]
fn histories() {
    for seed in 0..SEEDS {
        assert_eq!(history(seed), history(seed), "seed {seed}");
    }
}

#[test]
fn who_knows_more_wins() {
    // Two leaders with placements of different age act on a log in any order: the log ends in line with the newer one and
    // is never taken back.
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut landscape = Landscape::draw(&mut rng);
        let mut chain = vec![founded(3, 3, landscape.nodes(5, &mut rng))];
        for _ in 0..6 {
            let mut next = chain.last().expect("not empty").clone();
            let cut = draw_cut(&next, &mut landscape, &mut rng);
            next.advance(&cut).expect("fits");
            chain.push(next.clone());
            settle_all(&mut next);
            if let Some(step) = next.next_step() {
                next.take(&step).expect("fits");
                chain.push(next);
            }
        }
        let newest = chain.last().expect("not empty");
        let bucket = Bucket(1);
        let (mut log, mut mark) = (chain[0].members(bucket).to_vec(), chain[0].since(bucket));
        for turn in 0..30 {
            let acting = if turn == 20 { newest } else { rng.pick(&chain).expect("not empty") };
            let Some(due) = acting.members_due(bucket, &log, mark) else {
                assert!(turn != 20 || mark == newest.since(bucket) || newest.members(bucket).is_empty());
                continue;
            };
            assert!(due.number > mark && acting.since(bucket) == due.number);
            log.retain(|id| !due.remove.contains(id));
            log.extend(&due.add);
            mark = due.number;
            assert_eq!(acting.members_due(bucket, &log, mark), None, "once is enough");
            let leader = acting.leader_due(bucket, &log, mark).expect("there are members");
            assert_eq!(leader, acting.members(bucket)[0]);
            assert!(acting.leader_due(bucket, &log, mark + 1).is_none());
        }
        let mut is: Vec<NodeId> = log.clone();
        is.sort_unstable();
        let mut due = newest.members(bucket).to_vec();
        due.sort_unstable();
        assert!(due.is_empty() || is == due, "seed {seed}");
    }
}
