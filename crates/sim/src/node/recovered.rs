//! The course of a run with recoveries, and what its clients may have been told.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::time::Duration;

use quorate_api::Bucket;
use quorate_kernel::{NodeId, Rng};
use quorate_node::{AdminOutcome, AdminRequest, LogConfig, Node};

use super::operator::{is_well, leader, members_of};
use super::placed::is_placed;
use super::recovery::{Clients, Losses, Recovered, Told};
use crate::{Life, NetworkOptions, TraceLevel, Verdict, World, WorldOptions};

const CLIENTS: u64 = 6;
/// How long anything may take once nothing stands in its way.
const PATIENCE: Duration = Duration::from_secs(60);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// When those who were lost come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Return {
    Never,
    /// So long after they died, whatever the operator is doing.
    Meanwhile(Duration),
    /// When the first bucket is recovered, cut off from all but those who were fenced with them: they and these were enough before.
    CutOff,
    /// So long after the operator gave the first word.
    During(Duration),
    /// When the buckets have been recovered.
    After,
}

struct Script {
    world: World<Clients>,
    rng: Rng,
    returns: Return,
    dead: Vec<NodeId>,
    /// The bucket whose members died, and its other members.
    struck: Bucket,
    fenced: Vec<NodeId>,
    died_at: Duration,
    /// When the operator gave the first word.
    word_at: Option<Duration>,
    /// Whether the one who went on with that bucket is lost too, and for how long.
    again: Option<Duration>,
    /// That one, once it is lost, and when it comes back.
    gone: Option<(NodeId, Duration)>,
    /// Buckets that an operator's word was given for, and when they were seen to be well again.
    given_up: BTreeMap<Bucket, Duration>,
    done: Recovered,
}

/// Plays one run.
///
/// # Errors
/// What does not hold, and what happened if that was wanted.
pub fn recovered(
    seed: u64,
    losses: Losses,
    breaks: impl FnOnce(&mut LogConfig),
    trace: bool,
) -> Result<Recovered, String> {
    let mut script = Script::new(seed, losses, breaks, trace);
    let verdict = script.play();
    let failure = script.world.failure().map(ToString::to_string);
    script.done.lines = script.world.take_trace();
    match failure.map_or(verdict, Err) {
        Ok(()) => Ok(script.done),
        Err(why) => Err(format!("seed {seed}: {why}\n{}", script.done.lines.join("\n"))),
    }
}

impl Script {
    fn new(seed: u64, losses: Losses, breaks: impl FnOnce(&mut LogConfig), trace: bool) -> Script {
        let mut rng = Rng::new(seed ^ 0x7265_636f_7665_7279);
        let twice = losses == Losses::Twice;
        let nodes = rng.between(if twice { 7 } else { 5 }, 8) as usize;
        let returns = match rng.below(8) {
            _ if twice => Return::After,
            6.. => Return::CutOff,
            0 => Return::Never,
            1 => Return::After,
            2 => Return::Meanwhile(ms(rng.between(500, 8_000))),
            _ => Return::During(ms(rng.between(0, 600))),
        };
        // Of four, two are not enough by themselves.
        let copies =
            if returns == Return::CutOff { 4 } else { rng.between(3, if twice { 3 } else { 4 }) as u8 };
        let buckets = NonZeroU16::new(rng.between(2, 3) as u16).unwrap_or(NonZeroU16::MIN);
        let mut log = LogConfig::production();
        log.log_bytes_max = rng.between(500, 20_000) as usize;
        log.checkpoint_bytes = rng.between(500, 20_000) as usize;
        log.snapshot_part_bytes = rng.between(100, 2_000) as usize;
        breaks(&mut log);
        let first = (1..=nodes as u64).map(NodeId).collect();
        let mut clients = Clients::new(rng.fork(), first, (buckets, copies, log), CLIENTS);
        let mut again = Rng::new(seed ^ 0x0061_6761_696e);
        let may_again =
            nodes >= 7 && copies == 3 && returns != Return::Never && (twice || again.chance(1, 2));
        clients.equality.eras_meet = may_again;
        let trace = if trace { TraceLevel::Keep } else { TraceLevel::Cheap };
        let options = WorldOptions {
            trace,
            network: NetworkOptions::default().calm(),
            ..WorldOptions::calm(rng.next_u64(), nodes)
        };
        Script {
            world: World::new(options, clients),
            rng,
            returns,
            dead: Vec::new(),
            struck: Bucket(0),
            fenced: Vec::new(),
            died_at: Duration::ZERO,
            word_at: None,
            again: may_again.then(|| ms(again.between(1_500, 6_000))),
            gone: None,
            given_up: BTreeMap::new(),
            done: Recovered::default(),
        }
    }

