//! Chirp on a cluster: the workload of the paper on Scatter, section 7.2. Users post; for each post, followers of its author fetch
//! their timelines, which are judged at once.
//!
//! Each client is a thread with a native client of its own, so that what is measured is what a program would see: repetitions after
//! failures included.

mod graph;
mod order;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chirp::{
    Chirp, ChirpError, Client, NAME_LENGTH_MAX, Options, TEXT_LENGTH_MAX, TIMELINE_LENGTH_MAX, User,
};
use quorate_kernel::Rng;
use serde::Serialize;
use serde_json::json;

use crate::clock;
use crate::load::{LoadError, LoadOptions, Pace, Usage, check, describe, nanos};
use crate::progress::Progress;
use crate::report::{Latency, Measured, Report};
use graph::Graph;
use order::{Order, fault, marked};

/// A fetch that takes longer counts as failed, as in the paper.
const IN_TIME_NS: u64 = 3_000_000_000;
/// Digits of the largest number of a user.
const DIGITS_MAX: usize = 12;

/// A network of users, and what they do.
#[derive(Debug, Clone, Serialize)]
pub struct ChirpSpec {
    /// How many users, at least 2.
    pub users: usize,
    /// A user has n followers with a probability proportional to n^-exponent: above 1. Near 1: a few are followed by nearly all.
    pub exponent: f64,
    /// No user has fewer followers (unless those who could are full): at least 1.
    pub followers_min: usize,
    /// How many followers fetch their timelines after each post.
    pub fetches: usize,
    /// Posts that a fetch wants of each who is followed: up to [`TIMELINE_LENGTH_MAX`].
    pub timeline: usize,
    /// What names of users begin with.
    pub prefix: String,
}

impl Default for ChirpSpec {
    /// 1,000 users with 4 followers at least, exponent 2.3; one fetch of 20 posts for each post.
    fn default() -> Self {
        ChirpSpec {
            users: 1_000,
            exponent: 2.3,
            followers_min: 4,
            fetches: 1,
            timeline: 20,
            prefix: "bench_".into(),
        }
    }
}

impl ChirpSpec {
    fn validate(&self, clients: usize) -> Result<(), LoadError> {
        let refuse = |text: String| Err(LoadError::Options(text));
        if self.users < 2 || self.users < clients {
            return refuse("there must be at least two users, and one for each client".into());
        }
        if !(self.exponent.is_finite() && self.exponent > 1.0) {
            return refuse("the exponent must be a number above 1".into());
        }
        if !(1..self.users).contains(&self.followers_min) {
            return refuse("a user has at least one follower, and fewer than there are users".into());
        }
        if !(1..=TIMELINE_LENGTH_MAX).contains(&self.timeline) {
            return refuse(format!("a timeline has 1 to {TIMELINE_LENGTH_MAX} posts"));
        }
        if self.prefix.len() > NAME_LENGTH_MAX - DIGITS_MAX {
            return refuse(format!("the prefix has at most {} characters", NAME_LENGTH_MAX - DIGITS_MAX));
        }
        self.user(0).map(|_| ())
    }

    fn user(&self, number: usize) -> Result<User, LoadError> {
        format!("{}{number}", self.prefix)
            .parse()
            .map_err(|error: ChirpError| LoadError::Options(error.to_string()))
    }

    fn names(&self) -> Result<Vec<User>, LoadError> {
        (0..self.users).map(|number| self.user(number)).collect()
    }
}

/// What was measured.
#[derive(Debug, Clone, Serialize)]
pub struct ChirpReport {
    /// Posts and fetches together, and how they ended.
    #[serde(flatten)]
    pub report: Report,
    /// How many users follow how many, all together.
    pub follows: u64,
    /// Latencies of posts that were acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Latency>,
    /// Latencies of fetches that were answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch: Option<Latency>,
    /// Fetches that were measured.
    pub fetches: u64,
    /// Share of them that were answered within 3 s, in percent.
    pub fetches_in_time_percent: f64,
    /// Fetches, those of the warm-up included, that saw an author's posts go backward, with a gap, or changed.
    pub out_of_order: u64,
    /// Share of answered fetches that did, in percent.
    pub out_of_order_percent: f64,
}

