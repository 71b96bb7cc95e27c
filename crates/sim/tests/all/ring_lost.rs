//! Homes of groups that lose what they agreed to with others, and go on by an operator's word.

use quorate_node::Limits;
use quorate_sim::node::scatter::lose_homes;

/// `QUORATE_LOSSES=N`: with so many seeds.
fn seeds() -> u64 {
    std::env::var("QUORATE_LOSSES").map_or(6, |text| text.parse().expect("a number of seeds"))
}

#[test]
fn a_home_gets_back_what_it_has_lost() {
    let (mut struck, mut mended) = (0, 0);
    for seed in 1..=seeds() {
        let losses = lose_homes(seed, &Limits::production()).unwrap_or_else(|why| panic!("{why}"));
        (struck, mended) = (struck + losses.struck, mended + losses.mended);
    }
    eprintln!("{struck} operations were struck, {mended} homes got back what they had lost");
    assert!(
        struck > 3 * seeds() && mended > seeds() / 3,
        "{struck} operations struck, {mended} homes mended"
    );
}

#[cfg(feature = "mutants")]
#[test]
fn a_home_that_does_not_is_noticed() {
    let mut limits = Limits::production();
    limits.shard.mutant = Some(quorate_shard::Mutant::LossesKept);
    let ended = (1..=seeds()).find_map(|seed| lose_homes(seed, &limits).err());
    assert!(ended.is_some(), "nobody missed anything");
}
