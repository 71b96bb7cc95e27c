//! What a session tells its host to do.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Consistency, Identity, Reason, Reply, Request};

use crate::Protocol;
use crate::explain::Story;
use crate::primary::Join;
use crate::transaction::Place;

/// What becomes of a command.
#[derive(Debug)]
pub enum Step {
    /// It is answered, without the node. The reply is rendered in [`crate::Session::protocol`] as it is now, and
    /// sent when those of all earlier commands are.
    Answer(Answer),
    /// The node has to answer: submit the request, keep `then`, and give both to [`crate::Session::complete`].
    Submit {
        /// What to ask the node.
        request: Request,
        /// How fresh its answer must be.
        consistency: Consistency,
        /// The name that the client gave it, if it did.
        identity: Option<Box<Identity>>,
        /// What the session does with the outcome.
        then: Then,
    },
    /// It is answered once all earlier commands of the connection are: give this, with any outcome, to
    /// [`crate::Session::complete`] then.
    Behind(Then),
}

/// The end of a command.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// What the client is told; `None`: nothing at all, it asked for silence.
    pub reply: Option<Reply>,
    /// What the host does, in this order; the reply is owed nevertheless.
    pub acts: Vec<Act>,
}

/// Something outside the session's reach that a command asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Close this connection once everything owed to it, this answer included, has been sent; read nothing more.
    Close,
    /// Close these connections. Where one of them is the connection that asks, [`Act::Close`] stands instead.
    KillClients(Vec<u64>),
    /// Take no commands from any client for this long; or, if `writes_only`, none that may change something.
    Pause {
        /// How long, from now on.
        duration_ms: u64,
        /// Whether reads go on.
        writes_only: bool,
    },
    /// End a pause.
    Unpause,
    /// Set these parameters, in lower case; all of them passed [`crate::World::check_setting`].
    Configure(Vec<(String, String)>),
    /// Set the counters of INFO back to 0.
    ResetStatistics,
}

/// What a session does with the outcome of a request, and how the reply is to be rendered.
#[derive(Debug)]
pub struct Then {
    pub(crate) what: What,
    pub(crate) protocol: Protocol,
    pub(crate) quiet: bool,
    pub(crate) story: Box<Story>,
}

impl Then {
    /// The protocol that was in force when the command came: render the reply in this one.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Takes a reason of the request, which is under way; see QUORATE EXPLAIN.
    pub fn note(&mut self, reason: Reason) {
        self.story.note(reason);
    }
}

#[derive(Debug)]
pub(crate) enum What {
    /// The reply is the answer.
    Plain,
    /// The versions of these keys are remembered.
    Watch(Vec<Bytes>),
    /// What is known of the last transaction is the answer.
    Explain,
    /// The replies of several buckets are put together.
    Join(Join),
    /// The replies of the node are merged with those of local commands. No places: there are no local commands.
    Exec(Vec<Place>),
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer { reply: Some(reply), acts: Vec::new() }
    }
}

impl From<Reply> for Step {
    fn from(reply: Reply) -> Step {
        Step::Answer(Answer::from(reply))
    }
}

impl Answer {
    /// A reply together with something to do.
    pub(crate) fn with(act: Act, reply: Reply) -> Answer {
        Answer { reply: Some(reply), acts: alloc::vec![act] }
    }
}

impl From<Answer> for Step {
    fn from(answer: Answer) -> Step {
        Step::Answer(answer)
    }
}