impl ChirpReport {
    /// The report in lines for people.
    pub fn render(&self) -> String {
        let counts = &self.report.counts;
        let mut text = format!(
            "{:.0} operations per second: {} done in {:.1} s, {} refused, {} unknown\n\
             fetches: {:.2} % of {} within 3 s, {} out of order ({} %)\n",
            self.report.per_second,
            counts.done,
            self.report.seconds,
            counts.refused,
            counts.unknown,
            self.fetches_in_time_percent,
            self.fetches,
            self.out_of_order,
            self.out_of_order_percent,
        );
        if counts.not_sent > 0 {
            text += &format!("{} due but not sent: the rate is too high\n", counts.not_sent);
        }
        for (name, latency) in [("update", &self.update), ("fetch", &self.fetch)] {
            text += &latency.as_ref().map(|latency| latency.line(name)).unwrap_or_default();
        }
        text + &self.report.surroundings()
    }
}

fn client(options: &LoadOptions) -> Chirp {
    let defaults = Options::default();
    let patience = defaults.patience.min(options.timeout);
    let options_of_client = Options { deadline: options.timeout, patience, ..defaults };
    Chirp::new(Client::with_options(options.addresses.clone(), options_of_client))
}

/// Lets users follow each other, and nobody else, and then post and fetch. What users posted in earlier runs stays.
///
/// # Errors
/// If the options make no sense, or the cluster does not take who follows whom; later failures of servers are no errors but counted.
pub fn run_chirp(
    options: &LoadOptions,
    spec: &ChirpSpec,
    progress: &Arc<Progress>,
) -> Result<ChirpReport, LoadError> {
    check(options)?;
    spec.validate(options.clients)?;
    let mut rng = Rng::new(options.seed);
    let graph = Graph::draw(spec, &mut rng);
    let names = spec.names()?;
    let chirps = load(options, &graph, &names)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let begun = clock::now_ns();
    let measure_from_ns = begun.saturating_add(nanos(options.warmup));
    let world = World {
        spec,
        graph: &graph,
        names: &names,
        order: Order::new(spec.users),
        progress,
        run: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
        budget: AtomicU64::new(options.operations.unwrap_or(u64::MAX)),
        measure_from_ns,
        end_ns: options.duration.map_or(u64::MAX, |duration| measure_from_ns.saturating_add(nanos(duration))),
        interval_ns: match options.pace {
            Pace::Closed => None,
            Pace::Open(rate) => Some(1e9 * options.clients as f64 / rate),
        },
    };
    let usage = Usage::begin(&options.servers);
    let tallies = play(&world, chirps, options.clients, &mut rng)?;
    let (servers, own_cpu) = usage.end();
    let mut all = Tally::default();
    tallies.iter().for_each(|tally| all.merge(tally));
    let took = Duration::from_nanos(clock::now_ns().min(world.end_ns).saturating_sub(measure_from_ns));
    let description = describe(options, json!({ "chirp": spec }));
    let machine = options.machine.clone();
    let mut report = Report::new(description, machine, &all.measured, took, progress, servers, own_cpu);
    let percent = |part: u64, of: u64| (part as f64 * 1e6 / of.max(1) as f64).round() / 1e4;
    Ok(ChirpReport {
        follows: graph.edges(),
        update: report.writes.take(),
        fetch: report.reads.take(),
        fetches: all.fetches,
        fetches_in_time_percent: percent(all.in_time, all.fetches),
        out_of_order: all.out_of_order,
        out_of_order_percent: percent(all.out_of_order, all.judged),
        report,
    })
}

/// Lets users follow each other. The clients come back with their connections.
fn load(options: &LoadOptions, graph: &Graph, names: &[User]) -> Result<Vec<Chirp>, LoadError> {
    let load_one = |index: usize| {
        let mut chirp = client(options);
        for user in (index..names.len()).step_by(options.clients) {
            let others: Vec<User> = graph.follows[user].iter().map(|other| names[*other].clone()).collect();
            let end = follow_only(&mut chirp, &names[user], &others);
            end.map_err(|error| {
                LoadError::Unsettled(format!("{} cannot follow others: {error}", names[user]))
            })?;
        }
        Ok(chirp)
    };
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..options.clients).map(|index| scope.spawn(move || load_one(index))).collect();
        threads.into_iter().map(joined).map(|end| end?).collect()
    })
}

