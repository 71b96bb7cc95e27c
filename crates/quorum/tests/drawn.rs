//! Replays the drawn cases and compares every small system with a naive version that tries all subsets.

use quorate_kernel::NodeId;
use quorate_quorum::{Fast, Flexible, Joint, Majority, QuorumSystem, Threshold};

/// A quorum system as drawn, with its member lists.
#[derive(Debug, Clone)]
enum Drawn {
    Majority(Vec<NodeId>),
    Joint(Vec<NodeId>, Vec<NodeId>),
    Phase1(Flexible, Vec<NodeId>),
    Phase2(Flexible, Vec<NodeId>),
    Fast(Vec<NodeId>),
    Classic(Vec<NodeId>),
}

impl Drawn {
    fn parse(line: &str) -> Drawn {
        let mut words = line.split_whitespace();
        let kind = words.next().expect("a case starts with its system");
        let mut number =
            || words.next().and_then(|w| w.parse().ok()).expect("flexible systems have two sizes");
        let sizes = if kind.starts_with("flexible") { Some((number(), number())) } else { None };
        let rest: Vec<&str> = words.collect();
        let mut lists = rest.split(|word| *word == "+").map(|list| list.iter().map(|w| node(w)).collect());
        let first: Vec<NodeId> = lists.next().unwrap_or_default();
        let flexible = |(p1, p2)| Flexible::new(first.len(), p1, p2).expect("sizes in the file intersect");
        match kind {
            "majority" => Drawn::Majority(first),
            "joint" => Drawn::Joint(first, lists.next().expect("a joint system has a +")),
            "flexible1" => Drawn::Phase1(flexible(sizes.expect("read above")), first),
            "flexible2" => Drawn::Phase2(flexible(sizes.expect("read above")), first),
            "fast" => Drawn::Fast(first),
            "classic" => Drawn::Classic(first),
            _ => panic!("unknown system {kind}"),
        }
    }

    fn everyone(&self) -> Vec<NodeId> {
        let mut all = match self {
            Drawn::Joint(old, new) => [&old[..], &new[..]].concat(),
            Drawn::Majority(list) | Drawn::Phase1(_, list) | Drawn::Phase2(_, list) => list.clone(),
            Drawn::Fast(list) | Drawn::Classic(list) => list.clone(),
        };
        all.sort();
        all.dedup();
        all
    }

    fn threshold(&self) -> Option<Threshold<'_>> {
        match self {
            Drawn::Majority(_) | Drawn::Joint(..) => None,
            Drawn::Phase1(sizes, list) => Some(sizes.phase1(list)),
            Drawn::Phase2(sizes, list) => Some(sizes.phase2(list)),
            Drawn::Fast(list) => Some(Fast::new(list).fast()),
            Drawn::Classic(list) => Some(Fast::new(list).classic()),
        }
    }

    fn is_quorum(&self, acked: impl Fn(NodeId) -> bool) -> bool {
        match self {
            Drawn::Majority(list) => Majority::new(list).is_quorum(acked),
            Drawn::Joint(old, new) => Joint::new(old, new).is_quorum(acked),
            _ => self.threshold().expect("the others count").is_quorum(acked),
        }
    }

    fn quorum_value(&self, value: impl Fn(NodeId) -> u64) -> Option<u64> {
        match self {
            Drawn::Majority(list) => Majority::new(list).quorum_value(value),
            Drawn::Joint(old, new) => Joint::new(old, new).quorum_value(value),
            _ => self.threshold().expect("the others count").quorum_value(value),
        }
    }

    /// The definition, written out without sharing anything with the crate.
    fn naive_is_quorum(&self, set: &[NodeId]) -> bool {
        let within = |list: &[NodeId]| list.iter().filter(|member| set.contains(member)).count();
        let more_than_half = |list: &[NodeId]| within(list) * 2 > list.len();
        match self {
            Drawn::Majority(list) | Drawn::Classic(list) => more_than_half(list),
            Drawn::Joint(old, new) => more_than_half(old) && more_than_half(new),
            Drawn::Phase1(sizes, list) => within(list) >= sizes.phase1_size(),
            Drawn::Phase2(sizes, list) => within(list) >= sizes.phase2_size(),
            // n - |set| <= (n - 1) / 4 without rounding.
            Drawn::Fast(list) => !list.is_empty() && 4 * (list.len() - within(list)) < list.len(),
        }
    }
}

fn node(word: &str) -> NodeId {
    NodeId(word.strip_prefix('n').and_then(|digits| digits.parse().ok()).expect("members are n1, n2, ..."))
}

fn cases(text: &str) -> Vec<Vec<&str>> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let cases = lines.split(|line| line.trim().is_empty());
    cases.filter(|case| !case.is_empty()).map(<[&str]>::to_vec).collect()
}

