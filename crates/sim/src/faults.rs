//! What can go wrong, and the nemesis that makes it go wrong.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use quorate_kernel::Rng;

use crate::harness::Harness;
use crate::latency::{Latency, nanos};
use crate::process::Life;
use crate::world::{Happening, World};

macro_rules! faults {
    ($($name:ident $text:literal $doc:literal),* $(,)?) => {
        /// A kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Fault {
            $(#[doc = $doc] $name),*
        }

        impl Fault {
            /// All kinds.
            pub const ALL: &'static [Fault] = &[$(Fault::$name),*];

            /// Its name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Fault::$name => $text),* }
            }

            /// The mark that counts how often it struck.
            pub fn mark(self) -> &'static str {
                match self { $(Fault::$name => concat!("sim.fault.", $text)),* }
            }
        }
    };
}

faults! {
    Crash "crash" "A node dies and restarts with its disk.",
    CrashAll "crash-all" "All nodes die at once, as when the power goes.",
    Pause "pause" "A node freezes; the clock goes on.",
    Halves "halves" "The nodes fall into two sides that do not hear each other.",
    OneWay "one-way" "Some nodes are no longer heard, though they hear.",
    Partial "partial" "Single pairs do not hear each other, though others hear both.",
    Clog "clog" "Links clog one after the other and open in another order (swizzle-clogging).",
    Break "break" "Connections break; what is on its way is lost.",
    Loss "loss" "Single messages are lost.",
    Duplicate "duplicate" "Single messages arrive twice.",
    Reorder "reorder" "Messages overtake each other.",
    Tail "tail" "Latencies have a long tail.",
    SlowNode "slow-node" "Everything from and to a node takes longer.",
    SlowDisk "slow-disk" "A node's syncs take much longer.",
    FullDisk "full-disk" "A node's disk is full for a while.",
    FailDisk "fail-disk" "A sync fails: the node stops, and comes back later or never.",
    LoseDisk "lose-disk" "A node loses its disk.",
    CorruptDisk "corrupt-disk" "Checksums show, at recovery, that durable records are damaged.",
    WallJump "wall-jump" "A wall clock jumps.",
    Drift "drift" "Clocks run at wrong rates.",
}

/// Some kinds of faults; on the command line `crash,pause`, `all` or `none`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultSet(u32);

impl FaultSet {
    /// No fault.
    pub const NONE: FaultSet = FaultSet(0);
    /// Every kind.
    pub const ALL: FaultSet = FaultSet((1 << Fault::ALL.len()) - 1);

    /// Exactly these.
    pub fn of(faults: &[Fault]) -> Self {
        faults.iter().fold(FaultSet::NONE, |set, fault| set.with(*fault))
    }

    /// These and `fault`.
    #[must_use]
    pub fn with(self, fault: Fault) -> Self {
        FaultSet(self.0 | 1 << fault as u8)
    }

    /// These without `fault`.
    #[must_use]
    pub fn without(self, fault: Fault) -> Self {
        FaultSet(self.0 & !(1 << fault as u8))
    }

    /// What is in both.
    #[must_use]
    pub fn and(self, other: FaultSet) -> Self {
        FaultSet(self.0 & other.0)
    }

    /// Whether `fault` is among them.
    pub fn has(self, fault: Fault) -> bool {
        self.0 & 1 << fault as u8 != 0
    }

    /// The kinds among them.
    pub fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.iter().copied().filter(move |fault| self.has(*fault))
    }

    /// Draws each kind of these with the same chance.
    #[must_use]
    pub fn draw(self, rng: &mut Rng) -> Self {
        // Some runs have nearly everything, some next to nothing: combinations matter, and so does their absence.
        let chance = rng.between(1, 9);
        Fault::ALL.iter().fold(FaultSet::NONE, |set, fault| {
            let on = rng.chance(chance, 10);
            if on && self.has(*fault) { set.with(*fault) } else { set }
        })
    }
}

impl fmt::Display for FaultSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == FaultSet::NONE {
            return f.write_str("none");
        }
        let names: Vec<&str> = self.iter().map(Fault::name).collect();
        f.write_str(&names.join(","))
    }
}

impl fmt::Debug for FaultSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for FaultSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => return Ok(FaultSet::ALL),
            "none" => return Ok(FaultSet::NONE),
            _ => {}
        }
        text.split(',').try_fold(FaultSet::NONE, |set, name| {
            let known = Fault::ALL.iter().find(|fault| fault.name() == name);
            known.map(|fault| set.with(*fault)).ok_or_else(|| {
                let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
                format!(
                    "no fault is called {name:?}; there are {}, and \"all\" and \"none\"",
                    names.join(", ")
                )
            })
        })
    }
}

/// Which faults strike how often, for how long, and what bounds them.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultOptions {
    /// The mean time between strikes of each kind.
    pub every: Vec<(Fault, Duration)>,
    /// How long a fault lasts: evenly over the orders of magnitude between these.
    pub lasts: (Duration, Duration),
    /// Strikes after which there is peace; `None` for no end.
    pub strikes_max: Option<u64>,
    /// How many places may lose their disk, or be gone for good, over the whole run.
    pub casualties_max: usize,
    /// How far a wall clock jumps at most.
    pub wall_jump_ms_max: u64,
}