/// Lets a user follow these and nobody else, whatever an earlier load has left.
fn follow_only(chirp: &mut Chirp, user: &User, others: &[User]) -> Result<(), ChirpError> {
    let wanted: BTreeSet<&User> = others.iter().collect();
    let mut old = chirp.follows(user)?;
    old.retain(|name| !wanted.contains(name));
    chirp.unfollow(user, &old)?;
    chirp.follow(user, others).map(|_| ())
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> Result<T, LoadError> {
    thread.join().map_err(|_| LoadError::System(std::io::Error::other("a thread panicked")))
}

/// Plays all clients to the end.
fn play(
    world: &World<'_>,
    chirps: Vec<Chirp>,
    clients: usize,
    rng: &mut Rng,
) -> Result<Vec<Tally>, LoadError> {
    let players = chirps.into_iter().enumerate().map(|(index, chirp)| {
        let own: Vec<usize> = (index..world.spec.users).step_by(clients).collect();
        // Those who are followed by many post more often, too.
        let mut sum = 0;
        let sums = own.iter().map(|user| {
            sum += world.graph.followers[*user].len() as u64;
            sum
        });
        let sums = sums.collect();
        Player {
            world,
            chirp,
            own,
            sums,
            rng: rng.fork(),
            waiting: Vec::new(),
            attempts: 0,
            tally: Tally::default(),
        }
    });
    let players: Vec<Player<'_>> = players.collect();
    thread::scope(|scope| {
        let threads: Vec<_> = players.into_iter().map(|player| scope.spawn(|| player.play())).collect();
        threads.into_iter().map(joined).collect()
    })
}

/// What all clients share.
struct World<'a> {
    spec: &'a ChirpSpec,
    graph: &'a Graph,
    names: &'a [User],
    order: Order,
    progress: &'a Progress,
    /// Tells the posts of this run from those of others.
    run: u64,
    budget: AtomicU64,
    measure_from_ns: u64,
    end_ns: u64,
    /// Nanoseconds between two operations of a client; `None`: as soon as one has ended.
    interval_ns: Option<f64>,
}

impl World<'_> {
    fn is_over(&self, now: u64) -> bool {
        now >= self.end_ns || self.progress.is_stopped()
    }

    fn take_budget(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }
}

/// What one client counted.
#[derive(Default)]
struct Tally {
    measured: Measured,
    fetches: u64,
    in_time: u64,
    /// Fetches that were answered and looked at, the warm-up included.
    judged: u64,
    out_of_order: u64,
}

impl Tally {
    fn merge(&mut self, other: &Tally) {
        self.measured.merge(&other.measured);
        self.fetches += other.fetches;
        self.in_time += other.in_time;
        self.judged += other.judged;
        self.out_of_order += other.out_of_order;
    }
}

/// One client: it posts for the users that are its own, and fetches for anybody.
struct Player<'a> {
    world: &'a World<'a>,
    chirp: Chirp,
    /// For each of its own users, how many followers they and those before them have.
    own: Vec<usize>,
    sums: Vec<u64>,
    rng: Rng,
    /// Who is to fetch next.
    waiting: Vec<usize>,
    attempts: u64,
    tally: Tally,
}