fn subsets(all: &[NodeId]) -> impl Iterator<Item = Vec<NodeId>> + '_ {
    (0..1_u32 << all.len())
        .map(|bits| (0..all.len()).filter(|p| bits >> p & 1 == 1).map(|p| all[p]).collect())
}

/// The largest minimum over all quorums.
fn naive_value(system: &Drawn, value: impl Fn(NodeId) -> u64) -> Option<u64> {
    let all = system.everyone();
    let quorums = subsets(&all).filter(|set| system.naive_is_quorum(set));
    // A joint quorum without any member of one list cannot exist, so every quorum has a minimum.
    quorums.filter_map(|set| set.iter().map(|member| value(*member)).min()).max()
}

#[test]
fn drawn_values() {
    let text = include_str!("../testdata/values.txt");
    let cases = cases(text);
    assert!(cases.len() >= 15, "the file was read");
    for case in cases {
        let system = Drawn::parse(case[0]);
        let (mut values, mut expected) = (Vec::new(), None);
        for line in &case[1..] {
            if let Some((name, bar)) = line.split_once('|') {
                values.push((node(name.trim()), bar.len() as u64, name.len()));
            } else if let Some(caret) = line.find('^') {
                let wall = values.first().expect("bars stand above the caret").2;
                expected = Some((caret - wall) as u64);
            } else {
                assert_eq!(line.trim(), "none", "{case:?}");
            }
        }
        let value =
            |member| values.iter().find(|(name, ..)| *name == member).expect("every member has a bar").1;
        assert_eq!(system.quorum_value(value), expected, "{case:#?}");
        assert_eq!(naive_value(&system, value), expected, "the drawing is wrong: {case:#?}");
    }
}

#[test]
fn drawn_votes() {
    let mut seen = 0;
    for case in cases(include_str!("../testdata/votes.txt")) {
        let system = Drawn::parse(case[0]);
        let all = system.everyone();
        for line in &case[1..] {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(words.len(), all.len() + 1, "{line}");
            let set: Vec<NodeId> = (0..all.len()).filter(|p| words[*p] == "x").map(|p| all[p]).collect();
            let expected = words[all.len()] == "yes";
            assert_eq!(system.is_quorum(|member| set.contains(&member)), expected, "{system:?} {line}");
            assert_eq!(system.naive_is_quorum(&set), expected, "the drawing is wrong: {system:?} {line}");
            seen += 1;
        }
    }
    assert!(seen >= 20, "the file was read");
}

/// Systems over all member lists up to `count_max` members.
fn systems(count_max: u64) -> Vec<Drawn> {
    let mut all = Vec::new();
    for count in 0..=count_max {
        let list: Vec<NodeId> = (1..=count).map(NodeId).collect();
        all.extend([Drawn::Majority(list.clone()), Drawn::Fast(list.clone()), Drawn::Classic(list.clone())]);
        for phase1 in 0..=list.len() {
            for phase2 in 0..=list.len() {
                if let Ok(sizes) = Flexible::new(list.len(), phase1, phase2) {
                    all.extend([Drawn::Phase1(sizes, list.clone()), Drawn::Phase2(sizes, list.clone())]);
                }
            }
        }
    }
    let everyone: Vec<NodeId> = (1..=count_max).map(NodeId).collect();
    for old in subsets(&everyone) {
        all.extend(subsets(&everyone).map(|new| Drawn::Joint(old.clone(), new)));
    }
    all
}

#[test]
fn every_small_system_agrees_with_the_naive_one() {
    for system in systems(7) {
        let all = system.everyone();
        for set in subsets(&all) {
            assert_eq!(
                system.is_quorum(|member| set.contains(&member)),
                system.naive_is_quorum(&set),
                "{system:?} {set:?}"
            );
        }
    }
    // Values cost another exponent, so two spread patterns on every system and all patterns on the small ones.
    for system in systems(5) {
        for pattern in [|n: u64| n * 5 % 7, |n: u64| (n * n + 3) % 4] {
            let value = |member: NodeId| pattern(member.0);
            assert_eq!(system.quorum_value(value), naive_value(&system, value), "{system:?}");
        }
    }
    for system in systems(3) {
        for pattern in 0..4_u64.pow(3) {
            let value = |member: NodeId| pattern / 4_u64.pow(member.0 as u32 - 1) % 4;
            assert_eq!(system.quorum_value(value), naive_value(&system, value), "{system:?}");
        }
    }
}

#[test]
fn majorities_of_all_seven_members_have_the_naive_value() {
    let everyone: Vec<NodeId> = (1..=7).map(NodeId).collect();
    for list in subsets(&everyone) {
        let system = Drawn::Majority(list);
        for pattern in 0..200_u64 {
            let value = |member: NodeId| (pattern * 31 + member.0 * pattern * 17 + member.0) % 9;
            assert_eq!(system.quorum_value(value), naive_value(&system, value), "{system:?}");
        }
    }
}
