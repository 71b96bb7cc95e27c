//! All tests of worlds as one program: each would compile the machines anew. Where it says so, the environment chooses among
//! seeds; a name chooses among tests, as in `cargo test -p quorate-sim --test all placement::`.

#[cfg(feature = "mutants")]
mod broken;
mod everything;
mod toys;

mod alone;
mod bundles;
mod churn;
mod commit;
mod commit_bundles;
mod commit_kept;
#[cfg(feature = "mutants")]
mod commit_mutants;
mod commit_schedules;
mod copies;
mod joins;
mod membership;
mod membership_experiments;
#[cfg(feature = "mutants")]
mod membership_guard;
#[cfg(feature = "mutants")]
mod membership_mutants;
mod membership_transcripts;
mod node;
#[cfg(feature = "mutants")]
mod node_mutants;
mod placement;
mod reads_of_several;
mod recovery;
mod replog;
#[cfg(feature = "mutants")]
mod replog_mutants;
mod replog_paper;
mod replog_transcripts;
mod ring;
mod ring_lost;
#[cfg(feature = "mutants")]
mod ring_mutants;
mod ring_steps;
mod runs;
mod transcripts;
mod votes_again;
mod worlds;