/// How a fault ends.
#[derive(Debug, Clone)]
pub(crate) enum Cure {
    Restart { place: usize },
    Thaw { place: usize, incarnation: u32 },
    Uncut(Vec<(usize, usize)>),
    Clog(usize, usize),
    Unclog(usize, usize),
    Speed { place: usize },
    Disk { place: usize, incarnation: u32 },
    Room { place: usize },
}

/// Draws faults and lets them loose.
#[derive(Debug)]
pub(crate) struct Nemesis {
    options: FaultOptions,
    rng: Rng,
    strikes: u64,
    casualties: usize,
}

impl Nemesis {
    /// How long the next fault lasts.
    fn span(&mut self) -> u64 {
        let (low, high) = (nanos(self.options.lasts.0).max(1), nanos(self.options.lasts.1));
        let mut span = low;
        while span < high && self.rng.chance(3, 4) {
            span = span.saturating_mul(2);
        }
        self.rng.between(low, span.min(high).max(low))
    }

    fn may_take_another(&mut self) -> bool {
        let may = self.casualties < self.options.casualties_max;
        self.casualties += usize::from(may);
        may
    }
}

impl<H: Harness> World<H> {
    /// Lets faults loose, until [`World::heal`].
    pub fn let_loose(&mut self, options: FaultOptions) {
        let rng = self.rng.fork();
        let every = options.every.clone();
        self.nemesis = Some(Nemesis { options, rng, strikes: 0, casualties: 0 });
        for (fault, mean) in every {
            self.schedule(fault, mean);
        }
    }

    fn schedule(&mut self, fault: Fault, mean: Duration) {
        let Some(nemesis) = &mut self.nemesis else { return };
        let wait = Latency::Exponential { floor: Duration::ZERO, mean }.draw(&mut nemesis.rng);
        self.queue.push(self.now.saturating_add(wait), Happening::Strike(fault));
    }

    /// A fault strikes, unless there is peace.
    pub(crate) fn strike(&mut self, fault: Fault) {
        let at_peace =
            |nemesis: &Nemesis| nemesis.options.strikes_max.is_some_and(|most| nemesis.strikes >= most);
        let Some(mut nemesis) = self.nemesis.take_if(|nemesis| !at_peace(nemesis)) else { return };
        nemesis.strikes += 1;
        self.marks.hit(fault.mark());
        self.trace.mix(fault as u64);
        self.trace.line(self.now, format_args!("fault: {}", fault.name()));
        self.afflict(fault, &mut nemesis);
        let mean = nemesis.options.every.iter().find(|(kind, _)| *kind == fault).map(|(_, mean)| *mean);
        self.nemesis = Some(nemesis);
        if let Some(mean) = mean {
            self.schedule(fault, mean);
        }
    }

    fn afflict(&mut self, fault: Fault, nemesis: &mut Nemesis) {
        let up = self.places(|life| life == Life::Up);
        let Some(place) = nemesis.rng.pick(&up).copied() else { return };
        let span = nemesis.span();
        let ends = self.now.saturating_add(span);
        let incarnation = self.nodes.processes[place].incarnation;
        match fault {
            Fault::Crash => self.crash_for(place, span),
            Fault::CrashAll => {
                for place in self.places(|life| matches!(life, Life::Up | Life::Paused)) {
                    self.crash_for(place, nemesis.span());
                }
            }
            Fault::Pause => self.freeze(place, span),
            Fault::Halves | Fault::OneWay | Fault::Partial => {
                let links = self.links(fault, &mut nemesis.rng);
                for (from, to) in &links {
                    self.network.cut(*from, *to);
                }
                self.trace.line(self.now, format_args!("cut, by places: {links:?}"));
                self.cure_at(ends, Cure::Uncut(links));
            }
            Fault::Clog => self.swizzle(&mut nemesis.rng, span),
            Fault::Break => {
                let other = nemesis.rng.below(self.nodes.count() as u64) as usize;
                self.network.break_connection(place, other);
            }
            Fault::SlowNode => {
                let by = nemesis.span() / 16;
                self.network.slow_down(place, Duration::from_nanos(by));
                self.cure_at(ends, Cure::Speed { place });
            }
            Fault::SlowDisk => {
                self.nodes.processes[place].disk_slowness = 1 << nemesis.rng.between(2, 9);
                self.cure_at(ends, Cure::Disk { place, incarnation });
            }
            Fault::FullDisk => {
                self.tell_disk_full(place, true);
                self.cure_at(ends, Cure::Room { place });
            }
            Fault::FailDisk | Fault::LoseDisk | Fault::CorruptDisk => self.ruin(fault, place, span, nemesis),
            Fault::WallJump => {
                let most = nemesis.options.wall_jump_ms_max;
                let by = nemesis.rng.between(0, 2 * most) as i64 - most as i64;
                self.nodes.processes[place].clock.jump(by);
            }
            Fault::Loss | Fault::Duplicate | Fault::Reorder | Fault::Tail | Fault::Drift => {}
        }
    }

