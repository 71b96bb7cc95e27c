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
    /// Rings whose observers are under suspicion themselves, and are taken to have alerted.
    implicit: RingSet,
    /// Whether it is a member (and to be removed) or not (and to be added).
    pub(crate) is_member: bool,
    /// What is known of a joiner.
    pub(crate) meta: Option<Arc<Meta>>,
    /// Its observer on each ring.
    observers: Vec<NodeId>,
    /// Since when it has been between the watermarks.
    pub(crate) unstable_since: Option<Time>,
}

impl Subject {
    /// Rings of all alerts that were really raised.
    pub(crate) fn raised(&self) -> RingSet {
        self.now.or(self.before)
    }

    fn level(&self, config: &Config) -> Level {
        let rings = self.raised().or(self.implicit);
        let (low, high) = match config.breaks(Mutant::WatermarksIgnored) {
            true => (1, 1),
            false => (config.low, config.high),
        };
        if rings.len() < low || !self.is_believable(rings, config) {
            Level::Noise
        } else if rings.len() < high {
            Level::Unstable
        } else {
            Level::Stable
        }
    }

    /// With few members one of them may watch another on L rings and more: the word of one alone is noise still,
    /// where there are others to ask.
    fn is_believable(&self, rings: RingSet, config: &Config) -> bool {
        let Some(first) = self.observers.first() else { return true };
        let only_one = self.observers.iter().all(|observer| observer == first);
        if only_one || config.breaks(Mutant::WatermarksIgnored) {
            return true;
        }
        let mut reporters =
            self.observers.iter().zip(0..).filter(|(_, ring)| rings.has(*ring)).map(|(who, _)| who);
        let Some(first) = reporters.next() else { return false };
        reporters.any(|other| other != first)
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
    pub(crate) fn level(&self, subject: NodeId, config: &Config) -> Level {
        self.subjects.get(&subject).map_or(Level::Noise, |subject| subject.level(config))
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
            implicit: RingSet::default(),
            is_member,
            meta: None,
            observers: (0..rings.count()).filter_map(|ring| rings.observer(ring, report.subject)).collect(),
            unstable_since: None,
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

    /// Derives implicit alerts anew: an observer that is under suspicion itself is taken to have alerted about every
    /// subject of its own that is.
    pub(crate) fn derive(&mut self, now: Time, config: &Config) {
        self.subjects.values_mut().for_each(|subject| subject.implicit = RingSet::default());
        // Each pass but the last moves a subject to a higher level, and there are three levels.
        for _ in 0..=2 * self.subjects.len() {
            let suspects: BTreeSet<NodeId> = self
                .subjects()
                .filter(|(_, subject)| subject.is_member && subject.level(config) >= Level::Unstable)
                .map(|(id, _)| id)
                .collect();
            if suspects.is_empty() || config.breaks(Mutant::NoImplicitAlerts) {
                break;
            }
            let mut changed = false;
            for subject in self.subjects.values_mut() {
                if subject.level(config) != Level::Unstable {
                    continue;
                }
                let silent = subject.observers.iter().zip(0..).filter(|(who, _)| suspects.contains(who));
                let implicit = silent.fold(subject.implicit, |rings, (_, ring)| rings.with(ring));
                changed |= implicit != subject.implicit;
                subject.implicit = implicit;
            }
            if !changed {
                break;
            }
        }
        for subject in self.subjects.values_mut() {
            match subject.level(config) {
                Level::Unstable => {
                    subject.unstable_since.get_or_insert(now);
                }
                Level::Noise | Level::Stable => subject.unstable_since = None,
            }
        }
    }

    /// The subjects of the next cut, once there is one and nobody stands between the watermarks.
    pub(crate) fn stable(&self, config: &Config) -> Option<Vec<NodeId>> {
        let mut stable = Vec::new();
        for (id, subject) in &self.subjects {
            match subject.level(config) {
                Level::Noise => {}
                Level::Unstable => return None,
                Level::Stable => stable.push(*id),
            }
        }
        (!stable.is_empty()).then_some(stable)
    }
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
        let (rings, config) = (rings(3), Config::production());
        let mut alerts = Alerts::new(Time(1));
        alert(&mut alerts, &rings, 1, 3);
        assert_eq!(alerts.level(NodeId(3), &config), Level::Noise, "{:?}", alerts.get(NodeId(3)));
        assert_eq!(alerts.stable(&config), None);
        alert(&mut alerts, &rings, 2, 3);
        assert_eq!(alerts.stable(&config), Some([NodeId(3)].to_vec()));
    }

    #[test]
    fn the_only_observer_is_believed() {
        let (rings, config) = (rings(1), Config::production());
        let mut alerts = Alerts::new(Time(1));
        alert(&mut alerts, &rings, 1, 2);
        assert_eq!(alerts.stable(&config), Some([NodeId(2)].to_vec()), "a joiner");
    }

    #[test]
    fn observers_that_fail_too_are_taken_to_have_alerted() {
        let (rings, config) = (rings(12), Config::production());
        let mut alerts = Alerts::new(Time(1));
        let dead = [4, 9];
        for subject in dead {
            for (observer, _) in rings.observers(NodeId(subject)) {
                if !dead.contains(&observer.0) {
                    alert(&mut alerts, &rings, observer.0, subject);
                }
            }
        }
        assert_eq!(alerts.stable(&config), Some(dead.map(NodeId).to_vec()));
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