impl Player<'_> {
    fn play(mut self) -> Tally {
        let mut due_ns = clock::now_ns() as f64;
        loop {
            let now = clock::now_ns();
            if self.world.is_over(now) {
                break;
            }
            let mut due = now;
            if let Some(interval) = self.world.interval_ns {
                due = due_ns as u64;
                if due > now {
                    // In short pieces, so that it can be stopped.
                    let wait = Duration::from_nanos((due - now).min(self.world.end_ns - now));
                    thread::sleep(wait.min(Duration::from_millis(100)));
                    continue;
                }
                due_ns += interval;
            }
            if !self.world.take_budget() {
                return self.tally;
            }
            match self.waiting.pop() {
                Some(reader) => self.fetch(reader, due),
                None => self.post(due),
            }
        }
        if let Some(interval) = self.world.interval_ns.filter(|_| !self.world.progress.is_stopped()) {
            let missed = (self.world.end_ns.min(clock::now_ns()) as f64 - due_ns) / interval;
            self.tally.measured.counts.not_sent += missed.max(0.0) as u64;
        }
        self.tally
    }

    fn post(&mut self, due: u64) {
        let world = self.world;
        let all = self.sums.last().copied().unwrap_or_default();
        let drawn = self.rng.below(all.max(1));
        let place = self.sums.partition_point(|sum| *sum <= drawn).min(self.own.len() - 1);
        let author = self.own[place];
        self.attempts += 1;
        let mut text = marked(world.run, self.attempts, "");
        let length = self.rng.between(text.len() as u64, TEXT_LENGTH_MAX as u64) as usize;
        text.extend(std::iter::repeat_n('x', length - text.len()));
        let end = self.chirp.post(&world.names[author], &text);
        if let Ok(post) = &end {
            world.order.learn(author, post);
        }
        self.count(due, end.err(), true);
        for _ in 0..world.spec.fetches {
            self.waiting.extend(self.rng.pick(&world.graph.followers[author]));
        }
    }

    fn fetch(&mut self, reader: usize, due: u64) {
        let end = self.fetch_and_judge(reader);
        let took = clock::now_ns().saturating_sub(due);
        if due >= self.world.measure_from_ns {
            self.tally.fetches += 1;
            self.tally.in_time += u64::from(end.is_ok() && took <= IN_TIME_NS);
        }
        self.count(due, end.err(), false);
    }

    fn fetch_and_judge(&mut self, reader: usize) -> Result<(), ChirpError> {
        let world = self.world;
        let follows = self.chirp.follows(&world.names[reader])?;
        let number = |user: &User| user.name().strip_prefix(&world.spec.prefix)?.parse::<usize>().ok();
        let numbers = follows.iter().map(|user| number(user).filter(|number| *number < world.spec.users));
        let Some(numbers) = numbers.collect::<Option<Vec<usize>>>() else {
            let text = "somebody else changes whom users of the load follow: choose another prefix";
            return Err(ChirpError::Refused(text.into()));
        };
        // What is known now must be seen: the question comes after it.
        let known: Vec<_> = numbers.iter().map(|author| world.order.known(*author)).collect();
        let feeds = self.chirp.feeds(&follows, world.spec.timeline)?;
        self.tally.judged += 1;
        let mut is_faulty = false;
        for ((author, known), feed) in numbers.iter().zip(&known).zip(&feeds) {
            if let Some(fault) = fault(known, &feed.posts, world.spec.timeline) {
                is_faulty = true;
                world.progress.surprised(format!("{reader} fetched {author}: {fault}"));
            }
            feed.posts.last().into_iter().for_each(|post| world.order.learn(*author, post));
        }
        self.tally.out_of_order += u64::from(is_faulty);
        chirp::merge(feeds, world.spec.timeline);
        Ok(())
    }

    /// Counts an operation that has ended.
    fn count(&mut self, due: u64, error: Option<ChirpError>, is_write: bool) {
        let now = clock::now_ns();
        let progress = self.world.progress;
        let is_measured = due >= self.world.measure_from_ns;
        let measured = &mut self.tally.measured;
        progress.count_failed(u64::from(error.is_some()));
        let counter = match error {
            None => {
                progress.count_done(1);
                if is_write {
                    progress.write_acknowledged(now);
                }
                if is_measured {
                    measured.record(now.saturating_sub(due), is_write);
                }
                &mut measured.counts.done
            }
            Some(ChirpError::Unknown(_)) => &mut measured.counts.unknown,
            Some(ChirpError::Refused(_) | ChirpError::Contended(_)) => &mut measured.counts.refused,
            Some(other) => {
                progress.surprised(other.to_string());
                &mut measured.counts.nonsense
            }
        };
        *counter += u64::from(is_measured);
    }
}