    fn crash_for(&mut self, place: usize, span: u64) {
        // Where there are no disks, a crash is a loss.
        if self.options.disk.volatile && !self.may_lose_disk(place) {
            return;
        }
        self.kill(place);
        self.cure_at(self.now.saturating_add(span), Cure::Restart { place });
    }

    pub(crate) fn may_lose_disk(&mut self, place: usize) -> bool {
        let node = self.nodes.processes[place].id;
        self.harness.may_lose_disk(node, &self.nodes)
    }

    /// A disk fails. Where too many are ruined already, the node just restarts with it.
    fn ruin(&mut self, fault: Fault, place: usize, span: u64, nemesis: &mut Nemesis) {
        let for_good = fault != Fault::FailDisk || nemesis.rng.chance(1, 4);
        if for_good && self.may_lose_disk(place) && nemesis.may_take_another() {
            self.kill(place);
            self.wipe(place, span);
        } else {
            self.crash_for(place, span);
        }
    }

    /// The links that a partition cuts.
    fn links(&self, fault: Fault, rng: &mut Rng) -> Vec<(usize, usize)> {
        let count = self.nodes.count();
        let all =
            (0..count).flat_map(|from| (0..count).map(move |to| (from, to))).filter(|(from, to)| from != to);
        let mut order: Vec<usize> = (0..count).collect();
        rng.shuffle(&mut order);
        let inside = &order[..rng.between(1, (count as u64).saturating_sub(1).max(1)) as usize];
        match fault {
            Fault::Halves => all.filter(|(from, to)| inside.contains(from) != inside.contains(to)).collect(),
            Fault::OneWay => all.filter(|(from, to)| inside.contains(from) && !inside.contains(to)).collect(),
            _ => {
                let pairs: Vec<_> = all.filter(|(from, to)| from < to && rng.chance(1, 3)).collect();
                pairs.into_iter().flat_map(|(from, to)| [(from, to), (to, from)]).collect()
            }
        }
    }

    /// Clogs the links of some nodes one after the other, and opens them in another order.
    fn swizzle(&mut self, rng: &mut Rng, span: u64) {
        let count = self.nodes.count();
        let mut order: Vec<usize> = (0..count).collect();
        rng.shuffle(&mut order);
        for node in order.into_iter().take(rng.between(1, count as u64) as usize) {
            for other in (0..count).filter(|other| *other != node) {
                let closes = rng.below(span.max(1));
                let opens = rng.between(closes, span);
                self.cure_at(self.now.saturating_add(closes), Cure::Clog(node, other));
                self.cure_at(self.now.saturating_add(opens), Cure::Unclog(node, other));
            }
        }
    }

    pub(crate) fn tell_disk_full(&mut self, place: usize, full: bool) {
        let node = self.nodes.processes[place].id;
        self.nodes.processes[place].disk_full = full;
        if let Some(input) = self.harness.disk_full(node, full) {
            self.queue.push(self.now, Happening::Input { node, input });
        }
    }

    pub(crate) fn cure_at(&mut self, at: u64, cure: Cure) {
        self.queue.push(at, Happening::Cure { cure, healings: self.healings });
    }

    /// A fault ends. What a healing has ended meanwhile is not ended again.
    pub(crate) fn cure(&mut self, cure: Cure, healings: u64) {
        match cure {
            Cure::Thaw { place, incarnation } => {
                if self.nodes.processes[place].incarnation == incarnation {
                    self.thaw(place);
                }
            }
            Cure::Restart { place } => self.restart_after(place, 0),
            Cure::Room { place } => self.tell_disk_full(place, false),
            _ if self.healings != healings => {}
            Cure::Uncut(links) => {
                for (from, to) in links {
                    self.network.uncut(from, to);
                }
            }
            Cure::Clog(from, to) => self.network.clog(from, to),
            Cure::Unclog(from, to) => {
                self.network.unclog(from, to);
                self.release_clogged();
            }
            Cure::Speed { place } => self.network.slow_down(place, Duration::ZERO),
            Cure::Disk { place, incarnation } => {
                let process = &mut self.nodes.processes[place];
                if process.incarnation == incarnation {
                    process.disk_slowness = 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_they_are_read() {
        for set in [FaultSet::NONE, FaultSet::ALL, FaultSet::of(&[Fault::Crash, Fault::Drift])] {
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        assert_eq!("all".parse(), Ok(FaultSet::ALL));
        assert!("crash,flood".parse::<FaultSet>().unwrap_err().contains("\"flood\""));
        assert!("".parse::<FaultSet>().is_err());
    }

    #[test]
    fn draws_stay_inside_and_reach_everything() {
        let mut rng = Rng::new(1);
        let allowed = FaultSet::ALL.without(Fault::LoseDisk);
        let mut seen = FaultSet::NONE;
        for _ in 0..50 {
            let drawn = allowed.draw(&mut rng);
            assert_eq!(drawn.and(allowed), drawn);
            seen = drawn.iter().fold(seen, FaultSet::with);
        }
        assert_eq!(seen, allowed);
    }
}