    fn play(&mut self) -> Verdict {
        self.until("all buckets are led", |world| is_well(world.nodes(), world.harness().buckets))?;
        let work = ms(self.rng.between(1_500, 3_000));
        self.run_for(work)?;
        self.strike()?;
        self.recover_all()?;
        let floors = self.look_at_lost()?;
        let work = ms(self.rng.between(300, 2_000));
        self.run_for(work)?;
        if self.returns != Return::Never {
            self.bring_back();
            self.bring_back_the_other();
            self.run_for(ms(2_000))?;
        }
        self.world.harness_mut().at_work = false;
        self.until("clients are done", |world| match world.harness().is_quiet() {
            true => Ok(()),
            false => Err("somebody waits for an answer".into()),
        })?;
        self.until("everything is where it should be", |world| {
            is_placed(world.nodes(), world.harness().buckets)
        })?;
        let ends = self.last_look()?;
        self.judge(&ends, &floors)?;
        let World { harness, nodes, .. } = &mut self.world;
        harness.compare(nodes)
    }

    /// Lets the world go on for a while; where something was found not to hold, it does not go on.
    fn run_for(&mut self, span: Duration) -> Verdict {
        self.world.run_for(span);
        self.world.failure().map_or(Ok(()), |failure| Err(failure.to_string()))
    }

