//! Nodes start, crash, freeze and lose their disks; links are cut and opened. Scripts and the nemesis use the same.

use std::time::Duration;

use quorate_kernel::{Cx, Event, Machine, NodeId};

use crate::clock::Clock;
use crate::faults::Cure;
use crate::harness::{Aim, Boot, Harness, Replacement};
use crate::latency::nanos;
use crate::process::{Life, OutOf};
use crate::world::{Happening, World, new_process};

impl<H: Harness> World<H> {
    fn place_of(&self, node: NodeId) -> usize {
        match self.nodes.place(node) {
            Some(place) if self.nodes.processes[place].id == node => place,
            _ => panic!("{node:?} is not a node of this world (any more)"),
        }
    }

    /// The current identities of all nodes but those that are gone.
    pub(crate) fn places(&self, wanted: impl Fn(Life) -> bool) -> Vec<usize> {
        (0..self.nodes.count()).filter(|place| wanted(self.nodes.processes[*place].life)).collect()
    }

    /// `node` dies at once. Its synced records and its store's last checkpoint survive.
    ///
    /// # Panics
    /// If there is no such node, as all functions that name one.
    pub fn crash(&mut self, node: NodeId) {
        self.kill(self.place_of(node));
        self.take_agenda();
    }

    /// `node`, which is down, starts again with what its disk holds.
    pub fn restart(&mut self, node: NodeId) {
        self.restart_after(self.place_of(node), 0);
    }

    /// `node` dies and its disk is lost; the harness says whether a new identity takes its place, which it does after
    /// `after`. The new identity, if there is one.
    pub fn lose_disk(&mut self, node: NodeId, after: Duration) -> Option<NodeId> {
        let place = self.place_of(node);
        self.kill(place);
        self.take_agenda();
        self.wipe(place, nanos(after))
    }

    /// `node` freezes for a while; everything that reaches it piles up.
    pub fn pause(&mut self, node: NodeId, span: Duration) {
        let place = self.place_of(node);
        self.freeze(place, nanos(span));
    }

    /// What `from` sends to `to` is lost from now on, and so is what is on its way. Counted: as many calls of
    /// [`World::uncut`] open it again.
    pub fn cut(&mut self, from: NodeId, to: NodeId) {
        self.network.cut(self.place_of(from), self.place_of(to));
    }

    /// Undoes one [`World::cut`].
    pub fn uncut(&mut self, from: NodeId, to: NodeId) {
        self.network.uncut(self.place_of(from), self.place_of(to));
    }

    /// What `from` sends to `to` is held back from now on. Counted like [`World::cut`].
    pub fn clog(&mut self, from: NodeId, to: NodeId) {
        self.network.clog(self.place_of(from), self.place_of(to));
    }

    /// Undoes one [`World::clog`]; what was held back arrives.
    pub fn unclog(&mut self, from: NodeId, to: NodeId) {
        self.network.unclog(self.place_of(from), self.place_of(to));
        self.release_clogged();
    }

    /// Cuts `side` off from everyone else, both ways, until [`World::heal`].
    pub fn isolate(&mut self, side: &[NodeId]) {
        let inside: Vec<usize> = side.iter().map(|node| self.place_of(*node)).collect();
        self.cut_off(&inside);
    }

    fn cut_off(&mut self, inside: &[usize]) -> Vec<(usize, usize)> {
        let outside = (0..self.nodes.count()).filter(|place| !inside.contains(place));
        let links: Vec<_> = outside
            .flat_map(|other| inside.iter().flat_map(move |one| [(*one, other), (other, *one)]))
            .collect();
        for (from, to) in &links {
            self.network.cut(*from, *to);
        }
        links
    }

    /// A fault that the harness asked for; void if its node is gone.
    pub(crate) fn aim(&mut self, aim: Aim, node: NodeId, span: u64) {
        let Some(place) = self.nodes.place(node).filter(|place| self.nodes.processes[*place].id == node)
        else {
            return;
        };
        let ends = self.now.saturating_add(span);
        self.trace.line(self.now, format_args!("the harness aims {aim:?} at {node:?}"));
        match aim {
            Aim::Crash => {
                self.kill(place);
                self.cure_at(ends, Cure::Restart { place });
            }
            Aim::Pause => self.freeze(place, span),
            Aim::Isolate => {
                let links = self.cut_off(&[place]);
                self.cure_at(ends, Cure::Uncut(links));
            }
            Aim::Ruin if self.may_lose_disk(place) => {
                self.kill(place);
                self.wipe(place, span);
            }
            Aim::Ruin => {}
        }
    }

    /// Ends all faults: links open, the network is calm, disks are well, the frozen wake and the dead restart.
    pub fn heal(&mut self) {
        self.nemesis = None;
        self.healings += 1;
        self.network.heal();
        self.network.set_options(self.options.network.calm());
        self.release_clogged();
        for place in 0..self.nodes.count() {
            self.nodes.processes[place].disk_slowness = 1;
            if self.nodes.processes[place].disk_full {
                self.tell_disk_full(place, false);
            }
            self.thaw(place);
            if self.nodes.processes[place].life == Life::Down {
                self.restart_after(place, 0);
            }
        }
        self.marks.hit("sim.healed");
    }

