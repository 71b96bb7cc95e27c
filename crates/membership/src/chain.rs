//! The newest view, the decisions that led to it, and how somebody who is behind is served.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::Mutant;
use crate::config::Config;
use crate::message::Message;
use crate::record::{Base, Step};
use crate::view::{View, ViewId};

/// A parent may be behind by the views of one message and a few more.
const BASE_CUTS_MORE: usize = 64;

/// The end of the chain of views.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    /// The newest view.
    pub(crate) view: View,
    /// The decisions that led to it, newest last.
    pub(crate) steps: VecDeque<Step>,
    /// What the parent said of the newest view.
    pub(crate) state: Option<Bytes>,
    /// If it has not said it yet: from where it can find out after a restart.
    pub(crate) base: Option<Base>,
}

/// What can be done for somebody who is behind.
#[derive(Debug)]
pub(crate) enum Help {
    /// This is the answer.
    Answer(Message),
    /// The parent has not said its part of the view yet.
    Later,
    /// It is not behind, or of another cluster.
    None,
}

impl Chain {
    /// A chain of which nothing but its newest view is known.
    pub(crate) fn at(view: View, step: Option<Step>, state: Option<Bytes>) -> Chain {
        Chain { view, steps: step.into_iter().collect(), state, base: None }
    }

    /// A decision leads to `view`.
    pub(crate) fn push(&mut self, view: View, step: Step, config: &Config) {
        assert_eq!(step.from, self.view.id, "a decision belongs to the view it was made in");
        assert_eq!(view.seq(), self.view.seq() + 1, "views are numbered without gaps");
        let before = core::mem::replace(&mut self.view, view);
        if let Some(state) = self.state.take() {
            self.base = Some(Base { view: before, state, cuts: Vec::new() });
        }
        if let Some(base) = &mut self.base {
            base.cuts.push((*step.cut).clone());
        }
        // A parent that says nothing over so many views never will.
        self.base.take_if(|base| base.cuts.len() > config.steps_max + BASE_CUTS_MORE);
        self.steps.push_back(step);
        while self.steps.len() > config.steps_max {
            self.steps.pop_front();
        }
    }

    /// The answer for somebody whose newest view is `known`; 0 for somebody who has none.
    pub(crate) fn help(&self, known: ViewId, config: &Config) -> Help {
        if known.seq >= self.view.seq() {
            return Help::None;
        }
        let start = self.steps.iter().position(|step| step.from.seq == known.seq);
        if let Some(start) = start {
            if self.steps[start].from != known {
                return Help::None;
            }
            let mut cuts = Vec::new();
            let mut bytes = 0;
            for step in self.steps.iter().skip(start) {
                bytes += step.cut.size_bytes();
                if !cuts.is_empty() && bytes > config.cuts_bytes_max {
                    break;
                }
                cuts.push((*step.cut).clone());
            }
            return Help::Answer(Message::Cuts { view: known, cuts });
        }
        if config.needs_state && self.state.is_none() && !config.breaks(Mutant::WelcomeWithoutState) {
            return Help::Later;
        }
        Help::Answer(Message::Whole { view: self.view.clone(), state: self.state.clone() })
    }
}
