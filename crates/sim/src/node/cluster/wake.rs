//! What clients do when their time has come.

use std::time::Duration;

use quorate_api::Consistency;
use quorate_kernel::NodeId;
use quorate_node::Input;

use super::{Asker, CALLER, Cluster, KEEPER, LANE, LOOK, PIPELINE, PLAYER, Stage};
use crate::clock::WORLD_BEGAN_MS;
use crate::{Agenda, Fault, Verdict};

/// Requests beside all others that wait for their answers at once: transactions over all keys, which come more often than
/// some clusters can do them.
const ASIDES_MAX: usize = 16;

impl Cluster {
    /// Strikes at a node at the moment at which it hurts most.
    pub(super) fn aim(&mut self, node: NodeId, agenda: &mut Agenda<Input>) {
        if self.healed.is_some() || !self.rng.chance(self.aimed, 1_000) {
            return;
        }
        let span = Duration::from_millis(1 << self.rng.between(0, 10));
        match self.rng.below(3) {
            0 if self.faults.has(Fault::Crash) => agenda.crash(Duration::ZERO, node, span),
            1 if self.faults.has(Fault::Pause) => agenda.pause(Duration::ZERO, node, span),
            2 if self.faults.has(Fault::Halves) => agenda.isolate(Duration::ZERO, node, span),
            _ => {}
        }
    }

    /// Lets a client think for a while.
    fn rest(&mut self, token: u64, agenda: &mut Agenda<Input>) {
        let most = self.think.as_micros() as u64;
        // The longer nothing has disturbed them, the less they want, so that pipelines that got nowhere have their turn.
        let insists = (PIPELINE..CALLER).contains(&token);
        let since = self.healed.filter(|_| !insists).map(|healed| agenda.now().saturating_sub(healed));
        let calm = since.map_or(0, |since| since.as_millis() as u64 / 200);
        let pause = match self.stage {
            Stage::Work => (self.rng.between(most / 8, most) * (1 + calm)).min(most.max(20_000)),
            Stage::Leave | Stage::Look => 20_000,
        };
        agenda.wake(Duration::from_micros(pause), token);
    }

    /// Lets a client of a course go on.
    pub(super) fn drive_lane(&mut self, number: usize, agenda: &mut Agenda<Input>) -> Verdict {
        let lane = &mut self.lanes[number];
        let course = &mut self.courses[lane.course];
        let request = lane.ask(course, agenda.now())?;
        if let Some(request) = request {
            let connection = self.seat(number);
            self.send(connection, Asker { who: LANE + number as u64, what: 0 }, request, agenda);
        }
        Ok(())
    }

    pub(super) fn wake_lane(&mut self, number: usize, agenda: &mut Agenda<Input>) -> Verdict {
        let lane = &mut self.lanes[number];
        let course = &mut self.courses[lane.course];
        if lane.begin(course, self.stage, agenda.now()) {
            self.drive_lane(number, agenda)?;
        }
        self.rest(LANE + number as u64, agenda);
        Ok(())
    }

    pub(super) fn wake_keeper(&mut self, number: usize, agenda: &mut Agenda<Input>) {
        if self.stage == Stage::Work && self.keepers[number].is_idle() {
            let request = self.keepers[number].begin(&mut self.rules, &mut self.rng, agenda.now());
            // Anywhere: what one node shows, another must not take back.
            let seat = self.rng.below(self.seats.len() as u64) as usize;
            let connection = self.seat(seat);
            self.send(connection, Asker { who: KEEPER + number as u64, what: 0 }, request, agenda);
        }
        self.rest(KEEPER + number as u64, agenda);
    }

    pub(super) fn wake_player(&mut self, number: usize, agenda: &mut Agenda<Input>) {
        if self.stage == Stage::Work && self.players[number].is_idle() {
            let request = self.players[number].begin(&mut self.rng);
            let connection = self.seat(number);
            self.send(connection, Asker { who: PLAYER + number as u64, what: 0 }, request, agenda);
        }
        self.rest(PLAYER + number as u64, agenda);
    }

