//! Multi-process cut detection: alerts, the two watermarks, implicit alerts, and how alerts lapse.
//!
//! Nobody can take an alert back within a view. But views may last for months, and links fail for a moment now and then: if
//! alerts stayed for ever, every subject would pass the watermarks in the end. So each alert belongs to an *epoch* of
//! its view. Epochs are counted by everybody's own clock, the highest heard of counts, and an alert is remembered for the
//! epoch it was raised in and the next. An observer whose subject still does not answer alerts again in each epoch.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use quorate_kernel::{NodeId, Time};

use crate::Mutant;
use crate::config::Config;
use crate::message::{JoinerMeta, Report};
use crate::ring::{RingSet, Rings};
use crate::view::Meta;

/// Where a subject stands between the watermarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Below L: nobody acts on it.
    Noise,
    /// From L on, below H: nobody proposes while there is one.
    Unstable,
    /// From H on: part of the next cut.
    Stable,
}

/// What is known against, or for, one subject.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// Rings of alerts of this epoch.
    pub(crate) now: RingSet,
    /// Rings of alerts of the epoch before.
    pub(crate) before: RingSet,
    /// Whether it is a member (and to be removed) or not (and to be added).
    pub(crate) is_member: bool,
    /// What is known of a joiner.
    pub(crate) meta: Option<Arc<Meta>>,
    /// Its observer on each ring.
    observers: Vec<NodeId>,
    /// Where it stands; see [`Alerts::derive`].
    level: Level,
    /// Since when it has been between the watermarks.
    pub(crate) unstable_since: Option<Time>,
    /// It has been there for so long that every observer that can speak has spoken: those who are silent are out of
    /// reach, and it is as stable as it will be.
    overdue: bool,
}

impl Subject {
    /// Rings of all alerts that were really raised.
    pub(crate) fn raised(&self) -> RingSet {
        self.now.or(self.before)
    }

    /// Where it stands with so many rings.
    fn level_of(&self, rings: RingSet, config: &Config) -> Level {
        let (low, high) = match config.breaks(Mutant::WatermarksIgnored) {
            true => (1, 1),
            false => (config.low, config.high),
        };
        if rings.len() < low {
            Level::Noise
        } else if rings.len() < high && !self.overdue {
            Level::Unstable
        } else {
            Level::Stable
        }
    }

    /// The observers that have alerted, each once, and those that have not.
    fn sides(&self) -> (BTreeSet<NodeId>, BTreeSet<NodeId>) {
        let raised = self.raised();
        let of = |has: bool| {
            let observers = self.observers.iter().zip(0..);
            observers.filter(move |(_, ring)| raised.has(*ring) == has).map(|(who, _)| *who).collect()
        };
        (of(true), of(false))
    }
}

/// All alerts of one view.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alerts {
    pub(crate) epoch: u64,
    pub(crate) epoch_began: Time,
    subjects: BTreeMap<NodeId, Subject>,
}

impl Alerts {
    /// No alerts yet.
    pub(crate) fn new(now: Time) -> Self {
        Alerts { epoch: 1, epoch_began: now, subjects: BTreeMap::new() }
    }

    /// Nobody has alerted.
    pub(crate) fn is_empty(&self) -> bool {
        self.subjects.is_empty()
    }