    pub(crate) fn kill(&mut self, place: usize) {
        let process = &mut self.nodes.processes[place];
        if process.machine.is_none() {
            return;
        }
        self.trace.mix(9);
        if self.trace.wants_text() {
            self.trace.line(self.now, format_args!("{:?} dies", process.id));
        }
        process.die();
        process.life = Life::Down;
        process.store.crash();
        let image = process.disk.crash(&mut self.rng);
        self.trace.mix(image.kept << 32 | image.lost);
        self.marks.hit("sim.crash");
        for (what, count) in [
            ("sim.disk.unsynced_lost", image.lost),
            ("sim.disk.unsynced_kept", image.kept),
            ("sim.disk.torn", u64::from(image.torn)),
        ] {
            if count > 0 {
                self.marks.hit(what);
            }
        }
        let id = process.id;
        self.network.hang_up(place);
        self.agenda.set_now(self.now);
        self.harness.crashed(id, &mut self.agenda);
    }

    /// The place's disk is lost. The new identity that will start there, if the harness wants one.
    pub(crate) fn wipe(&mut self, place: usize, after: u64) -> Option<NodeId> {
        let old = self.nodes.processes[place].id;
        if self.nodes.processes[place].life == Life::Gone {
            return None;
        }
        assert_eq!(self.nodes.processes[place].life, Life::Down, "only a dead node's disk is taken out");
        self.marks.hit("sim.disk.lost");
        let replacement = self.harness.disk_lost(old);
        if self.trace.wants_text() {
            self.trace.line(self.now, format_args!("{old:?} lost its disk: {replacement:?}"));
        }
        match replacement {
            Replacement::Gone => {
                self.nodes.processes[place].life = Life::Gone;
                None
            }
            Replacement::NewIdentity => {
                self.nodes.places.push(place as u32);
                let id = NodeId(self.nodes.places.len() as u64);
                let incarnation = self.nodes.processes[place].incarnation + 1;
                let mut process = new_process(id, &self.options, &mut self.rng);
                process.incarnation = incarnation;
                process.next_boot = Boot::Replacing(old);
                self.nodes.processes[place] = process;
                let at = self.now.saturating_add(after);
                self.queue.push(at, Happening::Boot { place: place as u32, incarnation });
                Some(id)
            }
        }
    }

    pub(crate) fn restart_after(&mut self, place: usize, after: u64) {
        let process = &self.nodes.processes[place];
        if process.life != Life::Down {
            return;
        }
        if self.options.disk.volatile && process.next_boot == Boot::Restart {
            self.wipe(place, after);
            return;
        }
        let incarnation = process.incarnation;
        let at = self.now.saturating_add(after);
        self.queue.push(at, Happening::Boot { place: place as u32, incarnation });
    }

    /// A life begins: the surviving records, then the start.
    pub(crate) fn boot(&mut self, place: usize, incarnation: u32) {
        let process = &mut self.nodes.processes[place];
        if process.life != Life::Down || process.incarnation != incarnation {
            return;
        }
        let boot = std::mem::replace(&mut process.next_boot, Boot::Restart);
        self.trace.mix(10);
        if self.trace.wants_text() {
            self.trace.line(self.now, format_args!("{:?} starts: {boot:?}", process.id));
        }
        if boot == Boot::Restart {
            self.marks.hit("sim.restart");
        }
        process.life = Life::Up;
        process.clock = Clock::new(&self.options.clock, self.now, &mut process.rng);
        process.out = OutOf::<H::Machine>::new(process.disk.written().next());
        let mut machine = self.harness.machine(process.id, boot);
        let mut cx = Cx {
            me: process.id,
            now: process.clock.monotonic(self.now),
            wall: process.clock.wall(self.now),
            rng: &mut process.rng,
            store: &mut process.store,
            marks: &mut self.marks,
        };
        for (position, record) in process.disk.survivors() {
            if self.trace.wants_text() {
                let id = process.id;
                self.trace.line(self.now, format_args!("{id:?} restores {position:?} {record:?}"));
            }
            machine.restore(&mut cx, position, record.clone());
        }
        process.machine = Some(machine);
        self.step(place, Event::Start);
        self.begin_sync(place);
        if self.nodes.processes[place].disk_full {
            self.tell_disk_full(place, true);
        }
    }

    pub(crate) fn freeze(&mut self, place: usize, span: u64) {
        let process = &mut self.nodes.processes[place];
        if process.life != Life::Up {
            return;
        }
        process.life = Life::Paused;
        self.marks.hit("sim.pause");
        let cure = Cure::Thaw { place, incarnation: process.incarnation };
        if self.trace.wants_text() {
            self.trace.line(self.now, format_args!("{:?} freezes", process.id));
        }
        self.cure_at(self.now.saturating_add(span), cure);
    }

    pub(crate) fn thaw(&mut self, place: usize) {
        let process = &mut self.nodes.processes[place];
        if process.life != Life::Paused {
            return;
        }
        process.life = Life::Up;
        if self.trace.wants_text() {
            self.trace.line(self.now, format_args!("{:?} goes on", process.id));
        }
        if std::mem::take(&mut process.synced_unseen) {
            self.synced(place);
        } else if process.is_ready() {
            self.turn(place);
        }
    }
}
