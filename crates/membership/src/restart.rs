//! The first start, and every later one.

use bytes::Bytes;
use quorate_kernel::Cx;

use crate::Mutant;
use crate::chain::Chain;
use crate::machine::{Membership, Out, Output, shared_founders};
use crate::message::Rank;
use crate::outside::Past;
use crate::record::{Record, Step, Vote};
use crate::view::View;

/// What the surviving records say.
#[derive(Debug, Clone)]
pub(crate) struct Restored {
    view: View,
    step: Option<Step>,
    state: Option<Bytes>,
    acceptor: Option<(Rank, Option<Vote>)>,
    outside: bool,
}

impl Membership {
    /// Takes back one record; later ones override earlier ones.
    pub(crate) fn restore_record(&mut self, record: Record) {
        match record {
            Record::Installed { view, cut, state } => {
                self.restored = Some(Restored { view, step: cut, state, acceptor: None, outside: false });
            }
            Record::Outside { view, cut } => {
                self.restored =
                    Some(Restored { view, step: cut, state: None, acceptor: None, outside: true });
            }
            Record::State { seq, state } => {
                if let Some(restored) = self.restored.as_mut().filter(|restored| restored.view.seq() == seq) {
                    restored.state = Some(state);
                }
            }
            Record::Acceptor { view, promised, vote } => {
                if let Some(restored) = self.restored.as_mut().filter(|restored| restored.view.id == view) {
                    restored.acceptor = Some((promised, vote));
                }
            }
        }
    }

    /// A life begins: as a founder, as the member or the former member it was, or as nobody.
    pub(crate) fn start(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        match self.restored.take() {
            Some(Restored { view, step, outside: true, .. }) => {
                let chain = Chain::at(view, step, None);
                let mut past = Past::new(chain, false, cx.now, &self.config);
                past.say_farewell(cx, &self.config, out);
                self.past = Some(past);
            }
            Some(Restored { view, step, state, acceptor, .. }) => {
                cx.marks.hit("membership.resumed");
                let forgets = self.config.breaks(Mutant::ForgetAcceptor);
                let chain = Chain::at(view.clone(), step, state.clone());
                let seat = self.take_seat(cx, chain, out);
                if let Some((promised, vote)) = acceptor.filter(|_| !forgets) {
                    seat.restore_acceptor(cx, promised, vote, out);
                }
                out.output(Output::Installed { view, state });
            }
            None if self.founders.iter().any(|(id, _)| *id == self.me) => {
                let view = View::founded(shared_founders(&self.founders));
                let seat = self.take_seat(cx, Chain::at(view, None, None), out);
                seat.settle(cx, None, out);
            }
            None => {}
        }
    }
}