    /// All subjects.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = (NodeId, &Subject)> {
        self.subjects.iter().map(|(id, subject)| (*id, subject))
    }

    /// One subject.
    pub(crate) fn get(&self, subject: NodeId) -> Option<&Subject> {
        self.subjects.get(&subject)
    }

    /// Where a subject stands.
    pub(crate) fn level(&self, subject: NodeId) -> Level {
        self.subjects.get(&subject).map_or(Level::Noise, |subject| subject.level)
    }

    /// A later epoch begins; what is older than the one before it is forgotten.
    pub(crate) fn enter_epoch(&mut self, epoch: u64, now: Time) {
        if epoch <= self.epoch {
            return;
        }
        let is_next = epoch == self.epoch + 1;
        self.epoch = epoch;
        self.epoch_began = now;
        for subject in self.subjects.values_mut() {
            subject.before = if is_next { subject.now } else { RingSet::default() };
            subject.now = RingSet::default();
        }
        self.subjects.retain(|_, subject| !subject.before.is_empty());
    }

    /// Takes down alerts; whether anything is new. `epoch` is that of `report.now`.
    pub(crate) fn add(&mut self, report: &Report, epoch: u64, rings: &Rings, config: &Config) -> bool {
        let all = RingSet(((1_u64 << rings.count()) - 1) as u32);
        let (now, before) = match self.epoch.checked_sub(epoch) {
            Some(0) => (report.now.and(all), report.before.and(all)),
            Some(1) => (RingSet::default(), report.now.and(all)),
            _ => return false,
        };
        if now.or(before).is_empty() {
            return false;
        }
        let is_member = rings.ids().binary_search(&report.subject).is_ok();
        if !is_member && !self.takes_joiner(report, config) {
            return false;
        }
        let subject = self.subjects.entry(report.subject).or_insert_with(|| Subject {
            now: RingSet::default(),
            before: RingSet::default(),
            is_member,
            meta: None,
            observers: (0..rings.count()).filter_map(|ring| rings.observer(ring, report.subject)).collect(),
            level: Level::Noise,
            unstable_since: None,
            overdue: false,
        });
        let JoinerMeta(meta) = report.meta.clone().unwrap_or(JoinerMeta(Arc::default()));
        if !is_member {
            subject.meta.get_or_insert(meta);
        }
        let known = (subject.now, subject.before);
        subject.now = subject.now.or(now);
        subject.before = subject.before.or(before);
        known != (subject.now, subject.before)
    }

    /// Whether a joiner is heard of with what must be known of it, and there is room for it.
    fn takes_joiner(&self, report: &Report, config: &Config) -> bool {
        let room = config.members_max + config.joiners_max;
        report.meta.is_some() && (self.subjects.contains_key(&report.subject) || self.subjects.len() < room)
    }

    /// What can be told of some subjects.
    pub(crate) fn report(&self, id: NodeId) -> Option<Report> {
        let subject = self.subjects.get(&id)?;
        let meta = subject.meta.clone().map(JoinerMeta);
        Some(Report { subject: id, now: subject.now, before: subject.before, meta })
    }

    /// With few members one of them may watch another on L rings and more: the word of one alone is noise still,
    /// unless all others that could speak are under somebody else's suspicion themselves.
    fn is_believable(&self, subject: &Subject, config: &Config) -> bool {
        let (spoken, silent) = subject.sides();
        if spoken.len() != 1 || config.breaks(Mutant::WatermarksIgnored) {
            return true;
        }
        let doubted = |observer: &NodeId| {
            let doubts = self.subjects.get(observer).filter(|other| other.is_member);
            doubts.is_some_and(|doubts| doubts.sides().0.iter().any(|other| !spoken.contains(other)))
        };
        silent.iter().all(|observer| spoken.contains(observer) || doubted(observer))
    }

    /// Finds out anew where everybody stands. An observer that is under suspicion itself is taken to have alerted about
    /// every subject of its own that is (implicit alerts).
    pub(crate) fn derive(&mut self, now: Time, config: &Config) {
        let believed: Vec<bool> =
            self.subjects.values().map(|subject| self.is_believable(subject, config)).collect();
        for (subject, believed) in self.subjects.values_mut().zip(&believed) {
            subject.level = match believed {
                true => subject.level_of(subject.raised(), config),
                false => Level::Noise,
            };
        }
        // Each pass but the last moves a subject to another level, away from between the watermarks.
        for _ in 0..=self.subjects.len() {
            let cleared = self.clear_unjustly_accused(config);
            let condemned = self.condemn_by_silence(config);
            if !cleared && !condemned {
                break;
            }
        }
        for subject in self.subjects.values_mut() {
            match subject.level {
                Level::Unstable => {
                    subject.unstable_since.get_or_insert(now);
                }
                Level::Stable => {}
                Level::Noise => (subject.unstable_since, subject.overdue) = (None, false),
            }
        }
    }

    /// Whoever is between the watermarks only by the word of members that are to be removed is noise: somebody who hears
    /// nobody accuses all its subjects. Whether somebody was cleared.
    fn clear_unjustly_accused(&mut self, config: &Config) -> bool {
        let condemned = self.members_from(Level::Stable);
        let mut cleared = false;
        for subject in self.subjects.values_mut().filter(|subject| subject.level == Level::Unstable) {
            let rings = subject.raised();
            let observers = subject.observers.iter().zip(0..).filter(|(_, ring)| rings.has(*ring));
            if observers.filter(|(who, _)| !condemned.contains(who)).count() < config.low {
                subject.level = Level::Noise;
                cleared = true;
            }
        }
        cleared
    }

    /// Counts the silence of observers under suspicion against their subjects under suspicion (implicit alerts); whether
    /// that condemned somebody.
    fn condemn_by_silence(&mut self, config: &Config) -> bool {
        let suspects = self.members_from(Level::Unstable);
        if config.breaks(Mutant::NoImplicitAlerts) {
            return false;
        }
        let mut condemned = false;
        for subject in self.subjects.values_mut().filter(|subject| subject.level == Level::Unstable) {
            let silent = subject.observers.iter().zip(0..).filter(|(who, _)| suspects.contains(who));
            let rings = silent.fold(subject.raised(), |rings, (_, ring)| rings.with(ring));
            subject.level = subject.level_of(rings, config);
            condemned |= subject.level == Level::Stable;
        }
        condemned
    }

    /// The members that stand at this level or above.
    fn members_from(&self, level: Level) -> BTreeSet<NodeId> {
        let members = self.subjects().filter(|(_, subject)| subject.is_member && subject.level >= level);
        members.map(|(id, _)| id).collect()
    }

    /// Subjects that stay between the watermarks although all their observers were asked (see
    /// [`Config::reinforce`]) count as stable; whether there is a new one.
    pub(crate) fn give_up_waiting(&mut self, now: Time, config: &Config) -> bool {
        let mut found = false;
        for subject in self.subjects.values_mut().filter(|subject| subject.level == Level::Unstable) {
            let long = subject.unstable_since.is_some_and(|since| now.since(since) >= config.reinforce * 2);
            found |= long && !subject.overdue;
            subject.overdue |= long;
        }
        found
    }

    /// The subjects of the next cut, once there is one and nobody stands between the watermarks.
    pub(crate) fn stable(&self) -> Option<Vec<NodeId>> {
        let mut stable = Vec::new();
        for (id, subject) in &self.subjects {
            match subject.level {
                Level::Noise => {}
                Level::Unstable => return None,
                Level::Stable => stable.push(*id),
            }
        }
        (!stable.is_empty()).then_some(stable)
    }
}

