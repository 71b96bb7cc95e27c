//! Who is told of rows and of how far a run is: a file, standard output, and whoever watches.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use quorate_sim::{Audience, Row};

use super::super::bench::append_line;
use super::super::sim::row_line;
use crate::output::{is_watched, print};

/// Without a terminal a run says so often how far it is.
const FAR_EVERY: Duration = Duration::from_secs(60);

/// See the module's documentation.
pub(super) struct Told<'a> {
    name: &'a str,
    seed: u64,
    results: &'a Path,
    bar: ProgressBar,
    began: Instant,
    far_said: Instant,
    kept: Result<()>,
}

impl Told<'_> {
    /// Of an experiment, or of one point of it, whose rows go to a file.
    pub(super) fn new<'a>(name: &'a str, seed: u64, results: &'a Path) -> Told<'a> {
        let bar = if is_watched() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        let now = Instant::now();
        Told { name, seed, results, bar, began: now, far_said: now, kept: Ok(()) }
    }

    /// Whether all rows could be kept.
    pub(super) fn end(self) -> Result<()> {
        self.bar.finish_and_clear();
        self.kept
    }
}

impl Audience for Told<'_> {
    fn row(&mut self, row: Row) {
        let line = row_line(&row, self.seed);
        if self.kept.is_ok() {
            let (bar, results) = (&self.bar, self.results);
            self.kept =
                bar.suspend(|| print(&format!("{line}\n"))).and_then(|()| append_line(results, &line));
        }
    }

    fn far(&mut self, phase: &'static str, now: Duration) {
        let text = format!(
            "{}: {phase}, {:.1} s of its own time after {} s",
            self.name,
            now.as_secs_f64(),
            self.began.elapsed().as_secs()
        );
        if is_watched() {
            self.bar.set_message(text);
            self.bar.tick();
        } else if self.far_said.elapsed() >= FAR_EVERY {
            self.far_said = Instant::now();
            eprintln!("{text}");
        }
    }
}
