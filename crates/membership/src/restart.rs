//! The first start, and every later one.

use bytes::Bytes;
use quorate_kernel::Cx;

use crate::Mutant;
use crate::chain::Chain;
use crate::install::changes;
use crate::machine::{Membership, Out, Output, shared_founders};
use crate::message::Rank;
use crate::outside::Past;
use crate::record::{Base, Record, Step, Vote};
use crate::view::View;

/// What the surviving records say.
#[derive(Debug, Clone)]
pub(crate) struct Restored {
    view: View,
    step: Option<Step>,
    state: Option<Bytes>,
    base: Option<Base>,
    acceptor: Option<(Rank, Option<Vote>)>,
    outside: bool,
}

impl Membership {
    /// Takes back one record; later ones override earlier ones.
    pub(crate) fn restore_record(&mut self, record: Record) {
        match record {
            Record::Installed { view, cut, state, base } => {
                self.restored =
                    Some(Restored { view, step: cut, state, base, acceptor: None, outside: false });
            }
            Record::Outside { view, cut } => {
                let restored =
                    Restored { view, step: cut, state: None, base: None, acceptor: None, outside: true };
                self.restored = Some(restored);
            }
            Record::State { seq, state } => {
                if let Some(restored) = self.restored.as_mut().filter(|restored| restored.view.seq() == seq) {
                    restored.state = Some(state);
                    restored.base = None;
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
            Some(Restored { view, step, state, base, acceptor, .. }) => {
                cx.marks.hit("membership.resumed");
                let forgets = self.config.breaks(Mutant::ForgetAcceptor);
                let mut chain = Chain::at(view.clone(), step, state.clone());
                chain.base = base.clone();
                let seat = self.take_seat(cx, chain, out);
                if let Some((promised, vote)) = acceptor.filter(|_| !forgets) {
                    seat.restore_acceptor(cx, promised, vote, out);
                }
                match base {
                    Some(base) => tell_from(base, out),
                    None => out.output(Output::Installed { view, state }),
                }
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

/// The parent had not said its part of the newest view: it is told again how that view came about.
fn tell_from(base: Base, out: &mut Out) {
    let mut view = base.view;
    out.output(Output::Installed { view: view.clone(), state: Some(base.state) });
    for cut in &base.cuts {
        let Some(next) = view.after(cut) else { panic!("a decided cut does not fit its view: {cut:?}") };
        let (joined, left) = changes(&view, &next);
        out.output(Output::NextView { view: next.clone(), joined, left });
        view = next;
    }
}