/// The first cut that a member would propose who hears these alerts about members in this order; `None` if it never
/// would. For measuring how often members differ.
pub fn first_cut(rings: &Rings, config: &Config, alerts: &[(NodeId, RingSet)]) -> Option<Vec<NodeId>> {
    let mut known = Alerts::new(Time::default());
    for (subject, now) in alerts {
        let report = Report { subject: *subject, now: *now, before: RingSet::default(), meta: None };
        known.add(&report, known.epoch, rings, config);
        known.derive(Time::default(), config);
        if let Some(cut) = known.stable() {
            return Some(cut);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn rings(count: u64) -> Rings {
        Rings::new((1..=count).map(NodeId).collect(), 10)
    }

    fn alert(alerts: &mut Alerts, rings: &Rings, observer: u64, subject: u64) {
        let now = rings.between(NodeId(observer), NodeId(subject));
        let report = Report {
            subject: NodeId(subject),
            now,
            before: RingSet::default(),
            meta: Some(JoinerMeta(Arc::default())),
        };
        alerts.add(&report, alerts.epoch, rings, &Config::production());
        alerts.derive(Time(1), &Config::production());
    }

    #[test]
    fn one_observer_alone_is_noise_and_all_are_a_cut() {
        let rings = rings(3);
        let mut alerts = Alerts::new(Time(1));
        alert(&mut alerts, &rings, 1, 3);
        assert_eq!(alerts.level(NodeId(3)), Level::Noise, "{:?}", alerts.get(NodeId(3)));
        assert_eq!(alerts.stable(), None);
        alert(&mut alerts, &rings, 2, 3);
        assert_eq!(alerts.stable(), Some([NodeId(3)].to_vec()));
    }

    #[test]
    fn the_only_observer_is_believed() {
        let rings = rings(1);
        let mut alerts = Alerts::new(Time(1));
        alert(&mut alerts, &rings, 1, 2);
        assert_eq!(alerts.stable(), Some([NodeId(2)].to_vec()), "a joiner");
    }

    #[test]
    fn observers_that_fail_too_are_taken_to_have_alerted() {
        let rings = rings(12);
        let mut alerts = Alerts::new(Time(1));
        let dead = [4, 9];
        for subject in dead {
            for (observer, _) in rings.observers(NodeId(subject)) {
                if !dead.contains(&observer.0) {
                    alert(&mut alerts, &rings, observer.0, subject);
                }
            }
        }
        assert_eq!(alerts.stable(), Some(dead.map(NodeId).to_vec()));
    }

    /// One of three hears nobody and alerts about both others: they go on without it.
    #[test]
    fn one_that_hears_nobody_does_not_take_the_others_along() {
        let rings = rings(3);
        let mut alerts = Alerts::new(Time(1));
        alert(&mut alerts, &rings, 1, 2);
        alert(&mut alerts, &rings, 1, 3);
        alert(&mut alerts, &rings, 2, 1);
        assert_eq!(alerts.stable(), None);
        alert(&mut alerts, &rings, 3, 1);
        assert_eq!(alerts.stable(), Some([NodeId(1)].to_vec()));
    }

    /// Two of five hear nobody: the others accuse them, and they accuse everybody.
    #[test]
    fn the_word_of_the_condemned_does_not_count() {
        let rings = rings(5);
        let mut alerts = Alerts::new(Time(1));
        let deaf = [2, 4];
        for (observer, subject) in (1..=5).flat_map(|one| (1..=5).map(move |other| (one, other))) {
            if observer != subject && (deaf.contains(&observer) || deaf.contains(&subject)) {
                alert(&mut alerts, &rings, observer, subject);
            }
        }
        assert_eq!(alerts.stable(), Some(deaf.map(NodeId).to_vec()));
    }

    #[test]
    fn who_stays_between_the_watermarks_is_given_up() {
        let (rings, config) = (rings(12), Config::production());
        let mut alerts = Alerts::new(Time(1));
        for (observer, _) in rings.observers(NodeId(7)).into_iter().take(5) {
            alert(&mut alerts, &rings, observer.0, 7);
        }
        assert_eq!(alerts.level(NodeId(7)), Level::Unstable);
        let later = Time(1) + config.reinforce * 2;
        assert!(!alerts.give_up_waiting(Time(1) + config.reinforce, &config));
        assert!(alerts.give_up_waiting(later, &config) && !alerts.give_up_waiting(later, &config));
        alerts.derive(later, &config);
        assert_eq!(alerts.stable(), Some([NodeId(7)].to_vec()));
    }

    #[test]
    fn alerts_lapse_unless_they_are_repeated() {
        let (rings, config) = (rings(8), Config::production());
        let mut alerts = Alerts::new(Time(1));
        let observers = rings.observers(NodeId(5));
        alert(&mut alerts, &rings, observers[0].0.0, 5);
        let later = Time(1) + Duration::from_secs(1);
        alerts.enter_epoch(2, later);
        assert!(!alerts.is_empty(), "still remembered");
        let first = alerts.report(NodeId(5)).expect("remembered");
        alerts.enter_epoch(3, later);
        assert!(alerts.is_empty());
        assert!(!alerts.add(&first, 1, &rings, &config), "too old");
        assert!(alerts.add(&Report { now: RingSet(1), ..first }, 2, &rings, &config));
        alerts.enter_epoch(9, later);
        assert!(alerts.is_empty(), "a jump forgets everything");
    }
}
