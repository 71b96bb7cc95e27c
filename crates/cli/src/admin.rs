//! Talking to the operators' doors of nodes.

use std::time::Duration;

use anyhow::{Context as _, Result};
use quorate_host::{
    CopiesBody, LeadershipBody, LogBody, MembersBody, OutcomeReport, RecoverBody, StatusReport, WhyReport,
};
use quorate_node::GroupRequest;
use serde::Serialize;
use ureq::Agent;

use crate::exit::{self, WithCode as _, failure};

/// How long a node may take to change its members: the new ones copy everything first.
const CHANGE_WAIT: Duration = Duration::from_secs(120);

/// Asks nodes over HTTP.
#[derive(Debug)]
pub(crate) struct AdminClient {
    agent: Agent,
}

/// How an operator's request ended, as far as this program knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// Nothing was changed, for this reason.
    Refused(String),
    /// It may have been done.
    Unknown(String),
}

impl AdminClient {
    /// A client that waits so long for an answer.
    pub(crate) fn new(wait: Duration) -> Self {
        let config = Agent::config_builder().timeout_global(Some(wait)).http_status_as_error(false);
        AdminClient { agent: config.build().into() }
    }

    /// Whether the node at `admin` says that it serves.
    pub(crate) fn is_ready(&self, admin: &str) -> bool {
        self.agent.get(format!("http://{admin}/health/ready")).call().is_ok_and(|reply| reply.status() == 200)
    }

    /// Whether anything answers at `admin`.
    pub(crate) fn is_live(&self, admin: &str) -> bool {
        self.agent.get(format!("http://{admin}/health/live")).call().is_ok_and(|reply| reply.status() == 200)
    }

    /// The node's view of itself.
    ///
    /// # Errors
    /// If it does not answer, or something else does.
    pub(crate) fn status(&self, admin: &str) -> Result<StatusReport> {
        let mut reply = self
            .agent
            .get(format!("http://{admin}/status"))
            .call()
            .with_context(|| format!("the node at {admin} does not answer"))
            .code(exit::UNAVAILABLE)?;
        let text = reply.body_mut().read_to_string().code(exit::UNAVAILABLE)?;
        if reply.status() != 200 {
            return Err(failure(exit::UNAVAILABLE, format!("{admin} answers: {}", text.trim())));
        }
        let what =
            || format!("what listens at {admin} is no Quorate node's admin door, or has another version");
        serde_json::from_str(&text).with_context(what).code(exit::UNAVAILABLE)
    }

    /// What the node did for groups of late; `None` if its cluster forms none, or it is too old to tell.
    ///
    /// # Errors
    /// If it does not answer, or something else does.
    pub(crate) fn why(&self, admin: &str) -> Result<Option<WhyReport>> {
        let mut reply = self.agent.get(format!("http://{admin}/why")).call().code(exit::UNAVAILABLE)?;
        let text = reply.body_mut().read_to_string().code(exit::UNAVAILABLE)?;
        match reply.status().as_u16() {
            200 => serde_json::from_str(&text).map(Some).code(exit::UNAVAILABLE),
            404 => Ok(None),
            _ => Err(failure(exit::UNAVAILABLE, format!("{admin} answers: {}", text.trim()))),
        }
    }

    /// Changes the members of the cluster.
    ///
    /// # Errors
    /// If the node does not answer.
    pub(crate) fn change_members(&self, admin: &str, body: &MembersBody) -> Result<Answer> {
        self.post(admin, "members", body)
    }

    /// Changes how many copies of each bucket there are.
    ///
    /// # Errors
    /// If the node does not answer.
    pub(crate) fn set_copies(&self, admin: &str, copies: u8) -> Result<Answer> {
        self.post(admin, "copies", &CopiesBody { copies })
    }

    /// Changes a group.
    ///
    /// # Errors
    /// If the node does not answer.
    pub(crate) fn change_group(&self, admin: &str, body: &GroupRequest) -> Result<Answer> {
        self.post(admin, "groups", body)
    }

    /// Hands leadership over.
    ///
    /// # Errors
    /// If the node does not answer.
    pub(crate) fn transfer_leadership(&self, admin: &str, body: &LeadershipBody) -> Result<Answer> {
        self.post(admin, "leadership", body)
    }

    /// Lets a bucket go on with what is left of it.
    ///
    /// # Errors
    /// If the node does not answer.
    pub(crate) fn recover(&self, admin: &str, body: &RecoverBody) -> Result<Answer> {
        self.post(admin, "recover", body)
    }

    /// Sets what the node logs.
    ///
    /// # Errors
    /// If the node does not answer.
    pub(crate) fn set_log_filter(&self, admin: &str, filter: &str) -> Result<Answer> {
        self.post(admin, "log-level", &LogBody { filter: filter.into() })
    }

    fn post<T: Serialize>(&self, admin: &str, path: &str, body: &T) -> Result<Answer> {
        let url = format!("http://{admin}/{path}");
        let request = self.agent.post(url).config().timeout_global(Some(CHANGE_WAIT)).build();
        let mut reply = match request.send_json(body) {
            Ok(reply) => reply,
            Err(ureq::Error::ConnectionFailed | ureq::Error::HostNotFound) => return not_reached(admin),
            Err(ureq::Error::Io(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                return not_reached(admin);
            }
            Err(error) => {
                return Ok(Answer::Unknown(format!("the node at {admin} has not answered: {error}")));
            }
        };
        let (status, text) = (reply.status().as_u16(), reply.body_mut().read_to_string().unwrap_or_default());
        if let Ok(report) = serde_json::from_str::<OutcomeReport>(&text) {
            let reason = report.reason.unwrap_or_default();
            return Ok(match report.outcome.as_str() {
                "done" => Answer::Done,
                "refused" => Answer::Refused(reason),
                _ => Answer::Unknown(reason),
            });
        }
        let said = serde_json::from_str::<serde_json::Value>(&text).ok();
        let said = said.as_ref().and_then(|value| value.get("error")?.as_str()).unwrap_or(text.trim());
        match status {
            400..=499 => Ok(Answer::Refused(said.to_owned())),
            _ => Ok(Answer::Unknown(said.to_owned())),
        }
    }
}

fn not_reached(admin: &str) -> Result<Answer> {
    Err(failure(exit::UNAVAILABLE, format!("nobody listens at {admin}; nothing was changed")))
}

impl Answer {
    /// Done, or an error in words for people.
    ///
    /// # Errors
    /// If it is not done.
    pub(crate) fn into_result(self) -> Result<()> {
        match self {
            Answer::Done => Ok(()),
            Answer::Refused(reason) => {
                Err(failure(exit::FAILED, format!("refused, nothing was changed: {reason}")))
            }
            Answer::Unknown(reason) => {
                let text =
                    format!("it may have been done: {reason}. Look at `quorate status` before trying again");
                Err(failure(exit::UNKNOWN, text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_listening_is_told_apart_from_an_unknown_end() {
        let free = crate::local::endpoints(0, 1).unwrap().admin;
        let client = AdminClient::new(Duration::from_secs(1));
        assert!(!client.is_ready(&free) && !client.is_live(&free));
        let error = client.change_members(&free, &MembersBody::default()).unwrap_err();
        assert_eq!(exit::code_of(&error), exit::UNAVAILABLE);
        assert!(error.to_string().contains("nothing was changed"), "{error}");
        let error = client.status(&free).unwrap_err();
        assert_eq!(exit::code_of(&error), exit::UNAVAILABLE);
        let unknown = Answer::Unknown("x".into()).into_result().unwrap_err();
        assert_eq!(exit::code_of(&unknown), exit::UNKNOWN);
    }
}