    pub(super) fn wake_pipeline(&mut self, number: usize, agenda: &mut Agenda<Input>) {
        let who = PIPELINE + number as u64;
        let pipeline = &mut self.pipelines[number];
        if pipeline.connection.is_none() && self.stage < Stage::Look {
            let node = *self.rng.pick(&self.nodes).expect("there are nodes");
            let connection = self.doors.open(node);
            pipeline.connected(connection);
        }
        let pipeline = &mut self.pipelines[number];
        match (self.stage, pipeline.connection) {
            (Stage::Work, Some(connection)) if pipeline.is_tired() => self.hang_up(connection, agenda),
            (Stage::Work, Some(connection)) => {
                let burst = pipeline.burst(&mut self.rng);
                let mut requests = Vec::new();
                for (what, request) in burst {
                    let asker = Asker { who, what };
                    let now = agenda.now();
                    requests.push(self.doors.request(connection, asker, request, Consistency::Strict, now));
                }
                if let Some(node) = self.doors.node(connection).filter(|_| !requests.is_empty()) {
                    self.hand_over(node, requests, agenda);
                }
                // Whoever never waits for an answer has none when it is looked for.
                let alive = self.healed.is_none() || self.pipelines[number].done_since_healing;
                if self.rng.chance(1, 100) && alive {
                    self.hang_up(connection, agenda);
                }
            }
            (Stage::Look, _) if pipeline.in_flight == 0 => {
                if let Some((what, request)) = pipeline.last_look() {
                    pipeline.in_flight += 1;
                    let connection = self.seat(number);
                    self.send(connection, Asker { who, what: LOOK | what }, request, agenda);
                }
            }
            _ => {}
        }
        self.rest(who, agenda);
    }

    /// A caller asks where it asked before, as long as that connection stands. Some do not wait for the answer.
    pub(super) fn wake_caller(&mut self, number: usize, agenda: &mut Agenda<Input>) {
        let who = CALLER + number as u64;
        let connection = match self.callers[number].connection {
            Some(connection) => connection,
            None => self.connect(),
        };
        let caller = &mut self.callers[number];
        caller.connection = Some(connection);
        if self.stage == Stage::Look {
            if let Some((what, request)) = caller.look() {
                self.send(connection, Asker { who, what: LOOK | what }, request, agenda);
            }
        } else {
            let now = agenda.now();
            let may_begin = self.stage == Stage::Work;
            // Some have a clock that is far behind: nobody is to wait for these again and again.
            let behind = if self.rng.chance(1, 40) { 1 << 40 } else { 0 };
            let age_ms = WORLD_BEGAN_MS + now.as_millis() as u64 - behind;
            if let Some((name, request)) = caller.next(may_begin, age_ms, &mut self.rng) {
                let asker = Asker { who, what: 0 };
                let mut request = self.doors.request(connection, asker, request, Consistency::Strict, now);
                request.identity = Some(Box::new(name));
                let node = self.doors.node(connection).expect("whoever uses a connection hears of its end");
                agenda.input(Duration::ZERO, node, Input::Requests(vec![request]));
            } else if self.rng.chance(1, 8) {
                self.hang_up(connection, agenda);
            }
        }
        self.rest(who, agenda);
    }

    /// Requests arrive together or in several parts; some others, who do not mind old answers, ask beside them.
    pub(super) fn hand_over(
        &mut self,
        node: NodeId,
        mut requests: Vec<quorate_node::ClientRequest>,
        agenda: &mut Agenda<Input>,
    ) {
        if self.rng.chance(1, 4) && requests.len() > 1 {
            let rest = requests.split_off(self.rng.between(1, requests.len() as u64 - 1) as usize);
            agenda.input(Duration::ZERO, node, Input::Requests(requests));
            requests = rest;
        }
        agenda.input(Duration::ZERO, node, Input::Requests(requests));
        if self.healed.is_none() && self.short_lives > 0 && self.rng.chance(self.short_lives, 1_000) {
            let after = Duration::from_micros(self.rng.between(100, 5_000));
            agenda.crash(after, node, Duration::from_micros(100));
        }
        if self.rng.chance(self.relaxed, 100) && self.asides < ASIDES_MAX {
            self.asides += 1;
            let connection = self.doors.open(node);
            let asker = Asker { who: u64::MAX, what: connection.0 };
            let request = super::super::words::aside(connection.0, self.brief);
            let request = self.doors.request(connection, asker, request, Consistency::Relaxed, agenda.now());
            agenda.input(Duration::ZERO, node, Input::Requests(vec![request]));
        }
    }
}