    /// Lets the world go on until something holds.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&World<Clients>) -> Verdict) -> Verdict {
        let give_up = self.world.now() + PATIENCE;
        loop {
            match holds(&self.world) {
                Ok(()) => return Ok(()),
                Err(why) if self.world.now() > give_up => return Err(format!("until {what}: {why}")),
                Err(_) => self.run_for(ms(20))?,
            }
        }
    }

    /// Most members of a bucket die at once; the others may lag behind them.
    fn strike(&mut self) -> Verdict {
        let buckets = self.world.harness().buckets;
        let bucket = Bucket(self.rng.below(buckets.get().into()) as u16);
        let mut members = members_of(self.world.nodes(), bucket);
        self.rng.shuffle(&mut members);
        let most = (self.world.nodes().count() - 1) / 2;
        let many = self.returns != Return::CutOff && self.rng.chance(1, 4);
        let count = if many { most.min(members.len()) } else { 2 };
        let survivors = members.split_off(count);
        // What is acknowledged meanwhile, those who lag do not have.
        let lags = &survivors[..[0, 1, survivors.len()][self.rng.below(3) as usize].min(survivors.len())];
        lags.iter().for_each(|node| self.world.crash(*node));
        if !lags.is_empty() {
            let span = ms(self.rng.between(50, 700));
            self.run_for(span)?;
        }
        for node in &members {
            match self.returns {
                Return::Never => drop(self.world.lose_disk(*node, Duration::ZERO)),
                _ => self.world.crash(*node),
            }
        }
        lags.iter().for_each(|node| self.world.restart(*node));
        self.done.nothing_left += u64::from(survivors.is_empty());
        (self.dead, self.died_at) = (members, self.world.now());
        (self.struck, self.fenced) = (bucket, survivors);
        Ok(())
    }

    fn bring_back_in_time(&mut self) {
        let now = self.world.now();
        let since = match self.returns {
            Return::Meanwhile(after) => Some(self.died_at + after),
            Return::During(after) => self.word_at.map(|at| at + after),
            Return::Never | Return::After | Return::CutOff => None,
        };
        if since.is_some_and(|since| now > since) {
            self.bring_back();
        }
        if self.gone.is_some_and(|(_, back)| now > back) {
            self.bring_back_the_other();
        }
    }

    /// Those who were lost come back where they reach only those who were fenced.
    fn cut_off(&mut self, bucket: Bucket) -> Verdict {
        if self.returns != Return::CutOff || bucket != self.struck {
            return Ok(());
        }
        self.returns = Return::After;
        let goes_on = leader(self.world.nodes(), bucket);
        let fenced = self.fenced.iter().filter(|node| Some(**node) != goes_on);
        let side: Vec<NodeId> = fenced.chain(&self.dead).copied().collect();
        self.world.isolate(&side);
        self.bring_back();
        self.run_for(ms(2_500))?;
        self.world.heal();
        Ok(())
    }

    fn bring_back(&mut self) {
        for node in self.dead.clone() {
            if self.world.nodes().life(node) == Life::Down {
                self.world.restart(node);
                self.done.returned += 1;
            }
        }
    }

    fn bring_back_the_other(&mut self) {
        if let Some((node, _)) = self.gone.take() {
            self.world.restart(node);
            self.done.returned += 1;
        }
    }

    /// The one who went on is lost as well, before or after it made others members: those who are left may go on from before it.
    fn strike_again(&mut self, bucket: Bucket) -> Verdict {
        if bucket != self.struck {
            return Ok(());
        }
        let Some(away) = self.again.take() else { return Ok(()) };
        let work = ms(self.rng.between(1, 150));
        self.run_for(work)?;
        if let Some(node) = leader(self.world.nodes(), bucket) {
            self.world.crash(node);
            self.gone = Some((node, self.world.now() + away));
        }
        Ok(())
    }

    /// The operator gives the word for whatever is halted, until nothing is.
    fn recover_all(&mut self) -> Verdict {
        let give_up = self.world.now() + PATIENCE;
        let mut calm_since = None;
        loop {
            self.run_for(ms(50))?;
            let now = self.world.now();
            self.bring_back_in_time();
            if now > give_up {
                let well = is_well(self.world.nodes(), self.world.harness().buckets);
                return Err(format!("buckets are not well again: {well:?}, given up {:?}", self.given_up));
            }
            if let Some((node, bucket)) = self.halted() {
                calm_since = None;
                self.recover(node, bucket)?;
                continue;
            }
            match is_well(self.world.nodes(), self.world.harness().buckets) {
                Err(_) => calm_since = None,
                // Nodes must have been taken for dead before a bucket counts as lost.
                Ok(()) if now > *calm_since.get_or_insert(now) + ms(4_000) => break,
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn halted(&mut self) -> Option<(NodeId, Bucket)> {
        let told = self.world.nodes().live().flat_map(|(id, node)| {
            let buckets = node.status().buckets.into_iter();
            buckets.filter(|bucket| bucket.halt.is_some()).map(move |bucket| (id, bucket.bucket))
        });
        let told: Vec<_> = told.collect();
        self.rng.pick(&told).copied()
    }

    fn recover(&mut self, node: NodeId, bucket: Bucket) -> Verdict {
        // What is left can be looked at until then.
        self.read_copies(bucket)?;
        let think = ms(self.rng.between(0, 500));
        self.run_for(think)?;
        let (ticket, word) = self.world.harness_mut().word(AdminRequest::Recover { bucket });
        self.world.input(Duration::ZERO, node, word);
        self.word_at.get_or_insert(self.world.now());
        let before = self.given_up.insert(bucket, Duration::MAX);
        let asked = self.view_of(node);
        let most = self.world.now() + ms(25_000);
        while !self.world.harness().admin.contains_key(&ticket) && self.world.now() < most {
            self.run_for(ms(1))?;
            self.bring_back_in_time();
        }
        match self.world.harness().admin.get(&ticket) {
            Some(AdminOutcome::Done) => {
                self.given_up.insert(bucket, self.world.now());
                self.done.recovered += 1;
                self.done.first += u64::from(bucket == Bucket(0));
                self.done.again += u64::from(before.is_some());
                // Who was not there was not asked: it may be the one who went on before.
                let asked: BTreeSet<NodeId> = &asked & &self.view_of(node);
                let keys = self.keys_of(bucket);
                let copies = &mut self.world.harness_mut().copies_read;
                copies.retain(|(node, key), _| asked.contains(node) || !keys.contains(key));
                self.cut_off(bucket)?;
                self.strike_again(bucket)
            }
            // Those who died have come back before it was begun.
            Some(AdminOutcome::Refused(_)) => {
                match before {
                    Some(before) => self.given_up.insert(bucket, before),
                    None => self.given_up.remove(&bucket),
                };
                Ok(())
            }
            other => Err(format!("{bucket:?} was not recovered: {other:?}")),
        }
    }

    fn view_of(&self, node: NodeId) -> BTreeSet<NodeId> {
        let members = self.world.nodes().machine(node).map(|node| node.status().members).unwrap_or_default();
        members.into_iter().map(|member| member.id).collect()
    }

    /// Reads the keys of a bucket at all who have a copy, as it is there.
    fn read_copies(&mut self, bucket: Bucket) -> Verdict {
        let holds = |node: &Node| node.shard(bucket).is_some_and(|shard| shard.log().holds());
        let nodes = self.world.nodes().live().filter(|(_, node)| holds(node)).map(|(id, _)| id);
        let nodes: Vec<NodeId> = nodes.collect();
        let now = self.world.now();
        for node in nodes {
            for key in self.keys_of(bucket) {
                let input = self.world.harness_mut().read_here(node, key, now);
                self.world.input(Duration::ZERO, node, input);
            }
        }
        self.run_for(ms(5))
    }

    fn keys_of(&self, bucket: Bucket) -> Vec<usize> {
        let clients = self.world.harness();
        (0..clients.keys.len()).filter(|key| clients.bucket_of(*key) == bucket).collect()
    }

    /// Reads all keys of what was recovered, as they are now.
    fn look_at_lost(&mut self) -> Result<BTreeMap<usize, Vec<u64>>, String> {
        let lost: Vec<Bucket> = self.given_up.keys().copied().collect();
        let keys: Vec<usize> = lost.into_iter().flat_map(|bucket| self.keys_of(bucket)).collect();
        let live: Vec<NodeId> = self.world.nodes().live().map(|(id, _)| id).collect();
        let mut floors = BTreeMap::new();
        for key in keys {
            let Some(node) = self.rng.pick(&live).copied() else { continue };
            floors.insert(key, self.read(node, key)?);
        }
        Ok(floors)
    }

    fn read(&mut self, node: NodeId, key: usize) -> Result<Vec<u64>, String> {
        let before = self.world.harness().sights.len();
        let now = self.world.now();
        let input = self.world.harness_mut().read(node, key, now);
        self.world.input(Duration::ZERO, node, input);
        let seen = |world: &World<Clients>| {
            let mut sights = world.harness().sights[before..].iter();
            sights.rfind(|sight| sight.key == key && sight.began == now).map(|sight| sight.marks.clone())
        };
        self.until("a key is read", |world| seen(world).map(drop).ok_or("it is not".into()))?;
        seen(&self.world).ok_or_else(|| "nothing was read".into())
    }

    /// Reads every key at every node, until all read the same: what a client was told is unknown may come late.
    fn last_look(&mut self) -> Result<Vec<Vec<u64>>, String> {
        let live: Vec<NodeId> = self.world.nodes().live().map(|(id, _)| id).collect();
        let mut ends = Vec::new();
        let give_up = self.world.now() + PATIENCE;
        for key in 0..self.world.harness().keys.len() {
            let mut end = Vec::new();
            loop {
                let before = end.len();
                for node in &live {
                    let list = self.read(*node, key)?;
                    if !list.starts_with(&end) {
                        return Err(format!(
                            "{node:?} reads {list:?} at key {key} where {end:?} was read before"
                        ));
                    }
                    end = list;
                }
                if end.len() == before {
                    break;
                }
                if self.world.now() > give_up {
                    return Err(format!("the list at key {key} goes on growing: {end:?}"));
                }
            }
            ends.push(end);
        }
        Ok(ends)
    }

    fn judge(&mut self, ends: &[Vec<u64>], floors: &BTreeMap<usize, Vec<u64>>) -> Verdict {
        let clients = self.world.harness();
        let lost_until = |key: usize| self.given_up.get(&clients.bucket_of(key)).copied();
        let holds = |told: &Told| {
            told.keys.iter().all(|key| lost_until(*key).is_none_or(|until| told.began >= until))
        };
        for (key, end) in ends.iter().enumerate() {
            let distinct: BTreeSet<&u64> = end.iter().collect();
            if distinct.len() != end.len() {
                return Err(format!("a mark is twice in the list at key {key}: {end:?}"));
            }
            let copies = clients.copies_read.iter().filter(|((_, other), _)| *other == key);
            for ((node, _), copy) in copies.filter(|_| lost_until(key).is_some()) {
                let floor = floors.get(&key).map_or(&[][..], |floor| floor);
                if !end.starts_with(copy) || !floor.starts_with(copy) {
                    return Err(format!(
                        "{node:?} had {copy:?} at key {key}, and after the recovery it was {floor:?}, then {end:?}"
                    ));
                }
            }
        }
        for sight in &clients.sights {
            let counts = lost_until(sight.key).is_none_or(|until| sight.began >= until);
            if counts && !ends[sight.key].starts_with(&sight.marks) {
                let (key, end) = (sight.key, &ends[sight.key]);
                return Err(format!("{sight:?} was seen at key {key}, and in the end it is {end:?}"));
            }
            let before = clients.told.iter().filter(|told| told.ended < sight.began && holds(told));
            for told in before.filter(|told| counts && told.keys.contains(&sight.key)) {
                if !sight.marks.contains(&told.mark) {
                    return Err(format!("{told:?}, and then {sight:?}"));
                }
            }
        }
        let mut lost = 0;
        for told in &clients.told {
            for key in &told.keys {
                let is_there = ends[*key].contains(&told.mark);
                if !is_there && holds(told) {
                    return Err(format!("{told:?} is not in the list at key {key}: {:?}", ends[*key]));
                }
                lost += u64::from(!is_there);
            }
        }
        let all = ends.iter().enumerate().flat_map(|(key, end)| end.iter().map(move |mark| (key, mark)));
        for (key, mark) in all.filter(|(_, mark)| clients.refused.contains(mark)) {
            if self.given_up.is_empty() {
                return Err(format!("{mark} was refused, and is in the list at key {key}"));
            }
        }
        self.done.told = clients.told.len() as u64;
        (self.done.lost, self.done.halted) = (lost, clients.halted);
        Ok(())
    }
}
